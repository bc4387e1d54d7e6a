import { setTimeout as pause } from 'node:timers/promises';
import { load, type LoadResult } from '../../main/bench-command/load.ts';
import { removeFolder, startBare, startUpstream, startWeir, type Subject } from './subject.ts';
import { chunksPerStream } from '../../main/bench-command/upstream.ts';
import { requestBytes } from './workload.ts';

/** One subject's figures, medians over the rounds. */
interface CpuFigures {
  /** At the same offered rate for every subject: the cost of a given traffic. */
  cpu_us_per_request: number;
  /** With every connection busy all the time: each subject at its own highest rate. */
  cpu_us_per_request_saturated: number;
  requests_per_second: number;
  p50_ms: number;
  p99_ms: number;
  cpu_us_per_chunk: number;
}

/** One load and its cost. */
interface Burst extends LoadResult {
  readonly cpuMicroseconds: number;
}

interface Bursts {
  readonly paced: Burst[];
  readonly saturated: Burst[];
  readonly chunked: Burst[];
}

const requestConnections = 32;
/** Of the comparison at one rate; well within what every subject can take. */
const requestsPerSecond = 4000;
const streamConnections = 64;
const warmRequests = 100_000;
const warmStreams = 1920;
/** After a burst the journal still ships; that work belongs to the requests. */
const settleMs = 1500;

/** CPU per request and per streamed chunk of the gateway and of the bare proxy, in turns so that both see the same machine. */
export async function measureCpu(quick: boolean): Promise<{
  /** The rate of the comparison at one rate. */
  requests_per_second: number;
  subjects: Record<string, CpuFigures>;
  ratios: { cpu_per_request: number; cpu_per_request_saturated: number; cpu_per_chunk: number };
}> {
  const rounds = quick ? 3 : 7;
  const requests = quick ? 8000 : 20000;
  const streams = quick ? 320 : 768;
  const upstream = await startUpstream();
  const bare = await startBare(upstream.port);
  const weir = await startWeir({ upstreamPort: upstream.port });
  try {
    const subjects: readonly Subject[] = [bare, weir];
    // Until its code is compiled a process pays for the compiler, not for requests.
    for (const subject of subjects) {
      await burst(subject, false, warmRequests, requestConnections);
      await burst(subject, true, warmStreams, streamConnections);
    }
    const bursts = new Map(subjects.map(({ name }) => [name, { paced: [], saturated: [], chunked: [] }]));
    const of = (name: string): Bursts => bursts.get(name) as Bursts;
    for (let round = 0; round < rounds; round++) {
      for (const subject of subjects)
        of(subject.name).paced.push(
          await burst(subject, false, requests, requestConnections, requestsPerSecond),
        );
      for (const subject of subjects)
        of(subject.name).saturated.push(await burst(subject, false, requests, requestConnections));
      for (const subject of subjects)
        of(subject.name).chunked.push(await burst(subject, true, streams, streamConnections));
    }
    const figures = Object.fromEntries(subjects.map(({ name }) => [name, figuresOf(of(name))]));
    const ratio = (figure: keyof CpuFigures): number =>
      (figures['weir']?.[figure] ?? NaN) / (figures['bare']?.[figure] ?? NaN);
    return {
      requests_per_second: requestsPerSecond,
      subjects: figures,
      ratios: {
        cpu_per_request: ratio('cpu_us_per_request'),
        cpu_per_request_saturated: ratio('cpu_us_per_request_saturated'),
        cpu_per_chunk: ratio('cpu_us_per_chunk'),
      },
    };
  } finally {
    await Promise.all([bare.stop(), weir.stop()]);
    await upstream.stop();
    await removeFolder(weir.folder);
  }
}

async function burst(
  subject: Subject,
  stream: boolean,
  total: number,
  connections: number,
  perSecond?: number,
): Promise<Burst> {
  return measured(subject, () =>
    load(subject.port, requestBytes(subject.port, stream), total, connections, perSecond),
  );
}

/** Measures the subject's CPU for a load. Throws when a request failed. */
export async function measured(subject: Subject, run: () => Promise<LoadResult>): Promise<Burst> {
  const before = await subject.cpu();
  const result = await run();
  await pause(settleMs);
  const cpuMicroseconds = (await subject.cpu()) - before;
  if (result.failed > 0) throw new Error(`${subject.name}: ${result.failed} requests failed.`);
  return { ...result, cpuMicroseconds };
}

function figuresOf({ paced, saturated, chunked }: Bursts): CpuFigures {
  const perRequest = (one: Burst): number => one.cpuMicroseconds / one.completed;
  return {
    cpu_us_per_request: median(paced.map(perRequest)),
    cpu_us_per_request_saturated: median(saturated.map(perRequest)),
    requests_per_second: median(saturated.map((one) => one.completed / one.seconds)),
    p50_ms: median(paced.map((one) => one.p50Ms)),
    p99_ms: median(paced.map((one) => one.p99Ms)),
    cpu_us_per_chunk: median(chunked.map((one) => one.cpuMicroseconds / (one.completed * chunksPerStream))),
  };
}

/** The middle value. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The value below which that share of them lies. 0 for none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
