import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Counters, Decision, OnStoreFailure, Window } from '../../core/ports/counters.ts';
import type { Counter, Metrics } from '../../core/ports/metrics.ts';
import { type EncodedCommand, encodeCount, encodeParts, type RedisReply } from './encoded-command.ts';
import type { RedisCallOptions, RedisConnection } from './redis-connection.ts';
import { adjustScript, type Script, takeScript } from './window-scripts.ts';

/** What a refusal for want of the store tells clients to wait, in seconds. */
const retryAfterSeconds = 2;
/** How long giving back may take; the server was slow a moment ago. */
const giveBackMs = 5000;

/** What `createRedisCounters` needs. */
export interface RedisCountersOptions {
  readonly redis: RedisConnection;
  /** Counters in this process, which decide under the policy `local` while the server is away. */
  readonly local: Counters;
  readonly metrics?: Metrics;
  /** The time of the windows in whole milliseconds. Default: the server's own clock. For tests. */
  readonly now?: () => number;
}

/**
 * Counters that all gateways with the same server share. One call decides all windows at once, on the server, by the
 * server's clock.
 *
 * While the server is away or slow, `take` follows the policy that it is called with; `adjust` goes to the local
 * counters then. A call that was given up is never sent again; when its answer comes late, what it took is given back
 * if the request was refused meanwhile, and stays counted if it was let through.
 */
export function createRedisCounters(options: RedisCountersOptions): Counters {
  return new RedisCounters(options);
}

class RedisCounters implements Counters {
  private readonly redis: RedisConnection;
  private readonly local: Counters;
  private readonly now: (() => number) | undefined;
  private readonly countWithout: Record<OnStoreFailure, Counter | undefined>;
  /** Callers ask with the same list again and again; what is sent for it is put together once. */
  private readonly prepared = new WeakMap<readonly Window[], Prepared>();

  constructor({ redis, local, metrics, now }: RedisCountersOptions) {
    this.redis = redis;
    this.local = local;
    this.now = now;
    const without = metrics?.counter({
      name: 'weir_limits_without_store_total',
      help: 'Limit decisions made without the shared counters, by the policy that made them.',
      labels: ['policy'],
    });
    const series = (policy: OnStoreFailure): Counter | undefined => without?.({ policy });
    this.countWithout = { open: series('open'), closed: series('closed'), local: series('local') };
  }

  take(
    windows: readonly Window[],
    amount: number,
    onFailure: OnStoreFailure = 'local',
  ): Decision | Promise<Decision> {
    if (!(amount >= 0 && amount < Infinity)) {
      throw new RangeError(
        `Cannot take ${amount} from a counter; take a number of zero or more, give back with adjust().`,
      );
    }
    const prepared = this.prepare(windows);
    if (!this.redis.available) return this.takeWithout(windows, amount, onFailure);
    let refusedWithout = false;
    return this.redis.send<Decision>(prepared.command(takeScript, amount, this.now?.()), {
      read: (reply) => decisionOf(windows, reply),
      without: async () => {
        refusedWithout = true;
        const decision = await this.takeWithout(windows, amount, onFailure);
        refusedWithout = !decision.allowed;
        return decision;
      },
      late: (reply) => {
        if (refusedWithout && decisionOf(windows, reply).allowed)
          void this.adjustShared(prepared, -amount, { unhurried: true, budgetMs: giveBackMs });
      },
    });
  }

  adjust(windows: readonly Window[], delta: number): void | Promise<void> {
    if (!Number.isFinite(delta)) {
      throw new RangeError(`Cannot adjust a counter by ${delta}; give a finite number.`);
    }
    const prepared = this.prepare(windows);
    if (delta === 0) return undefined;
    if (!this.redis.available) return this.local.adjust(windows, delta);
    return this.adjustShared(prepared, delta);
  }

  /** Never rejects. An adjustment without an answer may have happened, so it is not made elsewhere too. */
  private adjustShared(prepared: Prepared, delta: number, options: RedisCallOptions = {}): Promise<void> {
    const command = prepared.command(adjustScript, delta, this.now?.());
    return this.redis.send(command, { ...options, read: nothing, without: nothing });
  }

  private takeWithout(
    windows: readonly Window[],
    amount: number,
    onFailure: OnStoreFailure,
  ): Decision | Promise<Decision> {
    this.countWithout[onFailure]?.inc();
    if (onFailure === 'local') return this.local.take(windows, amount);
    if (onFailure === 'open') return { allowed: true, refusedBy: -1, windows: [] };
    throw new GatewayError(
      'limits_unavailable',
      'The limits of this request cannot be checked now, because the store that counts does not answer. Try again shortly.',
      { headers: ['retry-after', String(retryAfterSeconds)] },
    );
  }

  private prepare(windows: readonly Window[]): Prepared {
    const known = this.prepared.get(windows);
    if (known !== undefined) return known;
    for (const { windowMs } of windows) {
      if (!Number.isSafeInteger(windowMs) || windowMs <= 0)
        throw new RangeError(`A window of ${windowMs} ms cannot be counted; give a whole number above zero.`);
    }
    const made = new Prepared(windows);
    this.prepared.set(windows, made);
    return made;
  }
}

/** Parts of a command beside those of its windows: name, script, number of keys, amount and time. */
const otherParts = 5;
/** Requests are counted one by one. */
const usualAmount = 1;

/** What is sent for a list of windows. */
class Prepared {
  readonly #head: string;
  readonly #windows: string;
  #usual: EncodedCommand | undefined;

  constructor(windows: readonly Window[]) {
    this.#head = encodeCount(otherParts + 3 * windows.length);
    this.#windows = encodeParts([
      windows.length,
      ...windows.map(keyOf),
      ...windows.flatMap(({ limit, windowMs }) => [limit, windowMs]),
    ]);
  }

  /** Runs the script with an amount, at a time (default: the server's). */
  command(script: Script, amount: number, now: number | undefined): EncodedCommand {
    if (script !== takeScript || amount !== usualAmount || now !== undefined)
      return this.#make(script, amount, now);
    return (this.#usual ??= this.#make(script, amount, now));
  }

  #make({ sha1, source }: Script, amount: number, now: number | undefined): EncodedCommand {
    const rest = this.#windows + encodeParts([amount, now ?? '']);
    return {
      name: 'evalsha',
      bytes: Buffer.from(this.#head + encodeParts(['EVALSHA', sha1]) + rest),
      // The server has forgotten its scripts (a restart, SCRIPT FLUSH): nothing was run.
      instead: ({ message }) =>
        message.startsWith('NOSCRIPT')
          ? { name: 'eval', bytes: this.#head + encodeParts(['EVAL', source]) + rest }
          : undefined,
    };
  }
}

/** What stands in braces places the key in a cluster: one organisation's keys are together. */
function keyOf({ key, group = '', windowMs }: Window): string {
  return `weir:{${group === '' ? '-' : encodeURIComponent(group)}}:counter:${windowMs}:${key}`;
}

function nothing(): void {
  // An adjustment has no result.
}

function decisionOf(windows: readonly Window[], reply: RedisReply): Decision {
  const numbers = new Numbers(Buffer.isBuffer(reply) ? reply : Buffer.from(String(reply)));
  const allowed = numbers.next() === 1;
  const refusedBy = numbers.next();
  const states: Decision['windows'][number][] = [];
  for (const { limit, windowMs } of windows) {
    const total = numbers.next();
    const remaining = total < limit ? limit - total : 0;
    states.push({ limit, windowMs, remaining, resetMs: numbers.next() });
  }
  return { allowed, refusedBy, windows: states };
}

const space = 0x20;
const zero = 0x30;

/** Numbers with a space between them, read one after the other. */
class Numbers {
  private readonly text: Buffer;
  private at = 0;

  constructor(text: Buffer) {
    this.text = text;
  }

  next(): number {
    const { text, at: start } = this;
    let value = 0;
    let isPlain = true;
    let at = start;
    for (; at < text.length && text[at] !== space; at++) {
      const digit = (text[at] as number) - zero;
      isPlain &&= digit >= 0 && digit <= 9;
      value = value * 10 + digit;
    }
    this.at = at + 1;
    return isPlain ? value : Number(text.toString('latin1', start, at));
  }
}
