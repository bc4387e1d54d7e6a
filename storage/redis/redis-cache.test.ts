import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import { cacheConformance } from '../../tests/conformance/cache.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { patientClock, redisMissing, type RedisServer, startRedis } from '../../tests/kit/redis-server.ts';
import { openRedis } from './open-redis.ts';
import { createRedisCache } from './redis-cache.ts';

let server: RedisServer;

async function begin(t: TestContext, { maxValueBytes = 100_000, factor = 100 } = {}) {
  const redis = await openRedis({ url: server.url, clock: patientClock(factor), log: recordingLog([]) });
  t.after(() => redis.close());
  const clock = new ManualClock();
  const client = new Redis(server.port);
  t.after(() => client.disconnect());
  return { redis, clock, client, cache: createRedisCache({ redis, clock, maxValueBytes }) };
}

const text = (value: { readonly bytes: Uint8Array } | undefined): string | undefined =>
  value === undefined ? undefined : Buffer.from(value.bytes).toString('latin1');

describe('redis cache', { skip: redisMissing }, () => {
  before(async () => {
    server = await startRedis();
  });
  after(() => server.stop());

  cacheConformance('redis cache', async () => {
    const redis = await openRedis({ url: server.url, clock: patientClock(), log: recordingLog([]) });
    const clock = new ManualClock();
    const maxValueBytes = 100_000;
    return {
      maxValueBytes,
      cache: createRedisCache({ redis, clock, maxValueBytes }),
      now: () => clock.now(),
      advance: (ms: number) => clock.advance(ms),
      close: () => redis.close(),
    };
  });

  test('gives back the very bytes, and when they were stored, to every gateway', async (t) => {
    const { cache, clock } = await begin(t);
    const other = await begin(t);
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, value) => value));
    await cache.set('bytes', bytes, 60_000);
    bytes.fill(0);
    clock.advance(1000);
    const found = await other.cache.get('bytes');
    assert.equal(found?.storedAt, other.clock.now());
    assert.equal(found.expiresAt, other.clock.now() + 60_000);
    assert.deepEqual(
      [...found.bytes],
      Array.from({ length: 256 }, (_, value) => value),
    );
    await cache.set('empty', new Uint8Array(), 60_000);
    assert.equal(text(await cache.get('empty')), '');
    assert.equal(await cache.get('other'), undefined);
  });

  test('a value is gone after its time, for the reader and on the server', async (t) => {
    const { cache, clock, client } = await begin(t);
    await cache.set('short', Buffer.from('a'), 60_000);
    const expiry = await client.pttl('weir:cache:short');
    assert.ok(expiry > 50_000 && expiry <= 60_000, `${expiry}`);
    clock.advance(59_999);
    assert.equal(text(await cache.get('short')), 'a');
    clock.advance(1);
    assert.equal(await cache.get('short'), undefined);
    await cache.set('shorter', Buffer.from('a'), 0.5);
    // So short that no clock tells it from none: it still takes the place of what was there.
    await cache.set('short', Buffer.from('b'), 1e-9);
    await pause(20);
    assert.equal(await client.exists('weir:cache:shorter', 'weir:cache:short'), 0);
  });

  test('a new value replaces the old one; what is not taken removes it', async (t) => {
    const { cache } = await begin(t, { maxValueBytes: 10 });
    for (const [bytes, ttlMs] of [
      ['x'.repeat(11), 1000],
      ['b', 0],
      ['b', -1],
      ['b', Number.NaN],
    ] as const) {
      await cache.set('key', Buffer.from('a'), 60_000);
      await cache.set('key', Buffer.from('0123456789'), 60_000);
      assert.equal(text(await cache.get('key')), '0123456789');
      await cache.set('key', Buffer.from(bytes), ttlMs);
      assert.equal(await cache.get('key'), undefined, `${bytes} for ${ttlMs}`);
    }
    await cache.set('key', Buffer.from('for ever'), Infinity);
    assert.equal(text(await cache.get('key')), 'for ever');
    await cache.delete('key');
    assert.equal(await cache.get('key'), undefined);
  });

  test('long values come through, and nobody waits for their storing', async (t) => {
    const { cache } = await begin(t, { maxValueBytes: 5_000_000 });
    const long = Buffer.alloc(4_000_000, 'long ');
    assert.equal(cache.set('long', long, 60_000), undefined);
    const found = await cache.get('long');
    assert.ok(found && long.equals(found.bytes));
  });

  test('what another program left under the key is a miss', async (t) => {
    const { cache, client } = await begin(t);
    for (const stored of ['', 'x', 'a text that is longer than the head of a value']) {
      await client.set('weir:cache:foreign', stored);
      assert.equal(await cache.get('foreign'), undefined);
    }
    await client.del('weir:cache:foreign');
    await client.lpush('weir:cache:foreign', 'a');
    assert.equal(await cache.get('foreign'), undefined);
    await cache.set('foreign', Buffer.from('mine'), 60_000);
    assert.equal(text(await cache.get('foreign')), 'mine');
  });

  test('a server that is full, hangs or is gone never rejects: everything misses', async (t) => {
    const { cache, redis, client } = await begin(t, { factor: 4 });
    await cache.set('kept', Buffer.from('a'), 60_000);
    await client.config('SET', 'maxmemory', '1');
    await cache.set('full', Buffer.from('a'), 60_000);
    await client.config('SET', 'maxmemory', '0');
    assert.equal(await cache.get('full'), undefined);
    assert.equal(text(await cache.get('kept')), 'a');
    server.pause();
    for (let miss = 0; miss < 3; miss += 1) assert.equal(await cache.get('kept'), undefined);
    assert.equal(redis.available, false);
    assert.equal(await cache.get('kept'), undefined);
    await cache.set('kept', Buffer.from('b'), 60_000);
    await cache.delete('kept');
    server.resume();
    await eventually(() => redis.available || undefined);
    assert.equal(text(await cache.get('kept')), 'a');
    await server.kill();
    await eventually(() => !redis.available || undefined);
    assert.equal(await cache.get('kept'), undefined);
    await server.start();
    await eventually(() => redis.available || undefined);
    assert.equal(await cache.get('kept'), undefined);
    await cache.set('kept', Buffer.from('c'), 60_000);
    assert.equal(text(await cache.get('kept')), 'c');
  });
});
