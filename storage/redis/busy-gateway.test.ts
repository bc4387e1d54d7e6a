// The budget of calls to Redis is the server's: what this process takes for itself is none of it.
import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { realClock, recordingLog, type Line } from '../../core/lifecycle/recording-services.test-support.ts';
import type { Counters } from '../../core/ports/counters.ts';
import { redisMissing, startRedis, type RedisServer } from '../../tests/kit/redis-server.ts';
import { openRedis } from './open-redis.ts';
import { createRedisCounters } from './open-shared-stores.ts';

/** Holds the event loop, as parsing a long body does. */
function holdLoop(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

describe('a busy gateway', { skip: redisMissing }, () => {
  let server: RedisServer;
  before(async () => {
    server = await startRedis();
  });
  after(() => server.stop());

  async function open(t: TestContext, budgetMs?: number) {
    const lines: Line[] = [];
    const redis = await openRedis({ url: server.url, clock: realClock, log: recordingLog(lines), budgetMs });
    t.after(() => redis.close());
    const decided = { alone: 0 };
    const local: Counters = {
      take: () => {
        decided.alone += 1;
        return { allowed: true, refusedBy: -1, windows: [] };
      },
      adjust: () => undefined,
    };
    return { redis, lines, decided, counters: createRedisCounters({ redis, local }) };
  }

  test('admits no request beyond the limit while its loop is held time and again', async (t) => {
    const { lines, decided, counters } = await open(t);
    const windows = [{ key: 'busy', limit: 100, windowMs: 3_600_000 }];
    const taken: Promise<boolean>[] = [];
    for (let turn = 0; turn < 25; turn += 1) {
      for (let request = 0; request < 12; request += 1) {
        taken.push(Promise.resolve(counters.take(windows, 1)).then(({ allowed }) => allowed));
        if (request % 6 === 0) holdLoop(30);
      }
      holdLoop(90);
      await new Promise((resolve) => (turn % 2 === 0 ? setImmediate(resolve) : setTimeout(resolve, 1)));
    }
    const admitted = (await Promise.all(taken)).filter(Boolean).length;
    assert.deepEqual({ admitted, ...decided }, { admitted: 100, alone: 0 });
    assert.deepEqual(lines, [], 'the server was never away');
  });

  test('is held by a hung server for no longer than the budget, and after three misses not at all', async (t) => {
    const budgetMs = 1500;
    const { lines, decided, counters } = await open(t, budgetMs);
    const windows = [{ key: 'hung', limit: 100, windowMs: 3_600_000 }];
    await counters.take(windows, 1);
    server.pause();
    try {
      const heldMs: number[] = [];
      for (let request = 0; request < 20; request += 1) {
        const since = performance.now();
        await counters.take(windows, 1);
        heldMs.push(performance.now() - since);
      }
      assert.ok(Math.max(...heldMs) < budgetMs * 2, heldMs.join());
      assert.equal(heldMs.filter((ms) => ms > budgetMs / 2).length, 3);
      assert.equal(decided.alone, 20);
      assert.match(lines[0]?.message ?? '', /no answer within 1500 ms, 3 times in a row/);
    } finally {
      server.resume();
    }
  });
});
