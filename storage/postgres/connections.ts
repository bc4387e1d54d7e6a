import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { driverError, isAnswer, reasonOf, storeError, unavailable } from './database-errors.ts';
import type { Statements } from './database.ts';
import { randomInt } from 'node:crypto';

/** Options of `ChangeListener`. */
interface ChangeListenerOptions {
  /** A server to LISTEN on; undefined when only this process writes. */
  readonly connection: pg.ClientConfig | undefined;
  readonly log: Log;
  readonly clock: Clock;
}

const firstRetryMs = 250;
const longestRetryMs = 10_000;

/** Subscribers by channel, and the connection that receives notifications of other processes. */
export class ChangeListener {
  readonly #options: ChangeListenerOptions;
  readonly #looks = new Map<string, Set<() => void>>();
  #client: pg.Client | undefined;
  #listening = false;
  #closed = false;
  #failures = 0;
  #cancelRetry: () => void = () => undefined;

  constructor(options: ChangeListenerOptions) {
    this.#options = options;
  }

  /** Calls `look` for every notification of the channel, and whenever some may have been missed. */
  listen(channel: string, look: () => void): () => void {
    let looks = this.#looks.get(channel);
    if (looks === undefined) {
      looks = new Set();
      this.#looks.set(channel, looks);
      if (this.#client === undefined) void this.#connect();
      else if (this.#listening) this.#subscribe(this.#client, channel).catch(() => this.#client?.end());
    }
    looks.add(look);
    return () => looks.delete(look);
  }

  /** Notifies the subscribers in this process. */
  tell(channel: string): void {
    for (const look of this.#looks.get(channel) ?? []) look();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelRetry();
    this.#looks.clear();
    await this.#client?.end().catch(() => undefined);
  }

  async #connect(): Promise<void> {
    const { connection, log } = this.#options;
    if (connection === undefined || this.#closed) return;
    const client = new pg.Client(connection);
    this.#client = client;
    let reason = 'the connection was closed';
    client.on('error', (error) => {
      reason = reasonOf(error);
    });
    client.once('end', () => this.#retry(client, reason));
    client.on('notification', ({ channel }) => this.tell(channel));
    try {
      await client.connect();
      for (const channel of this.#looks.keys()) await this.#subscribe(client, channel);
    } catch (error) {
      reason = error instanceof Error ? reasonOf(error) : reason;
      await client.end().catch(() => undefined);
      return this.#retry(client, reason);
    }
    this.#listening = true;
    if (this.#failures > 0) log.info('Changes of other gateways are heard of at once again');
    this.#failures = 0;
    // Notifications before this moment were missed.
    for (const channel of this.#looks.keys()) this.tell(channel);
  }

  async #subscribe(client: pg.Client, channel: string): Promise<void> {
    await client.query(`LISTEN ${client.escapeIdentifier(channel)}`);
  }

  #retry(client: pg.Client, reason: string): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = undefined;
    this.#listening = false;
    const { clock, log } = this.#options;
    if (this.#failures === 0)
      log.warn('Changes of other gateways are heard of late: no connection that listens', { reason });
    const most = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(this.#failures, 10));
    this.#failures += 1;
    // Between half of it and all of it, so that many gateways do not return at the same moment.
    this.#cancelRetry = clock.after((most * randomInt(500, 1001)) / 1000, () => void this.#connect());
  }
}

/** Options of `Connections`. */
interface ConnectionsOptions {
  readonly settings: pg.PoolConfig;
  readonly log: Log;
  readonly clock: Clock;
  /** Milliseconds during which a refused connection is retried: the embedded engine is being replaced. */
  readonly patienceMs: number;
  /** Called when the other side accepts a connection or a statement and does not answer. */
  onStuck(): void;
}

/** Progress of one use of a connection. */
export interface Progress {
  /** True once a commit has been sent: if the connection is then lost, the outcome is unknown. */
  committing: boolean;
}

const longestUseMs = 30_000;
const retryMs = 50;
/** Upper bound of callers that wait for a connection; more are refused at once. */
const maxWaiting = 1000;
const notThere = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET']);

/** Connections to one database, opened on demand and reused. A failure is a `GatewayError`. */
export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #pool: pg.Pool;
  readonly #statements = new WeakMap<pg.PoolClient, Statements>();

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#pool = new pg.Pool(options.settings);
    // A lost idle connection; the pool opens another one on demand.
    this.#pool.on('error', (error) =>
      options.log.warn('A connection to the resources store was lost', { reason: reasonOf(error) }),
    );
  }

  /** True while a connection is in use or requested. */
  get isBusy(): boolean {
    return this.#pool.idleCount < this.#pool.totalCount || this.#pool.waitingCount > 0;
  }

  /** Runs `work` on a connection of its own, for at most 30 seconds. */
  async use<T>(work: (statements: Statements, progress: Progress) => Promise<T>): Promise<T> {
    const client = await this.#checkOut();
    const progress: Progress = { committing: false };
    let broken: Error | undefined;
    const onError = (error: Error): void => {
      broken = error;
    };
    // Without a listener the loss of a connection would end the process.
    client.on('error', onError);
    try {
      // A statement runs each time its result is awaited, hence one promise for all readers.
      const running = Promise.resolve(work(this.#statementsOf(client), progress));
      return await this.#withinTime(running, () => {
        broken = new Error('cut off');
      });
    } catch (error) {
      const cause = driverError(error);
      if (cause === undefined) throw error;
      if (!isAnswer(cause)) broken = cause;
      if (isTimeout(cause)) this.#options.onStuck();
      throw storeError(cause, progress.committing);
    } finally {
      client.off('error', onError);
      client.release(broken);
    }
  }

  /** Refuses new uses, waits for running ones, and closes the connections. */
  async close(): Promise<void> {
    await this.#pool.end();
  }

  async #checkOut(): Promise<pg.PoolClient> {
    const { clock, patienceMs, onStuck } = this.#options;
    if (this.#pool.ending) throw unavailable('the gateway is stopping');
    if (this.#pool.waitingCount >= maxWaiting) throw unavailable('too many callers wait for it');
    const deadline = clock.monotonic() + patienceMs;
    for (;;) {
      try {
        return await this.#pool.connect();
      } catch (error) {
        const cause = error instanceof Error ? error : new Error(String(error));
        const code = 'code' in cause ? String(cause.code) : '';
        if (!notThere.has(code) || clock.monotonic() >= deadline) {
          // A full pool reports `timeout exceeded`; this message means an unanswered handshake.
          if (cause.message.startsWith('Connection terminated due to')) onStuck();
          throw storeError(cause);
        }
      }
      await new Promise<void>((resolve) => clock.after(retryMs, resolve));
    }
  }

  #statementsOf(client: pg.PoolClient): Statements {
    let statements = this.#statements.get(client);
    if (statements === undefined) {
      statements = drizzle({ client });
      this.#statements.set(client, statements);
    }
    return statements;
  }

  /** Also ends work that hangs outside the database: a caller that never returns must not keep a connection. */
  async #withinTime<T>(work: Promise<T>, onLate: () => void): Promise<T> {
    let cancel: (() => void) | undefined;
    const late = new Promise<never>((_, reject) => {
      cancel = this.#options.clock.after(longestUseMs, () => {
        onLate();
        reject(unavailable(`what was to be done took longer than ${longestUseMs / 1000} seconds`));
      });
    });
    try {
      return await Promise.race([work, late]);
    } finally {
      cancel?.();
      work.catch(() => undefined);
    }
  }
}

function isTimeout(error: Error): boolean {
  return error.message === 'Query read timeout';
}
