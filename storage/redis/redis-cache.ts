import type { Cache, CachedValue } from '../../core/ports/cache.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { redisBudgetMs, type RedisConnection } from './redis-connection.ts';

/** Bounds of a cache on a Redis server, in bytes. */
export interface RedisCacheOptions {
  readonly redis: RedisConnection;
  readonly clock: Clock;
  /** A longer value is not taken. */
  readonly maxValueBytes: number;
}

/** Before the value: the layout's number, then `storedAt` and `expiresAt` as doubles. */
const headBytes = 17;
const layout = 1;
/** Nobody waits for a longer value to be stored. */
const waitedForBytes = 65_536;
/** The slowest network that a long value may travel over: 10 MB a second. */
const bytesPerMs = 10_000;
/** Long values on their way at once; beyond it the next one is dropped. */
const maxUnansweredBytes = 67_108_864;
/** Ten years: more than the server can be trusted to add to its clock. */
const longestTtlMs = 315_360_000_000;

/**
 * A cache that all gateways with the same server share; the server drops what has expired, and its own `maxmemory`
 * bounds the whole. Everything that goes wrong is a miss.
 */
export function createRedisCache({ redis, clock, maxValueBytes }: RedisCacheOptions): Cache {
  let unansweredBytes = 0;

  async function store(key: string, value: Buffer, ttlMs: number): Promise<void> {
    unansweredBytes += value.length;
    try {
      await redis.call((client) => client.set(nameOf(key), value, 'PX', ttlMs), {
        budgetMs: redisBudgetMs + Math.ceil(value.length / bytesPerMs),
      });
    } catch {
      // Not stored, or nobody knows: the connection has told the log.
    } finally {
      unansweredBytes -= value.length;
    }
  }

  async function remove(key: string): Promise<void> {
    await redis.call((client) => client.del(nameOf(key))).catch(() => undefined);
  }

  return {
    async get(key) {
      if (!redis.available) return undefined;
      const stored = await redis.call((client) => client.getBuffer(nameOf(key))).catch(() => null);
      return stored === null ? undefined : unpack(stored, clock.now());
    },
    set(key, bytes, ttlMs) {
      if (!redis.available) return undefined;
      if (!(ttlMs > 0) || bytes.length > maxValueBytes) return remove(key);
      if (unansweredBytes + bytes.length > maxUnansweredBytes) return undefined;
      const storedAt = clock.now();
      const keptMs = Math.min(Math.ceil(ttlMs), longestTtlMs);
      const storing = store(key, pack(bytes, storedAt, storedAt + ttlMs), keptMs);
      return bytes.length > waitedForBytes ? undefined : storing;
    },
    delete(key) {
      return redis.available ? remove(key) : undefined;
    },
  };
}

function nameOf(key: string): string {
  return `weir:cache:${key}`;
}

function pack(bytes: Uint8Array, storedAt: number, expiresAt: number): Buffer {
  const packed = Buffer.allocUnsafe(headBytes + bytes.length);
  packed[0] = layout;
  packed.writeDoubleBE(storedAt, 1);
  packed.writeDoubleBE(expiresAt, 9);
  packed.set(bytes, headBytes);
  return packed;
}

function unpack(packed: Buffer, now: number): CachedValue | undefined {
  if (packed.length < headBytes || packed[0] !== layout) return undefined;
  const expiresAt = packed.readDoubleBE(9);
  if (!(expiresAt > now)) return undefined;
  return { bytes: packed.subarray(headBytes), storedAt: packed.readDoubleBE(1), expiresAt };
}
