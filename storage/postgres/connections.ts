import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { driverError, isAnswer, reasonOf, storeError, unavailable } from './database-errors.ts';
import type { Statements } from './database.ts';

/** What `Connections` needs. */
export interface ConnectionsOptions {
  readonly settings: pg.PoolConfig;
  readonly log: Log;
  readonly clock: Clock;
  /** Milliseconds during which a refused connection is tried again: the embedded engine is being replaced. */
  readonly patienceMs: number;
  /** Called when the other side takes a connection or a statement and answers nothing. */
  onStuck(): void;
}

/** What one use of a connection has reached. */
export interface Progress {
  /** Set once a commit has been sent: when the connection is lost then, nobody knows how it ended. */
  committing: boolean;
}

const longestUseMs = 30_000;
const retryMs = 50;
/** Callers that wait for a connection; more are refused at once. */
const mostWaiting = 1000;
const notThere = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET']);

/** Connections to one database, opened when they are needed and used again. What fails is a `GatewayError`. */
export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #pool: pg.Pool;
  readonly #statements = new WeakMap<pg.PoolClient, Statements>();

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#pool = new pg.Pool(options.settings);
    // An idle connection that is lost; the pool opens another one when it is needed.
    this.#pool.on('error', (error) =>
      options.log.warn('A connection to the resources store was lost', { reason: reasonOf(error) }),
    );
  }

  /** True while one is in use, or somebody waits for one. */
  get isBusy(): boolean {
    return this.#pool.idleCount < this.#pool.totalCount || this.#pool.waitingCount > 0;
  }

  /** Runs `work` on a connection that nobody else uses meanwhile, for 30 seconds at the most. */
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
      // A statement runs whenever somebody asks it for its result, hence one promise for all who ask.
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

  /** Refuses new uses, waits for those that run, and closes the connections. */
  async close(): Promise<void> {
    await this.#pool.end();
  }

  async #checkOut(): Promise<pg.PoolClient> {
    const { clock, patienceMs, onStuck } = this.#options;
    if (this.#pool.ending) throw unavailable('the gateway is stopping');
    if (this.#pool.waitingCount >= mostWaiting) throw unavailable('too many callers wait for it');
    const deadline = clock.monotonic() + patienceMs;
    for (;;) {
      try {
        return await this.#pool.connect();
      } catch (error) {
        const cause = error instanceof Error ? error : new Error(String(error));
        const code = 'code' in cause ? String(cause.code) : '';
        if (!notThere.has(code) || clock.monotonic() >= deadline) {
          // A full pool says `timeout exceeded`; this one means that a handshake went unanswered.
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

  /** Also ends what hangs outside of the database: a caller that never comes back must not keep a connection. */
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
