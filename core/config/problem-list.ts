import type { NodePlace } from './config-node.ts';
import type { Problem } from './problem.ts';

/** More than this nobody reads at once. */
const maxProblems = 100;

/** A problem at a place of a parsed file. */
export function problemAtNode(place: NodePlace, path: string, message: string): Problem {
  return { file: place.file.name, line: place.line, column: place.column, path, message };
}

/** A problem of a file as a whole. */
export function problemOfFile(file: string, message: string): Problem {
  return { file, line: 0, column: 0, path: '', message };
}

/** `gateway.config.yaml:12:7`, for naming a second place in a message. */
export function placeText(place: NodePlace): string {
  return `${place.file.name}:${place.line}:${place.column}`;
}

/**
 * Problems in the order in which people meet them: files as in `files` (others as they come), then lines and
 * columns; the same one only once. At most 100: the last one then says how many more there are.
 */
export function arrangeProblems(problems: readonly Problem[], files: readonly string[] = []): Problem[] {
  const known = [...new Set([...files, ...problems.map(({ file }) => file)])];
  const rank = new Map(known.map((file, index) => [file, index]));
  const order = (problem: Problem): number => rank.get(problem.file) ?? known.length;
  const seen = new Set<string>();
  const sorted = problems
    .filter((problem) => {
      const identity = `${problem.file}\n${problem.line}\n${problem.column}\n${problem.message}`;
      return !seen.has(identity) && seen.add(identity);
    })
    .sort((a, b) => order(a) - order(b) || a.line - b.line || a.column - b.column);
  const last = sorted[maxProblems - 1];
  if (last === undefined || sorted.length === maxProblems) return sorted;
  const rest = sorted.length - maxProblems + 1;
  return [
    ...sorted.slice(0, maxProblems - 1),
    { ...last, message: `this and ${rest - 1} more problems are left out; correct the others first` },
  ];
}
