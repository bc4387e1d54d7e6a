import { GatewayError, messageOf } from '../../core/errors/gateway-error.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { type AttemptResult, JobRegistry } from '../../core/administration/jobs/job-registry.ts';
import type { JobDefinition, Jobs, RepeatedJob } from '../../core/ports/jobs.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import { RecordFile } from '../../core/base/record-file.ts';

/** A job as it is stored. Times are milliseconds since the epoch. */
interface StoredJob {
  /** Key of the job: `job:` and its id, or `repeat:` and its name. */
  readonly key: string;
  readonly name: string;
  /** Value of `JobRun.id`. */
  readonly id: string;
  /** JSON. */
  readonly data: string;
  /** Earliest start. */
  readonly due: number;
  /** Failed attempts. */
  readonly failed: number;
  /** For a repeated job: its period, and the scheduled start of this run. */
  readonly every?: { readonly ms: number; readonly slot: number };
}

/**
 * One line of the file: the present state of a job, or its removal; `givenUp` when it failed permanently, `done` is the
 * time until which its key is kept (milliseconds since the epoch).
 */
type JobRecord =
  | { readonly put: StoredJob }
  | { readonly done: string; readonly until: number }
  | { readonly drop: string }
  | { readonly givenUp: string; readonly name: string };

/** The record of a line; undefined for a damaged line. */
function readJobRecord(line: string): JobRecord | undefined {
  const value = parse(line);
  if (!isObject(value)) return undefined;
  const { put, drop, givenUp, name, done, until } = value;
  if (typeof drop === 'string') return { drop };
  if (typeof done === 'string' && typeof until === 'number') return { done, until };
  if (typeof givenUp === 'string' && typeof name === 'string') return { givenUp, name };
  return isStoredJob(put) && parse(put.data) !== undefined ? { put } : undefined;
}

/** Undefined for invalid JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isStoredJob(value: unknown): value is StoredJob {
  if (!isObject(value)) return false;
  const { key, name, id, data, due, failed, every } = value;
  const texts = [key, name, id, data].every((text) => typeof text === 'string');
  const repeats = isObject(every) && Number.isFinite(every['ms']) && Number.isFinite(every['slot']);
  return texts && Number.isFinite(due) && Number.isInteger(failed) && (every === undefined || repeats);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

/** An entry with a due time. */
interface Due {
  /** Milliseconds since the epoch. */
  readonly due: number;
}

/** Entries sorted by time; with equal times, in order of addition. Adding and taking cost O(log n). */
export class DueQueue<T extends Due> {
  private readonly heap: { readonly entry: T; readonly number: number }[] = [];
  private added = 0;

  /** Number of entries. */
  get size(): number {
    return this.heap.length;
  }

  /** Due time of the first entry; undefined for an empty queue. */
  get firstDue(): number | undefined {
    return this.heap[0]?.entry.due;
  }

  add(entry: T): void {
    const { heap } = this;
    heap.push({ entry, number: this.added++ });
    let at = heap.length - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.before(at, parent)) return;
      this.swap(at, parent);
      at = parent;
    }
  }

  /** Removes and returns the first entry. */
  take(): T | undefined {
    const { heap } = this;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first?.entry;
    heap[0] = last;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      const right = left + 1;
      let least = at;
      if (left < heap.length && this.before(left, least)) least = left;
      if (right < heap.length && this.before(right, least)) least = right;
      if (least === at) return first.entry;
      this.swap(at, least);
      at = least;
    }
  }

  private before(a: number, b: number): boolean {
    const one = this.at(a);
    const other = this.at(b);
    return one.entry.due === other.entry.due ? one.number < other.number : one.entry.due < other.entry.due;
  }

  private swap(a: number, b: number): void {
    const kept = this.at(a);
    this.heap[a] = this.at(b);
    this.heap[b] = kept;
  }

  private at(index: number): { readonly entry: T; readonly number: number } {
    const item = this.heap[index];
    if (item === undefined) throw new RangeError(`there is no entry ${index}`);
    return item;
  }
}

/** Upper bound of failed jobs kept for counting. */
const maxGivenUp = 1000;
/** Upper bound of keys of jobs that must not be repeated. */
const maxRememberedDone = 10_000;
const atOnce = 4;
/** Longest sleep: the wall clock may be set meanwhile. */
const longestSleepMs = 60_000;

/** Options of `openLocalJobs`. */
interface LocalJobsOptions {
  /** Folder of the jobs; created when missing, used by this process alone. */
  readonly directory: string;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics?: Metrics;
  /** Delay after the first failed attempt. Default 1,000 ms. */
  readonly firstWaitMs?: number;
  /** Upper bound of waiting jobs. Default 10,000. */
  readonly maxWaiting?: number;
}

/** Jobs of this process alone, stored in a folder. Rejects when the folder cannot be read or written. */
export async function openLocalJobs(options: LocalJobsOptions): Promise<Jobs> {
  const jobs = new LocalJobs(options);
  await jobs.load();
  return jobs;
}

interface Job {
  stored: StoredJob;
  /** Settles when the job is on disk. */
  storing: Promise<void> | undefined;
}

class LocalJobs implements Jobs {
  private readonly options: LocalJobsOptions;
  private readonly registry: JobRegistry;
  private readonly file: RecordFile<JobRecord>;
  private readonly jobs = new Map<string, Job>();
  private readonly givenUp = new Map<string, string>();
  /** By key of a completed job: time until which it is not added again. */
  private readonly done = new RecentMap<number>(maxRememberedDone);
  private readonly waiting = new DueQueue<StoredJob>();
  private readonly running = new Set<Promise<void>>();
  /** `closing` stores results of running jobs, `closed` nothing more. */
  private state: 'new' | 'started' | 'closing' | 'closed' = 'new';
  private cancelTimer: (() => void) | undefined;

  constructor(options: LocalJobsOptions) {
    this.options = options;
    this.registry = new JobRegistry(options);
    const { directory, log } = options;
    this.file = new RecordFile({
      directory,
      name: 'jobs.jsonl',
      log,
      read: readJobRecord,
      snapshot: () => this.snapshot(),
    });
  }

  async load(): Promise<void> {
    const { directory } = this.options;
    try {
      for (const record of await this.file.read()) this.apply(record);
      await this.file.rewrite();
    } catch (cause) {
      throw new Error(
        `Jobs cannot be kept in ${directory}: ${messageOf(cause)}. Mend it, or name another data folder.`,
        {
          cause,
        },
      );
    }
    for (const { stored } of this.jobs.values()) this.waiting.add(stored);
  }

  define<T>(definition: JobDefinition<T>): void {
    this.registry.define(definition);
  }

  repeat(job: RepeatedJob): void {
    this.registry.repeat(job);
  }

  async start(): Promise<void> {
    this.registry.seal();
    const now = this.options.clock.now();
    for (const { name, everyMs } of this.registry.repeated) {
      const key = `repeat:${name}`;
      const known = this.jobs.get(key)?.stored;
      if (known?.every?.ms === everyMs) continue;
      // Only one of the two queue entries is the stored one: the other is skipped.
      this.put({
        key,
        name,
        id: `${name}@${now}`,
        data: '{}',
        due: now,
        failed: 0,
        every: { ms: everyMs, slot: now },
      });
    }
    const repeated = new Set(this.registry.repeated.map(({ name }) => `repeat:${name}`));
    for (const key of [...this.jobs.keys()])
      if (key.startsWith('repeat:') && !repeated.has(key)) this.drop(key);
    this.state = 'started';
    this.runDue();
    return Promise.resolve();
  }

  async add<T>(
    name: string,
    id: string,
    data: T,
    { delayMs = 0 }: { readonly delayMs?: number } = {},
  ): Promise<void> {
    const text = this.registry.check(name, id, data);
    if (this.state === 'closing' || this.state === 'closed')
      throw new GatewayError('shutting_down', 'The gateway stops and takes no more jobs.');
    const key = `job:${id}`;
    const known = this.jobs.get(key);
    if (known !== undefined) return known.storing;
    if ((this.done.get(key) ?? 0) > this.options.clock.now()) return;
    const { maxWaiting = 10_000 } = this.options;
    if (this.jobs.size >= maxWaiting)
      throw new GatewayError(
        'too_many_jobs',
        `${maxWaiting} jobs wait already; try again when some are done.`,
      );
    const due = this.options.clock.now() + Math.max(0, delayMs);
    const job: Job = { stored: { key, name, id, data: text, due, failed: 0 }, storing: undefined };
    this.jobs.set(key, job);
    job.storing = this.file.append({ put: job.stored }).then(
      () => {
        job.storing = undefined;
        this.givenUp.delete(key);
        this.waiting.add(job.stored);
        this.runDue();
      },
      (cause: unknown) => {
        this.jobs.delete(key);
        const message = `The job "${name}" could not be stored: ${messageOf(cause)}. Free the disk of the data folder or repair it.`;
        throw new GatewayError('store_unavailable', message, { cause });
      },
    );
    return job.storing;
  }

  counts(): ReturnType<Jobs['counts']> {
    const running = this.running.size;
    return Promise.resolve({ waiting: this.jobs.size - running, running, failed: this.givenUp.size });
  }

  runs(): ReturnType<Jobs['runs']> {
    return this.registry.runs();
  }

  async close(): Promise<void> {
    if (this.state === 'closing' || this.state === 'closed') return;
    this.state = 'closing';
    this.cancelTimer?.();
    await this.registry.stop(Promise.all(this.running));
    this.state = 'closed';
    await this.file.close();
  }

  private apply(record: JobRecord): void {
    if ('put' in record) {
      this.jobs.set(record.put.key, { stored: record.put, storing: undefined });
      this.givenUp.delete(record.put.key);
    } else if ('drop' in record) {
      this.jobs.delete(record.drop);
    } else if ('done' in record) {
      this.jobs.delete(record.done);
      this.rememberDone(record.done, record.until);
    } else {
      this.jobs.delete(record.givenUp);
      this.remember(record.givenUp, record.name);
    }
  }

  private remember(key: string, name: string): void {
    this.givenUp.delete(key);
    this.givenUp.set(key, name);
    const [oldest] = this.givenUp.keys();
    if (this.givenUp.size > maxGivenUp && oldest !== undefined) this.givenUp.delete(oldest);
  }

  private rememberDone(key: string, until: number): void {
    this.done.delete(key);
    this.done.set(key, until);
  }

  private *snapshot(): Iterable<JobRecord> {
    const now = this.options.clock.now();
    for (const [done, until] of this.done.entries()) if (until > now) yield { done, until };
    for (const [givenUp, name] of this.givenUp) yield { givenUp, name };
    for (const { stored } of this.jobs.values()) yield { put: stored };
  }

  private runDue(): void {
    if (this.state !== 'started') return;
    const { clock } = this.options;
    this.cancelTimer?.();
    for (;;) {
      const due = this.waiting.firstDue;
      if (due === undefined || this.running.size >= atOnce) return;
      const now = clock.now();
      if (due > now) {
        this.cancelTimer = clock.after(Math.min(due - now, longestSleepMs), () => this.runDue());
        return;
      }
      const stored = this.waiting.take();
      if (stored !== undefined && this.jobs.get(stored.key)?.stored === stored) this.run(stored);
    }
  }

  private run(stored: StoredJob): void {
    const { name, id, failed } = stored;
    const data: unknown = JSON.parse(stored.data);
    const run = this.registry.attempt({ name, id, data, attempt: failed + 1 }).then(({ outcome }) => {
      this.running.delete(run);
      // A result this late is not stored: the next process runs the job again.
      if (this.state !== 'closed' && outcome !== 'interrupted') this.settle(stored, outcome);
      this.runDue();
    });
    this.running.add(run);
  }

  private settle(stored: StoredJob, outcome: AttemptResult['outcome']): void {
    const now = this.options.clock.now();
    if (outcome === 'retried') {
      const failed = stored.failed + 1;
      this.put({ ...stored, failed, due: now + this.registry.waitMs(stored.name, failed) });
      return;
    }
    if (outcome === 'given_up') this.giveUp(stored);
    if (stored.every === undefined) {
      if (outcome === 'done') this.end(stored, now + this.registry.onceForMs(stored.name));
      return;
    }
    const { ms, slot } = stored.every;
    const next = slot + ms * Math.max(1, Math.ceil((now - slot) / ms));
    this.put({ ...stored, id: `${stored.name}@${next}`, due: next, failed: 0, every: { ms, slot: next } });
  }

  private put(stored: StoredJob): void {
    this.jobs.set(stored.key, { stored, storing: undefined });
    this.waiting.add(stored);
    this.store({ put: stored });
  }

  private drop(key: string): void {
    this.jobs.delete(key);
    this.store({ drop: key });
  }

  private end({ key, name }: StoredJob, until: number): void {
    if (this.registry.onceForMs(name) === 0) return this.drop(key);
    this.jobs.delete(key);
    this.rememberDone(key, until);
    this.store({ done: key, until });
  }

  private giveUp({ key, id, name, every }: StoredJob): void {
    const known = every === undefined ? key : id;
    this.jobs.delete(key);
    this.remember(known, name);
    this.store({ givenUp: known, name });
  }

  /** Stores the result of a job. Until that succeeds, a restart runs the job again; handlers must be idempotent. */
  private store(record: JobRecord): void {
    this.file.append(record).catch((error: unknown) => {
      this.options.log.error(
        `The result of a job cannot be stored in ${this.options.directory} (${messageOf(error)}); after a restart the job runs again. Free the disk or repair it.`,
      );
    });
  }
}
