import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { recordingLog, type Line } from '../../core/lifecycle/recording-services.test-support.ts';
import type { VectorPartition } from '../../core/ports/cache.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { vectorIndexConformance } from '../../tests/conformance/vector-index.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { patientClock, redisMissing, startRedis, type RedisServer } from '../../tests/kit/redis-server.ts';
import { startVectorSets } from '../../tests/kit/vector-set-server.ts';
import { createMemoryVectorIndex } from '../memory/vector-index.ts';
import { openRedis } from './open-redis.ts';
import { createRedisVectorIndex } from './redis-cache.ts';

const here: VectorPartition = { organisationId: 'org 1', digest: 'here' };
const bounds = { ttlMs: 60_000, maxEntries: 100 };
const vector = (...values: number[]): Float32Array => Float32Array.from(values);

async function open(t: TestContext, url: string, factor?: number) {
  const lines: Line[] = [];
  const log = recordingLog(lines);
  const redis = await openRedis({ url, clock: patientClock(factor), log });
  t.after(() => redis.close());
  const local = createMemoryVectorIndex({ clock: new ManualClock() });
  return { redis, local, lines, index: createRedisVectorIndex({ redis, local, log }) };
}

describe('vector sets of a Redis server', () => {
  vectorIndexConformance('vectors on a server', async (t) => {
    const { url } = await startVectorSets(t);
    return { index: (await open(t, url)).index, close: () => undefined };
  });

  test('are shared, named by organisation and partition, and end with their last vector', async (t) => {
    const { url, sets } = await startVectorSets(t);
    const [{ index, lines, local }, { index: other }] = [await open(t, url), await open(t, url)];
    await index.add(here, 'a', vector(1, 0), bounds);
    assert.equal((await other.nearest(here, vector(1, 0), 0.9))?.id, 'a');
    assert.deepEqual([...sets.keys()], ['weir:{org%201}:vectors:here']);
    const set = sets.get('weir:{org%201}:vectors:here');
    assert.equal(set?.expiresInMs, 60_000);
    await index.add(here, 'b', vector(0, 1), { ...bounds, ttlMs: 1000.5 });
    assert.equal(set.expiresInMs, 60_000, 'never shorter');
    await index.add(here, 'c', vector(0, 1), { ...bounds, ttlMs: 90_000 });
    assert.equal(set.expiresInMs, 90_000);
    assert.deepEqual([lines, local.size], [[], 0]);
  });

  test('come about and get their end in one transaction', async (t) => {
    const { url, commands } = await startVectorSets(t);
    const { index } = await open(t, url);
    await index.add(here, 'a', vector(1, 0), bounds);
    assert.deepEqual(commands.slice(commands.indexOf('VADD')), ['VADD', 'PEXPIRE', 'PEXPIRE', 'VCARD']);
    assert.equal(commands.filter((name) => name === 'COMMAND').length, 1);
  });

  test('are bounded; the newest one stays', async (t) => {
    const { url, sets } = await startVectorSets(t);
    const { index } = await open(t, url);
    for (let i = 0; i < 8; i++) await index.add(here, `v${i}`, vector(i, 1), { ...bounds, maxEntries: 3 });
    const [set] = sets.values();
    assert.equal(set?.vectors.size, 3);
    assert.ok(set.vectors.has('v7'));
    await index.add(here, 'v7', vector(9, 1), { ...bounds, maxEntries: 1 });
    assert.deepEqual([...set.vectors.keys()], ['v7']);
  });

  test('of another length: nothing is kept or found, and nothing rejects', async (t) => {
    const { url, sets } = await startVectorSets(t);
    const { index } = await open(t, url);
    await index.add(here, 'a', vector(1, 0), bounds);
    await index.add(here, 'b', vector(1, 0, 0), bounds);
    assert.deepEqual([...(sets.values().next().value?.vectors.keys() ?? [])], ['a']);
  });
});

describe('a server without vector sets', { skip: redisMissing }, () => {
  let server: RedisServer;
  before(async () => {
    server = await startRedis();
  });
  after(() => server.stop());

  test('leaves the vectors in this process, and that is said once', async (t) => {
    const { index, lines, local } = await open(t, server.url);
    await index.add(here, 'a', vector(1, 0), bounds);
    assert.equal((await index.nearest(here, vector(1, 0), 0.9))?.id, 'a');
    assert.equal(local.size, 1);
    await index.remove(here, 'a');
    assert.equal(local.size, 0);
    assert.deepEqual(
      lines.map(({ level }) => level),
      ['info'],
    );
    assert.match(lines[0]?.message ?? '', /no vector sets \(Redis 8 has\)/);
  });

  test('that is away is asked later', async (t) => {
    const { index, redis, local } = await open(t, server.url, 4);
    server.pause();
    assert.equal(await index.nearest(here, vector(1, 0), 0.9), undefined);
    await index.add(here, 'a', vector(1, 0), bounds);
    assert.equal(local.size, 0);
    server.resume();
    await eventually(() => redis.available || undefined);
    await index.add(here, 'a', vector(1, 0), bounds);
    assert.equal(local.size, 1);
  });
});
