import { createHash, randomUUID } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { isAbsolute, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { BuildFailure, Message } from 'esbuild';
import type { Problem } from '../config/problem.ts';
import type { Place } from '../config/config-source.ts';
import { problemAt } from './problem-at.ts';
import {
  moduleNames,
  placePrefixLength,
  pluginModuleName,
  pluginResolution,
  startsWithPlace,
} from './plugin-resolution.ts';

/** What to bundle, and where its plugin is named in the configuration. */
export interface BundleRequest {
  /** Absolute path, or the name of a package that is installed for `folder`. */
  readonly entry: string;
  /** Folder of the file that names the plugin. */
  readonly folder: string;
  /** Blamed for problems that have no place in the plugin's own source. */
  readonly place: Place;
  /** JSON pointer of the plugin in the configuration. */
  readonly pointer: string;
}

/** A plugin and its own files as one module. */
export interface PluginBundle {
  /** Hash of its code and of its sources' text. */
  readonly hash: string;
  /** The module, in the folder for bundles. Everything that it imports from packages is named by absolute place. */
  readonly code: string;
  /** Files that it was made of, absolute: what to watch. */
  readonly inputs: readonly string[];
}

/** A bundle, or what is wrong with the plugin's code; `inputs` is what to watch in either case. */
export type BundleResult =
  | { readonly ok: true; readonly bundle: PluginBundle; readonly inputs: readonly string[] }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly inputs: readonly string[] };

const shownProblems = 20;

/** Bundles a plugin in memory. Never rejects for what is wrong with the plugin. */
export async function bundlePlugin(request: BundleRequest): Promise<BundleResult> {
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
      // Naming a condition keeps `module`, which Node does not know, from being added.
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
export async function writeBundle(folder: string, name: string, code: string): Promise<string> {
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
