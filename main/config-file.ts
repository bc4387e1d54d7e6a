import { constants, copyFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { formatProblem, isError, type Problem } from '../core/config/problem.ts';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const shipped = path.join(root, 'gateway.config.yaml');

/** The named file, the one in this folder, or the one shipped with the gateway. */
export function configFile(named: string | undefined): string {
  const local = path.resolve('gateway.config.yaml');
  if (named !== undefined) return path.resolve(named);
  return existsSync(local) ? local : shipped;
}

/**
 * The file of a start. In a folder without one it writes the shipped, commented one, to be edited; a folder that cannot be
 * written to is served with the shipped one itself. `written` is true for a new file.
 */
export async function configFileOfStart(
  named: string | undefined,
): Promise<{ readonly file: string; readonly written: boolean }> {
  const file = configFile(named);
  const local = path.resolve('gateway.config.yaml');
  if (named !== undefined || file === local) return { file, written: false };
  try {
    await copyFile(shipped, local, constants.COPYFILE_EXCL);
    return { file: local, written: true };
  } catch {
    return { file, written: false };
  }
}

/** Prints the faults of a configuration; returns the exit code: 1 unless they are only warnings and notes. */
export function reportProblems(problems: readonly Problem[]): number {
  for (const problem of problems) console.error(formatProblem(problem));
  return problems.some(isError) ? 1 : 0;
}
