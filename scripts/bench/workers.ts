import { setTimeout as pause } from 'node:timers/promises';
import { measured, median } from './cpu.ts';
import { load } from '../../main/bench-command/load.ts';
import { benchConfig, removeFolder, startBare, startUpstream, startWeir, type Subject } from './subject.ts';
import { requestBytes } from './workload.ts';

/** What a second process costs and brings, to the gateway and to the bare proxy. */
interface WorkersFigures {
  /** Microseconds of CPU per request, saturated, medians over the rounds: of all processes. */
  readonly cpu_us: Readonly<Record<Name, number>>;
  readonly requests_per_second: Readonly<Record<Name, number>>;
  /** Cost with two over cost with one. */
  readonly weir_ratio: number;
  readonly bare_ratio: number;
}

type Name = 'bare' | 'bare_2' | 'weir' | 'weir_2';

const connections = 32;
/** Of each process: its code is compiled by then. */
const warmRequests = 100_000;
const settleMs = 1500;

/** One and two processes of the gateway and of the bare proxy, in turns. */
export async function measureWorkers(quick: boolean): Promise<WorkersFigures> {
  const rounds = quick ? 5 : 15;
  const requests = quick ? 10_000 : 20_000;
  const upstream = await startUpstream();
  const upstreamPort = upstream.port;
  const one = await startWeir({ upstreamPort });
  const config = `${benchConfig(upstreamPort)}server: { workers: 2 }\n`;
  const two = await startWeir({ upstreamPort, config });
  const subjects: Readonly<Record<Name, Subject>> = {
    bare: await startBare(upstreamPort),
    bare_2: await startBare(upstreamPort, { processes: 2 }),
    weir: one,
    weir_2: two,
  };
  const names = Object.keys(subjects) as Name[];
  try {
    const isTwo = new Set<Name>(['bare_2', 'weir_2']);
    for (const name of names) await burst(subjects[name], warmRequests * (isTwo.has(name) ? 2 : 1));
    const costs: Record<Name, number[]> = { bare: [], bare_2: [], weir: [], weir_2: [] };
    const rates: Record<Name, number[]> = { bare: [], bare_2: [], weir: [], weir_2: [] };
    for (let round = 0; round < rounds; round++) {
      for (const name of names) {
        const { cpuMicroseconds, completed, seconds } = await burst(subjects[name], requests);
        costs[name].push(cpuMicroseconds / completed);
        rates[name].push(completed / seconds);
      }
    }
    const medians = (values: Record<Name, number[]>) =>
      Object.fromEntries(names.map((name) => [name, median(values[name])])) as Record<Name, number>;
    const cpu = medians(costs);
    return {
      cpu_us: cpu,
      requests_per_second: medians(rates),
      weir_ratio: cpu.weir_2 / cpu.weir,
      bare_ratio: cpu.bare_2 / cpu.bare,
    };
  } finally {
    await Promise.all(Object.values(subjects).map((subject) => subject.stop()));
    await upstream.stop();
    await removeFolder(one.folder);
    await removeFolder(two.folder);
  }
}

/** What the journal ships after a burst belongs to its requests. */
function burst(subject: Subject, requests: number) {
  return measured(subject, async () => {
    const result = await load(subject.port, requestBytes(subject.port, false), requests, connections);
    await pause(settleMs);
    return result;
  });
}
