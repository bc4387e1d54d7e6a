import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';

/** One source file of the project: its path from the root with forward slashes, and its text. */
export interface Source {
  readonly file: string;
  readonly text: string;
}

const roots = ['main', 'core', 'plugins', 'adapters', 'storage', 'tests', 'scripts', 'examples'];

/** The console in the browser: a program of its own, with its own compiler settings. */
const consoleApp = 'plugins/console/app';

/** Every TypeScript source of the project. */
export function readSources(): readonly Source[] {
  const files = ['main.ts', ...roots.flatMap(walk)];
  return files.map((file) => ({ file, text: readFileSync(file, 'utf8') }));
}

function walk(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .flatMap((entry) => {
      const full = path.posix.join(folder, entry.name);
      if (entry.isDirectory()) return entry.name === 'node_modules' || full === consoleApp ? [] : walk(full);
      return entry.name.endsWith('.ts') ? [full] : [];
    })
    .sort();
}

/** True for run-time code of a gateway: no tests, test support or tools. */
export function isProduction({ file }: Source): boolean {
  return (
    /^(main\.ts$|main\/|core\/|plugins\/|adapters\/|storage\/)/.test(file) &&
    !/(\.test(-support)?|-fixture)\.ts$/.test(file)
  );
}

/** The imports of a source (also types and re-exports): relative ones resolved to project paths, packages unchanged. */
export function importsOf(source: Source): readonly string[] {
  const pattern =
    /(?:^|\n)\s*(?:import|export)\s(?:[^'"`;]*?\sfrom\s)?\s*['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)/g;
  const found = [...source.text.matchAll(pattern)].map((match) => (match[1] ?? match[2]) as string);
  return found.map((name) => resolveImport(source, name));
}

/** A relative import of this source as a path of the project; a package unchanged. */
export function resolveImport({ file }: Source, name: string): string {
  return name.startsWith('.') ? path.posix.normalize(path.posix.join(path.posix.dirname(file), name)) : name;
}
