import { setTimeout as pause } from 'node:timers/promises';
import { engineOfProcess, residentBytes } from '../../../tests/kit/processes.ts';
import { analyticsConfig, watchMemory, type SeededStore } from './store.ts';
import { median } from '../cpu.ts';
import { load } from '../../../main/bench-command/load.ts';
import { startAsker, startUpstream, startWeir } from '../subject.ts';
import { requestBytes } from '../workload.ts';

/** Figures of requests while queries run. */
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

/** 500 requests a second, in turns alone and beside one client that asks one question after the other. */
export async function measureBeside(store: SeededStore, quick: boolean): Promise<BesideFigures> {
  const rounds = quick ? 3 : 7;
  const requests = requestsPerSecond * (quick ? 4 : 10);
  const upstream = await startUpstream();
  const weir = await startWeir({
    upstreamPort: upstream.port,
    folder: store.folder,
    config: analyticsConfig(upstream.port),
  });
  const pid = await engineOfProcess(weir.child.pid ?? 0, 'chdb-child');
  if (pid === undefined) throw new Error('The gateway runs no analytics engine.');
  const peak = watchMemory(() => residentBytes(pid));
  try {
    const bytes = requestBytes(weir.port, false);
    // Both kinds once before, so that code is compiled as in a gateway that runs.
    await load(weir.port, bytes, 20_000, connections);
    const first = await startAsker(weir.port, questions(store));
    await pause(5000);
    await first.stop();
    const idle: number[] = [];
    const beside: number[] = [];
    let queries = 0;
    for (let round = 0; round < rounds; round += 1) {
      idle.push((await load(weir.port, bytes, requests, connections, requestsPerSecond)).p99Ms);
      const asking = await startAsker(weir.port, questions(store));
      beside.push((await load(weir.port, bytes, requests, connections, requestsPerSecond)).p99Ms);
      queries += await asking.stop();
    }
    const ratio = median(beside.map((ms, round) => ms / (idle[round] ?? NaN)));
    return {
      requests_per_second: requestsPerSecond,
      ratio,
      queries,
      idle_p99_ms: median(idle),
      beside_p99_ms: median(beside),
      engine_mib: peak() / 2 ** 20,
    };
  } finally {
    await weir.stop();
    await upstream.stop();
  }
}

/** One of each kind that has a bound. */
function questions({ end, workspaceId }: SeededStore): string[] {
  const within = (days: number): string => {
    const [from, to] = [end - days * dayMs, end].map((at) => new Date(at).toISOString());
    return `time_of_generation_min=${from}&time_of_generation_max=${to}`;
  };
  const month = within(30);
  const metadata = encodeURIComponent(JSON.stringify({ team: 'search' }));
  return [
    `analytics/graphs/latency?${month}`,
    `analytics/graphs/cost?${month}`,
    `analytics/groups/ai-models?${month}`,
    `analytics/graphs/errors?${month}&metadata=${metadata}`,
    `analytics/groups/users?${month}&workspace_id=${workspaceId}&cost_min=0.001`,
    `analytics/groups/metadata/team?${month}`,
    `analytics/graphs/cost?${within(365)}&granularity=hour`,
    `logs?${month}&workspace_id=${workspaceId}&page_size=50`,
    `logs?${within(1)}&search=nobody%20wrote%20this`,
  ].map((path) => `/v1/${path}`);
}
