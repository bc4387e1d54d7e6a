import { Redis, type RedisOptions } from 'ioredis';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import { OutageReport } from './outage-report.ts';
import { parseRedisUrl } from './redis-address.ts';
import { isReplyError } from './reply-error.ts';
import { serverOptions } from './server-options.ts';

const budgetMs = 2000;

/** What `JobConnection` needs. */
export interface JobConnectionOptions {
  /** `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://` for TLS. */
  readonly url: string;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics?: Metrics | undefined;
}

/**
 * Connections of their own for jobs: their client sends again what was under way when a connection broke, and blocks
 * one connection while it waits for work, neither of which limits and cached answers could bear.
 */
export class JobConnection {
  readonly client: Redis;
  private readonly clock: Clock;
  private readonly report: OutageReport;
  private readonly copies: Redis[] = [];
  private closing = false;

  /** Throws for an unusable address. */
  constructor({ url, log, clock, metrics }: JobConnectionOptions) {
    const address = parseRedisUrl(url);
    this.clock = clock;
    this.report = new OutageReport({
      ...{ log, clock, metrics, label: address.label, stores: 'jobs' },
      consequence: 'No jobs are taken or begun until it is back.',
    });
    const { copies } = this;
    // The library makes its blocking connection by itself; whoever closes must be able to end it.
    class Original extends Redis {
      override duplicate(overrides?: Partial<RedisOptions>): Redis {
        const copy = super.duplicate(overrides);
        copies.push(copy);
        return copy;
      }
    }
    this.client = new Original({ ...serverOptions(address), maxRetriesPerRequest: null });
    this.listen();
  }

  /** True while the server can be asked. */
  get ready(): boolean {
    return this.client.status === 'ready';
  }

  /** Asks the server. Rejects with `store_unavailable` when it is away, refuses, or takes longer than 2 s. */
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
      throw unavailable(error instanceof Error ? error.message : String(error));
    } finally {
      cancel();
    }
  }

  /** Something that nobody waits for failed. What comes of the connection itself is told as an outage. */
  failed(error: unknown): void {
    if (this.closing || !this.ready || !(error instanceof Error)) return;
    if (isReplyError(error)) this.report.replyError(error.message);
  }

  /** Ends every connection for good. */
  close(): void {
    this.closing = true;
    for (const client of [this.client, ...this.copies]) client.disconnect();
  }

  private listen(): void {
    let lastError = '';
    this.client.on('ready', () => {
      lastError = '';
      this.report.end();
    });
    // Only the message: the error of a refused login carries the password.
    this.client.on('error', (error: Error) => {
      lastError = error.message === '' ? error.name : error.message;
      if (!this.ready && !this.closing) this.report.begin(lastError);
    });
    this.client.on('close', () => {
      if (!this.closing) this.report.begin(lastError === '' ? 'the connection was closed' : lastError);
    });
  }
}

function unavailable(reason: string): GatewayError {
  return new GatewayError('store_unavailable', `The Redis server that keeps jobs cannot be used: ${reason}.`);
}
