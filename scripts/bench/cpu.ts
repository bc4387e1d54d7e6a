import { setTimeout as pause } from 'node:timers/promises';
import { load, type LoadResult } from './load.ts';
import { removeFolder, startBare, startUpstream, startWeir, type Subject } from './subject.ts';
import { chunksPerStream, requestBytes } from './workload.ts';

/** One subject's figures, medians over the rounds. */
export interface CpuFigures {
  cpu_us_per_request: number;
  requests_per_second: number;
  p50_ms: number;
  p99_ms: number;
  cpu_us_per_chunk: number;
}

interface Burst extends LoadResult {
  readonly cpuMicroseconds: number;
}

const requestConnections = 32;
const streamConnections = 64;
const warmRequests = 40_000;
const warmStreams = 640;
/** After a burst the journal still ships; that work belongs to the requests. */
const settleMs = 1500;

/** CPU per request and per streamed chunk of the gateway and of the bare proxy, in turns so that both see the same machine. */
export async function measureCpu(quick: boolean): Promise<{
  subjects: Record<string, CpuFigures>;
  ratios: { cpu_per_request: number; cpu_per_chunk: number };
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
    const whole = new Map<string, Burst[]>(subjects.map((subject) => [subject.name, []]));
    const chunked = new Map<string, Burst[]>(subjects.map((subject) => [subject.name, []]));
    for (let round = 0; round < rounds; round++) {
      for (const subject of subjects)
        whole.get(subject.name)?.push(await burst(subject, false, requests, requestConnections));
      for (const subject of subjects)
        chunked.get(subject.name)?.push(await burst(subject, true, streams, streamConnections));
    }
    const figures = Object.fromEntries(
      subjects.map(({ name }) => [name, figuresOf(whole.get(name) ?? [], chunked.get(name) ?? [])]),
    );
    const of = (name: string): CpuFigures => figures[name] as CpuFigures;
    return {
      subjects: figures,
      ratios: {
        cpu_per_request: of('weir').cpu_us_per_request / of('bare').cpu_us_per_request,
        cpu_per_chunk: of('weir').cpu_us_per_chunk / of('bare').cpu_us_per_chunk,
      },
    };
  } finally {
    await Promise.all([bare.stop(), weir.stop()]);
    await upstream.stop();
    await removeFolder(weir.folder);
  }
}

async function burst(subject: Subject, stream: boolean, total: number, connections: number): Promise<Burst> {
  const before = await subject.cpu();
  const result = await load(subject.port, requestBytes(subject.port, stream), total, connections);
  await pause(settleMs);
  const cpuMicroseconds = (await subject.cpu()) - before;
  if (result.failed > 0) throw new Error(`${subject.name}: ${result.failed} of ${total} requests failed.`);
  return { ...result, cpuMicroseconds };
}

function figuresOf(whole: readonly Burst[], chunked: readonly Burst[]): CpuFigures {
  return {
    cpu_us_per_request: median(whole.map((one) => one.cpuMicroseconds / one.completed)),
    requests_per_second: median(whole.map((one) => one.completed / one.seconds)),
    p50_ms: median(whole.map((one) => one.p50Ms)),
    p99_ms: median(whole.map((one) => one.p99Ms)),
    cpu_us_per_chunk: median(chunked.map((one) => one.cpuMicroseconds / (one.completed * chunksPerStream))),
  };
}

/** The middle value. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
