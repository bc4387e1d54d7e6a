import { execFile } from 'node:child_process';
import { readFile, readlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import { promisify } from 'node:util';

/**
 * A text that, together with the process id, identifies one process forever: ids are reused, start times are not.
 * Undefined when no such process lives; `unknown` where the system does not report start times.
 */
export async function processIdentity(pid: number): Promise<string | undefined> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return undefined;
  }
  if (process.platform === 'linux') return linuxIdentity(pid);
  if (process.platform === 'win32') return 'unknown';
  return startTimeFromPs(pid);
}

async function linuxIdentity(pid: number): Promise<string | undefined> {
  try {
    const [stat, boot] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'utf8'),
      readFile('/proc/sys/kernel/random/boot_id', 'utf8'),
    ]);
    // The command in parentheses may hold any character, so the fields are counted from behind it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state] = fields;
    if (state === 'Z' || state === 'X') return undefined;
    return `${boot.slice(0, 8)}.${fields[19]}`;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    return 'unknown';
  }
}

async function startTimeFromPs(pid: number): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)('ps', ['-o', 'lstart=', '-p', String(pid)], {
      env: { ...process.env, LC_ALL: 'C', TZ: 'UTC' },
    });
    return stdout.trim().replaceAll(/[^A-Za-z0-9]+/g, '.') || undefined;
  } catch {
    return 'unknown';
  }
}

/** System of a process, as far as it is known; unknown texts are empty. */
export interface System {
  /** Equal for all processes of one kernel since its boot, and for no others. */
  readonly kernel: string;
  /** Equal for all processes that share process numbers. */
  readonly space: string;
}

/** System of this process. */
export async function ownSystem(): Promise<System> {
  if (process.platform !== 'linux') return { kernel: `${process.platform} ${hostname()}`, space: 'host' };
  const [kernel, space] = await Promise.all([
    readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => ''),
    readlink('/proc/self/ns/pid').catch(() => ''),
  ]);
  return { kernel: kernel.trim(), space };
}
