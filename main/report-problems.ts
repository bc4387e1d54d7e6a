import { formatProblem, isError, type Problem } from '../core/config/problem.ts';

/** Prints the faults of a configuration; returns the exit code: 1 unless they are only warnings and notes. */
export function reportProblems(problems: readonly Problem[]): number {
  for (const problem of problems) console.error(formatProblem(problem));
  return problems.some(isError) ? 1 : 0;
}
