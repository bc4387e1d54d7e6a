import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { Redis } from 'ioredis';
import { recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import type { LimitReservation } from '../../core/ports/counters.ts';
import {
  expects,
  limiterConformance,
  type LimitersUnderTest,
  outcomeOf,
  testBudget,
  testCharges,
} from '../../tests/conformance/limiter.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { type RedisCluster, startRedisCluster } from '../../tests/kit/redis-cluster.ts';
import { patientClock, redisMissing, type RedisServer, startRedis } from '../../tests/kit/redis-server.ts';
import { createBudgets } from '../memory/budgets.ts';
import { openRedis } from './open-redis.ts';
import { createRedisLimiter } from './redis-limiter.ts';

const alone = { admitShare: () => assert.fail('a gateway decided alone') };
const used = (requests: number) => ({ cost: 0, tokens: 0, requests });
let server: RedisServer;

/** A gateway on a clock. */
async function open(clock: ManualClock, url = server.url) {
  const log = recordingLog([]);
  const redis = await openRedis({ url, clock: patientClock(), log });
  const budgets = createBudgets({ clock, log });
  const now = () => clock.now();
  const limiter = createRedisLimiter({ redis, local: alone, budgets, clock, keepMs: 60_000, now });
  const close = async (): Promise<void> => {
    limiter.close();
    await redis.close();
  };
  return { redis, budgets, limiter, close };
}

/** Gateways on one server and one clock, with a client that looks at the server. */
async function begin(t: TestContext, count = 2) {
  const clock = new ManualClock();
  const gateways = await Promise.all(Array.from({ length: count }, () => open(clock)));
  t.after(() => Promise.all(gateways.map(({ close }) => close())));
  const client = new Redis(server.port);
  t.after(() => client.disconnect());
  const [here, there] = gateways as [Gateway, Gateway];
  return { clock, gateways, client, here, there };
}

type Gateway = Awaited<ReturnType<typeof open>>;

let names = 0;
const aBudget = (limit: number) => testBudget(`test-${(names += 1)}`, 'requests', limit);
const hashOf = (key: string) => `weir:{org-1}:budget:${key}`;

/** For the conformance: a step ends when the server has been told all that came of it. */
async function openMany(url = server.url): Promise<LimitersUnderTest> {
  const clock = new ManualClock();
  const gateways = [await open(clock, url), await open(clock, url), await open(clock, url)];
  return {
    gateways: gateways.map(({ limiter }) => ({ limiter, budgets: limiter.budgets })),
    async advance(ms) {
      clock.advance(ms);
      await Promise.all(gateways.map(({ redis }) => redis.ping()));
    },
    close: async () => void (await Promise.all(gateways.map(({ close }) => close()))),
  };
}

describe('redis limiter', { skip: redisMissing }, () => {
  before(async () => {
    server = await startRedis();
  });
  after(() => server.stop());

  limiterConformance('redis limiter', openMany, 40);

  test('asks the server once for everything that a request is counted in', async (t) => {
    const { here, client } = await begin(t, 1);
    const window = (key: string) => ({ key, group: 'org-1', limit: 100, windowMs: 60_000 });
    const budgets = [aBudget(5), testBudget('once-tokens', 'tokens', 900), testBudget('once', 'cost', 9)];
    const charges = testCharges([window('once-r'), window('once-s')], [window('once-t')], budgets);
    const calls = async (): Promise<number> => {
      const stats = await client.info('commandstats');
      return [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce(
        (n, [, one]) => n + Number(one),
        0,
      );
    };
    // The first calls bring the scripts along.
    await ((await here.limiter.admit(charges, expects(5))) as LimitReservation).settle(used(1));
    const before = await calls();
    const admission = await here.limiter.admit(charges, expects(5));
    assert.equal((await calls()) - before, 1);
    await (admission as LimitReservation).settle(used(1));
    assert.equal((await calls()) - before, 2);
  });

  test('the first settlements on a server that knows no script count once, whatever is sent behind them', async (t) => {
    const { here, client } = await begin(t, 1);
    const budget = aBudget(9);
    const charges = testCharges([], [], [budget]);
    const first = (await here.limiter.admit(charges, expects(0))) as LimitReservation;
    await client.script('FLUSH');
    // A session on a server that was restarted.
    const renewed = await begin(t, 1);
    const one = (await renewed.here.limiter.admit(charges, expects(0))) as LimitReservation;
    const settled = one.settle(used(1));
    const next = (await renewed.here.limiter.admit(charges, expects(0))) as LimitReservation;
    await settled;
    assert.equal((await client.hgetall(hashOf(budget.key)))['u'], '1');
    await next.settle(used(1));
    assert.equal((await client.hgetall(hashOf(budget.key)))['u'], '2');
    await first.settle(used(0));
  });

  test('what a gateway that is lost has reserved does not count after half a minute', async (t) => {
    const { clock, here, there } = await begin(t);
    const charges = testCharges([], [], [aBudget(1)]);
    assert.equal(outcomeOf(await here.limiter.admit(charges, expects(0))), 'admitted');
    assert.equal(outcomeOf(await there.limiter.admit(charges, expects(0))), 'reserved');
    clock.advance(60_000);
    await here.redis.ping();
    assert.equal(
      outcomeOf(await there.limiter.admit(charges, expects(0))),
      'reserved',
      'its signs of life count',
    );
    await here.close();
    clock.advance(29_000);
    assert.equal(outcomeOf(await there.limiter.admit(charges, expects(0))), 'reserved');
    clock.advance(2000);
    assert.equal(outcomeOf(await there.limiter.admit(charges, expects(0))), 'admitted');
  });

  test('a new connection keeps what is reserved, and forgets what was never heard of', async (t) => {
    const { here, there, client } = await begin(t);
    const kept = aBudget(2);
    const left = aBudget(1);
    const admission = await here.limiter.admit(testCharges([], [], [kept]), expects(0));
    await here.limiter.admit(testCharges([], [], [left]), expects(0));
    // As if the answer had been lost: the gateway knows of no reservation.
    const other = await here.limiter.admit(testCharges([], [], [left]), expects(0));
    assert.equal(outcomeOf(other), 'reserved');
    const [fields] = await client.hkeys('weir:{org-1}:gateways');
    assert.ok(fields !== undefined);
    for (const name of await client.hkeys(hashOf(left.key)))
      if (name.startsWith('r:')) await client.hset(hashOf(kept.key), name, '1 2');
    assert.equal(outcomeOf(await there.limiter.admit(testCharges([], [], [kept]), expects(0))), 'reserved');
    const session = here.redis.session ?? 0;
    await client.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually(() => {
      const isNew = (here.redis.session ?? 0) > session;
      return isNew && there.redis.available ? true : undefined;
    });
    // Any call of the new session tells the server.
    await here.limiter.admit(testCharges([], [], [aBudget(1)]), expects(0));
    assert.equal(outcomeOf(await there.limiter.admit(testCharges([], [], [kept]), expects(0))), 'admitted');
    assert.equal(outcomeOf(await there.limiter.admit(testCharges([], [], [kept]), expects(0))), 'reserved');
    assert.equal(outcomeOf(await there.limiter.admit(testCharges([], [], [left]), expects(0))), 'reserved');
    await (admission as LimitReservation).settle(used(1));
    assert.equal(outcomeOf(await there.limiter.admit(testCharges([], [], [kept]), expects(0))), 'reserved');
  });

  test('a flushed server learns again what is used and reserved', async (t) => {
    const { here, there, client } = await begin(t);
    const budget = aBudget(5);
    const charges = testCharges([], [], [budget]);
    const admissions = [];
    for (let i = 0; i < 3; i += 1) admissions.push(await here.limiter.admit(charges, expects(0)));
    await (admissions[0] as LimitReservation).settle(used(1));
    await client.flushall();
    assert.equal(outcomeOf(await here.limiter.admit(charges, expects(0))), 'admitted');
    const { k: keptAt, ...counted } = await client.hgetall(hashOf(budget.key));
    assert.deepEqual(Object.values(counted).sort(), ['0', '1', '1 3']);
    assert.equal(Number(keptAt) > 0, true);
    assert.equal(outcomeOf(await there.limiter.admit(charges, expects(0))), 'admitted');
    assert.equal(outcomeOf(await there.limiter.admit(charges, expects(0))), 'reserved');
    await (admissions[1] as LimitReservation).settle(used(1));
    await (admissions[2] as LimitReservation).settle(used(0));
    assert.equal(outcomeOf(await there.limiter.admit(charges, expects(0))), 'admitted');
    assert.equal(outcomeOf(await there.limiter.admit(charges, expects(0))), 'reserved');
    assert.equal(there.budgets.usage(budget).used, 2);
  });

  test('a gateway that is new knows what the server keeps', async (t) => {
    const { clock, here } = await begin(t, 1);
    const budget = aBudget(3);
    const charges = testCharges([], [], [budget]);
    for (let i = 0; i < 2; i += 1)
      await ((await here.limiter.admit(charges, expects(0))) as LimitReservation).settle(used(1));
    const fresh = await open(clock);
    t.after(() => fresh.close());
    assert.equal(fresh.budgets.usage(budget).used, 0);
    assert.equal(outcomeOf(await fresh.limiter.admit(charges, expects(0))), 'admitted');
    assert.equal(fresh.budgets.usage(budget).used, 2);
    assert.equal(outcomeOf(await fresh.limiter.admit(charges, expects(0))), 'reserved');
  });

  test('a budget in use is kept on, without setting its expiry each time', async (t) => {
    const { clock, here, client } = await begin(t, 1);
    const budget = aBudget(100);
    const use = async (): Promise<number> => {
      await here.limiter.admit(testCharges([], [], [budget]), expects(0));
      return client.pttl(hashOf(budget.key));
    };
    await use();
    await client.pexpire(hashOf(budget.key), 30_000);
    assert.ok((await use()) <= 30_000);
    clock.advance(6001);
    assert.ok((await use()) > 50_000);
  });

  test('budgets go by themselves, and a refusal writes nothing', async (t) => {
    const { here, client } = await begin(t, 1);
    const budget = aBudget(0);
    assert.equal(outcomeOf(await here.limiter.admit(testCharges([], [], [budget]), expects(0))), 'exhausted');
    assert.equal(await client.exists(hashOf(budget.key)), 0);
    await here.limiter.admit(testCharges([], [], [{ ...budget, limit: 1 }]), expects(0));
    for (const key of [hashOf(budget.key), 'weir:{org-1}:gateways']) {
      const expiry = await client.pttl(key);
      assert.ok(expiry > 50_000 && expiry <= 66_000, `${key} ${expiry}`);
    }
  });

  test('a server that has forgotten the scripts gets them again', async (t) => {
    const { here, client } = await begin(t, 1);
    const charges = testCharges([], [], [aBudget(1)]);
    await client.script('FLUSH');
    const admission = await here.limiter.admit(charges, expects(0));
    await client.script('FLUSH');
    await (admission as LimitReservation).settle(used(0));
    assert.equal(outcomeOf(await here.limiter.admit(charges, expects(0))), 'admitted');
  });
});

describe('redis limiter on a cluster', { skip: redisMissing }, () => {
  let cluster: RedisCluster;
  before(async () => {
    cluster = await startRedisCluster();
  });
  after(() => cluster.stop());

  // A server refuses a call whose keys are not all of one slot.
  limiterConformance('redis limiter on a cluster of three', () => openMany(cluster.url), 15);
});
