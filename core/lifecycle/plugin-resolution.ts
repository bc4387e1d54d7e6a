import { readFile } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import { dirname, isAbsolute, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { OnResolveArgs, OnResolveResult, Plugin, PluginBuild } from 'esbuild';
import { pluginModuleSource } from './plugin-module-registry.ts';

/** Told of every file that takes part in a bundle, also when bundling fails, and of files that are missing. */
export type NoteInput = (file: string) => void;

/** Replacements for the names by which a module knows its own place, which bundling would make wrong. */
export const moduleNames: Readonly<Record<string, string>> = {
  'import.meta.url': 'weirModuleUrl',
  'import.meta.filename': 'weirModuleFile',
  'import.meta.dirname': 'weirModuleFolder',
  __filename: 'weirModuleFile',
  __dirname: 'weirModuleFolder',
};

/** The module that plugins import: the package's name (`name` in package.json) and its one export. */
export const pluginModuleName = 'weir-gateway/plugin';
const ownNamespace = 'weir';
/** What the module was called before. The name belongs to another package on npm, so it is never looked up. */
const formerModuleName = 'weir/plugin';
/** Marks look-ups that this file started itself. */
const inner = { inner: true };

/**
 * How a plugin's imports resolve: its own files are inlined; packages stay outside, by their absolute place as
 * seen from the importing file (the bundle lies elsewhere); `weir-gateway/plugin` is the running process's own.
 */
export function pluginResolution(noteInput: NoteInput): Plugin {
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
export function placePrefixLength(path: string): number {
  return placePrefix(path).length;
}

/** Whether the first line of a file, as the bundler shows it, is one that `sourceWithPlace` lengthened. */
export function startsWithPlace(line: string): boolean {
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

/** Only what Node can load by itself may stay outside; TypeScript or JSON in a package is inlined. */
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
