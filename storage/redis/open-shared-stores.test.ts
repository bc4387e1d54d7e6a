import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { Redis } from 'ioredis';
import { recordingLog, RecordingMetrics } from '../../core/lifecycle/recording-services.test-support.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { patientClock, redisMissing, type RedisServer, startRedis } from '../../tests/kit/redis-server.ts';
import { createMemoryCache } from '../memory/cache.ts';
import { createBudgets } from '../memory/budgets.ts';
import { createMemoryCounters } from '../memory/counters.ts';
import { createMemoryLimiter } from '../memory/limiter.ts';
import { createMemoryVectorIndex } from '../memory/vector-index.ts';
import { openSharedStores } from './open-shared-stores.ts';

async function open(t: TestContext, countersUrl: string, cacheUrl?: string) {
  const clock = patientClock();
  const log = recordingLog([]);
  const counters = createMemoryCounters({ clock, log });
  t.after(() => counters.close());
  const budgets = createBudgets({ clock, log });
  const limiter = createMemoryLimiter({ counters, budgets });
  const cache = createMemoryCache({ clock, maxBytes: 10_000, maxValueBytes: 1000 });
  const vectors = createMemoryVectorIndex({ clock });
  const storage = {
    counters: { url: countersUrl },
    cache: { max_value_bytes: 1000, ...(cacheUrl === undefined ? {} : { url: cacheUrl }) },
  };
  const stores = await openSharedStores({
    storage,
    counters,
    limiter,
    budgets,
    hasLedger: true,
    cache,
    vectors,
    log,
    clock,
    metrics: new RecordingMetrics(),
  });
  t.after(() => stores.close());
  return { stores, counters, limiter, cache, vectors, names: stores.dependencies.map(({ name }) => name) };
}

test('with memory: nothing is shared and no server is needed', async (t) => {
  const { stores, counters, limiter, cache, vectors, names } = await open(t, 'memory:');
  assert.equal(stores.counters, counters);
  assert.equal(stores.limiter, limiter);
  assert.equal(stores.cache, cache);
  assert.equal(stores.vectors, vectors);
  assert.deepEqual(names, []);
});

describe('shared stores', { skip: redisMissing }, () => {
  let server: RedisServer;
  before(async () => {
    server = await startRedis();
  });
  after(() => server.stop());

  test('of one address share one connection', async (t) => {
    const { stores, names } = await open(t, server.url);
    assert.deepEqual(names, ['redis (counters and cache)']);
    const client = new Redis(server.port);
    t.after(() => client.disconnect());
    const connected = (await client.client('LIST')) as string;
    assert.equal(connected.match(/name=weir /g)?.length, 1);
    const windows = [{ key: 'a', limit: 1, windowMs: 60_000 }];
    await stores.counters.take(windows, 1);
    await stores.cache.set('a', Buffer.from('b'), 60_000);
    assert.equal(await client.exists('weir:cache:a', 'weir:{-}:count:60000:a'), 2);
    await Promise.all(stores.dependencies.map((one) => one.check()));
    await stores.close();
    await eventually(async () =>
      String(await client.client('LIST')).includes('name=weir ') ? undefined : true,
    );
    await assert.rejects(Promise.all(stores.dependencies.map((one) => one.check())));
  });

  test('may be on different servers, or only one of them shared', async (t) => {
    const apart = await open(t, server.url, `${server.url}/1`);
    assert.deepEqual(apart.names, ['redis (counters)', 'redis (cache)']);
    const cached = await open(t, 'memory:', server.url);
    assert.deepEqual(cached.names, ['redis (cache)']);
    assert.equal(cached.stores.counters, cached.counters);
    assert.notEqual(cached.stores.vectors, cached.vectors);
    const counted = await open(t, server.url, 'memory:');
    assert.deepEqual(counted.names, ['redis (counters)']);
    assert.equal(counted.stores.cache, counted.cache);
    assert.equal(counted.stores.vectors, counted.vectors);
  });

  test('are closed again when the second address cannot be used', async (t) => {
    await assert.rejects(open(t, server.url, 'redis://host/name'), /database/);
    const client = new Redis(server.port);
    t.after(() => client.disconnect());
    await eventually(async () =>
      String(await client.client('LIST')).includes('name=weir ') ? undefined : true,
    );
  });
});
