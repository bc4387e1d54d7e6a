// Who may import whom: the rule of the README (core, plugins, adapters, storage) as code. Type imports count.
import { importsOf, type Source } from './read-sources.ts';

/** The part of core that the other layers may see. */
const contracts = [
  /^core\/(access|errors|ports|redaction)\//,
  /^core\/dialects\/(?:canonical\/)?[a-z-]+\.ts$/,
  /^core\/pipeline\/(plugin|context|context-key|facts|answer|keys|parse-json)\.ts$/,
  /^core\/http\/define-route\.ts$/,
  /^core\/prompts\//,
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

/** Import cycles, each reported once as the path that closes it. */
export function checkCycles(sources: readonly Source[]): readonly string[] {
  const graph = new Map(sources.map((source) => [source.file, valueImports(source)]));
  const state = new Map<string, 'open' | 'done'>();
  const cycles: string[] = [];
  const visit = (file: string, trail: readonly string[]): void => {
    if (state.get(file) === 'done' || !graph.has(file)) return;
    if (state.get(file) === 'open') {
      cycles.push([...trail.slice(trail.indexOf(file)), file].join(' → '));
      return;
    }
    state.set(file, 'open');
    for (const next of graph.get(file) ?? []) visit(next, [...trail, file]);
    state.set(file, 'done');
  };
  for (const file of graph.keys()) visit(file, []);
  return cycles;
}

/** Type imports vanish before anything runs, so they close no cycle. */
function valueImports(source: Source): readonly string[] {
  const text = source.text.replace(/(^|\n)\s*(import|export)\s+type\s[^;]*;/g, '\n');
  return importsOf({ file: source.file, text }).filter((name) => name.endsWith('.ts'));
}
