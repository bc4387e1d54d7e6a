import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/** Usage of a process and of all that it has started, so far. */
export interface TreeUsage {
  /** CPU time of all processes but the embedded stores, microseconds, user and system. */
  readonly cpuUs: number;
  /** CPU time of the embedded stores, microseconds. */
  readonly storesCpuUs: number;
  /** Resident memory of the same processes, bytes; pages that several share count once for each. */
  readonly residentBytes: number;
  readonly storesResidentBytes: number;
  readonly processes: number;
}

/** One process. */
interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly cpuUs: number;
  readonly residentBytes: number;
  readonly command: string;
}

/** Processes that Weir starts for its embedded stores. */
const stores = /\b(pglite|chdb)-child\b/;
/** Fixed by Linux for user space. */
const microsecondsPerTick = 10_000;
const run = promisify(execFile);

/** Reads /proc on Linux, `ps` elsewhere. Rejects when the process has gone. */
export async function usageOfTree(root: number): Promise<TreeUsage> {
  const members =
    process.platform === 'linux' ? await treeOnLinux(root) : treeOf(root, processesOf(await listedByPs()));
  if (members.length === 0) throw new Error(`Process ${root} has ended.`);
  const sum = (kept: readonly Process[], of: (one: Process) => number): number =>
    kept.reduce((total, one) => total + of(one), 0);
  const storing = members.filter(({ command }) => stores.test(command));
  const serving = members.filter(({ command }) => !stores.test(command));
  return {
    cpuUs: sum(serving, ({ cpuUs }) => cpuUs),
    storesCpuUs: sum(storing, ({ cpuUs }) => cpuUs),
    residentBytes: sum(serving, ({ residentBytes }) => residentBytes),
    storesResidentBytes: sum(storing, ({ residentBytes }) => residentBytes),
    processes: members.length,
  };
}

/** The process and its descendants; none when it has gone. */
function treeOf<One extends { readonly pid: number; readonly parent: number }>(
  root: number,
  all: readonly One[],
): readonly One[] {
  const found = all.filter(({ pid }) => pid === root);
  for (const { pid } of found) found.push(...all.filter(({ parent }) => parent === pid));
  return found;
}

async function treeOnLinux(root: number): Promise<readonly Process[]> {
  const names = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const stats = await Promise.all(
    names.map(async (name) => {
      const text = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '');
      return statOf(Number(name), text);
    }),
  );
  const members = treeOf(
    root,
    stats.filter((one) => one !== undefined),
  );
  return Promise.all(
    members.map(async ({ pid, parent, ticksUs, endedUs }) => {
      const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
      const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
      // Time of the threads is exact; threads that have ended are in the ticks alone.
      const cpuUs = Math.max(ticksUs, await threadsUs(pid)) + endedUs;
      const residentBytes = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) * 1024;
      return { pid, parent, command, cpuUs, residentBytes };
    }),
  );
}

/** Of a line of /proc/PID/stat; undefined when the process has gone. */
function statOf(
  pid: number,
  text: string,
): { pid: number; parent: number; ticksUs: number; endedUs: number } | undefined {
  // The name of the program, in parentheses, may hold anything.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  if (text === '' || fields.length < 15) return undefined;
  const at = (index: number): number => Number(fields[index]);
  return {
    pid,
    parent: at(1),
    ticksUs: (at(11) + at(12)) * microsecondsPerTick,
    endedUs: (at(13) + at(14)) * microsecondsPerTick,
  };
}

async function threadsUs(pid: number): Promise<number> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  const times = await Promise.all(
    threads.map(async (thread) => {
      const text = await readFile(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').catch(() => '0');
      return Number(text.split(' ')[0]) / 1000;
    }),
  );
  return times.reduce((sum, one) => sum + one, 0);
}

async function listedByPs(): Promise<string> {
  const fields = 'pid=,ppid=,time=,rss=,command=';
  return (await run('ps', ['-axo', fields], { maxBuffer: 32 * 1024 * 1024 })).stdout;
}

/** Processes in the output of `ps -axo pid=,ppid=,time=,rss=,command=`. */
export function processesOf(listed: string): readonly Process[] {
  return listed.split('\n').flatMap((line) => {
    const [, pid, parent, time = '', kibibytes, command = ''] =
      /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(\d+)\s+(.*)$/.exec(line) ?? [];
    if (pid === undefined) return [];
    return [
      {
        pid: Number(pid),
        parent: Number(parent),
        cpuUs: microsecondsOf(time),
        residentBytes: Number(kibibytes) * 1024,
        command,
      },
    ];
  });
}

/** Of `[[DAYS-]HOURS:]MINUTES:SECONDS[.FRACTION]`. */
function microsecondsOf(time: string): number {
  const [clock = '', days = '0'] = time.split('-').reverse();
  const seconds = clock.split(':').reduce((sum, part) => sum * 60 + Number(part), 0);
  return Math.round((Number(days) * 86_400 + seconds) * 1e6);
}
