import { type Job, type JobsOptions, Queue, WaitingError, Worker } from 'bullmq';
import { GatewayError, messageOf } from '../../core/errors/gateway-error.ts';
import { JobRegistry } from '../../core/administration/jobs/job-registry.ts';
import type { JobDefinition, Jobs, RepeatedJob } from '../../core/ports/jobs.ts';
import { Cluster, Redis } from 'ioredis';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import { OutageReport } from './timed-calls.ts';
import { type RedisAddress, redisAddresses } from './redis-address.ts';
import { encodedCommands, type RedisClient } from './encoded-command.ts';
import { primaries } from './follow-primaries.ts';

const budgetMs = 2000;
/** The part in braces decides the slot of a cluster: one for all keys of the queue. */
const prefix = 'weir:{jobs}';
const slotOfJobs = encodedCommands.slotOfKey(prefix);

/** Dependencies and options of `JobConnection`. */
interface JobConnectionOptions {
  /** See `parseRedisUrl`. */
  readonly url: string;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics?: Metrics | undefined;
}

/**
 * Separate connections for jobs: their client resends commands in flight after a lost connection, and blocks one
 * connection while it waits for work, neither of which suits limits and cached answers.
 */
class JobConnection {
  readonly client: RedisClient;
  private readonly clock: Clock;
  private readonly report: OutageReport;
  private readonly copies: RedisClient[] = [];
  private readonly onReady: (() => void)[] = [];
  private readonly endWatching: () => void;
  private lastError = '';
  private closing = false;

  /** Throws for an unusable address. */
  constructor({ url, log, clock, metrics }: JobConnectionOptions) {
    const address = redisAddresses.parse(url);
    this.clock = clock;
    this.report = new OutageReport({
      log,
      clock,
      metrics,
      label: address.label,
      stores: 'jobs',
      consequence: 'No jobs are taken or begun until it is back.',
    });
    this.client = this.open(address);
    this.endWatching =
      this.client instanceof Cluster ? this.listenToCluster(this.client) : this.listen(this.client, address);
  }

  /** True while the server is reachable: of a cluster the one that keeps jobs. */
  get ready(): boolean {
    const { client } = this;
    return (client instanceof Cluster ? serverOfJobs(client) : client)?.status === 'ready';
  }

  /** Calls `run` whenever the server becomes reachable. */
  whenReady(run: () => void): void {
    this.onReady.push(run);
    if (this.ready) run();
  }

  /** Calls the server. Rejects with `store_unavailable` when it is unavailable, refuses, or takes longer than 2 s. */
  async ask<T>(call: () => Promise<T>): Promise<T> {
    if (!this.ready) {
      this.report.countFailed('away');
      throw unavailable(this.report.reason ?? 'it is not connected');
    }
    let cancel = (): void => undefined;
    const late = new Promise<never>((_, reject) => {
      cancel = this.clock.after(budgetMs, () => {
        this.report.countFailed('slow');
        reject(unavailable(`no answer within ${budgetMs} ms`));
      });
    });
    try {
      return await Promise.race([call(), late]);
    } catch (error) {
      if (GatewayError.is(error)) throw error;
      this.failed(error);
      throw unavailable(messageOf(error));
    } finally {
      cancel();
    }
  }

  /** Reports a failure without a waiting caller. Errors of the connection itself are reported as an outage. */
  failed(error: unknown): void {
    if (this.closing || !this.ready || !(error instanceof Error)) return;
    if (encodedCommands.isReplyError(error)) this.report.replyError(error.message);
  }

  /** Ends every connection for good. */
  close(): void {
    this.closing = true;
    this.endWatching();
    for (const client of [this.client, ...this.copies]) client.disconnect();
  }

  /** The library opens its blocking connection by itself; `close` must be able to end it. */
  private open(address: RedisAddress): RedisClient {
    const client =
      address.kind === 'cluster'
        ? openCluster(address)
        : new Redis({ ...redisAddresses.serverOptions(address), ...patient });
    const { copies } = this;
    const original = client.duplicate.bind(client) as (...args: readonly unknown[]) => RedisClient;
    const duplicate = (...args: readonly unknown[]): RedisClient => {
      const copy = original(...args);
      copies.push(copy);
      return copy;
    };
    return Object.assign(client, { duplicate });
  }

  /** Returns what ends it. */
  private listen(client: Redis, address: RedisAddress): () => void {
    client.on('ready', () => this.up());
    // Only the message: the error of a refused login carries the password.
    client.on('error', (error: Error) => this.note(error));
    client.on('close', () => this.down());
    return primaries.watchFailover(address, client);
  }

  private listenToCluster(client: Cluster): () => void {
    client.on('+node', (node: Redis) => node.on('ready', () => this.ready && this.up()));
    client.on('node error', (error: Error) => this.note(error));
    client.on('error', (error: Error) => this.note(error));
    client.on('-node', () => this.ready || this.down());
    client.on('refresh', () => this.ready && this.report.reason !== undefined && this.up());
    return primaries.keep(client, this.clock, () => this.ready);
  }

  private note(error: Error): void {
    this.lastError = error.message === '' ? error.name : error.message;
    if (!this.ready && !this.closing) this.report.begin(this.lastError);
  }

  private up(): void {
    this.lastError = '';
    this.report.end();
    for (const run of this.onReady) run();
  }

  private down(): void {
    if (!this.closing)
      this.report.begin(this.lastError === '' ? 'the connection was closed' : this.lastError);
  }
}

/** Commands wait for a connection, and are sent again after a lost one. */
const patient = { maxRetriesPerRequest: null };

function openCluster(address: RedisAddress): Cluster {
  const { nodes, options } = redisAddresses.clusterOptions(address, patient);
  return new Cluster(nodes, options);
}

/** The server of a cluster that keeps jobs; undefined while it is not known. */
function serverOfJobs(cluster: Cluster): Redis | undefined {
  const key = cluster.slots[slotOfJobs]?.[0];
  return cluster.nodes('master').find((client) => primaries.keyOf(client) === key);
}

function unavailable(reason: string): GatewayError {
  return new GatewayError('store_unavailable', `The Redis server that keeps jobs cannot be used: ${reason}.`);
}

const longestReason = 300;
const maxGivenUp = 1000;
const atOnce = 4;
/** Upper bound of a job's restarts after the death of its process; other processes take over its jobs. */
const maxStalls = 5;
const tryAgainMs = 1000;
const queueName = 'queue';

/** Exists while a completed job must not be repeated. */
function doneKey(id: string): string {
  return `${prefix}:${queueName}:done:${base64url(id)}`;
}

/** Ids may hold characters that the library reserves. */
function base64url(id: string): string {
  return Buffer.from(id).toString('base64url');
}

/** Dependencies and options. */
interface BullmqJobsOptions extends JobConnectionOptions {
  /** Delay after the first failed attempt. Default 1,000 ms. */
  readonly firstWaitMs?: number;
  /** Time without a sign of life after which a job moves to another process. Default 30,000 ms. */
  readonly lockMs?: number;
  /** Upper bound of waiting jobs. Default 10,000. */
  readonly maxWaiting?: number;
}

/** Jobs that several gateways share. */
interface SharedJobs extends Jobs {
  /** Rejects when the server does not answer. */
  ping(): Promise<void>;
}

/** Stored data of a job: its own id may hold characters that the library reserves. */
interface Envelope {
  readonly id: string;
  readonly data: unknown;
}

/** Jobs on a Redis server, which may still be unavailable. Throws for an unusable address. */
export function openBullmqJobs(options: BullmqJobsOptions): SharedJobs {
  return new BullmqJobs(options);
}

class BullmqJobs implements SharedJobs {
  private readonly options: BullmqJobsOptions;
  private readonly registry: JobRegistry;
  private readonly connection: JobConnection;
  private readonly queue: Queue<Envelope>;
  private readonly running = new Set<Promise<void>>();
  private worker: Worker<Envelope> | undefined;
  private cancelTry: (() => void) | undefined;
  private closed = false;

  constructor(options: BullmqJobsOptions) {
    this.options = options;
    this.registry = new JobRegistry(options);
    this.connection = new JobConnection(options);
    this.queue = new Queue(queueName, { connection: this.connection.client, prefix });
    this.queue.on('error', (error) => this.connection.failed(error));
  }

  define<T>(definition: JobDefinition<T>): void {
    this.registry.define(definition);
  }

  repeat(job: RepeatedJob): void {
    this.registry.repeat(job);
  }

  start(): Promise<void> {
    this.registry.seal();
    const { lockMs = 30_000 } = this.options;
    const worker = new Worker<Envelope>(queueName, (job, token) => this.process(job, token), {
      connection: this.connection.client,
      prefix,
      concurrency: atOnce,
      lockDuration: lockMs,
      stalledInterval: lockMs,
      maxStalledCount: maxStalls,
      runRetryDelay: tryAgainMs,
      settings: {
        backoffStrategy: (failed, _type, _error, job) => this.registry.waitMs(job?.name ?? '', failed),
      },
    });
    worker.on('error', (error) => this.connection.failed(error));
    this.worker = worker;
    // A restarted server may have lost its data.
    this.connection.whenReady(() => void this.schedule());
    return Promise.resolve();
  }

  async add<T>(
    name: string,
    id: string,
    data: T,
    { delayMs = 0 }: { readonly delayMs?: number } = {},
  ): Promise<void> {
    this.registry.check(name, id, data);
    if (this.closed) throw new GatewayError('shutting_down', 'The gateway stops and takes no more jobs.');
    const jobId = `job-${base64url(id)}`;
    await this.connection.ask(async () => {
      const known = await this.queue.getJob(jobId);
      if (known !== undefined && known.finishedOn === undefined) return;
      // A permanently failed job starts again.
      if (known !== undefined) await known.remove();
      // After the job itself: it exists until this marks it as completed.
      const once = this.registry.onceForMs(name) > 0;
      if (once && (await this.connection.client.exists(doneKey(id))) > 0) return;
      const { waiting } = await this.count();
      const { maxWaiting = 10_000 } = this.options;
      if (waiting >= maxWaiting)
        throw new GatewayError(
          'too_many_jobs',
          `${maxWaiting} jobs wait already; try again when some are done.`,
        );
      await this.queue.add(
        name,
        { id, data },
        { ...this.jobOptions(name), jobId, delay: Math.max(0, delayMs) },
      );
    });
  }

  counts(): ReturnType<Jobs['counts']> {
    return this.connection.ask(() => this.count());
  }

  async ping(): Promise<void> {
    await this.connection.ask(() => this.connection.client.ping());
  }

  runs(): ReturnType<Jobs['runs']> {
    return this.registry.runs();
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    this.cancelTry?.();
    const closing = this.worker?.close();
    closing?.catch((error: unknown) => this.connection.failed(error));
    // Without the server the library would wait for it.
    const graceful = this.connection.ready ? closing : undefined;
    await this.registry.stop(graceful ?? Promise.all(this.running));
    void this.queue.close().catch((error: unknown) => this.connection.failed(error));
    this.connection.close();
  }

  private async process(job: Job<Envelope>, token: string | undefined): Promise<void> {
    const { name, attemptsMade, opts } = job;
    // A repeated job has no envelope of its own: its id identifies the run.
    const { id = job.id ?? name, data = {} } = job.data as Partial<Envelope>;
    const attempt = this.registry.attempt({
      name,
      id,
      data,
      attempt: attemptsMade + 1,
      attempts: opts.attempts,
    });
    const run: Promise<void> = attempt.then(() => void this.running.delete(run));
    this.running.add(run);
    const { outcome, error } = await attempt;
    if (outcome === 'done') {
      const onceForMs = this.registry.onceForMs(name);
      if (onceForMs > 0) await this.connection.client.set(doneKey(id), '1', 'PX', onceForMs);
      return;
    }
    if (outcome === 'interrupted' && token !== undefined) {
      // Back to the queue, without counting as an attempt.
      await job.moveToWait(token);
      throw new WaitingError();
    }
    // The reason is stored with the job.
    throw new Error(error?.message.slice(0, longestReason));
  }

  private async count(): ReturnType<Jobs['counts']> {
    const counts = await this.queue.getJobCounts('wait', 'prioritized', 'delayed', 'active', 'failed');
    const of = (state: string): number => counts[state] ?? 0;
    return {
      waiting: of('wait') + of('prioritized') + of('delayed'),
      running: of('active'),
      failed: of('failed'),
    };
  }

  /** Schedules repeated jobs. A job that is already scheduled keeps its time, even a past one. */
  private async schedule(): Promise<void> {
    this.cancelTry?.();
    if (this.closed) return;
    try {
      for (const { name, everyMs } of this.registry.repeated) {
        const template = { name, opts: this.jobOptions(name) };
        await this.connection.ask(() => this.queue.upsertJobScheduler(name, { every: everyMs }, template));
      }
    } catch {
      // `ask` has logged the reason.
      this.cancelTry = this.options.clock.after(tryAgainMs, () => void this.schedule());
    }
  }

  private jobOptions(name: string): JobsOptions {
    return {
      attempts: this.registry.attemptsOf(name),
      backoff: { type: 'custom' },
      removeOnComplete: true,
      removeOnFail: { count: maxGivenUp },
      stackTraceLimit: 0,
    };
  }
}
