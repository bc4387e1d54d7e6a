import type { Redis } from 'ioredis';
import type { Clock } from '../../core/ports/clock.ts';
import {
  type EncodedCommand,
  encodedCommands,
  type RedisClient,
  type RedisReply,
} from './encoded-command.ts';
import { redisAddresses } from './redis-address.ts';
import type { RedisCallOptions, ReplyHandling } from './redis-connection.ts';
import { CircuitBreaker, type OutageReport, type TimedCall, TimedCalls, type Waiter } from './timed-calls.ts';

const deadAfterMs = 2000;
const maxPending = 10_000;
/** A single slow answer is not an outage. */
const missesInARow = 3;
const closingMs = 1000;

/** Dependencies and options of `RedisNode`. */
interface RedisNodeOptions {
  readonly client: Redis;
  readonly clock: Clock;
  /** Default timeout of a call in milliseconds. */
  readonly budgetMs: number;
  /** Counts failed calls, and reports error replies. */
  readonly report: Pick<OutageReport, 'countFailed' | 'replyError'>;
  /** True when calls wait for the first connection, within their timeout. Default false. */
  readonly joins?: boolean;
  onReady(): void;
  /** Called for each reason to treat it as away. */
  onDown(reason: string): void;
  /** Called when it may be usable again. */
  onUp(): void;
}

/** One server: its calls within their timeouts, and whether it answers in time. */
export class RedisNode {
  readonly client: Redis;
  ready = false;
  /** Reason why it is unusable; undefined while it is usable, or not connected for the first time. */
  reason: string | undefined;
  readonly #options: RedisNodeOptions;
  readonly #breaker: CircuitBreaker;
  readonly #calls: TimedCalls;
  /** Separate: a late probe is neither a miss nor a failed call. */
  readonly #probes: TimedCalls;
  #joins: boolean;
  #closing = false;
  #lastError = '';
  #cancelHandshake: (() => void) | undefined;

  constructor(options: RedisNodeOptions) {
    const { client, clock, budgetMs, report, joins = false } = options;
    this.#options = options;
    this.client = client;
    this.#joins = joins;
    this.#breaker = new CircuitBreaker({
      clock,
      deadAfterMs,
      misses: missesInARow,
      probe: () => this.#probe(),
      onOpen: () => this.#down(`no answer within ${budgetMs} ms, ${missesInARow} times in a row`),
      onClose: () => this.#up(),
      onDead: () => client.disconnect(true),
    });
    this.#calls = new TimedCalls({
      clock,
      maxPending,
      onTimeout: (begunAt) => this.#breaker.miss(begunAt),
      onAnswer: () => this.#breaker.hit(),
      onFailure: (error) => {
        if (!encodedCommands.isReplyError(error)) return report.countFailed('slow');
        this.#breaker.hit();
        report.replyError(error.message);
      },
    });
    this.#probes = new TimedCalls({
      clock,
      maxPending: 1,
      onTimeout: ignoreLateError,
      onAnswer: ignoreLateError,
      onFailure: ignoreLateError,
    });
    this.#listen();
  }

  /** False while a call would fail at once: not connected, or not answering in time. */
  get usable(): boolean {
    return (this.ready || this.#joins) && !this.#breaker.isOpen;
  }

  /** True when commands may be sent, also while it answers too slowly. */
  get reachable(): boolean {
    return this.ready || this.#joins;
  }

  /** See `RedisConnection`. `client`: that of the cluster, whose server this is. */
  call<Reply>(
    send: (client: RedisClient) => Promise<Reply>,
    options: RedisCallOptions,
    client: RedisClient = this.client,
  ): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const call = this.#begin<Reply>(options, { answered: resolve, failed: reject, late: ignoreLateError });
      if (call === undefined) return;
      send(client).then(
        (reply) => call.answer(reply),
        (error: unknown) => call.fail(error instanceof Error ? error : new Error(String(error))),
      );
    });
  }

  /** See `RedisConnection`. With the client of a cluster, whose server this is, and the slot of the command. */
  send<Result>(
    command: EncodedCommand,
    handling: ReplyHandling<Result>,
    client: RedisClient = this.client,
    slot?: number,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      const call = this.#begin(handling, new Reading(handling, resolve, reject));
      if (call !== undefined) encodedCommands.send(client, command, call, slot);
    });
  }

  async ping(): Promise<void> {
    await this.call(() => this.client.ping(), {});
  }

  /** Fails calls from now on, and reports nothing more. The client stays open. */
  close(): void {
    this.#closing = true;
    this.ready = this.#joins = false;
    this.reason = undefined;
    this.#breaker.end();
    this.#calls.close();
    this.#probes.close();
    this.#cancelHandshake?.();
  }

  /** Undefined for a call that has already failed. */
  #begin<Reply>(
    { budgetMs = this.#options.budgetMs, unhurried = false }: RedisCallOptions,
    waiter: Waiter<Reply>,
  ): TimedCall<Reply> | undefined {
    if (!this.reachable || (this.#breaker.isOpen && !unhurried)) {
      this.#options.report.countFailed('away');
      waiter.failed(new Error(this.reason ?? 'not connected'));
      return undefined;
    }
    return this.#calls.begin(budgetMs, waiter);
  }

  #listen(): void {
    const { client } = this;
    client.on('connect', () => {
      // A server that hangs still accepts connections, but does not answer.
      this.#cancelHandshake = this.#options.clock.after(redisAddresses.handshakeMs, () => {
        this.#lastError = 'it takes connections and answers nothing';
        client.disconnect(true);
      });
    });
    client.on('ready', () => {
      this.#cancelHandshake?.();
      if (this.#closing) return;
      this.ready = true;
      this.#joins = false;
      this.#lastError = '';
      this.#options.onReady();
      this.#breaker.probeNow();
      this.#up();
    });
    // Only the message: the error of a refused login carries the password.
    client.on('error', (error: Error) => {
      this.#lastError = error.message === '' ? error.name : error.message;
      if (!this.ready) this.#down(this.#lastError);
    });
    client.on('close', () => {
      this.#cancelHandshake?.();
      this.ready = this.#joins = false;
      this.#down(this.#lastError === '' ? 'the connection was closed' : this.#lastError);
    });
  }

  #down(reason: string): void {
    if (this.#closing) return;
    this.reason = reason;
    this.#options.onDown(reason);
  }

  #up(): void {
    if (!this.usable) return;
    this.reason = undefined;
    this.#options.onUp();
  }

  /** True within the timeout of a call. */
  #probe(): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const inTime = this.#probes.begin<string>(this.#options.budgetMs, {
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
}

/** Ends the connections of a client for good; resolves when they are closed, or after a second. */
export async function endClient(client: RedisClient, clock: Clock): Promise<void> {
  const { status } = client;
  if (status === 'end') return;
  // Between two attempts there is no connection to end.
  if (status === 'reconnecting') return client.disconnect();
  await new Promise<void>((resolve) => {
    const cancel = clock.after(closingMs, resolve);
    client.once('end', () => {
      cancel();
      resolve();
    });
    client.disconnect();
  });
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
