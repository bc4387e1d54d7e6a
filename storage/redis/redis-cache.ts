import type { Cache, CachedValue } from '../../core/ports/cache.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { encodeCount, encodeParts, type RedisReply } from './encoded-command.ts';
import type { RedisConnection } from './redis-connection.ts';

/** Bounds of a cache on a Redis server, in bytes. */
interface RedisCacheOptions {
  readonly redis: RedisConnection;
  readonly clock: Clock;
  /** Longer values are not stored. */
  readonly maxValueBytes: number;
}

/** Before the value: the layout's number, then `storedAt` and `expiresAt` as doubles. */
const headBytes = 17;
const layout = 1;
/** A longer value is stored without waiting. */
const waitedForBytes = 65_536;
/** Slowest assumed network for a long value: 10 MB per second. */
const bytesPerMs = 10_000;
/** Upper bound of long values in flight, in bytes; beyond it the next one is dropped. */
const maxUnansweredBytes = 67_108_864;
/** Ten years: the server cannot reliably add more to its clock. */
const longestTtlMs = 315_360_000_000;

/**
 * A cache shared by all gateways with the same server; the server evicts expired values, and its own `maxmemory` bounds
 * the whole. Every failure is a miss.
 */
export function createRedisCache({ redis, clock, maxValueBytes }: RedisCacheOptions): Cache {
  let unansweredBytes = 0;

  function store(key: string, value: PackedValue): Promise<void> {
    const { length } = value.bytes;
    const done = (): void => void (unansweredBytes -= length);
    unansweredBytes += length;
    const command = { name: 'set', bytes: setCommand(key, value) };
    // Not stored, or unknown: the connection has logged it.
    const budgetMs = redis.budgetMs + Math.ceil(length / bytesPerMs);
    return redis.send(command, { budgetMs, read: done, without: done });
  }

  function remove(key: string): Promise<void> {
    return redis.send(
      { name: 'del', bytes: keyCommand(deleteStart, key) },
      { read: nothing, without: nothing },
    );
  }

  const found = {
    read: (stored: RedisReply) => (Buffer.isBuffer(stored) ? unpack(stored, clock.now()) : undefined),
    without: nothing,
  };

  return {
    get(key) {
      if (!redis.available) return undefined;
      return redis.send({ name: 'get', bytes: keyCommand(getStart, key) }, found);
    },
    set(key, bytes, ttlMs) {
      if (!redis.available) return undefined;
      if (!(ttlMs > 0) || bytes.length > maxValueBytes) return remove(key);
      if (unansweredBytes + bytes.length > maxUnansweredBytes) return undefined;
      const storedAt = clock.now();
      const storing = store(key, { bytes, storedAt, expiresAt: storedAt + ttlMs });
      return bytes.length > waitedForBytes ? undefined : storing;
    },
    delete(key) {
      return redis.available ? remove(key) : undefined;
    },
  };
}

function nothing(): undefined {
  return undefined;
}

/** A value in stored form. */
interface PackedValue {
  readonly bytes: Uint8Array;
  readonly storedAt: number;
  readonly expiresAt: number;
}

const namePrefix = 'weir:cache:';
const getStart = encodeCount(2) + encodeParts(['GET']);
const deleteStart = encodeCount(2) + encodeParts(['DEL']);
const setStart = encodeCount(5) + encodeParts(['SET']);
const lifeStart = `\r\n${encodeParts(['PX'])}`;

/** An encoded key name; `keyBytes` is the key's length. */
function encodedName(key: string, keyBytes: number): string {
  return `$${namePrefix.length + keyBytes}\r\n${namePrefix}${key}\r\n`;
}

/** A command with only a key. */
function keyCommand(start: string, key: string): string {
  return start + encodedName(key, Buffer.byteLength(key));
}

/** In one piece, copied once. */
function setCommand(key: string, { bytes, storedAt, expiresAt }: PackedValue): Buffer {
  const lifeMs = Math.min(Math.max(1, Math.ceil(expiresAt - storedAt)), longestTtlMs);
  const length = headBytes + bytes.length;
  const keyBytes = Buffer.byteLength(key);
  const before = `${setStart}${encodedName(key, keyBytes)}$${length}\r\n`;
  const after = lifeStart + encodeParts([lifeMs]);
  // Only the key may have more bytes than characters.
  const beforeBytes = before.length - key.length + keyBytes;
  const command = Buffer.allocUnsafe(beforeBytes + length + after.length);
  command.write(before, 0, 'utf8');
  command[beforeBytes] = layout;
  command.writeDoubleBE(storedAt, beforeBytes + 1);
  command.writeDoubleBE(expiresAt, beforeBytes + 9);
  command.set(bytes, beforeBytes + headBytes);
  command.write(after, beforeBytes + length, 'latin1');
  return command;
}

function unpack(packed: Buffer, now: number): CachedValue | undefined {
  if (packed.length < headBytes || packed[0] !== layout) return undefined;
  const expiresAt = packed.readDoubleBE(9);
  if (!(expiresAt > now)) return undefined;
  return { bytes: packed.subarray(headBytes), storedAt: packed.readDoubleBE(1), expiresAt };
}
