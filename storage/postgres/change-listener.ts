import { randomInt } from 'node:crypto';
import pg from 'pg';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { reasonOf } from './database-errors.ts';

/** What `ChangeListener` needs. */
export interface ChangeListenerOptions {
  /** A server to LISTEN on; undefined when this process is the only one that writes. */
  readonly connection: pg.ClientConfig | undefined;
  readonly log: Log;
  readonly clock: Clock;
}

const firstRetryMs = 250;
const longestRetryMs = 10_000;

/** Who wants to hear of which channel, and the connection that hears what other processes say. */
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

  /** Tells those of this process. */
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
    // What happened before this moment was not heard.
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
    // Between half of it and all of it, so that many gateways do not come back at the same moment.
    this.#cancelRetry = clock.after((most * randomInt(500, 1001)) / 1000, () => void this.#connect());
  }
}
