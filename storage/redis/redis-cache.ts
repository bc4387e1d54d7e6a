import type {
  Cache,
  CachedValue,
  Similar,
  VectorBounds,
  VectorIndex,
  VectorPartition,
} from '../../core/ports/cache.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { encodedCommands, type RedisReply } from './encoded-command.ts';
import type { RedisConnection } from './redis-connection.ts';
import type { ChainableCommander } from 'ioredis';
import type { Log } from '../../core/ports/log.ts';

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

  function store(key: string, value: CachedValue): Promise<void> {
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

const namePrefix = 'weir:cache:';
const getStart = encodedCommands.count(2) + encodedCommands.parts(['GET']);
const deleteStart = encodedCommands.count(2) + encodedCommands.parts(['DEL']);
const setStart = encodedCommands.count(5) + encodedCommands.parts(['SET']);
const lifeStart = `\r\n${encodedCommands.parts(['PX'])}`;

/** An encoded key name; `keyBytes` is the key's length. */
function encodedName(key: string, keyBytes: number): string {
  return `$${namePrefix.length + keyBytes}\r\n${namePrefix}${key}\r\n`;
}

/** A command with only a key. */
function keyCommand(start: string, key: string): string {
  return start + encodedName(key, Buffer.byteLength(key));
}

/** In one piece, copied once. */
function setCommand(key: string, { bytes, storedAt, expiresAt }: CachedValue): Buffer {
  const lifeMs = Math.min(Math.max(1, Math.ceil(expiresAt - storedAt)), longestTtlMs);
  const length = headBytes + bytes.length;
  const keyBytes = Buffer.byteLength(key);
  const before = `${setStart}${encodedName(key, keyBytes)}$${length}\r\n`;
  const after = lifeStart + encodedCommands.parts([lifeMs]);
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

/** Upper bound of vectors in one partition. A search takes logarithmic time, and does not block this process. */
const maxPerPartition = 100_000;
/** Evictions per call in a full partition: its bound may have shrunk, but not all at once. */
const leavingAtOnce = 10;

/** Dependencies and options. */
interface RedisVectorIndexOptions {
  readonly redis: RedisConnection;
  /** Index in this process, for a server without vector sets. */
  readonly local: VectorIndex;
  readonly log: Log;
}

/**
 * Vectors shared by all gateways with the same server, in the vector sets of Redis 8 (`VADD`, `VSIM`), unquantised. An
 * older server has none: that is detected at the first use, logged once, and the index in this process is used instead.
 *
 * A set expires as a whole, with its last added vector; vectors have no expiry of their own there. A full set evicts
 * random ones. Every failure finds nothing.
 */
export function createRedisVectorIndex(options: RedisVectorIndexOptions): VectorIndex {
  return new RedisVectorIndex(options);
}

class RedisVectorIndex implements VectorIndex {
  private readonly redis: RedisConnection;
  private readonly local: VectorIndex;
  private readonly log: Log;
  /** Undefined until the server has answered. */
  private hasSets: boolean | undefined;
  private asking: Promise<void> | undefined;

  constructor({ redis, local, log }: RedisVectorIndexOptions) {
    this.redis = redis;
    this.local = local;
    this.log = log;
  }

  nearest(
    partition: VectorPartition,
    vector: Float32Array,
    threshold: number,
  ): Similar | undefined | Promise<Similar | undefined> {
    if (this.hasSets === false) return this.local.nearest(partition, vector, threshold);
    if (!this.redis.available || !isNonZero(vector)) return undefined;
    if (this.hasSets === true) return this.search(partition, vector, threshold);
    return this.ask().then(() =>
      this.hasSets === undefined ? undefined : this.nearest(partition, vector, threshold),
    );
  }

  add(
    partition: VectorPartition,
    id: string,
    vector: Float32Array,
    bounds: VectorBounds,
  ): void | Promise<void> {
    if (this.hasSets === false) return this.local.add(partition, id, vector, bounds);
    if (!this.redis.available) return undefined;
    if (this.hasSets === undefined)
      return this.ask().then(() =>
        this.hasSets === undefined ? undefined : this.add(partition, id, vector, bounds),
      );
    return isNonZero(vector) && bounds.ttlMs > 0 && bounds.maxEntries >= 1
      ? this.keep(partition, id, vector, bounds)
      : this.remove(partition, id);
  }

  remove(partition: VectorPartition, id: string): void | Promise<void> {
    if (this.hasSets === false) return this.local.remove(partition, id);
    if (!this.redis.available || this.hasSets === undefined) return undefined;
    const key = nameOf(partition);
    return this.send(key, (set) => set.call('VREM', key, id)).then(() => undefined);
  }

  private async search(
    partition: VectorPartition,
    vector: Float32Array,
    threshold: number,
  ): Promise<Similar | undefined> {
    const key = nameOf(partition);
    const found = await this.redis
      .call((client) => client.call('VSIM', key, 'FP32', blobOf(vector), 'WITHSCORES', 'COUNT', 1), { key })
      .catch(() => undefined);
    if (!Array.isArray(found) || found.length < 2) return undefined;
    // The server maps -1 … 1 to 0 … 1.
    const similarity = 2 * Number(found[1]) - 1;
    return similarity >= threshold - rounding ? { id: String(found[0]), similarity } : undefined;
  }

  private async keep(
    partition: VectorPartition,
    id: string,
    vector: Float32Array,
    { ttlMs, maxEntries }: VectorBounds,
  ): Promise<void> {
    const key = nameOf(partition);
    const lifeMs = Math.ceil(ttlMs);
    // In one transaction: a set without an expiry must not be created.
    const replies = await this.send(key, (set) =>
      set
        .call('VADD', key, 'FP32', blobOf(vector), id, 'NOQUANT')
        .pexpire(key, lifeMs, 'NX')
        .pexpire(key, lifeMs, 'GT')
        .call('VCARD', key),
    );
    const size = Number(replies?.[3]?.[1]);
    const tooMany = size - Math.min(maxEntries, maxPerPartition);
    if (!(tooMany > 0)) return;
    const picked = await this.redis
      .call((client) => client.call('VRANDMEMBER', key, Math.min(tooMany, leavingAtOnce) + 1), { key })
      .catch(() => undefined);
    const leaving = (Array.isArray(picked) ? picked.map(String) : []).filter((one) => one !== id);
    if (leaving.length === 0) return;
    await this.send(key, (set) =>
      leaving.slice(0, tooMany).reduce((all, one) => all.call('VREM', key, one), set),
    );
  }

  /** The reply of each command, with its error; undefined when they are unknown. */
  private async send(
    key: string,
    fill: (transaction: ChainableCommander) => ChainableCommander,
  ): Promise<[Error | null, unknown][] | undefined> {
    const replies = await this.redis
      .call((client) => fill(client.multi()).exec(), { key })
      .catch(() => undefined);
    return replies ?? undefined;
  }

  private ask(): Promise<void> {
    this.asking ??= this.redis
      .call((client) => client.call('COMMAND', 'INFO', 'VADD'))
      .then(
        (reply) => {
          this.hasSets = Array.isArray(reply) && Array.isArray(reply[0]);
          if (!this.hasSets)
            this.log.info(
              'The Redis server has no vector sets (Redis 8 has): similar questions are found only in the process that was asked',
            );
        },
        // Unavailable now, which the connection has logged: detected again next time.
        () => undefined,
      )
      .finally(() => (this.asking = undefined));
    return this.asking;
  }
}

/** Rounding of 32-bit numbers must not hide an equal vector. */
const rounding = 1e-6;

/** The part in braces decides the slot of a cluster: all keys of one organisation share it. */
function nameOf({ organisationId, digest }: VectorPartition): string {
  return `weir:{${organisationId === '' ? '-' : encodeURIComponent(organisationId)}}:vectors:${digest}`;
}

/** Little-endian, which the server requires and every supported machine uses. */
function blobOf({ buffer, byteOffset, byteLength }: Float32Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function isNonZero(vector: Float32Array): boolean {
  let squares = 0;
  for (const value of vector) squares += value * value;
  return squares > 0 && Number.isFinite(squares);
}
