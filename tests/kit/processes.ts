/** Processes of this machine, as Linux shows them in /proc. */
import { readdir, readFile } from 'node:fs/promises';

/** A child of a process. */
interface ChildOf {
  readonly pid: number;
  /** Its command line, with a zero byte after each argument. */
  readonly command: string;
}

/** The children that all threads of a process have started; none when it has gone. Those that end meanwhile are left out. */
export async function childrenOf(pid: number): Promise<readonly ChildOf[]> {
  const found: ChildOf[] = [];
  for (const thread of await readdir(`/proc/${pid}/task`).catch(() => [])) {
    const listed = await readFile(`/proc/${pid}/task/${thread}/children`, 'utf8').catch(() => '');
    for (const child of listed.split(' ').filter((text) => text !== '')) {
      const command = await readFile(`/proc/${child}/cmdline`, 'utf8').catch(() => '');
      if (command !== '') found.push({ pid: Number(child), command });
    }
  }
  return found;
}

/** The process of an embedded engine of a gateway, by the gateway's process id; undefined when there is none. */
export async function engineOfProcess(
  gateway: number,
  program: 'chdb-child' | 'pglite-child',
): Promise<number | undefined> {
  return (await childrenOf(gateway)).find(({ command }) => command.includes(program))?.pid;
}

/** Resident memory of a process, bytes; 0 when it has gone. */
export async function residentBytes(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return Number(/^VmRSS:\s+(\d+)/m.exec(text)?.[1] ?? 0) * 1024;
}

/** False when the process has gone, or has ended and nobody has taken notice of it. */
export async function isRunning(pid: number): Promise<boolean> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return text !== '' && !/\) [ZX] /.test(text);
}
