// One decision over windows and budgets while its store is away, slow, hung or flushed.
import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { Redis } from 'ioredis';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Admission, Charges, LimitReservation, OnStoreFailure } from '../../core/ports/counters.ts';
import { expects, outcomeOf, testBudget, testCharges } from '../../tests/conformance/limiter.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import {
  FreeTime,
  patientClock,
  redisMissing,
  type RedisServer,
  startRedis,
} from '../../tests/kit/redis-server.ts';
import { createBudgets } from '../memory/budgets.ts';
import { createMemoryCounters } from '../memory/counters.ts';
import { createMemoryLimiter } from '../memory/limiter.ts';
import { openRedis } from './open-redis.ts';
import { createRedisLimiter } from './redis-limiter.ts';
import { WithoutStore } from './without-store.ts';

let server: RedisServer;
let names = 0;

async function open(
  t: TestContext,
  clock: Clock = patientClock(4),
  { budgetMs, isOnlyStore = false }: { budgetMs?: number; isOnlyStore?: boolean } = {},
) {
  const log = recordingLog([]);
  const metrics = new RecordingMetrics();
  const counters = createMemoryCounters({ clock, log });
  t.after(() => counters.close());
  const budgets = createBudgets({ clock, log });
  const local = createMemoryLimiter({ counters, budgets });
  const redis = await openRedis({ url: server.url, clock, log, budgetMs });
  t.after(() => redis.close());
  const without = new WithoutStore(metrics);
  const limiter = createRedisLimiter({
    ...{ redis, local, budgets, clock, without, isOnlyStore },
    keepMs: 60_000,
  });
  t.after(() => limiter.close());
  names += 1;
  const name = `away-${names}`;
  /** So many requests per minute, so many in all, and 1,000 tokens per minute. */
  const of = (perMinute: number, inAll: number): Charges =>
    testCharges(
      [{ key: `${name}-r`, group: 'org-1', limit: perMinute, windowMs: 60_000 }],
      [{ key: `${name}-t`, group: 'org-1', limit: 1000, windowMs: 60_000 }],
      [testBudget(`${name}-b`, 'requests', inAll)],
    );
  const back = () => eventually(() => redis.available || undefined);
  return { limiter, local, budgets, redis, metrics, of, back };
}

type Opened = Awaited<ReturnType<typeof open>>;

async function outcome(
  { limiter }: Pick<Opened, 'limiter'>,
  charges: Charges,
  policy?: OnStoreFailure,
): Promise<string> {
  try {
    return outcomeOf(await limiter.admit(charges, expects(10), policy));
  } catch (error) {
    return (error as GatewayError).code;
  }
}

/** What the server has left of the charges: requests per minute, in all, tokens. */
async function leftOf(client: Redis, charges: Charges) {
  const { requests, tokens, budgets } = charges;
  const [window] = requests?.windows ?? [];
  const [tokenWindow] = tokens?.windows ?? [];
  const hash = await client.hgetall(`weir:{org-1}:budget:${budgets?.[0]?.key ?? ''}`);
  const reserved = Object.entries(hash)
    .filter(([field]) => field.startsWith('r:'))
    .reduce((sum, [, value]) => sum + Number(value.split(' ')[1]), 0);
  const countOf = async (key: string, windowMs: number): Promise<number> => {
    const sum = await client.eval(
      "local stored = redis.call('GET', KEYS[1]) return stored and struct.unpack('<d', stored) or 0",
      1,
      `weir:{org-1}:count:${windowMs}:${key}`,
    );
    return Number(sum);
  };
  return {
    requests: await countOf(window?.key ?? '', window?.windowMs ?? 0),
    tokens: await countOf(tokenWindow?.key ?? '', tokenWindow?.windowMs ?? 0),
    used: Number(hash['u'] ?? 0),
    reserved,
  };
}

describe('one decision without its store', { skip: redisMissing }, () => {
  before(async () => {
    server = await startRedis();
  });
  after(() => server.stop());

  test('follows the policy that each call names, and is shared again afterwards', async (t) => {
    const opened = await open(t);
    const { redis, of, metrics, back, budgets } = opened;
    const charges = of(50, 3);
    const first = await opened.limiter.admit(charges, expects(10));
    await (first as LimitReservation).settle({ cost: 0, tokens: 10, requests: 1 });
    await server.kill();
    await eventually(() => !redis.available || undefined);
    const asked = async (policy?: OnStoreFailure) => {
      const found: string[] = [];
      for (let i = 0; i < 3; i += 1) found.push(await outcome(opened, charges, policy));
      return found;
    };
    assert.deepEqual(await asked('closed'), Array(3).fill('limits_unavailable'));
    assert.deepEqual(await asked('local'), ['admitted', 'admitted', 'reserved'], 'one is used already');
    assert.deepEqual(await asked('open'), Array(3).fill('admitted'));
    const open1 = await opened.limiter.admit(charges, expects(10), 'open');
    await (open1 as LimitReservation).settle({ cost: 0, tokens: 10, requests: 1 });
    const budget = charges.budgets?.[0];
    assert.ok(budget !== undefined);
    assert.equal(budgets.usage(budget).used, 2, 'what was let through uncounted is used all the same');
    const count = (policy: string) => metrics.values.get(`weir_limits_without_store_total{policy=${policy}}`);
    assert.deepEqual([count('open'), count('closed'), count('local')], [4, 3, 3]);
    await server.start();
    await back();
    // The new server learns from the first call what is used.
    assert.deepEqual(await asked('local'), ['admitted', 'reserved', 'reserved']);
  });

  test('each gateway takes its share of what is left, and no more', async (t) => {
    const gateways = [await open(t), await open(t), await open(t)];
    const [first] = gateways as [Opened];
    const charges = first.of(30, 20);
    for (let i = 0; i < 5; i += 1) {
      const admission = await first.limiter.admit(charges, expects(10));
      await (admission as LimitReservation).settle({ cost: 0, tokens: 10, requests: 1 });
    }
    // The last of them has heard of all when it came; the others are told so now and then.
    const [, , last] = gateways as [Opened, Opened, Opened];
    assert.equal(outcomeOf(await last.limiter.admit(charges, expects(10))), 'admitted');
    await server.kill();
    await eventually(() => gateways.every(({ redis }) => !redis.available) || undefined);
    const found: string[] = [];
    for (let i = 0; i < 8; i += 1) found.push(await outcome(last, charges));
    // 15 are left: 5 for each of three, one of which it has taken already.
    assert.deepEqual(found, [...Array<string>(4).fill('admitted'), ...Array<string>(4).fill('reserved')]);
    const ofWindow = testCharges([{ key: `share-${names}`, group: 'org-1', limit: 7, windowMs: 60_000 }]);
    const inWindow: string[] = [];
    for (let i = 0; i < 4; i += 1) inWindow.push(await outcome(last, ofWindow));
    assert.deepEqual(inWindow, ['admitted', 'admitted', 'admitted', 'requests']);
    await server.start();
  });

  test('where no other store keeps what is used, the server learns what each gateway has used alone', async (t) => {
    const lone = { isOnlyStore: true };
    const gateways = [await open(t, undefined, lone), await open(t, undefined, lone)];
    const [first, second] = gateways as [Opened, Opened];
    const charges = first.of(100, 20);
    const use = async (by: Opened, count: number): Promise<void> => {
      for (let i = 0; i < count; i += 1) {
        const admission = await by.limiter.admit(charges, expects(10));
        await (admission as LimitReservation).settle({ cost: 0, tokens: 10, requests: 1 });
      }
    };
    await use(first, 2);
    await use(second, 1);
    server.pause();
    await Promise.all([use(first, 3), use(second, 4)]);
    assert.ok(gateways.every(({ redis }) => !redis.available));
    server.resume();
    await Promise.all(gateways.map(({ back }) => back()));
    await use(first, 1);
    await use(second, 1);
    await use(first, 1);
    const budget = charges.budgets?.[0];
    assert.ok(budget !== undefined);
    assert.equal(first.budgets.usage(budget).used, 13);
  });

  test('decides at once when the server is away', async (t) => {
    const { limiter, redis, of } = await open(t);
    await redis.close();
    const admission = limiter.admit(of(1, 1), expects(1));
    assert.equal(admission !== undefined && 'then' in admission, false);
  });

  const nothing = { requests: 0, tokens: 0, used: 0, reserved: 0 };
  const cases: [string, OnStoreFailure, boolean, string, object][] = [
    ['refused because the policy is closed: given back', 'closed', false, 'limits_unavailable', nothing],
    ['refused by what is known here: given back', 'local', true, 'reserved', nothing],
    [
      'let through here: stays',
      'local',
      false,
      'admitted',
      { ...nothing, requests: 1, tokens: 10, reserved: 1 },
    ],
    [
      'let through uncounted: stays',
      'open',
      false,
      'admitted',
      { ...nothing, requests: 1, tokens: 10, reserved: 1 },
    ],
  ];
  for (const [what, policy, isTakenHere, expected, counted] of cases) {
    test(`an admission that comes too late, ${what}`, async (t) => {
      const opened = await open(t);
      const client = new Redis(server.port);
      t.after(() => client.disconnect());
      const charges = opened.of(5, 1);
      if (isTakenHere) opened.local.admit(charges, expects(0));
      server.pause();
      const hanging = opened.limiter.admit(charges, expects(10), policy);
      const held: { admission?: Admission } = {};
      const came = await Promise.resolve(hanging).then(
        (admission) => {
          held.admission = admission;
          return outcomeOf(admission);
        },
        (error: unknown) => (error as GatewayError).code,
      );
      assert.equal(came, expected);
      server.resume();
      await opened.back();
      await eventually(async () => {
        try {
          assert.deepEqual(await leftOf(client, charges), counted);
          return true;
        } catch {
          return undefined;
        }
      });
      if (held.admission?.isAdmitted !== true) return;
      await held.admission.settle({ cost: 0, tokens: 4, requests: 1 });
      assert.deepEqual(await leftOf(client, charges), { requests: 1, tokens: 4, used: 1, reserved: 0 });
    });
  }

  test('a request that ends before its late admission comes is settled with it', async (t) => {
    const opened = await open(t);
    const client = new Redis(server.port);
    t.after(() => client.disconnect());
    const charges = opened.of(5, 5);
    server.pause();
    const admission = await opened.limiter.admit(charges, expects(10), 'local');
    await (admission as LimitReservation).settle({ cost: 0, tokens: 4, requests: 1 });
    server.resume();
    await opened.back();
    await eventually(async () => {
      const left = await leftOf(client, charges);
      return left.tokens === 4 && left.reserved === 0 ? true : undefined;
    });
    assert.equal(await outcome(opened, charges), 'admitted');
    assert.deepEqual(await leftOf(client, charges), { requests: 2, tokens: 14, used: 1, reserved: 1 });
  });

  test('a server that hangs under load holds nobody, and what it decides stays in its bounds', async (t) => {
    const budgetMs = 400;
    const gateways = [await open(t, realClock, { budgetMs }), await open(t, realClock, { budgetMs })];
    const [{ of }] = gateways as [Opened];
    const charges = of(100_000, 200);
    let admitted = 0;
    let longest = 0;
    const time = new FreeTime();
    t.after(() => time.stop());
    let isEnded = false;
    const caller = async ({ limiter }: Opened): Promise<void> => {
      while (!isEnded) {
        const since = time.now();
        const admission = await limiter.admit(charges, expects(1), 'local');
        longest = Math.max(longest, time.now() - since);
        await new Promise((resolve) => setTimeout(resolve, 2));
        if (admission?.isAdmitted !== true) continue;
        admitted += 1;
        void admission.settle({ cost: 0, tokens: 1, requests: 1 });
      }
    };
    const callers = gateways.flatMap((gateway) => Array.from({ length: 4 }, () => caller(gateway)));
    await eventually(() => (admitted > 20 ? true : undefined));
    server.pause();
    await new Promise((resolve) => setTimeout(resolve, 1500));
    server.resume();
    await Promise.all(gateways.map(({ back }) => back()));
    await new Promise((resolve) => setTimeout(resolve, 500));
    isEnded = true;
    await Promise.all(callers);
    assert.ok(longest < 2 * budgetMs, `${longest} ms`);
    assert.ok(
      admitted >= 200 && admitted <= 400,
      `${admitted} of 200, with at most one gateway's share more`,
    );
  });

  test('a server that is flushed and restarted under load lets nobody exceed the budget by more than is known late', async (t) => {
    const gateway = await open(t);
    const charges = gateway.of(100_000, 300);
    const client = new Redis(server.port);
    t.after(() => client.disconnect());
    let admitted = 0;
    for (let i = 0; i < 400; i += 1) {
      if (i === 100) await client.flushall();
      if (i === 200) {
        await server.kill();
        await server.start();
      }
      if (i === 300) await gateway.back();
      const admission = await gateway.limiter.admit(charges, expects(1), 'local');
      if (admission?.isAdmitted !== true) continue;
      admitted += 1;
      await admission.settle({ cost: 0, tokens: 1, requests: 1 });
    }
    assert.equal(admitted, 300);
  });
});
