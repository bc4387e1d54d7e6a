import { enginePid } from '../../tests/kit/engine-pid.ts';
import { analyticsConfig, residentBytes, watchMemory, type SeededStore } from './analytics-store.ts';
import { median } from './cpu.ts';
import { load } from './load.ts';
import { startUpstream, startWeir, type WeirSubject } from './subject.ts';
import { benchKey, requestBytes } from './workload.ts';

/** How requests fare beside queries. */
export interface BesideFigures {
  readonly requests_per_second: number;
  readonly idle_p99_ms: number;
  readonly beside_p99_ms: number;
  readonly ratio: number;
  /** Queries that were answered meanwhile. */
  readonly queries: number;
  readonly engine_mib: number;
}

const requestsPerSecond = 500;
const connections = 32;
const dayMs = 86_400_000;

/** 500 requests a second, in turns alone and beside one client that asks for one graph or group after the other. */
export async function measureBeside(store: SeededStore, quick: boolean): Promise<BesideFigures> {
  const rounds = quick ? 3 : 7;
  const requests = requestsPerSecond * (quick ? 4 : 10);
  const upstream = await startUpstream();
  const weir = await startWeir({
    upstreamPort: upstream.port,
    folder: store.folder,
    config: analyticsConfig(upstream.port),
  });
  const pid = await enginePid(weir.child.pid ?? 0);
  const peak = watchMemory(() => residentBytes(pid));
  try {
    const bytes = requestBytes(weir.port, false);
    await load(weir.port, bytes, 20_000, connections);
    const idle: number[] = [];
    const beside: number[] = [];
    let queries = 0;
    for (let round = 0; round < rounds; round += 1) {
      idle.push((await load(weir.port, bytes, requests, connections, requestsPerSecond)).p99Ms);
      const stop = new AbortController();
      const asking = askUntil(weir, store, stop.signal);
      beside.push((await load(weir.port, bytes, requests, connections, requestsPerSecond)).p99Ms);
      stop.abort();
      queries += await asking;
    }
    const ratio = median(beside.map((ms, round) => ms / (idle[round] ?? NaN)));
    return {
      ...{ requests_per_second: requestsPerSecond, ratio, queries },
      ...{ idle_p99_ms: median(idle), beside_p99_ms: median(beside), engine_mib: peak() / 2 ** 20 },
    };
  } finally {
    await weir.stop();
    await upstream.stop();
  }
}

async function askUntil(weir: WeirSubject, { end }: SeededStore, signal: AbortSignal): Promise<number> {
  const window = `time_of_generation_min=${new Date(end - 30 * dayMs).toISOString()}&time_of_generation_max=${new Date(end).toISOString()}`;
  const paths = ['graphs/latency', 'graphs/cost', 'groups/ai-models', 'graphs/errors', 'groups/users'];
  let answered = 0;
  while (!signal.aborted) {
    const path = `/v1/analytics/${paths[answered % paths.length]}?${window}`;
    const url = `http://127.0.0.1:${weir.port}${path}`;
    const answer = await fetch(url, { headers: { 'x-service-api-key': benchKey } });
    if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
    await answer.arrayBuffer();
    answered += 1;
  }
  return answered;
}
