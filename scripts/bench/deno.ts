import { setTimeout as pause } from 'node:timers/promises';
import { denoArguments, denoProgram } from '../deno-command.mjs';
import { median } from './cpu.ts';
import { load } from '../../main/bench-command/load.ts';
import { removeFolder, startUpstream, startWeir, type WeirSubject } from './subject.ts';
import { requestBytes } from './workload.ts';

const connections = 32;
const requestsPerSecond = 1500;
const warmRequests = 20_000;
/** After a burst the journal still ships; that work belongs to the requests. */
const settleMs = 1500;

/** Cost of a chat request on each runtime, medians over the rounds. */
interface RuntimeFigures {
  /** At this offered rate on both. */
  readonly requests_per_second: number;
  readonly node_cpu_us_per_request: number;
  readonly deno_cpu_us_per_request: number;
  /** Deno / Node. */
  readonly ratio: number;
}

/** CPU per request of the same gateway on Deno and on Node, in turns. Throws when Deno is not installed. */
export async function measureDeno(quick: boolean): Promise<RuntimeFigures> {
  const program = denoProgram();
  if (program === undefined) throw new Error('Deno is not here: run npm install.');
  const rounds = quick ? 3 : 7;
  const requests = quick ? 4500 : 12_000;
  const upstream = await startUpstream();
  const node = await startWeir({ upstreamPort: upstream.port });
  const deno = await startWeir({
    upstreamPort: upstream.port,
    runtime: { program, args: denoArguments },
  });
  const costs = new Map<WeirSubject, number[]>([
    [node, []],
    [deno, []],
  ]);
  try {
    for (const subject of costs.keys()) await cost(subject, warmRequests);
    for (let round = 0; round < rounds; round++) {
      for (const [subject, measured] of costs)
        measured.push(await cost(subject, requests, requestsPerSecond));
    }
  } finally {
    await Promise.all([node.stop(), deno.stop()]);
    await upstream.stop();
    await Promise.all([removeFolder(node.folder), removeFolder(deno.folder)]);
  }
  const [onNode, onDeno] = [median(costs.get(node) ?? []), median(costs.get(deno) ?? [])];
  return {
    requests_per_second: requestsPerSecond,
    node_cpu_us_per_request: onNode,
    deno_cpu_us_per_request: onDeno,
    ratio: onDeno / onNode,
  };
}

/** Microseconds of CPU per request. */
async function cost(subject: WeirSubject, requests: number, perSecond?: number): Promise<number> {
  const before = await subject.cpu();
  const bytes = requestBytes(subject.port, false);
  const { completed, failed } = await load(subject.port, bytes, requests, connections, perSecond);
  await pause(settleMs);
  if (failed > 0) throw new Error(`${failed} of ${requests} requests failed.`);
  return ((await subject.cpu()) - before) / completed;
}
