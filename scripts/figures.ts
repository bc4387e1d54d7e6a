// `npm run check -- --figures`: size and shape of the code base, each figure with its bound.
import { checkCircles, checkUpward } from './check-layers.ts';
import { importsOf, isProduction, type Source } from './read-sources.ts';
import { walkOfRequests } from './walk.ts';

interface Figure {
  readonly name: string;
  readonly value: number;
  readonly bound: number;
}

const declaration =
  /^export (?:default |declare )?(?:abstract )?(?:async )?(?:const|let|function\*?|class|interface|type|enum) /gm;

/** Prints every figure, and the number of those over their bound; these do not fail the check. */
export async function printFigures(all: readonly Source[]): Promise<void> {
  const sources = all.filter((source) => isProduction(source));
  const walk = await walkOfRequests();
  const figures: readonly Figure[] = [
    { name: 'production files (no tests, no test support)', value: sources.length, bound: 850 },
    { name: 'production lines', value: sum(sources.map(({ text }) => lineCount(text))), bound: 100_000 },
    {
      name: 'files with one importer, in the same folder',
      value: onlyImportedBeside(sources).length,
      bound: 150,
    },
    { name: "files of a chat request's way", value: walk.chat.length, bound: 30 },
    { name: "files of a config write's way", value: walk.write.length, bound: 22 },
    { name: 'import circles in core, types included', value: checkCircles(sources).length, bound: 0 },
    { name: 'upward imports in core', value: checkUpward(sources).length, bound: 0 },
    {
      name: 'exports',
      value: sum(sources.map(({ text }) => text.match(declaration)?.length ?? 0)),
      bound: 2200,
    },
    { name: 'files directly in one folder, at most', value: largestFolder(sources), bound: 30 },
  ];
  for (const { name, value, bound } of figures)
    console.log(`${value <= bound ? 'ok  ' : 'OVER'} ${name}: ${value} (bound ${bound})`);
  if (process.argv.includes('--walk')) {
    console.log(
      `\nA chat request:\n  ${walk.chat.join('\n  ')}\n\nA config write:\n  ${walk.write.join('\n  ')}`,
    );
  }
}

function onlyImportedBeside(sources: readonly Source[]): readonly string[] {
  const importers = new Map<string, Set<string>>();
  for (const source of sources)
    for (const target of importsOf(source))
      importers.set(target, (importers.get(target) ?? new Set()).add(source.file));
  return sources
    .map(({ file }) => file)
    .filter((file) => {
      const [one, ...more] = importers.get(file) ?? [];
      return one !== undefined && more.length === 0 && folderOf(one) === folderOf(file);
    });
}

function largestFolder(sources: readonly Source[]): number {
  const counts = new Map<string, number>();
  for (const { file } of sources) counts.set(folderOf(file), (counts.get(folderOf(file)) ?? 0) + 1);
  return Math.max(...counts.values());
}

function folderOf(file: string): string {
  return file.slice(0, Math.max(0, file.lastIndexOf('/')));
}

function lineCount(text: string): number {
  return text.split('\n').length - 1;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
