import { formatProblem, isError, type Problem } from '../core/config/problem.ts';

/** Prints what is wrong with a configuration; the exit code: 1 unless these are warnings and notes alone. */
export function reportProblems(problems: readonly Problem[]): number {
  for (const problem of problems) console.error(formatProblem(problem));
  return problems.some(isError) ? 1 : 0;
}
