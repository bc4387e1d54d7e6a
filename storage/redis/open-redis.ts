import type { Redis } from 'ioredis';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import { CircuitBreaker, OutageReport, type TimedCall, TimedCalls, type Waiter } from './timed-calls.ts';
import {
  BatchingRedis,
  type EncodedCommand,
  isReplyError,
  type RedisReply,
  sendEncoded,
} from './encoded-command.ts';
import {
  defaultBudgetMs,
  handshakeMs,
  parseRedisUrl,
  type RedisAddress,
  type RedisCallOptions,
  type RedisConnection,
  type ReplyHandling,
  serverOptions,
} from './redis-connection.ts';

/** Longest wait of opening for the server; after that the gateway starts without it. */
const firstContactMs = 1000;
const deadAfterMs = 2000;
const closingMs = 1000;
const maxPending = 10_000;
/** A single slow answer is not an outage. */
const missesInARow = 3;

/** Dependencies and options of `openRedis`. */
interface RedisOptions {
  /** `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://` for TLS. */
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
 * Opens the connection to a Redis server, which may be unavailable: connecting is retried without limit, with delays of
 * 50 ms to 2 s. Resolves when the server has answered, or after a second without an answer. Rejects only for an
 * unusable address.
 */
export async function openRedis(options: RedisOptions): Promise<RedisConnection> {
  const connection = new OwnedConnection(options, parseRedisUrl(options.url));
  await connection.firstContact();
  return connection;
}

class OwnedConnection implements RedisConnection {
  readonly budgetMs: number;
  private readonly clock: Clock;
  private readonly client: Redis;
  private readonly breaker: CircuitBreaker;
  private readonly calls: TimedCalls;
  /** Separate: a late probe is neither a miss nor a failed call. */
  private readonly probes: TimedCalls;
  private readonly report: OutageReport;
  private ready = false;
  private connections = 0;
  private closing = false;
  private cancelHandshake: (() => void) | undefined;

  constructor(options: RedisOptions, address: RedisAddress) {
    const { log, clock, metrics, stores = 'counters and cache', budgetMs = defaultBudgetMs } = options;
    this.clock = clock;
    this.budgetMs = budgetMs;
    this.report = new OutageReport({ log, clock, metrics, label: address.label, stores });
    this.client = createClient(address);
    this.breaker = new CircuitBreaker({
      clock,
      deadAfterMs,
      misses: missesInARow,
      probe: () => this.probe(),
      onOpen: () => this.report.begin(`no answer within ${budgetMs} ms, ${missesInARow} times in a row`),
      onClose: () => this.update(),
      onDead: () => this.client.disconnect(true),
    });
    this.calls = new TimedCalls({
      clock,
      maxPending,
      onTimeout: (begunAt) => this.breaker.miss(begunAt),
      onAnswer: () => this.breaker.hit(),
      onFailure: (error) => {
        if (!isReplyError(error)) return this.report.countFailed('slow');
        this.breaker.hit();
        this.report.replyError(error.message);
      },
    });
    this.probes = new TimedCalls({
      clock,
      maxPending: 1,
      onTimeout: ignoreLateError,
      onAnswer: ignoreLateError,
      onFailure: ignoreLateError,
    });
    this.listen();
  }

  get available(): boolean {
    return this.ready && !this.breaker.isOpen;
  }

  get session(): number | undefined {
    return this.ready ? this.connections : undefined;
  }

  call<Reply>(send: (client: Redis) => Promise<Reply>, options: RedisCallOptions = {}): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const call = this.begin<Reply>(options, { answered: resolve, failed: reject, late: ignoreLateError });
      if (call === undefined) return;
      send(this.client).then(
        (reply) => call.answer(reply),
        (error: unknown) => call.fail(error instanceof Error ? error : new Error(String(error))),
      );
    });
  }

  send<Result>(command: EncodedCommand, handling: ReplyHandling<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      const call = this.begin(handling, new Reading(handling, resolve, reject));
      if (call !== undefined) sendEncoded(this.client, command, call);
    });
  }

  async ping(): Promise<void> {
    await this.call((client) => client.ping());
  }

  async close(): Promise<void> {
    this.closing = true;
    this.ready = false;
    this.breaker.end();
    this.calls.close();
    this.probes.close();
    this.cancelHandshake?.();
    const { status } = this.client;
    if (status === 'end') return;
    // Between two attempts there is no connection to end.
    if (status === 'reconnecting') return this.client.disconnect();
    await new Promise<void>((resolve) => {
      const cancel = this.clock.after(closingMs, resolve);
      this.client.once('end', () => {
        cancel();
        resolve();
      });
      this.client.disconnect();
    });
  }

  /** Resolves when the server is usable, or after a second without it. */
  async firstContact(): Promise<void> {
    await new Promise<void>((resolve) => {
      const cancel = this.clock.after(firstContactMs, resolve);
      this.client.once('ready', () => {
        cancel();
        resolve();
      });
    });
    if (!this.ready && this.report.reason === undefined)
      this.report.begin(`no connection within ${firstContactMs} ms`);
  }

  /** Undefined for a call that has already failed. */
  private begin<Reply>(
    { budgetMs = this.budgetMs, unhurried = false }: RedisCallOptions,
    waiter: Waiter<Reply>,
  ): TimedCall<Reply> | undefined {
    if (!this.ready || (this.breaker.isOpen && !unhurried)) {
      this.report.countFailed('away');
      waiter.failed(new Error(this.report.reason ?? 'not connected'));
      return undefined;
    }
    return this.calls.begin(budgetMs, waiter);
  }

  private listen(): void {
    const { client } = this;
    let lastError = '';
    client.on('connect', () => {
      // A server that hangs still accepts connections, but does not answer.
      this.cancelHandshake = this.clock.after(handshakeMs, () => {
        lastError = 'it takes connections and answers nothing';
        client.disconnect(true);
      });
    });
    client.on('ready', () => {
      this.cancelHandshake?.();
      this.ready = true;
      this.connections += 1;
      lastError = '';
      this.breaker.probeNow();
      this.update();
    });
    // Only the message: the error of a refused login carries the password.
    client.on('error', (error: Error) => {
      lastError = error.message === '' ? error.name : error.message;
      if (!this.ready && !this.closing) this.report.begin(lastError);
    });
    client.on('close', () => {
      this.cancelHandshake?.();
      this.ready = false;
      if (!this.closing) this.report.begin(lastError === '' ? 'the connection was closed' : lastError);
    });
  }

  /** True within the timeout of a call. */
  private probe(): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const inTime = this.probes.begin<string>(this.budgetMs, {
        answered: () => resolve(true),
        failed: ignoreLateError,
        late: () => resolve(false),
      });
      this.client.ping().then(
        (reply) => (inTime === undefined ? resolve(false) : inTime.answer(reply)),
        (error: unknown) => {
          const reason = error instanceof Error ? error : new Error(String(error));
          inTime?.fail(reason);
          reject(reason);
        },
      );
    });
  }

  private update(): void {
    if (this.available) this.report.end();
  }
}

/** Settles a promise with the handling's result for an answer. */
class Reading<Result> implements Waiter<RedisReply> {
  private readonly handling: ReplyHandling<Result>;
  private readonly resolve: (result: Result | Promise<Result>) => void;
  private readonly reject: (error: unknown) => void;

  constructor(
    handling: ReplyHandling<Result>,
    resolve: (result: Result | Promise<Result>) => void,
    reject: (error: unknown) => void,
  ) {
    this.handling = handling;
    this.resolve = resolve;
    this.reject = reject;
  }

  answered(reply: RedisReply): void {
    try {
      this.resolve(this.handling.read(reply));
    } catch (error) {
      this.reject(error);
    }
  }

  failed(error: Error): void {
    try {
      this.resolve(this.handling.without(error));
    } catch (thrown) {
      this.reject(thrown);
    }
  }

  late(reply: RedisReply): void {
    this.handling.late?.(reply);
  }
}

function ignoreLateError(): void {
  // It has timed out.
}

function createClient(address: RedisAddress): Redis {
  return new BatchingRedis({
    ...serverOptions(address),
    // A command that cannot be sent now is decided without the server, and a sent one is never repeated.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  });
}
