import { setTimeout as pause } from 'node:timers/promises';
import { messageOf } from '../../core/errors/gateway-error.ts';
import { load, type LoadResult } from './load.ts';
import { chunksPerStream } from './upstream.ts';
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/** A gateway under measurement. */
export interface Subject {
  readonly name: string;
  readonly port: number;
  /** Its first process. */
  readonly pid: number;
  readonly question: Buffer;
  readonly streamed: Buffer;
}

/** The measures of every subject. */
export interface Plan {
  /** Load before all measures: until its code is compiled, a process pays for the compiler. */
  readonly warmSeconds: number;
  readonly rounds: number;
  /** Of each measure in each round. */
  readonly seconds: number;
  readonly rate: number;
  readonly connections: number;
  readonly streams: boolean;
}

/** One measure of one subject. */
interface Measure {
  readonly completed: number;
  readonly seconds: number;
  readonly cpuUs: number;
  /** Of the embedded stores, beside `cpuUs`. */
  readonly storesCpuUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** CPU per request of each round, without stores. */
  readonly rounds: readonly number[];
}

/** All measures of one subject. */
export interface Measures {
  readonly paced: Measure;
  readonly saturated: Measure;
  readonly streamed: Measure | undefined;
  /** Usage at the end. */
  readonly usage: TreeUsage;
  /** Requests, and those of them that came to the stand-in. */
  readonly asked: number;
  readonly forwarded: number;
}

/** Requests of the gateway itself that were not answered with 200. */
export class FailedRequests extends Error {
  readonly first: string;

  constructor(failed: number, all: number, first: string) {
    super(`${failed} of ${all} requests failed`);
    this.name = 'FailedRequests';
    this.first = first;
  }
}

interface MeasureOptions {
  readonly plan: Plan;
  readonly signal: AbortSignal;
  readonly tell: (line: string) => void;
  /** Requests that have come to the stand-in so far. */
  readonly forwarded: () => Promise<number>;
  /** True for a subject whose failure ends the bench. */
  readonly isEssential: (subject: Subject) => boolean;
}

/** Work that belongs to requests goes on after them: rows are shipped every second. */
const settleMs = 1200;
const overdueMs = 30_000;
const streamConnections = 64;

type Kind = 'paced' | 'saturated' | 'streamed';

/**
 * Measures the subjects in turns, so that all see the same machine. A subject that fails is left out from then on, with
 * its reason; one that is essential rejects.
 */
export async function measureInTurns(
  subjects: readonly Subject[],
  options: MeasureOptions,
): Promise<{
  readonly measures: ReadonlyMap<string, Measures>;
  readonly failures: ReadonlyMap<string, string>;
  /** Why streams of a subject were not measured to their end. */
  readonly streamFailures: ReadonlyMap<string, string>;
}> {
  const { plan, signal, tell } = options;
  const failures = new Map<string, string>();
  const streamFailures = new Map<string, string>();
  const records = new Map(subjects.map(({ name }) => [name, new Bursts()]));
  const inTurn = async (
    work: (subject: Subject, record: Bursts) => Promise<void>,
    failed = failures,
  ): Promise<void> => {
    for (const subject of subjects) {
      signal.throwIfAborted();
      if (failures.has(subject.name) || failed.has(subject.name)) continue;
      try {
        await work(subject, records.get(subject.name) as Bursts);
      } catch (error) {
        signal.throwIfAborted();
        if (options.isEssential(subject)) throw error;
        failed.set(subject.name, reasonOf(error));
      }
    }
  };
  tell('Warming up …');
  const warm = (kind: Kind, seconds: number): ReturnType<typeof inTurn> =>
    inTurn(
      async (subject) => void (await burst(subject, kind, { ...plan, seconds }, options)),
      kind === 'streamed' ? streamFailures : failures,
    );
  await warm('saturated', plan.warmSeconds);
  if (plan.streams) await warm('streamed', plan.warmSeconds / 4);
  const kinds: readonly Kind[] = ['paced', 'saturated', ...(plan.streams ? (['streamed'] as const) : [])];
  for (let round = 1; round <= plan.rounds; round++) {
    tell(`Round ${round} of ${plan.rounds} …`);
    for (const kind of kinds)
      await inTurn(
        async (subject, record) => record.add(kind, await burst(subject, kind, plan, options)),
        kind === 'streamed' ? streamFailures : failures,
      );
  }
  await inTurn(async (subject, record) => void (record.usage = await usageOfTree(subject.pid)));
  const measures = new Map<string, Measures>();
  for (const { name } of subjects)
    if (!failures.has(name)) measures.set(name, (records.get(name) as Bursts).summary());
  return { measures, failures, streamFailures };
}

function reasonOf(error: unknown): string {
  if (!(error instanceof FailedRequests)) return messageOf(error);
  return `${error.message}: ${error.first.split('\r\n', 1)[0] ?? ''}`;
}

interface Burst extends LoadResult {
  readonly cpuUs: number;
  readonly storesCpuUs: number;
  readonly forwarded: number;
}

async function burst(subject: Subject, kind: Kind, plan: Plan, options: MeasureOptions): Promise<Burst> {
  const { port, pid, question, streamed } = subject;
  const { seconds, rate, connections } = plan;
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(seconds * 1000 + overdueMs)]);
  const forwardedBefore = await options.forwarded();
  const before = await usageOfTree(pid);
  const result = await (kind === 'streamed'
    ? load(port, streamed, { seconds }, streamConnections, { signal })
    : load(port, question, { seconds }, connections, {
        perSecond: kind === 'paced' ? rate : undefined,
        signal,
      }));
  await pause(settleMs, undefined, { signal: options.signal });
  const after = await usageOfTree(pid);
  if (result.failed > 0)
    throw new FailedRequests(result.failed, result.failed + result.completed, result.firstFailure ?? '');
  if (result.completed === 0) throw new Error('no connection was taken');
  return {
    ...result,
    cpuUs: after.cpuUs - before.cpuUs,
    storesCpuUs: after.storesCpuUs - before.storesCpuUs,
    forwarded: (await options.forwarded()) - forwardedBefore,
  };
}

/** Bursts of one subject. */
class Bursts {
  readonly #bursts: { [kind in Kind]: Burst[] } = { paced: [], saturated: [], streamed: [] };
  usage: TreeUsage | undefined;

  add(kind: Kind, one: Burst): void {
    this.#bursts[kind].push(one);
  }

  summary(): Measures {
    const { paced, saturated, streamed } = this.#bursts;
    const all = [...paced, ...saturated, ...streamed];
    return {
      paced: measureOf(paced, 1),
      saturated: measureOf(saturated, 1),
      streamed: streamed.length === 0 ? undefined : measureOf(streamed, chunksPerStream),
      usage: this.usage as TreeUsage,
      asked: sum(all.map(({ completed }) => completed)),
      forwarded: sum(all.map(({ forwarded }) => forwarded)),
    };
  }
}

function measureOf(bursts: readonly Burst[], unitsOfEach: number): Measure {
  return {
    completed: sum(bursts.map(({ completed }) => completed)) * unitsOfEach,
    seconds: sum(bursts.map(({ seconds }) => seconds)),
    cpuUs: sum(bursts.map(({ cpuUs }) => cpuUs)),
    storesCpuUs: sum(bursts.map(({ storesCpuUs }) => storesCpuUs)),
    p50Ms: median(bursts.map(({ p50Ms }) => p50Ms)),
    p99Ms: median(bursts.map(({ p99Ms }) => p99Ms)),
    rounds: bursts.map(({ cpuUs, completed }) => cpuUs / (completed * unitsOfEach)),
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, one) => total + one, 0);
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [upper = 0, lower = upper] = [sorted[middle], sorted[middle - 1]];
  return sorted.length % 2 === 0 ? (lower + upper) / 2 : upper;
}

/** Usage of a process and of all that it has started, so far. */
interface TreeUsage {
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
