import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import {
  type Line,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import type { Counters, Window } from '../../core/ports/counters.ts';
import { countersConformance } from '../../tests/conformance/counters.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { patientClock, redisMissing, type RedisServer, startRedis } from '../../tests/kit/redis-server.ts';
import { createMemoryCounters } from '../memory/counters.ts';
import { openRedis } from './open-redis.ts';
import { createRedisCounters } from './open-shared-stores.ts';
import { WithoutStore } from './without-store.ts';

const minute = 60_000;
const never: Counters = {
  take: () => assert.fail('the local counters were asked'),
  adjust: () => assert.fail('the local counters were adjusted'),
};
let server: RedisServer;

/** Counters over a connection of their own, as another gateway has them. */
async function open(options: { url?: string; now?: () => number; local?: Counters } = {}) {
  const lines: Line[] = [];
  const metrics = new RecordingMetrics();
  const { url = server.url, now, local = never } = options;
  const redis = await openRedis({ url, clock: patientClock(), log: recordingLog(lines) });
  const without = new WithoutStore(metrics);
  const counters = createRedisCounters({ redis, local, without, ...(now ? { now } : {}) });
  return { counters, redis, lines, metrics };
}

async function begin(t: TestContext, options: Parameters<typeof open>[0] = {}) {
  const subject = await open(options);
  t.after(() => subject.redis.close());
  return subject;
}

let names = 0;
function window(limit: number, windowMs = minute): readonly Window[] {
  names += 1;
  return [{ key: `test-${names}`, group: 'org-1', limit, windowMs }];
}

describe('redis counters', { skip: redisMissing }, () => {
  before(async () => {
    server = await startRedis();
  });
  after(() => server.stop());

  countersConformance(
    'redis counters',
    async () => {
      const clock = new ManualClock();
      const { counters, redis } = await open({ now: () => clock.now() });
      return { counters, advance: (ms) => clock.advance(ms), close: () => redis.close() };
    },
    25,
  );

  test('by the clock of the server, what was taken is free again after the window', async (t) => {
    const { counters } = await begin(t);
    const windows = window(1, 240);
    assert.equal((await counters.take(windows, 1)).allowed, true);
    const refused = await counters.take(windows, 1);
    assert.equal(refused.allowed, false);
    const { resetMs } = refused.windows[0]!;
    assert.ok(resetMs > 0 && resetMs <= 244, `${resetMs}`);
    await eventually(async () => ((await counters.take(windows, 1)).allowed ? true : undefined));
  });

  test('decides and counts like the counters in memory, in every number', async (t) => {
    const clock = new ManualClock();
    const { counters } = await begin(t, { now: () => clock.now() });
    const memory = createMemoryCounters({ clock, log: recordingLog([]) });
    t.after(() => memory.close());
    // Fractions that add up without rounding, so that the order of adding does not show.
    const step = fc.record({
      wait: fc.nat(70),
      amount: fc.oneof(fc.integer({ min: 0, max: 4 }), fc.constantFrom(0.25, 0.5, 1.75)),
      adjust: fc.option(fc.constantFrom(-3, -0.5, 2), { freq: 4 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 40 }),
        fc.constantFrom(7, 60, 240, 1000),
        async (steps, length) => {
          const windows = [...window(9, length), ...window(5.5, 4 * length)];
          for (const { wait, amount, adjust } of steps) {
            clock.advance(wait);
            assert.deepEqual(await counters.take(windows, amount), memory.take(windows, amount));
            if (adjust === null) continue;
            await counters.adjust(windows, adjust);
            memory.adjust(windows, adjust);
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  test('a clock that goes back neither opens a limit nor breaks anything', async (t) => {
    const clock = new ManualClock();
    const { counters } = await begin(t, { now: () => clock.now() });
    const windows = window(2);
    await counters.take(windows, 1);
    clock.advance(-10 * minute);
    assert.equal((await counters.take(windows, 1)).allowed, true);
    const refused = await counters.take(windows, 1);
    assert.equal(refused.allowed, false);
    assert.ok(refused.windows[0]!.resetMs <= minute);
    clock.advance(11 * minute);
    assert.equal((await counters.take(windows, 2)).allowed, true);
  });

  test('200 takes at once on a limit of 100, from two gateways: exactly 100', async (t) => {
    const [one, two] = [await begin(t), await begin(t)];
    const windows = window(100);
    const takes = Array.from({ length: 200 }, (_, i) =>
      Promise.resolve((i % 2 ? one : two).counters.take(windows, 1)),
    );
    const decisions = await Promise.all(takes);
    assert.equal(decisions.filter(({ allowed }) => allowed).length, 100);
    assert.equal((await two.counters.take(windows, 0)).windows[0]?.remaining, 0);
  });

  test('whatever the order in which gateways take, no limit is exceeded and none is left unused', async (t) => {
    const gateways = [await begin(t), await begin(t), await begin(t)];
    const takes = fc.array(
      fc.record({ by: fc.nat(2), amount: fc.integer({ min: 1, max: 5 }), both: fc.boolean() }),
      {
        minLength: 1,
        maxLength: 60,
      },
    );
    await fc.assert(
      fc.asyncProperty(takes, fc.integer({ min: 1, max: 40 }), async (list, limit) => {
        const [wide, narrow] = [window(2 * limit)[0]!, window(limit)[0]!];
        const used = { wide: 0, narrow: 0 };
        const refused: number[] = [];
        await Promise.all(
          list.map(async ({ by, amount, both }) => {
            const { allowed } = await gateways[by]!.counters.take(both ? [wide, narrow] : [wide], amount);
            if (!allowed) return void (both ? undefined : refused.push(amount));
            used.wide += amount;
            if (both) used.narrow += amount;
          }),
        );
        assert.ok(used.wide <= 2 * limit && used.narrow <= limit, JSON.stringify(used));
        for (const amount of refused) assert.ok(used.wide + amount > 2 * limit, 'refused with room to spare');
        const { windows } = await gateways[0]!.counters.take([wide, narrow], 0);
        assert.deepEqual(
          windows.map(({ remaining }) => remaining),
          [2 * limit - used.wide, limit - used.narrow],
        );
      }),
      { numRuns: 40 },
    );
  });

  test('counters are small, belong to their organisation and go by themselves', async (t) => {
    const clock = new ManualClock();
    const { counters } = await begin(t, { now: () => clock.now() });
    const client = new Redis(server.port);
    t.after(() => client.disconnect());
    const windows = [{ key: 'requests:minute', group: 'org}{é', limit: 1e9, windowMs: minute }];
    for (let i = 0; i < 130; i += 1) {
      await counters.take(windows, 1);
      clock.advance(1000);
    }
    const name = 'weir:{org%7D%7B%C3%A9}:count:60000:requests:minute';
    assert.ok((await client.strlen(name)) <= 984, `${await client.strlen(name)} bytes`);
    const expiry = await client.pttl(name);
    assert.ok(expiry > minute && expiry <= 71_000, `${expiry}`);
    await counters.take([{ key: 'no group', limit: 1, windowMs: minute }], 1);
    assert.equal(await client.exists('weir:{-}:count:60000:no group'), 1);
  });

  test('neither a refusal nor a look writes anything', async (t) => {
    const { counters } = await begin(t);
    const client = new Redis(server.port);
    t.after(() => client.disconnect());
    const size = await client.dbsize();
    assert.equal((await counters.take(window(0), 1)).allowed, false);
    assert.equal((await counters.take(window(3), 0)).allowed, true);
    await counters.adjust(window(3), -1);
    await counters.adjust(window(3), 0);
    assert.equal(await client.dbsize(), size);
  });

  test('a server that has forgotten the scripts gets them again', async (t) => {
    const { counters } = await begin(t);
    const client = new Redis(server.port);
    t.after(() => client.disconnect());
    const windows = window(3);
    await counters.take(windows, 1);
    await client.script('FLUSH');
    assert.equal((await counters.take(windows, 1)).windows[0]?.remaining, 1);
    await client.script('FLUSH');
    await counters.adjust(windows, -1);
    assert.equal((await counters.take(windows, 0)).windows[0]?.remaining, 2);
  });

  test('what cannot be counted is refused before anything is sent', async (t) => {
    const { counters } = await begin(t);
    for (const amount of [-1, Number.NaN, Infinity])
      assert.throws(() => counters.take(window(5), amount), RangeError);
    assert.throws(() => counters.adjust(window(5), Number.NaN), RangeError);
    for (const length of [0, -1, 1.5, Number.NaN])
      assert.throws(() => counters.take(window(5, length), 1), /whole number above zero/);
    assert.equal((await counters.take(window(Number.NaN), 1)).allowed, false);
  });
});

describe('redis counters on a cluster', { skip: redisMissing }, () => {
  test('all windows of one organisation are in one place', async (t) => {
    const cluster = await startRedis(['--cluster-enabled', 'yes']);
    t.after(() => cluster.stop());
    const client = new Redis(cluster.port);
    t.after(() => client.disconnect());
    // One node with all slots refuses, like any other, a call whose keys have different slots.
    await client.cluster('ADDSLOTSRANGE', 0, 16_383);
    await eventually(async () =>
      (await client.cluster('INFO')).includes('cluster_state:ok') ? true : undefined,
    );
    const { counters, metrics } = await begin(t, { url: cluster.url });
    const of = (group: string, limit: number) =>
      [minute, 60 * minute].map((windowMs) => ({ key: `${group}:${windowMs}`, group, limit, windowMs }));
    for (const group of ['org-1', 'org-2', '{', '}', '']) {
      assert.equal((await counters.take(of(group, 2), 1)).windows.length, 2);
      await counters.adjust(of(group, 2), 1);
      assert.equal((await counters.take(of(group, 2), 1)).allowed, false);
    }
    const mixed = [...of('org-1', 9), ...of('org-2', 9)];
    assert.deepEqual((await counters.take(mixed, 1, 'open')).windows, [], 'keys of two places are an error');
    assert.equal(metrics.values.get('weir_limits_without_store_total{policy=open}'), 1);
  });
});
