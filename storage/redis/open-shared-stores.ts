import type { Budgets, ExpectedUse, LocalBudgets } from '../../core/ports/budgets.ts';
import type { Cache } from '../../core/ports/cache.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Admission, Charges, Counters, Limiter } from '../../core/ports/counters.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import type { VectorIndex } from '../../core/ports/vector-index.ts';
import { createRedisCache } from './redis-cache.ts';
import type { RedisConnection } from './redis-connection.ts';
import { createRedisCounters } from './redis-counters.ts';
import { createRedisLimiter } from './redis-limiter.ts';
import { createRedisVectorIndex } from './redis-vector-index.ts';
import { WithoutStore } from './without-store.ts';

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
