import { readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { childrenOf } from '../../tests/kit/processes.ts';
import { removeFolder, startWeir } from './subject.ts';

/** Memory of one process, MiB. */
interface ProcessMemory {
  readonly name: ProcessName;
  readonly resident: number;
  /** Resident, with pages that several processes share divided between them. */
  readonly proportional: number;
  /** Proportional, without pages of files, which the system takes back when it needs them. */
  readonly anonymous: number;
}

type ProcessName = 'parent' | 'worker' | 'resources engine' | 'analytics engine';

interface IdleMemoryFigures {
  readonly processes: readonly ProcessMemory[];
  readonly sum: Omit<ProcessMemory, 'name'>;
  /** The largest of the workers, proportional. */
  readonly worker: number;
}

/** V8 returns memory to the system when a process has been idle for a minute or more. */
const idleMs = 120_000;
const shippedConfig = fileURLToPath(new URL('../../gateway.config.yaml', import.meta.url));

/** The whole gateway on a new data folder, embedded stores and two workers, two minutes after its start. Linux only. */
export async function measureIdleMemory(): Promise<IdleMemoryFigures> {
  const config = (await readFile(shippedConfig, 'utf8')).replace(/^server:\n/m, 'server:\n  workers: 2\n');
  if (!config.includes('workers: 2')) throw new Error('The shipped configuration has no section "server".');
  const weir = await startWeir({ upstreamPort: 0, config });
  try {
    await pause(idleMs);
    const processes: ProcessMemory[] = [];
    for (const pid of await withChildren(weir.child.pid ?? 0))
      processes.push(await memoryOf(pid, weir.child.pid));
    const sum = (of: Exclude<keyof ProcessMemory, 'name'>): number =>
      processes.reduce((all, one) => all + one[of], 0);
    return {
      processes,
      sum: { resident: sum('resident'), proportional: sum('proportional'), anonymous: sum('anonymous') },
      worker: Math.max(
        ...processes.filter(({ name }) => name === 'worker').map(({ proportional }) => proportional),
      ),
    };
  } finally {
    await weir.stop();
    await removeFolder(weir.folder);
  }
}

async function withChildren(pid: number): Promise<number[]> {
  const children = await childrenOf(pid);
  return [pid, ...(await Promise.all(children.map((child) => withChildren(child.pid)))).flat()];
}

async function memoryOf(pid: number, parent: number | undefined): Promise<ProcessMemory> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  const mib = (field: string): number =>
    Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(text)?.[1]) / 1024;
  const engine = /(pglite|chdb)-child/.exec(await readFile(`/proc/${pid}/cmdline`, 'utf8'))?.[1];
  const engines = { pglite: 'resources engine', chdb: 'analytics engine' } as const;
  const name =
    engine !== undefined ? engines[engine as keyof typeof engines] : pid === parent ? 'parent' : 'worker';
  return { name, resident: mib('Rss'), proportional: mib('Pss'), anonymous: mib('Pss_Anon') };
}
