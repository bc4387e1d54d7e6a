import { Redis } from 'ioredis';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import { batchWrites, type EncodedCommand, type RedisClient } from './encoded-command.ts';
import { parseRedisUrl, type RedisAddress, serverOptions } from './redis-address.ts';
import { ClusterConnection } from './redis-cluster.ts';
import type { KeyedCallOptions, RedisConnection, ReplyHandling } from './redis-connection.ts';
import { endClient, RedisNode } from './redis-node.ts';
import { OutageReport } from './timed-calls.ts';
import { watchFailover } from './watch-failover.ts';

/** Default timeout of a call in milliseconds. */
const defaultBudgetMs = 50;
/** Longest wait of opening for the server; after that the gateway starts without it. */
const firstContactMs = 1000;

/** Dependencies and options of `openRedis`. */
interface RedisOptions {
  /** See `parseRedisUrl`: a server, a cluster, or sentinels and the name of a primary. */
  readonly url: string;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics?: Metrics;
  /** Stored data, named in logs and metrics. Default `counters and cache`. */
  readonly stores?: string;
  /** Timeout of a call in milliseconds. Default 50. */
  readonly budgetMs?: number | undefined;
}

/**
 * Opens the connection to a Redis server or cluster, which may be unavailable: connecting is retried without limit, with
 * delays of 50 ms to 2 s. Resolves when all servers have answered, or after a second without that. Rejects only for an
 * unusable address.
 */
export async function openRedis(options: RedisOptions): Promise<RedisConnection> {
  const { clock, budgetMs = defaultBudgetMs } = options;
  const address = parseRedisUrl(options.url);
  const report = reportOf(options, address);
  const Kind = address.kind === 'cluster' ? ClusterConnection : OwnedConnection;
  const connection = new Kind({ address, clock, budgetMs, report });
  let cancel = (): void => undefined;
  const late = new Promise<'late'>((resolve) => {
    cancel = clock.after(firstContactMs, () => resolve('late'));
  });
  const first = await Promise.race([connection.connected, late]);
  cancel();
  if (first === 'late' && report.reason === undefined)
    report.begin(`no connection within ${firstContactMs} ms`);
  return connection;
}

function reportOf(
  { log, clock, metrics, stores = 'counters and cache' }: RedisOptions,
  { label, kind }: RedisAddress,
): OutageReport {
  const consequence =
    kind === 'cluster'
      ? 'For the keys of that server, limits follow their on_store_failure and caches miss until it is back.'
      : undefined;
  return new OutageReport({ log, clock, metrics, label, stores, consequence });
}

/** Dependencies and options. */
interface OwnedConnectionOptions {
  readonly address: RedisAddress;
  readonly clock: Clock;
  readonly budgetMs: number;
  readonly report: OutageReport;
}

/** One server, or the primary that sentinels name. */
class OwnedConnection implements RedisConnection {
  readonly budgetMs: number;
  /** Resolves when the server has answered for the first time. */
  readonly connected: Promise<void>;
  readonly #clock: Clock;
  readonly #node: RedisNode;
  readonly #endWatching: () => void;
  #connections = 0;

  constructor({ address, clock, budgetMs, report }: OwnedConnectionOptions) {
    this.budgetMs = budgetMs;
    this.#clock = clock;
    let tellConnected = (): void => undefined;
    this.connected = new Promise((resolve) => (tellConnected = resolve));
    this.#node = new RedisNode({
      client: createClient(address),
      clock,
      budgetMs,
      report,
      onReady: () => {
        this.#connections += 1;
        tellConnected();
      },
      onDown: (reason) => report.begin(reason),
      onUp: () => report.end(),
    });
    this.#endWatching = watchFailover(address, this.#node.client);
  }

  get available(): boolean {
    return this.#node.usable;
  }

  get session(): number | undefined {
    return this.#node.ready ? this.#connections : undefined;
  }

  isAvailableFor(): boolean {
    return this.available;
  }

  call<Reply>(send: (client: RedisClient) => Promise<Reply>, options: KeyedCallOptions = {}): Promise<Reply> {
    return this.#node.call(send, options);
  }

  send<Result>(command: EncodedCommand, handling: ReplyHandling<Result>): Promise<Result> {
    return this.#node.send(command, handling);
  }

  ping(): Promise<void> {
    return this.#node.ping();
  }

  async close(): Promise<void> {
    this.#endWatching();
    this.#node.close();
    await endClient(this.#node.client, this.#clock);
  }
}

function createClient(address: RedisAddress): Redis {
  return batchWrites(
    new Redis({
      ...serverOptions(address),
      // A command that cannot be sent now is decided without the server, and a sent one is never repeated.
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
    }),
  );
}
