import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Problem } from '../config/problem.ts';
import type { PluginEntry } from '../config/schema.ts';
import type { AnyPlugin } from '../pipeline/plugin.ts';
import { frameWithin } from './plugin-errors.ts';
import type { PluginBundle, PluginBundler } from './plugin-bundler.ts';
import { checkDefinition } from './check-definition.ts';
import { problemAt, suggestion } from './problem-at.ts';
import type { Place } from '../config/config-source.ts';

/** A plugin's definition and where its code came from. */
export interface LoadedPlugin {
  readonly definition: AnyPlugin;
  readonly builtIn: boolean;
  /** Hash of its code; undefined for one that comes with the gateway. */
  readonly codeHash: string | undefined;
}

/** A plugin, or everything that is wrong with it; `inputs` are the files to watch in either case. */
export type PluginLoad =
  | { readonly ok: true; readonly plugin: LoadedPlugin; readonly inputs: readonly string[] }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly inputs: readonly string[] };

/** Where plugins come from. */
export interface PluginSources {
  /** The plugins that come with the gateway, by name. */
  readonly builtIns: ReadonlyMap<string, AnyPlugin>;
  readonly bundler: Pick<PluginBundler, 'bundle' | 'load' | 'origins'>;
  /** Code that does not come with the gateway is not run: what it would say of its options stays unknown. */
  readonly withoutCode?: boolean;
}

/**
 * Finds the plugin that an entry of a pipeline names: a built-in, a file (relative to the configuration file), or
 * a package installed for that file's folder. Never rejects for what is wrong with the plugin.
 */
export async function loadPlugin(
  entry: PluginEntry,
  place: Place,
  sources: PluginSources,
): Promise<PluginLoad> {
  const builtIn = sources.builtIns.get(entry.use);
  if (builtIn !== undefined) {
    return { ok: true, plugin: { definition: builtIn, builtIn: true, codeHash: undefined }, inputs: [] };
  }
  const folder = dirname(resolve(entry.file));
  const found = locateCode(entry.use, folder);
  const refuse = (...messages: string[]): PluginLoad => ({
    ok: false,
    problems: messages.map((message) => problemAt(place, entry.pointer, message)),
    inputs: found.watch,
  });
  if (found.entry === undefined)
    return refuse(
      found.isPath ? missingFile(entry.use, found.watch) : unknownName(entry.use, folder, sources),
    );
  if (sources.withoutCode === true) {
    const message = `plugin "${entry.use}" was not run (--no-plugins), so neither its options nor its place in the pipeline were checked`;
    return {
      ok: false,
      problems: [{ ...problemAt(place, entry.pointer, message), severity: 'note' }],
      inputs: found.watch,
    };
  }
  const bundled = await sources.bundler.bundle({ entry: found.entry, folder, place, pointer: entry.pointer });
  if (!bundled.ok) return bundled;
  return loadBundle(entry, place, { sources, bundle: bundled.bundle });
}

/** Identifies what an entry names, so that a plugin used twice is loaded once. */
export function pluginIdentity(entry: PluginEntry): string {
  return `${dirname(resolve(entry.file))}\0${entry.use}`;
}

async function loadBundle(
  entry: PluginEntry,
  place: Place,
  { sources, bundle }: { sources: PluginSources; bundle: PluginBundle },
): Promise<PluginLoad> {
  const { inputs } = bundle;
  const refuse = (messages: readonly string[], at: Place = place): PluginLoad => ({
    ok: false,
    problems: messages.map((message) => problemAt(at, entry.pointer, `plugin "${entry.use}": ${message}`)),
    inputs,
  });
  try {
    const { exports, file } = await sources.bundler.load(bundle);
    const checked = checkDefinition(defaultExport(exports));
    if ('faults' in checked) return refuse(checked.faults);
    const { definition } = checked;
    if (sources.builtIns.has(definition.name)) {
      return refuse([`the name "${definition.name}" belongs to a built-in plugin; give it another name`]);
    }
    sources.bundler.origins.record(definition.name, [file, ...inputs]);
    return { ok: true, plugin: { definition, builtIn: false, codeHash: bundle.hash }, inputs };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return refuse([`its module failed while loading: ${message}`], frameWithin(error, inputs));
  }
}

interface CodeLocation {
  readonly isPath: boolean;
  /** Undefined when nothing is there. */
  readonly entry: string | undefined;
  /** What appears or changes when the fault is mended. */
  readonly watch: readonly string[];
}

function locateCode(use: string, folder: string): CodeLocation {
  if (/^[./]/.test(use) || /\.[cm]?[jt]sx?$/.test(use)) {
    const path = resolve(folder, use);
    return { isPath: true, entry: existsSync(path) ? path : undefined, watch: [path] };
  }
  const packageName = use.split('/', use.startsWith('@') ? 2 : 1).join('/');
  const places = ancestors(folder).map((one) => join(one, 'node_modules', packageName, 'package.json'));
  return { isPath: false, entry: places.some((path) => existsSync(path)) ? use : undefined, watch: [] };
}

function ancestors(folder: string): string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...ancestors(parent)];
}

function missingFile(use: string, watch: readonly string[]): string {
  return `plugin file "${use}" does not exist (looked for ${watch.join(', ')}); correct the path, which is relative to the file that names it`;
}

function unknownName(use: string, folder: string, { builtIns }: PluginSources): string {
  const names = [...builtIns.keys()].sort().join(', ');
  const known = `built in are ${names}; a file's path begins with "./", and a package must be installed for ${folder}`;
  return `unknown plugin "${use}"${suggestion(use, builtIns.keys())} (${known})`;
}

/** A module compiled to CommonJS carries its default export one level down. */
function defaultExport(exports: Readonly<Record<string, unknown>>): unknown {
  const found = exports['default'];
  const isCompiled =
    typeof found === 'object' && found !== null && '__esModule' in found && 'default' in found;
  return isCompiled ? found.default : found;
}
