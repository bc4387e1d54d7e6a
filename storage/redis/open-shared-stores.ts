import type { Budgets, ExpectedUse, LocalBudgets } from '../../core/ports/budgets.ts';
import type { Cache, VectorIndex } from '../../core/ports/cache.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type {
  Admission,
  Charges,
  Counters,
  Decision,
  Limiter,
  OnStoreFailure,
  Window,
} from '../../core/ports/counters.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import { createRedisCache, createRedisVectorIndex } from './redis-cache.ts';
import type { RedisCallOptions, RedisConnection } from './redis-connection.ts';
import { createRedisLimiter } from './redis-limiter.ts';
import { WithoutStore } from './without-store.ts';
import type { EncodedCommand, RedisReply } from './encoded-command.ts';
import { type FixedCall, limitCalls, limitKeys, Numbers } from './limit-commands.ts';
import { limitScripts, type Script } from './limit-scripts.ts';

const dayMs = 86_400_000;

/** Dependencies and options of `openSharedStores`. */
interface SharedStoresOptions {
  /** As configured; each `url` is `memory:` or a Redis server, the cache's by default that of the counters. */
  readonly storage: {
    readonly counters: { readonly url: string };
    readonly cache: { readonly url?: string; readonly max_value_bytes: number };
    readonly redis_budget_ms?: number;
  };
  /** Counters of this process: for `memory:`, and while the server is unavailable. */
  readonly counters: Counters;
  /** Limiter over these counters and budgets. */
  readonly limiter: Limiter & {
    admitShare(charges: Charges, expected: ExpectedUse, replicas: number): Admission;
  };
  readonly budgets: LocalBudgets;
  /** True when a ledger stores the use of budgets; otherwise only the server does. */
  readonly hasLedger: boolean;
  readonly cache: Cache;
  /** For `memory:`, and for a server without vector sets. */
  readonly vectors: VectorIndex;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** The counters, the cache and its vectors as configured. */
interface SharedStores {
  readonly counters: Counters;
  readonly limiter: Limiter;
  readonly budgets: Budgets;
  readonly cache: Cache;
  /** In the same place as the cache, so that the same gateways share answers and their questions. */
  readonly vectors: VectorIndex;
  /** The servers in use, for the readiness page. */
  readonly dependencies: readonly { readonly name: string; check(): Promise<void> }[];
  close(): Promise<void>;
}

/** Opens the servers of the addresses, one connection per address. Rejects for an unusable address. */
export async function openSharedStores(options: SharedStoresOptions): Promise<SharedStores> {
  const { storage, log, clock, metrics } = options;
  const { url: cacheUrl = storage.counters.url, max_value_bytes: maxValueBytes } = storage.cache;
  const countersUrl = storage.counters.url;
  const { redis_budget_ms: budgetMs } = storage;
  const storesByUrl = new Map<string, string>();
  if (countersUrl !== 'memory:') storesByUrl.set(countersUrl, 'counters');
  if (cacheUrl !== 'memory:')
    storesByUrl.set(cacheUrl, cacheUrl === countersUrl ? 'counters and cache' : 'cache');
  const connections = new Map<string, RedisConnection>();
  const closers: (() => void)[] = [];
  const close = async (): Promise<void> => {
    for (const closeOne of closers) closeOne();
    await Promise.all([...connections.values()].map((connection) => connection.close()));
  };
  try {
    for (const [url, stores] of storesByUrl) {
      // A gateway without a server loads no client.
      const { openRedis } = await import('./open-redis.ts');
      connections.set(url, await openRedis({ url, log, clock, metrics, stores, budgetMs }));
    }
  } catch (error) {
    await close();
    throw error;
  }
  const forCounters = connections.get(countersUrl);
  const forCache = connections.get(cacheUrl);
  return {
    ...countsOf(options, forCounters, closers),
    cache: forCache ? createRedisCache({ redis: forCache, clock, maxValueBytes }) : options.cache,
    vectors: forCache
      ? createRedisVectorIndex({ redis: forCache, local: options.vectors, log })
      : options.vectors,
    dependencies: [...connections].map(([url, connection]) => ({
      name: `redis (${storesByUrl.get(url) ?? ''})`,
      check: () => connection.ping(),
    })),
    close,
  };
}

/** Counters: in this process, or on a server. */
function countsOf(
  { counters: local, limiter, budgets, hasLedger, clock, metrics }: SharedStoresOptions,
  redis: RedisConnection | undefined,
  closers: (() => void)[],
): Pick<SharedStores, 'counters' | 'limiter' | 'budgets'> {
  if (redis === undefined) return { counters: local, limiter, budgets };
  const without = new WithoutStore(metrics);
  // An unused budget that expired is restored from the ledger, or else kept for longer than a year.
  const keepMs = (hasLedger ? 2 : 400) * dayMs;
  const isOnlyStore = !hasLedger;
  const shared = createRedisLimiter({
    redis,
    local: limiter,
    budgets,
    clock,
    keepMs,
    without,
    isOnlyStore,
  });
  closers.push(() => shared.close());
  return {
    counters: createRedisCounters({ redis, local, without }),
    limiter: shared,
    budgets: shared.budgets,
  };
}

/** Timeout of giving back; the server was slow a moment ago. */
const giveBackMs = 5000;

/** Dependencies and options. */
interface RedisCountersOptions {
  readonly redis: RedisConnection;
  /** Counters in this process, which decide under the policy `local` while the server is unavailable. */
  readonly local: Counters;
  /** Default: one without metrics. */
  readonly without?: WithoutStore;
  /** The time of the windows in whole milliseconds. Default: the server's own clock. For tests. */
  readonly now?: () => number;
}

/**
 * Counters shared by all gateways with the same server. One call decides all windows at once, on the server, by the
 * server's clock.
 *
 * While the server is unavailable or slow, `take` follows the policy of the call; `adjust` then goes to the local
 * counters. A timed-out call is never repeated; when its answer arrives late, the taken amount is given back if the
 * request was refused meanwhile, and stays counted if it was admitted.
 */
export function createRedisCounters(options: RedisCountersOptions): Counters {
  return new RedisCounters(options);
}

class RedisCounters implements Counters {
  private readonly redis: RedisConnection;
  private readonly local: Counters;
  private readonly now: (() => number) | undefined;
  private readonly without: WithoutStore;
  /** Callers pass the same list repeatedly; its command is encoded once. */
  private readonly prepared = new WeakMap<readonly Window[], Prepared>();

  constructor({ redis, local, without = new WithoutStore(), now }: RedisCountersOptions) {
    this.redis = redis;
    this.local = local;
    this.now = now;
    this.without = without;
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
    return this.redis.send<Decision>(prepared.command(limitScripts.take, amount, this.now?.()), {
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

  /** Never rejects. An adjustment without an answer may have run, so it is not repeated elsewhere. */
  private adjustShared(prepared: Prepared, delta: number, options: RedisCallOptions = {}): Promise<void> {
    const command = prepared.command(limitScripts.adjust, delta, this.now?.());
    return this.redis.send(command, { ...options, read: nothing, without: nothing });
  }

  private takeWithout(
    windows: readonly Window[],
    amount: number,
    onFailure: OnStoreFailure,
  ): Decision | Promise<Decision> {
    return this.without.decide<Decision | Promise<Decision>>(onFailure, {
      local: () => this.local.take(windows, amount),
      open: () => ({ allowed: true, refusedBy: -1, windows: [] }),
    });
  }

  private prepare(windows: readonly Window[]): Prepared {
    const known = this.prepared.get(windows);
    if (known !== undefined) return known;
    limitCalls.checkLengths(windows);
    const made = new Prepared(windows);
    this.prepared.set(windows, made);
    return made;
  }
}

/** Requests are counted one by one. */
const defaultAmount = 1;

/** Encoded commands for a list of windows. */
class Prepared {
  readonly #windows: readonly Window[];
  readonly #calls = new Map<Script, FixedCall>();
  #usual: EncodedCommand | undefined;

  constructor(windows: readonly Window[]) {
    this.#windows = windows;
  }

  /** Runs the script with an amount, at a time (default: the server's). */
  command(script: Script, amount: number, now: number | undefined): EncodedCommand {
    if (script !== limitScripts.take || amount !== defaultAmount || now !== undefined)
      return this.#make(script, amount, now);
    return (this.#usual ??= this.#make(script, amount, now));
  }

  #make(script: Script, amount: number, now: number | undefined): EncodedCommand {
    let call = this.#calls.get(script);
    if (call === undefined) this.#calls.set(script, (call = callFor(script, this.#windows)));
    return limitCalls.runFixed(call, [amount, now ?? '']);
  }
}

function callFor(script: Script, windows: readonly Window[]): FixedCall {
  const parts = [
    windows.length,
    ...windows.map(limitKeys.window),
    ...windows.flatMap(({ limit, windowMs }) => [limit, windowMs]),
  ];
  // The amount and the time vary.
  return limitCalls.fixed(script, parts, 2);
}

function nothing(): void {
  // An adjustment has no result.
}

function decisionOf(windows: readonly Window[], reply: RedisReply): Decision {
  const numbers = new Numbers(reply);
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
