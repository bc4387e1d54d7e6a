import { randomInt } from 'node:crypto';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { ResourcesStartError, type Database, type Statements, type TransactionOptions } from './database.ts';

/** Dependencies of waiting for a server. */
interface WaitingDatabaseParts {
  /** Address of the server, without credentials. */
  readonly label: string;
  /** One attempt; throws a `ResourcesStartError` when the store cannot be opened. Called again until it succeeds. */
  open(): Promise<Database>;
  readonly clock: Clock;
  readonly log: Log;
  /**
   * Longest wait of the start for a running attempt, milliseconds: another gateway may be migrating the schema. Default
   * and minimum 5,000.
   */
  readonly openingPatienceMs?: number | undefined;
}

/** Longest wait of the start for an unavailable server. */
const startPatienceMs = 5000;
const startRetryMs = 500;
const firstRetryMs = 1000;
const longestRetryMs = 30_000;
const meanwhile =
  "Meanwhile requests are served with the owner's key, those of the configuration and those of the last snapshot, nothing can be administered, and it is tried again.";

/**
 * Opens the store of a server that may be unavailable. Resolves when it is open, or after five seconds: then everything
 * is refused with `store_unavailable` and a sentence that names the place, and opening is retried (1 s, doubling up to
 * 30 s) until it succeeds. Throws a `ResourcesStartError` when waiting would not help; found later, that is logged as
 * an error, and retried every 30 s.
 */
export async function openDatabaseWhenReachable(parts: WaitingDatabaseParts): Promise<Database> {
  const waiting = new WaitingDatabase(parts);
  await waiting.start();
  return waiting;
}

interface Subscription {
  readonly channel: string;
  readonly look: () => void;
  /** Ends the subscription at the open store; undefined before. */
  stop: (() => void) | undefined;
}

class WaitingDatabase implements Database {
  readonly embedded = false;
  readonly #parts: WaitingDatabaseParts;
  readonly #subscriptions = new Set<Subscription>();
  #database: Database | undefined;
  /** Reason of all refusals. */
  #sentence: string;
  /** The last logged state: the server is unavailable, or needs a repair. */
  #told: string | undefined;
  #isStarting = true;
  #hasFailed = false;
  #isLasting = false;
  #pauses = 0;
  #closed = false;
  #cancelPause: () => void = () => undefined;

  constructor(parts: WaitingDatabaseParts) {
    this.#parts = parts;
    this.#sentence = `The resources store (${parts.label}) is not open yet: it has not answered, or its schema is being brought up to date. ${meanwhile}`;
  }

  async start(): Promise<void> {
    const { openingPatienceMs = startPatienceMs } = this.#parts;
    // The clock's timers do not keep the process alive, and nothing else may while the server is unavailable.
    const alive = setInterval(() => undefined, startPatienceMs);
    const opening = this.#untilOpen();
    try {
      await this.#within(startPatienceMs, opening);
      if (this.#database === undefined && !this.#hasFailed)
        await this.#within(openingPatienceMs - startPatienceMs, opening);
    } finally {
      this.#isStarting = false;
      clearInterval(alive);
    }
    if (this.#database === undefined) this.#tellAway();
  }

  /** Waits at most this long for the store to open. */
  async #within(ms: number, opening: Promise<void>): Promise<void> {
    let cancel: () => void = () => undefined;
    const late = new Promise<void>((resolve) => {
      cancel = this.#parts.clock.after(ms, resolve);
    });
    try {
      await Promise.race([opening, late]);
    } finally {
      cancel();
    }
  }

  get isBusy(): boolean {
    return this.#database?.isBusy ?? false;
  }

  query<T>(work: (statements: Statements) => Promise<T>): Promise<T> {
    return this.#database?.query(work) ?? this.#refuse();
  }

  transaction<T>(work: (statements: Statements) => Promise<T>, options?: TransactionOptions): Promise<T> {
    return this.#database?.transaction(work, options) ?? this.#refuse();
  }

  /** A subscription made before the server is available is notified when it is. */
  listen(channel: string, look: () => void): () => void {
    if (this.#database !== undefined) return this.#database.listen(channel, look);
    const subscription: Subscription = { channel, look, stop: undefined };
    this.#subscriptions.add(subscription);
    return () => {
      this.#subscriptions.delete(subscription);
      subscription.stop?.();
    };
  }

  ping(): Promise<void> {
    return this.#database?.ping() ?? this.#refuse();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#sentence = 'The resources store is not available: the gateway is stopping.';
    this.#cancelPause();
    this.#subscriptions.clear();
    await this.#database?.close();
  }

  /** Rejects only during the gateway's start, with an error that waiting would not solve. */
  async #untilOpen(): Promise<void> {
    while (!(await this.#attempt()) && !this.#closed) {
      const ms = this.#pauseMs();
      await new Promise<void>((resolve) => {
        this.#cancelPause = this.#parts.clock.after(ms, resolve);
      });
    }
  }

  /** True when the store is open. */
  async #attempt(): Promise<boolean> {
    let database: Database;
    try {
      database = await this.#parts.open();
    } catch (error) {
      this.#failed(error);
      return false;
    }
    // No caller waits for it any more.
    if (this.#closed) await database.close().catch(() => undefined);
    else this.#use(database);
    return true;
  }

  #use(database: Database): void {
    this.#database = database;
    if (this.#told !== undefined)
      this.#parts.log.info(`The resources store (${this.#parts.label}) answers now; everything works again`);
    for (const subscription of this.#subscriptions) {
      subscription.stop = database.listen(subscription.channel, subscription.look);
      subscription.look();
    }
    this.#subscriptions.clear();
  }

  #failed(error: unknown): void {
    if (this.#closed) return;
    this.#hasFailed = true;
    this.#isLasting = !(error instanceof ResourcesStartError) || error.lasting;
    if (this.#isLasting && this.#isStarting) throw error;
    const { label } = this.#parts;
    const reason =
      error instanceof ResourcesStartError
        ? `${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}`
        : `The resources store (${label}) cannot be opened, for a reason that the log tells.`;
    this.#sentence = `${reason} ${meanwhile}`;
    if (this.#isStarting) return;
    if (!this.#isLasting) return this.#tellAway();
    // Once: a server that is unavailable for a night must not fill the log.
    if (this.#told !== reason)
      this.#parts.log.error(this.#sentence, error instanceof ResourcesStartError ? undefined : { error });
    this.#told = reason;
  }

  #tellAway(): void {
    if (this.#told !== 'away') this.#parts.log.warn(this.#sentence);
    this.#told = 'away';
  }

  #pauseMs(): number {
    if (this.#isStarting) return startRetryMs;
    const most = this.#isLasting
      ? longestRetryMs
      : Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(this.#pauses, 10));
    this.#pauses += 1;
    // Between half of it and all of it, so that many gateways do not return at the same moment.
    return (most * randomInt(500, 1001)) / 1000;
  }

  #refuse(): Promise<never> {
    return Promise.reject(new GatewayError('store_unavailable', this.#sentence));
  }
}
