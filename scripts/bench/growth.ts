import { setTimeout as pause } from 'node:timers/promises';
import { load } from '../../main/bench-command/load.ts';
import { readMemory } from './streams.ts';
import { removeFolder, startUpstream, startWeir, type WeirSubject } from './subject.ts';
import { requestBytes } from './workload.ts';

/** Memory of the gateway's process over many requests. */
interface GrowthFigures {
  readonly requests: number;
  readonly failed: number;
  /** Living heap and buffers after each part, MiB, the first of them after the warm-up. */
  readonly living_mib: readonly number[];
  readonly growth_mib: number;
}

const connections = 32;
const parts = 4;
const settleMs = 120_000;

/** A million requests through the first chain of the bench (a fifth of that when `quick`), in four parts. */
export async function measureGrowth(quick: boolean): Promise<GrowthFigures> {
  const requests = quick ? 200_000 : 1_000_000;
  const upstream = await startUpstream();
  const weir = await startWeir({ upstreamPort: upstream.port, memoryProbe: true });
  try {
    const bytes = requestBytes(weir.port, false);
    // Code, caches and pools are at their size by then.
    let { failed } = await load(weir.port, bytes, 200_000, connections);
    const living = [await livingMib(weir)];
    for (let part = 0; part < parts; part += 1) {
      failed += (await load(weir.port, bytes, requests / parts, connections)).failed;
      living.push(await livingMib(weir));
    }
    const growth = (living.at(-1) ?? NaN) - (living[0] ?? NaN);
    return { requests, failed, living_mib: living, growth_mib: growth };
  } finally {
    await weir.stop();
    await upstream.stop();
    await removeFolder(weir.folder);
  }
}

/** Without the rows that still wait for the store. */
async function livingMib(weir: WeirSubject): Promise<number> {
  const until = Date.now() + settleMs;
  while ((await weir.metric('weir_journal_bytes')) > 0) {
    if (Date.now() > until) throw new Error('The journal of the bench does not become empty.');
    await pause(500);
  }
  const { heapUsed, external } = await readMemory(weir.child);
  return (heapUsed + external) / 2 ** 20;
}
