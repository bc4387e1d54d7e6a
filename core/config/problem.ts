import type { NodePlace } from './config-node.ts';

/** Bound of reported problems, for readability. */
const maxProblems = 100;

/** A problem at a place of a parsed file. */
export function problemAtNode(place: NodePlace, path: string, message: string): Problem {
  return { file: place.file.name, line: place.line, column: place.column, path, message };
}

/** `gateway.config.yaml:12:7`, for a second place in a message. */
export function placeText(place: NodePlace): string {
  return `${place.file.name}:${place.line}:${place.column}`;
}

/**
 * Problems in reading order: files as in `files` (others as they come), then lines and columns, without duplicates. At
 * most 100: the last one then states the number of further ones.
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

/** A mistake in a configuration file, with its place and remedy. */
export interface Problem {
  readonly file: string;
  /** 1-based; 0 when the place is unknown (a missing file). */
  readonly line: number;
  readonly column: number;
  /** JSON pointer into the configuration: `/pipelines/0/plugins/2/params`. */
  readonly path: string;
  /** One sentence with the mistake and the remedy, without a final period. */
  readonly message: string;
  /** Default `error`. Warnings, and notes about unchecked parts, do not reject the configuration. */
  readonly severity?: 'error' | 'warning' | 'note';
}

/** `gateway.config.yaml:12:7: unknown key "pluginz"; did you mean "plugins"?` */
export function formatProblem(problem: Problem): string {
  const place = problem.line > 0 ? `${problem.file}:${problem.line}:${problem.column}` : problem.file;
  const { severity = 'error' } = problem;
  return `${place}: ${severity === 'error' ? '' : `${severity}: `}${problem.message}`;
}

/** Whether the problem rejects the configuration. */
export function isError({ severity = 'error' }: Problem): boolean {
  return severity === 'error';
}
