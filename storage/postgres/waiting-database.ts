import { randomInt } from 'node:crypto';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { unavailable } from './database-errors.ts';
import type { Database, Statements, TransactionOptions } from './database.ts';
import { ResourcesStartError } from './start-error.ts';

/** What waiting for a server takes. */
export interface WaitingDatabaseParts {
  /** One attempt; throws a `ResourcesStartError` when the store cannot be opened. Called again until it succeeds. */
  open(): Promise<Database>;
  readonly clock: Clock;
  readonly log: Log;
}

/** So long the start waits for a server that is away. */
const startPatienceMs = 5000;
const startRetryMs = 500;
const firstRetryMs = 1000;
const longestRetryMs = 30_000;
const meanwhile =
  "Meanwhile requests are served with the owner's key and those of the configuration, nothing can be administered, and it is tried again.";

/**
 * Opens the store of a server that may be away. Resolves when it is open, or when it is not after five seconds: then
 * everything is refused with `store_unavailable` and a sentence that names the place, and it is tried again (1 s,
 * doubling up to 30 s) until it is open. Throws a `ResourcesStartError` when waiting would not help; found later, that
 * is an error in the log and tried again every 30 s.
 */
export async function openDatabaseWhenReachable(parts: WaitingDatabaseParts): Promise<Database> {
  const waiting = new WaitingDatabase(parts);
  await waiting.start();
  return waiting;
}

interface Subscription {
  readonly channel: string;
  readonly look: () => void;
  stop: () => void;
}

class WaitingDatabase implements Database {
  readonly embedded = false;
  readonly #parts: WaitingDatabaseParts;
  readonly #subscriptions = new Set<Subscription>();
  #database: Database | undefined;
  #sentence = 'The resources store has not answered yet.';
  #reported: string | undefined;
  #failures = 0;
  #isStarting = true;
  #closed = false;
  #cancelRetry: () => void = () => undefined;

  constructor(parts: WaitingDatabaseParts) {
    this.#parts = parts;
  }

  async start(): Promise<void> {
    const { clock } = this.#parts;
    // The clock's timers do not keep the process alive, and while the server is away nothing else may.
    const alive = setInterval(() => undefined, startPatienceMs);
    let cancel: () => void = () => undefined;
    const late = new Promise<void>((resolve) => {
      cancel = clock.after(startPatienceMs, resolve);
    });
    try {
      await Promise.race([this.#untilOpen(), late]);
    } catch (error) {
      this.#closed = true;
      throw error;
    } finally {
      this.#isStarting = false;
      cancel();
      clearInterval(alive);
    }
    if (this.#database === undefined) this.#tell('warn', this.#sentence);
  }

  query<T>(work: (statements: Statements) => Promise<T>): Promise<T> {
    return this.#database?.query(work) ?? this.#refuse();
  }

  transaction<T>(
    work: (statements: Statements) => Promise<T>,
    options?: TransactionOptions,
  ): Promise<T> {
    return this.#database?.transaction(work, options) ?? this.#refuse();
  }

  /** Whoever wants to listen before the server is there is told when it is. */
  listen(channel: string, look: () => void): () => void {
    if (this.#database !== undefined) return this.#database.listen(channel, look);
    const subscription: Subscription = { channel, look, stop: () => undefined };
    this.#subscriptions.add(subscription);
    return () => {
      this.#subscriptions.delete(subscription);
      subscription.stop();
    };
  }

  ping(): Promise<void> {
    return this.#database?.ping() ?? this.#refuse();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelRetry();
    this.#subscriptions.clear();
    await this.#database?.close();
  }

  /** Rejects only while the gateway starts, with what waiting would not mend. */
  async #untilOpen(): Promise<void> {
    while (!this.#closed && !(await this.#attempt())) {
      const ms = this.#pauseMs();
      await new Promise<void>((resolve) => {
        this.#cancelRetry = this.#parts.clock.after(ms, resolve);
      });
    }
  }
}
