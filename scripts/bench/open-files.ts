import { readFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';

/**
 * Files that this process and its children may open: Node raises the soft limit to the hard one when it starts, and
 * children inherit it. Infinity where there is no limit, or no way to ask.
 */
export function openFilesLimit(): number {
  const soft = softLimit();
  return soft === undefined || soft === 'unlimited' ? Infinity : Number(soft);
}

function softLimit(): string | undefined {
  try {
    return /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
  } catch {
    // No Linux: a shell that inherits the limit knows it.
  }
  try {
    return execFileSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }).trim();
  } catch {
    return undefined;
  }
}
