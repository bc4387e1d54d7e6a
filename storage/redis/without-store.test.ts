import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import { recordingLog, RecordingMetrics } from '../../core/lifecycle/recording-services.test-support.ts';
import type { Counters, OnStoreFailure, Window } from '../../core/ports/counters.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { patientClock, redisMissing, type RedisServer, startRedis } from '../../tests/kit/redis-server.ts';
import { createMemoryCounters } from '../memory/counters.ts';
import { openRedis } from './open-redis.ts';
import { createRedisCounters } from './open-shared-stores.ts';
import { WithoutStore } from './without-store.ts';

let server: RedisServer;
let names = 0;

async function begin(t: TestContext) {
  const clock = patientClock(4);
  const log = recordingLog([]);
  const metrics = new RecordingMetrics();
  const local = createMemoryCounters({ clock, log });
  t.after(() => local.close());
  const redis = await openRedis({ url: server.url, clock, log });
  t.after(() => redis.close());
  const counters = createRedisCounters({ redis, local, without: new WithoutStore(metrics) });
  names += 1;
  const of = (limit: number): readonly Window[] => [{ key: `without-${names}`, limit, windowMs: 60_000 }];
  return {
    counters,
    local,
    redis,
    of,
    count: (policy: OnStoreFailure) =>
      metrics.values.get(`weir_limits_without_store_total{policy=${policy}}`),
    back: () => eventually(() => redis.available || undefined),
  };
}

/** What a take leads to: `taken`, `refused`, or the code of its error. */
async function outcome(
  counters: Counters,
  windows: readonly Window[],
  policy?: OnStoreFailure,
): Promise<string> {
  try {
    return (await counters.take(windows, 1, policy)).allowed ? 'taken' : 'refused';
  } catch (error) {
    return (error as GatewayError).code;
  }
}

describe('limits without their store', { skip: redisMissing }, () => {
  before(async () => {
    server = await startRedis();
  });
  after(() => server.stop());

  test('follow the policy that each call names, and are exact again afterwards', async (t) => {
    const { counters, redis, of, count, back } = await begin(t);
    const windows = of(2);
    assert.equal(await outcome(counters, windows), 'taken');
    await server.kill();
    await eventually(() => !redis.available || undefined);
    const asked = async (policy?: OnStoreFailure) =>
      Promise.all([1, 2, 3].map(() => outcome(counters, windows, policy)));
    assert.deepEqual(await asked('open'), ['taken', 'taken', 'taken']);
    assert.deepEqual(await asked('closed'), Array(3).fill('limits_unavailable'));
    assert.deepEqual(await asked('local'), ['taken', 'taken', 'refused']);
    assert.deepEqual(await asked(), Array(3).fill('refused'), 'local is the default');
    assert.deepEqual([count('open'), count('closed'), count('local')], [3, 3, 6]);
    assert.equal('then' in counters.take(windows, 1, 'local'), false, 'it is decided at once');
    await server.start();
    await back();
    assert.deepEqual(await asked('local'), ['taken', 'taken', 'refused']);
  });

  test('a refusal says when to try again', async (t) => {
    const { counters, redis, of } = await begin(t);
    await redis.close();
    assert.throws(
      () => counters.take(of(1), 1, 'closed'),
      (error: GatewayError) => error.status === 503 && error.headers.join() === 'retry-after,2',
    );
  });

  test('adjustments go to the local counters', async (t) => {
    const { counters, redis, local, of } = await begin(t);
    await redis.close();
    const windows = of(5);
    await counters.adjust(windows, 4);
    assert.equal(local.take(windows, 0).windows[0]?.remaining, 1);
    await counters.adjust(windows, -3);
    assert.equal(local.take(windows, 0).windows[0]?.remaining, 4);
  });

  const cases: [string, OnStoreFailure, number, string, number][] = [
    ['refused because the policy is closed: given back', 'closed', 0, 'limits_unavailable', 0],
    ['refused by the local count: given back', 'local', 3, 'refused', 0],
    ['let through by the local count: stays counted', 'local', 0, 'taken', 1],
    ['let through uncounted: counted after all', 'open', 0, 'taken', 1],
  ];
  for (const [what, policy, usedLocally, expected, counted] of cases) {
    test(`a take that the server makes too late, ${what}`, async (t) => {
      const { counters, local, of, back } = await begin(t);
      const windows = of(3);
      local.take(windows, usedLocally);
      await counters.take(windows, 0);
      server.pause();
      const hanging = outcome(counters, windows, policy);
      assert.equal(await hanging, expected);
      server.resume();
      await back();
      await eventually(async () =>
        (await counters.take(windows, 0)).windows[0]?.remaining === 3 - counted ? true : undefined,
      );
    });
  }
});
