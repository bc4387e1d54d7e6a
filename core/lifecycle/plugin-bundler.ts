import * as pluginModule from '../pipeline/plugin.ts';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { bounded } from '../base/deadline.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import { PluginOrigins } from './plugin-errors.ts';
import { pluginRegistry, registryKey } from './plugin-registry.ts';
import { createHash, randomUUID } from 'node:crypto';
import type { BuildFailure, Message, OnResolveArgs, OnResolveResult, Plugin, PluginBuild } from 'esbuild';
import type { Problem } from '../config/problem.ts';
import type { Place } from '../config/config-source.ts';
import { problemAt } from './problem-at.ts';
import { isBuiltin } from 'node:module';

/**
 * Makes the running process's `weir-gateway/plugin` reachable for bundled plugins and returns the source of a module that
 * re-exports it: a plugin outside the project's tree can import it, and shares its classes with the gateway.
 */
function pluginModuleSource(): string {
  pluginRegistry(pluginModule);
  const names = Object.keys(pluginModule);
  const lines = names.map((name) => `export const ${name} = shared.${name};`);
  return [`const shared = globalThis[Symbol.for('${registryKey}')];`, ...lines].join('\n');
}

/** Called with every file of a bundle, also when bundling fails, and with missing files. */
type NoteInput = (file: string) => void;

/** Replacements for the names that hold a module's own path, which bundling would make wrong. */
const moduleNames: Readonly<Record<string, string>> = {
  'import.meta.url': 'weirModuleUrl',
  'import.meta.filename': 'weirModuleFile',
  'import.meta.dirname': 'weirModuleFolder',
  __filename: 'weirModuleFile',
  __dirname: 'weirModuleFolder',
};

/** The module that plugins import: the package's name (`name` in package.json) and its one export. */
export const pluginModuleName = 'weir-gateway/plugin';
const ownNamespace = 'weir';
/** Former name of the module. It belongs to another package on npm, so it is never looked up. */
const formerModuleName = 'weir/plugin';
/** Marks look-ups that this file started itself. */
const inner = { inner: true };

/**
 * How a plugin's imports resolve: its own files are inlined; packages stay outside, by their absolute place as
 * seen from the importing file (the bundle lies elsewhere); `weir-gateway/plugin` is the running process's own.
 */
function pluginResolution(noteInput: NoteInput): Plugin {
  return {
    name: 'weir-plugin-resolution',
    setup(build) {
      build.onResolve({ filter: /.*/ }, (args) => resolveImport(build, args, noteInput));
      build.onLoad({ filter: /.*/, namespace: ownNamespace }, () => ({
        contents: pluginModuleSource(),
        loader: 'js',
      }));
      build.onLoad({ filter: /.*/, namespace: 'file' }, async ({ path }) => {
        noteInput(path);
        const contents = await sourceWithPlace(path);
        return contents === undefined ? undefined : { contents, loader: 'default' };
      });
    },
  };
}

/** How many columns `sourceWithPlace` put before the first line of a file. */
function placePrefixLength(path: string): number {
  return placePrefix(path).length;
}

/** Whether the first line of a file, as the bundler shows it, is one that `sourceWithPlace` lengthened. */
function startsWithPlace(line: string): boolean {
  return line.startsWith('const weirModuleUrl = ');
}

async function resolveImport(
  build: PluginBuild,
  args: OnResolveArgs,
  noteInput: NoteInput,
): Promise<OnResolveResult | undefined> {
  if (args.pluginData === inner || args.namespace === ownNamespace) return undefined;
  if (args.path === pluginModuleName) return { path: pluginModuleName, namespace: ownNamespace };
  if (args.path === formerModuleName) {
    return { errors: [{ text: `"${formerModuleName}" is now "${pluginModuleName}"; change the import` }] };
  }
  if (isBuiltin(args.path)) return { path: args.path, external: true };
  if (args.path.endsWith('.node')) return { path: resolve(args.resolveDir, args.path), external: true };
  const found = await build.resolve(args.path, {
    kind: args.kind === 'entry-point' ? 'import-statement' : args.kind,
    importer: args.importer,
    namespace: args.namespace,
    resolveDir: args.resolveDir,
    pluginData: inner,
  });
  if (found.errors.length > 0) {
    if (!isBare(args.path))
      for (const file of candidates(resolve(args.resolveDir, args.path))) noteInput(file);
    // The default look-up fails again, and reports the place of the import.
    return undefined;
  }
  if (found.namespace !== 'file' || found.external) return undefined;
  if (args.kind === 'entry-point') return { path: found.path };
  if (!isBare(args.path) || !isInstalledCode(found.path)) return undefined;
  const isRequire = args.kind === 'require-call' || args.kind === 'require-resolve';
  return { path: isRequire ? found.path : pathToFileURL(found.path).href, external: true };
}

function isBare(specifier: string): boolean {
  return !specifier.startsWith('.') && !specifier.startsWith('#') && !isAbsolute(specifier);
}

/** Only code that Node can load by itself may stay outside; TypeScript or JSON in a package is inlined. */
function isInstalledCode(path: string): boolean {
  return path.includes(`${sep}node_modules${sep}`) && /\.[cm]?js$/.test(path);
}

function candidates(path: string): string[] {
  return ['', '.ts', '.mts', '.js', '.mjs', '.json'].map((ending) => path + ending);
}

async function sourceWithPlace(path: string): Promise<string | undefined> {
  if (!/\.[cm]?[jt]sx?$/.test(path)) return undefined;
  const source = await readFile(path, 'utf8');
  if (!/import\.meta\.|__dirname|__filename/.test(source)) return undefined;
  return placePrefix(path) + source.replace(/^#!/, '//');
}

/** On the first line, so that the numbers of the lines stay right. */
function placePrefix(path: string): string {
  const values = {
    weirModuleUrl: pathToFileURL(path).href,
    weirModuleFile: path,
    weirModuleFolder: dirname(path),
  };
  return Object.entries(values)
    .map(([name, value]) => `const ${name} = ${JSON.stringify(value)};`)
    .join('');
}

/** Plugin to bundle, and its place in the configuration. */
interface BundleRequest {
  /** Absolute path, or the name of a package that is installed for `folder`. */
  readonly entry: string;
  /** Folder of the file that names the plugin. */
  readonly folder: string;
  /** Place of problems that have none in the plugin's own source. */
  readonly place: Place;
  /** JSON pointer of the plugin in the configuration. */
  readonly pointer: string;
}

/** A plugin and its own files as one module. */
export interface PluginBundle {
  /** Hash of its code and of its sources' text. */
  readonly hash: string;
  /** The module, in the folder for bundles. Its imports from packages are absolute paths. */
  readonly code: string;
  /** Its source files, absolute, to be watched. */
  readonly inputs: readonly string[];
}

/** A bundle, or the faults of the plugin's code; `inputs` are to be watched in either case. */
type BundleResult =
  | { readonly ok: true; readonly bundle: PluginBundle; readonly inputs: readonly string[] }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly inputs: readonly string[] };

const shownProblems = 20;

/** Bundles a plugin in memory. Never rejects for a fault of the plugin. */
async function bundlePlugin(request: BundleRequest): Promise<BundleResult> {
  const inputs = new Set<string>(isAbsolute(request.entry) ? [request.entry] : []);
  try {
    const { build } = await import('esbuild');
    const { outputFiles } = await build({
      entryPoints: [request.entry],
      absWorkingDir: request.folder,
      outfile: join(request.folder, 'bundle.mjs'),
      write: false,
      bundle: true,
      format: 'esm',
      platform: 'node',
      target: 'node20',
      // An explicit condition prevents the default `module`, which Node does not know.
      conditions: ['node-addons'],
      // Packages' `require` and native addons by absolute path.
      banner: { js: requireBanner },
      define: { ...moduleNames },
      sourcemap: 'external',
      logLevel: 'silent',
      plugins: [pluginResolution((file) => inputs.add(file))],
    });
    const [map, code] = outputFiles;
    if (map === undefined || code === undefined) throw new Error('the bundler has written nothing');
    return {
      ok: true,
      bundle: finish(code.text, map.text, [...inputs], request.folder),
      inputs: [...inputs],
    };
  } catch (error) {
    const problems = isBuildFailure(error)
      ? error.errors.slice(0, shownProblems).map((message) => toProblem(message, request))
      : [problemAt(request.place, request.pointer, `the plugin could not be bundled: ${String(error)}`)];
    return { ok: false, problems, inputs: [...inputs] };
  }
}

/** Writes a bundle under its hash, all or nothing, and returns the file's absolute path. */
async function writeBundle(folder: string, name: string, code: string): Promise<string> {
  const file = resolve(folder, name);
  const temporary = `${file}.${randomUUID()}.tmp`;
  await mkdir(folder, { recursive: true });
  await writeFile(temporary, code);
  await rename(temporary, file);
  return file;
}

const requireBanner =
  "import { createRequire as weirCreateRequire } from 'node:module'; const require = weirCreateRequire(import.meta.url);";

interface MapFile {
  readonly version: number;
  readonly sources: readonly string[];
  readonly sourcesContent: readonly string[];
  readonly mappings: string;
}

function finish(code: string, mapText: string, inputs: string[], folder: string): PluginBundle {
  const map = JSON.parse(mapText) as MapFile;
  const hash = createHash('sha256').update(code);
  for (const source of map.sourcesContent) hash.update('\0').update(source);
  // Absolute, because the bundle is kept elsewhere; without the sources' text, which stays in memory for good.
  const sources = map.sources.map((source) =>
    source.startsWith('weir:') ? source : pathToFileURL(resolve(folder, source)).href,
  );
  const kept = JSON.stringify({ version: map.version, sources, names: [], mappings: map.mappings });
  const comment = `//# sourceMappingURL=data:application/json;base64,${Buffer.from(kept).toString('base64')}`;
  return { hash: hash.digest('hex').slice(0, 20), code: `${code}\n${comment}\n`, inputs };
}

function isBuildFailure(error: unknown): error is BuildFailure {
  return error instanceof Error && 'errors' in error && Array.isArray(error.errors);
}

function toProblem(message: Message, request: BundleRequest): Problem {
  const { location } = message;
  const text = withRemedy(message.text);
  if (location === null || (location.namespace !== '' && location.namespace !== 'file')) {
    return problemAt(request.place, request.pointer, text);
  }
  const file = resolve(request.folder, location.file);
  const shift = location.line === 1 && startsWithPlace(location.lineText) ? placePrefixLength(file) : 0;
  return problemAt({ file, line: location.line, column: location.column + 1 - shift }, request.pointer, text);
}

function withRemedy(text: string): string {
  if (text.startsWith('Could not resolve')) {
    return `${text}; correct the path, or install the package where the plugin's folder finds it`;
  }
  return text.replace(`"weir:${pluginModuleName}"`, `"${pluginModuleName}"`);
}

/** Options of a `PluginBundler`. */
interface PluginBundlerOptions {
  /** Where bundles are kept: `<data>/plugins`. */
  readonly folder: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Longest time for a module's top level to run, in milliseconds. Default 10000. */
  readonly importTimeoutMs?: number;
}

/** The module of a bundle and the file that it was loaded from. */
interface LoadedModule {
  readonly file: string;
  readonly exports: Readonly<Record<string, unknown>>;
}

const keptUnused = 5;
const temporaryLifeMs = 60_000;

/**
 * Turns plugins' source files into modules of this process. Modules are never unloaded (about 0.5 MiB each), so
 * the same code is imported once however often it is bundled.
 */
export class PluginBundler {
  /** Which plugin a stack trace points to. */
  readonly origins = new PluginOrigins();
  readonly #options: PluginBundlerOptions;
  readonly #folder: string;
  readonly #modules = new Map<string, Promise<LoadedModule>>();
  readonly #failures = new Map<string, number>();

  constructor(options: PluginBundlerOptions) {
    this.#options = options;
    this.#folder = resolve(options.folder);
  }

  /** Bundles in memory: reports faults of the code, and the files to watch. Runs none of the code. */
  bundle(request: BundleRequest): Promise<BundleResult> {
    return bundlePlugin(request);
  }

  /** Writes a bundle for a thread of its own, which runs it; the absolute path of its file. */
  write(bundle: PluginBundle): Promise<string> {
    return writeBundle(this.#folder, `${bundle.hash}.mjs`, bundle.code);
  }

  /** Imports a bundle, or returns the module when the same code is loaded already. Rejects as its top level throws. */
  load(bundle: PluginBundle): Promise<LoadedModule> {
    const known = this.#modules.get(bundle.hash);
    if (known !== undefined) return known;
    const loading = this.#import(bundle);
    this.#modules.set(bundle.hash, loading);
    loading.catch(() => {
      this.#modules.delete(bundle.hash);
      this.#failures.set(bundle.hash, (this.#failures.get(bundle.hash) ?? 0) + 1);
    });
    return loading;
  }

  /** Deletes written bundles except those in use and a few of the newest. Never rejects. */
  async prune(inUse: ReadonlySet<string>): Promise<void> {
    try {
      const found = await this.#written();
      const unused = found.filter(
        ({ name }) => name.endsWith('.mjs') && !inUse.has(name.split('.')[0] ?? ''),
      );
      const old = unused.sort((a, b) => b.changedAt - a.changedAt).slice(keptUnused);
      const before = this.#options.clock.now() - temporaryLifeMs;
      const leftovers = found.filter(({ name, changedAt }) => name.endsWith('.tmp') && changedAt < before);
      await Promise.all(
        [...old, ...leftovers].map(({ name }) => rm(join(this.#folder, name), { force: true })),
      );
    } catch (error) {
      this.#options.log.warn('old plugin bundles could not be deleted', {
        folder: this.#folder,
        error: String(error),
      });
    }
  }

  async #import(bundle: PluginBundle): Promise<LoadedModule> {
    const failures = this.#failures.get(bundle.hash) ?? 0;
    // The runtime remembers a module that failed, also when its missing import is there now: try under another name.
    const name = failures === 0 ? `${bundle.hash}.mjs` : `${bundle.hash}.${failures}.mjs`;
    const file = await writeBundle(this.#folder, name, bundle.code);
    const { clock, importTimeoutMs: ms = 10_000 } = this.#options;
    const late = (): Error =>
      new Error(`its top level has not ended within ${ms} ms; move what waits into create()`);
    const load = (): Promise<Readonly<Record<string, unknown>>> => import(pathToFileURL(file).href);
    return { file, exports: await bounded(load, { clock, ms, late }) };
  }

  async #written(): Promise<{ name: string; changedAt: number }[]> {
    const names = await readdir(this.#folder).catch(() => []);
    return Promise.all(
      names.map(async (name) => ({ name, changedAt: (await stat(join(this.#folder, name))).mtimeMs })),
    );
  }
}
