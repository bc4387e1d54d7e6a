import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { type Line, recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import type { Counters } from '../../core/ports/counters.ts';
import { cacheConformance } from '../../tests/conformance/cache.ts';
import { countersConformance } from '../../tests/conformance/counters.ts';
import { expects, testBudget, testCharges } from '../../tests/conformance/limiter.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { type RedisCluster, startRedisCluster } from '../../tests/kit/redis-cluster.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { patientClock, redisMissing, type RedisServer } from '../../tests/kit/redis-server.ts';
import { createBudgets } from '../memory/budgets.ts';
import { type EncodedCommand, encodedCommands } from './encoded-command.ts';
import { openRedis } from './open-redis.ts';
import { createRedisCounters } from './open-shared-stores.ts';
import { createRedisCache } from './redis-cache.ts';
import { createRedisLimiter } from './redis-limiter.ts';

const never: Counters = {
  take: () => assert.fail('the local counters were asked'),
  adjust: () => assert.fail('the local counters were adjusted'),
};
const alone = { admitShare: () => assert.fail('a gateway decided alone') };
let cluster: RedisCluster;

async function begin(t: TestContext, factor = 100) {
  const lines: Line[] = [];
  const redis = await openRedis({ url: cluster.url, clock: patientClock(factor), log: recordingLog(lines) });
  t.after(() => redis.close());
  return { redis, lines };
}

/** The next primary behind the one that keeps this slot. */
async function otherThan(key: string): Promise<RedisServer> {
  const { servers } = cluster;
  const at = servers.indexOf(await cluster.serverOf(key));
  return servers[(at + 1) % servers.length] as RedisServer;
}

describe('a Redis cluster', { skip: redisMissing }, () => {
  before(async () => {
    cluster = await startRedisCluster();
  });
  after(() => cluster.stop());

  countersConformance(
    'redis counters on a cluster of three',
    async () => {
      const clock = new ManualClock();
      const redis = await openRedis({ url: cluster.url, clock: patientClock(), log: recordingLog([]) });
      return {
        counters: createRedisCounters({ redis, local: never, now: () => clock.now() }),
        advance: (ms: number) => clock.advance(ms),
        close: () => redis.close(),
      };
    },
    30,
  );

  cacheConformance('redis cache on a cluster of three', async () => {
    const redis = await openRedis({ url: cluster.url, clock: patientClock(), log: recordingLog([]) });
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

  test('keeps each key where the slot of its name says', async () => {
    const keys = [
      'a',
      'weir:cache:Größe 😀',
      'weir:{org-1}:window:60000:key',
      'x{}y',
      '{',
      '{{a}}',
      'a{b}{c}',
      '',
    ];
    for (const key of keys) {
      const [server] = cluster.servers as [RedisServer];
      const slot = await cluster.ask(server, 'CLUSTER', 'KEYSLOT', key);
      assert.equal(encodedCommands.slotOfKey(key), slot, key);
      const command = (name: string, ...parts: (string | number)[]): EncodedCommand => ({
        name,
        bytes: encodedCommands.count(1 + parts.length) + encodedCommands.parts([name, ...parts]),
      });
      assert.equal(encodedCommands.slotOf(command('get', key)), slot);
      assert.equal(encodedCommands.slotOf(command('evalsha', 'f'.repeat(40), 2, key, 'other', 7)), slot);
      const head = Buffer.from(
        encodedCommands.count(5) + encodedCommands.parts(['EVALSHA', 'f'.repeat(40), 1, key]),
      );
      assert.equal(
        encodedCommands.slotOf({ name: 'evalsha', head, bytes: encodedCommands.parts([1]) }),
        slot,
      );
    }
  });

  test('spreads cached answers over its servers, and each gateway finds them', async (t) => {
    const [one, two] = [await begin(t), await begin(t)];
    const options = { clock: new ManualClock(), maxValueBytes: 1000 };
    const cache = createRedisCache({ ...options, redis: one.redis });
    const keys = Array.from({ length: 60 }, (_, index) => `spread-${index}`);
    for (const key of keys) await cache.set(key, Buffer.from(key), 60_000);
    const other = createRedisCache({ ...options, redis: two.redis });
    for (const key of keys) assert.equal(String((await other.get(key))?.bytes), key);
    for (const server of cluster.servers) {
      const kept = (await cluster.ask(server, 'KEYS', 'weir:cache:spread-*')) as string[];
      assert.ok(kept.length > 5, `${kept.length} of 60`);
    }
    assert.deepEqual([...one.lines, ...two.lines], []);
  });

  test('counts exactly while slots move between its servers', async (t) => {
    const gateways = [await begin(t), await begin(t)];
    const counters = gateways.map(({ redis }) => createRedisCounters({ redis, local: never }));
    const limit = 400;
    const organisations = ['moves-1', 'moves-2', 'moves-3'];
    const allowed = new Map(organisations.map((name) => [name, 0]));
    const asking: Promise<void>[] = [];
    const windowsOf = (group: string) =>
      ['a', 'b', 'c'].map((key) => ({ key, group, limit, windowMs: 600_000 }));
    const windows = new Map(organisations.map((name) => [name, windowsOf(name)]));
    /** One after the other at both gateways and organisations. */
    const take = async (): Promise<void> => {
      const asked = organisations.flatMap((name) =>
        counters.map(async (each) => {
          const { allowed: isAllowed } = await each.take(windows.get(name) ?? [], 1, 'closed');
          if (isAllowed) allowed.set(name, (allowed.get(name) ?? 0) + 1);
        }),
      );
      await Promise.all(asked);
    };
    let moving = true;
    const traffic = Promise.all(
      Array.from({ length: 8 }, async () => {
        while (moving) await take();
      }),
    );
    // Calls whose keys are on both servers wait for the move.
    const afterStep = async (): Promise<void> => void asking.push(take());
    for (const name of [...organisations, ...organisations]) {
      const key = `weir:{${name}}:`;
      await cluster.moveSlot(encodedCommands.slotOfKey(key), await otherThan(key), { afterStep });
    }
    moving = false;
    await Promise.all([traffic, ...asking]);
    while ([...allowed.values()].some((count) => count < limit)) await take();
    for (let more = 0; more < 20; more += 1) await take();
    assert.deepEqual([...allowed.values()], [limit, limit, limit]);
    assert.deepEqual(
      gateways.flatMap(({ lines }) => lines),
      [],
    );
  });

  test('gives slots to a new server, whose keys count on', async (t) => {
    const { redis, lines } = await begin(t);
    const counters = createRedisCounters({ redis, local: never });
    const windows = [{ key: 'a', group: 'grows', limit: 1000, windowMs: 600_000 }];
    const first = await counters.take(windows, 1, 'closed');
    const server = await cluster.grow();
    let taken = 1;
    const take = async (): Promise<void> => {
      const count = 10;
      await Promise.all(Array.from({ length: count }, async () => counters.take(windows, 1, 'closed')));
      taken += count;
    };
    await cluster.moveSlot(encodedCommands.slotOfKey('weir:{grows}:'), server, { afterStep: take });
    await take();
    const { allowed, windows: states } = await counters.take(windows, 0, 'closed');
    assert.equal(first.allowed && allowed, true);
    assert.equal(states[0]?.remaining, 1000 - taken);
    assert.deepEqual(lines, []);
  });

  test('counts usage limits exactly while their slot moves', async (t) => {
    const gateways = await Promise.all(
      [1, 2].map(async () => {
        const { redis, lines } = await begin(t, 10);
        const clock = new ManualClock();
        const budgets = createBudgets({ clock, log: recordingLog(lines) });
        const limiter = createRedisLimiter({ redis, local: alone, budgets, clock, keepMs: 60_000 });
        t.after(() => limiter.close());
        return { limiter, lines };
      }),
    );
    const budget = testBudget('moves-1', 'requests', 100_000);
    const window = { key: 'moves-w', group: 'org-1', limit: 100_000, windowMs: 600_000 };
    const charges = testCharges([window], [], [budget]);
    let settled = 0;
    const asking: Promise<void>[] = [];
    const afterStep = async (): Promise<void> => void asking.push(take());
    const take = async (): Promise<void> => {
      await Promise.all(
        gateways.map(async ({ limiter }) => {
          const admission = await limiter.admit(charges, expects(1), 'closed');
          assert.equal(admission?.isAdmitted, true);
          await admission.settle({ cost: 0, tokens: 0, requests: 1 });
          settled += 1;
        }),
      );
    };
    let moving = true;
    const traffic = Promise.all(
      Array.from({ length: 8 }, async () => {
        while (moving) await take();
      }),
    );
    for (let moves = 0; moves < 10; moves += 1) {
      await cluster.moveSlot(encodedCommands.slotOfKey('weir:{org-1}:'), await otherThan('weir:{org-1}:'), {
        afterStep,
      });
    }
    moving = false;
    await Promise.all([traffic, ...asking]);
    const key = 'weir:{org-1}:budget:moves-1';
    const stored = await cluster.ask(await cluster.serverOf(key), 'HGET', key, 'u');
    assert.equal(Number(stored), settled);
    // A second after the last move every gateway starts a session, without what overtaken commands have left reserved.
    await eventually(async () => {
      await take();
      const fields = (await cluster.ask(await cluster.serverOf(key), 'HKEYS', key)) as string[];
      return fields.every((field) => !field.startsWith('r:')) || undefined;
    });
    assert.deepEqual(
      gateways.flatMap(({ lines }) => lines),
      [],
    );
  });
});
