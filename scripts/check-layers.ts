// Allowed imports between layers: the rule of the README (core, plugins, adapters, storage) as code. Type imports
// count.
import { importsOf, isProduction, type Source } from './read-sources.ts';

/** The part of core that other layers may import. */
const contracts = [
  /^core\/(access|base|errors|organisation|ports|providers|redaction)\//,
  /^core\/config\/ajv\.ts$/,
  /^core\/dialects\/(?:canonical\/)?[a-z-]+\.ts$/,
  /^core\/pipeline\/(plugin|context|facts|answer|held-answer|browser|seals|redactor|keys|define-route|estimated-usage|tool-calls)\.ts$/,
  /^core\/http\/audit-trail\.ts$/,
  /^core\/administration\/(prompts\/|alerts\/mail\.ts$|exports\/export-rights\.ts$|jobs\/job-registry\.ts$)/,
];
/** Packages that core may use; everything else reaches it through a port. */
const corePackages = [
  /^hono(\/|$)/,
  /^@hono\/node-server$/,
  /^ajv(\/|$)/,
  /^ajv-formats$/,
  /^yaml$/,
  /^typebox(\/|$)/,
  /^lossless-json$/,
  /^mustache$/,
  /^re2js$/,
];
const lifecyclePackages = [...corePackages, /^esbuild$/];

/** Every import that crosses a layer in a direction that the architecture forbids. */
export function checkLayers(sources: readonly Source[]): readonly string[] {
  return sources.flatMap((source) =>
    importsOf(source).flatMap((target) => {
      const reason = forbidden(source.file, target);
      return reason === undefined ? [] : [`${source.file} imports ${target}: ${reason}`];
    }),
  );
}

function forbidden(file: string, target: string): string | undefined {
  const layer = layerOf(file);
  if (layer === 'free' || /\.test(-support)?\.ts$/.test(file)) return undefined;
  if (target.startsWith('node:')) return undefined;
  const targetLayer = layerOf(target);
  if (targetLayer === 'package') {
    if (layer !== 'core') return undefined;
    const allowed = file.startsWith('core/lifecycle/') ? lifecyclePackages : corePackages;
    return allowed.some((pattern) => pattern.test(target)) ? undefined : 'core uses only its listed packages';
  }
  if (targetLayer === 'free') return 'only main.ts and tests may import this';
  if (layer === 'core') return targetLayer === 'core' ? undefined : 'core imports no other layer';
  if (targetLayer === 'core')
    return contracts.some((pattern) => pattern.test(target)) ? undefined : 'not one of the contracts';
  if (targetLayer !== layer) return `${layer} does not import ${targetLayer}`;
  if (layer === 'adapters' || file === 'plugins/index.ts') return undefined;
  return folderOf(file) === folderOf(target) ? undefined : `${layer} import only their own folder`;
}

function layerOf(name: string): 'core' | 'plugins' | 'adapters' | 'storage' | 'free' | 'package' {
  const first = name.split('/')[0];
  if (first === 'core' || first === 'plugins' || first === 'adapters' || first === 'storage') return first;
  return /\.(ts|mjs|json)$/.test(name) ? 'free' : 'package';
}

function folderOf(file: string): string {
  return file.split('/').slice(0, 2).join('/');
}

/**
 * The folders of core from the bottom to the top: a file imports from its own folder and from those before it. First
 * the folders without requests: errors, the wires' types (`dialects`), the interfaces (`ports`), small shared pieces
 * (`base`), hosts and their fields (`providers`), rights and limits (`access`), declarations of an organisation in the
 * file or over the API (`organisation`), the configuration. Then the path of a request from below: the client's
 * connection, redaction of texts (`redaction`), the pipeline, the router, the server (`http`), generations of all that
 * (`lifecycle`). Administration is above, so that no module which serves requests imports it.
 */
const floors = [
  'errors',
  'dialects',
  'ports',
  'base',
  'providers',
  'access',
  'organisation',
  'config',
  'connection',
  'redaction',
  'pipeline',
  'routing',
  'http',
  'lifecycle',
  'administration',
];

/** Imports inside core from a lower folder to a higher one. */
export function checkUpward(sources: readonly Source[]): readonly string[] {
  return sources
    .filter((source) => isProduction(source) && source.file.startsWith('core/'))
    .flatMap((source) =>
      floorOf(source.file) === floors.length
        ? [
            `${source.file} is in a folder that scripts/check-layers.ts does not order: add the folder to its floors`,
          ]
        : importsOf(source)
            .filter((target) => floorOf(target) > floorOf(source.file))
            .map((target) => `${source.file} imports ${target}, which stands above it`),
    );
}

/** -1 outside of core. */
function floorOf(file: string): number {
  const [layer, folder = ''] = file.split('/');
  if (layer !== 'core') return -1;
  const floor = floors.indexOf(folder);
  if (floor < 0) return floors.length;
  return floor;
}

/** Groups of files of core that import each other in a circle, types included: strongly connected components. */
export function checkCircles(sources: readonly Source[]): readonly string[] {
  const graph = new Map(
    sources
      .filter((source) => isProduction(source) && source.file.startsWith('core/'))
      .map((source) => [source.file, importsOf(source)]),
  );
  return circlesOf(graph);
}

function circlesOf(graph: ReadonlyMap<string, readonly string[]>): readonly string[] {
  return stronglyConnected(graph)
    .filter(([first = '', ...others]) => others.length > 0 || graph.get(first)?.includes(first) === true)
    .map((group) => group.sort().join(' ↔ '));
}

/** Tarjan's algorithm. */
function stronglyConnected(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const groups: string[][] = [];
  const visit = (file: string): void => {
    const own = order.size;
    order.set(file, own);
    lowest.set(file, own);
    open.push(file);
    for (const next of graph.get(file) ?? []) {
      if (!graph.has(next)) continue;
      if (!order.has(next)) visit(next);
      if (open.includes(next))
        lowest.set(file, Math.min(lowest.get(file) ?? own, lowest.get(next) ?? own, order.get(next) ?? own));
    }
    if (lowest.get(file) === own) groups.push(open.splice(open.indexOf(file)));
  };
  for (const file of graph.keys()) if (!order.has(file)) visit(file);
  return groups;
}

/** Import cycles at run time, over all sources: groups of files that import each other. */
export function checkCycles(sources: readonly Source[]): readonly string[] {
  return circlesOf(new Map(sources.map((source) => [source.file, valueImports(source)])));
}

/** Type imports are erased before run time, so they close no cycle. */
function valueImports(source: Source): readonly string[] {
  const text = source.text.replace(/(^|\n)\s*(import|export)\s+type\s[^;]*;/g, '\n');
  return importsOf({ file: source.file, text }).filter((name) => name.endsWith('.ts'));
}
