import type { Clock } from '../../ports/clock.ts';
import { clip } from '../../base/bytes.ts';
import type { JobDefinition, JobRuns, Jobs, RepeatedJob } from '../../ports/jobs.ts';
import type { Log } from '../../ports/log.ts';
import type { Counter, Metrics } from '../../ports/metrics.ts';

const shown = {
  waiting: 'Jobs that wait for their time or for another attempt, those that repeat included.',
  running: 'Jobs that are being run, by all gateways that share them.',
  failed: 'The last jobs that were given up, up to 1,000.',
} as const;

/**
 * Sets `weir_jobs_waiting`, `weir_jobs_running` and `weir_jobs_failed` at every scrape. Each scrape shows the store's
 * previous answer and asks anew; during an outage the last values stay.
 */
export function reportJobs(metrics: Metrics, jobs: Pick<Jobs, 'counts'>): void {
  const gauge = (name: keyof typeof shown) =>
    metrics.gauge({ name: `weir_jobs_${name}`, help: shown[name], labels: [] })({});
  const gauges = { waiting: gauge('waiting'), running: gauge('running'), failed: gauge('failed') };
  let asking = false;
  const ask = async (): Promise<void> => {
    if (asking) return;
    asking = true;
    try {
      const counts = await jobs.counts();
      gauges.waiting.set(counts.waiting);
      gauges.running.set(counts.running);
      gauges.failed.set(counts.failed);
    } catch {
      // The store's own metrics and log report its outage.
    } finally {
      asking = false;
    }
  };
  metrics.onScrape(() => void ask());
}

const defaultAttempts = 5;
const defaultTimeoutMs = 60_000;
const defaultLongestWaitMs = 60_000;
const shortestPeriodMs = 1000;
const longestId = 255;
const closingMs = 5000;
const maxBytes = 65_536;
const longestMessage = 300;

/** Dependencies that every job store shares. */
interface JobRegistryOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics?: Metrics | undefined;
  /** Wait after the first failed attempt; doubles up to the longest wait. Default 1,000 ms. */
  readonly firstWaitMs?: number;
}

const neverRan = { attempts: 0, failed: 0, last: undefined, error: undefined };

/**
 * The message for the pages of operators, without what may be a secret or name a person: paths and queries of addresses
 * (webhooks), user names of addresses and of mail.
 */
function shownMessage({ message }: Error): string {
  const plain = clip(message, 4 * longestMessage)
    .replaceAll(/[^\s@<>"'/]+@/g, '…@')
    .replaceAll(/(:\/\/[^\s/?#"'<>]+)[/?#][^\s"'<>)]*/g, '$1/…');
  return clip(plain, longestMessage);
}

/** One attempt at a stored job. */
interface Attempt {
  readonly name: string;
  readonly id: string;
  /** Plain JSON. */
  readonly data: unknown;
  /** From 1. */
  readonly attempt: number;
  /** Attempts in all; default: that of the definition. */
  readonly attempts?: number | undefined;
}

/**
 * How an attempt ended: `retried` and `given_up` are failures with and without another attempt; `interrupted` means cut
 * by the shutdown of the gateway and does not count.
 */
export interface AttemptResult {
  readonly outcome: NonNullable<JobRuns['last']>['outcome'];
  readonly error?: Error;
}

/**
 * Execution of jobs, the same for every store: keeps definitions, checks added jobs, and makes attempts with their time
 * limit, log lines and `weir_jobs_total{name, outcome}`. Catches the errors of handlers.
 */
export class JobRegistry {
  private readonly options: JobRegistryOptions;
  private readonly definitions = new Map<string, JobDefinition<never>>();
  private readonly periods = new Map<string, RepeatedJob>();
  private readonly ran = new Map<string, Omit<JobRuns, 'name' | 'everyMs'>>();
  private readonly stopping = new AbortController();
  private readonly total: ((labels: Record<'name' | 'outcome', string>) => Counter) | undefined;
  private sealed = false;

  constructor(options: JobRegistryOptions) {
    this.options = options;
    this.total = options.metrics?.counter({
      name: 'weir_jobs_total',
      help: 'Attempts at jobs by result: done, retried, given_up, or interrupted by the shutdown of the gateway.',
      labels: ['name', 'outcome'],
    });
  }

  /** See `Jobs.define`. */
  define<T>(definition: JobDefinition<T>): void {
    const { name, attempts = 1, timeoutMs = 1, longestWaitMs = 1, onceForMs = 0 } = definition;
    this.mustBeOpen(name);
    if (!/^[a-z]+(\.[a-z]+)*$/.test(name))
      throw new TypeError(`"${name}" is no name of a job: write lower-case words with dots between them.`);
    if (this.definitions.has(name)) throw new TypeError(`The job "${name}" is defined already.`);
    if (!Number.isInteger(attempts) || attempts < 1 || !(timeoutMs > 0))
      throw new TypeError(`The job "${name}" needs at least 1 attempt and a time limit above 0.`);
    if (!(longestWaitMs > 0))
      throw new TypeError(`The job "${name}" waits longer than 0 ms between attempts.`);
    if (!Number.isInteger(onceForMs) || onceForMs < 0)
      throw new TypeError(`The job "${name}" is remembered for a number of milliseconds, 0 at least.`);
    this.definitions.set(name, definition);
  }

  /** See `Jobs.repeat`. */
  repeat(job: RepeatedJob): void {
    this.mustBeOpen(job.name);
    if (!this.definitions.has(job.name)) throw new TypeError(`The job "${job.name}" is not defined.`);
    if (this.periods.has(job.name)) throw new TypeError(`The job "${job.name}" is repeated already.`);
    if (!Number.isInteger(job.everyMs) || job.everyMs < shortestPeriodMs)
      throw new TypeError(`The job "${job.name}" may come every ${shortestPeriodMs} ms at the most.`);
    this.periods.set(job.name, job);
  }

  /** Ends definitions: jobs run from now on. */
  seal(): void {
    this.sealed = true;
  }

  /** Repeated jobs. */
  get repeated(): readonly RepeatedJob[] {
    return [...this.periods.values()];
  }

  /** See `Jobs.runs`. */
  runs(): readonly JobRuns[] {
    return [...this.definitions.keys()].sort().map((name) => ({
      name,
      everyMs: this.periods.get(name)?.everyMs,
      ...(this.ran.get(name) ?? neverRan),
    }));
  }

  /** Attempts in all for a job of this name. */
  attemptsOf(name: string): number {
    return this.definitions.get(name)?.attempts ?? defaultAttempts;
  }

  /** Milliseconds for which the id of a finished job of this name is remembered; 0 for not at all. */
  onceForMs(name: string): number {
    return this.definitions.get(name)?.onceForMs ?? 0;
  }

  /** Milliseconds to wait after `failed` failed attempts at a job of this name. */
  waitMs(name: string, failed: number): number {
    const { firstWaitMs = 1000 } = this.options;
    const longest = this.definitions.get(name)?.longestWaitMs ?? defaultLongestWaitMs;
    return Math.min(longest, firstWaitMs * 2 ** Math.min(failed - 1, 30));
  }

  /** Validates a new job. Returns its data as JSON. Throws `TypeError` when the job cannot be stored. */
  check(name: string, id: string, data: unknown): string {
    if (!this.definitions.has(name)) throw new TypeError(`The job "${name}" is not defined.`);
    if (id === '' || id.length > longestId)
      throw new TypeError(`The id of a job "${name}" needs 1 to ${longestId} characters.`);
    // Undefined and functions have no JSON.
    const text = JSON.stringify(data) as string | undefined;
    if (text === undefined) throw new TypeError(`The data of a job "${name}" must be plain JSON.`);
    const bytes = Buffer.byteLength(text);
    if (bytes > maxBytes)
      throw new TypeError(`The data of a job "${name}" may have ${maxBytes} bytes and have ${bytes}.`);
    return text;
  }

  /** Makes one attempt. Never rejects. */
  async attempt(work: Attempt): Promise<AttemptResult> {
    // The gateway began to stop before this attempt started.
    if (this.stopping.signal.aborted) return { outcome: 'interrupted' };
    const { clock } = this.options;
    const [at, begun] = [clock.now(), clock.monotonic()];
    const result = await this.resultOf(work);
    this.note(work.name, result, { at, tookMs: clock.monotonic() - begun });
    return this.ended(work, result);
  }

  private async resultOf(work: Attempt): Promise<AttemptResult> {
    try {
      await this.run(work);
      return { outcome: 'done' };
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error(String(thrown));
      if (this.stopping.signal.aborted) return { outcome: 'interrupted', error };
      const last = work.attempt >= (work.attempts ?? this.attemptsOf(work.name));
      return { outcome: last ? 'given_up' : 'retried', error };
    }
  }

  /** Undefined names come from a store and could be any number: they are not noted. */
  private note(name: string, { outcome, error }: AttemptResult, time: { at: number; tookMs: number }): void {
    if (!this.definitions.has(name)) return;
    const { attempts, failed, error: before } = this.ran.get(name) ?? neverRan;
    const hasFailed = outcome === 'retried' || outcome === 'given_up';
    this.ran.set(name, {
      attempts: attempts + 1,
      failed: failed + Number(hasFailed),
      last: { ...time, outcome },
      error: hasFailed && error ? { at: time.at, message: shownMessage(error) } : before,
    });
  }

  /** Aborts every running handler. False when they have not `ended` within 5 s. */
  async stop(ended: Promise<unknown>): Promise<boolean> {
    this.sealed = true;
    this.stopping.abort(new Error('the gateway stops'));
    return new Promise((resolve) => {
      const cancel = this.options.clock.after(closingMs, () => resolve(false));
      const done = (): void => {
        cancel();
        resolve(true);
      };
      void ended.then(done, done);
    });
  }

  private mustBeOpen(name: string): void {
    if (this.sealed) throw new TypeError(`The job "${name}" must be defined before jobs are started.`);
  }

  private async run({ name, id, data, attempt }: Attempt): Promise<void> {
    const definition = this.definitions.get(name);
    if (definition === undefined)
      throw new Error('no part of this gateway does jobs of this name; another version of it may have');
    const ending = new AbortController();
    const stop = (): void => ending.abort(this.stopping.signal.reason);
    this.stopping.signal.addEventListener('abort', stop, { once: true });
    const { timeoutMs = defaultTimeoutMs } = definition;
    let cancel = (): void => undefined;
    const late = new Promise<never>((_, reject) => {
      cancel = this.options.clock.after(timeoutMs, () => {
        const error = new Error(`it has not ended within ${timeoutMs} ms`);
        ending.abort(error);
        reject(error);
      });
    });
    try {
      // The definition of the name fixes the type of the data: `define` and `add` share it.
      const work = definition.handle({ id, data: data as never, attempt, signal: ending.signal });
      await Promise.race([work, late]);
    } finally {
      cancel();
      this.stopping.signal.removeEventListener('abort', stop);
    }
  }

  private ended(work: Attempt, result: AttemptResult): AttemptResult {
    const { name, id, attempt } = work;
    const { outcome, error } = result;
    // Undefined names come from a store and could be any number.
    this.total?.({ name: this.definitions.has(name) ? name : 'unknown', outcome }).inc();
    const fields = { job: name, id, attempt, error };
    const again = `The job "${name}" failed and is tried again`;
    // One warning is enough: the end is logged too.
    if (outcome === 'retried' && attempt === 1) this.options.log.warn(again, fields);
    else if (outcome === 'retried') this.options.log.debug(again, fields);
    if (outcome === 'given_up') this.options.log.error(`The job "${name}" failed and is given up`, fields);
    return result;
  }
}
