/** Limits of one parent, of which its workers borrow parts: together they decide as one process would. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import { recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import type { BudgetAmounts } from '../../core/ports/budgets.ts';
import type { Admission, Charges, Limiter, LimitReservation } from '../../core/ports/counters.ts';
import {
  expects,
  limiterConformance,
  outcomeOf,
  testBudget,
  testCharges,
} from '../../tests/conformance/limiter.ts';
import { ManualClock, settle } from '../../tests/conformance/manual-clock.ts';
import { createMemoryCache } from '../memory/cache.ts';
import { createBudgets } from '../memory/budgets.ts';
import { createMemoryCounters } from '../memory/counters.ts';
import { createMemoryLimiter } from '../memory/limiter.ts';
import { createMemoryVectorIndex } from '../memory/vector-index.ts';
import { createNoAnalytics } from '../none/no-analytics.ts';
import { SharedLatencies } from '../../core/routing/plan/routing-state.ts';
import { Channel, type Offered } from './channel.ts';
import { LatencyExchange } from './latencies.ts';
import { Loans } from './loans.ts';
import type { LatencyCalls, LoanCalls, ParentCalls } from './parent-calls.ts';
import { createParentStores } from './parent-stores.ts';
import { serveStores } from './serve-stores.ts';

/** A parent and its workers, joined by real sockets. */
async function open(count = 2, minRequests?: number) {
  const clock = new ManualClock();
  const log = recordingLog([]);
  const windows = createMemoryCounters({ clock, log });
  const budgets = createBudgets({ clock, log });
  const loans = new Loans({
    ...{ windows, budgets, clock },
    limiter: createMemoryLimiter({ counters: windows, budgets }),
  });
  const stores = {
    ...{ loans, budgets, resources: undefined, ledger: undefined, analytics: createNoAnalytics() },
    cache: createMemoryCache({ clock, maxBytes: 1000, maxValueBytes: 100 }),
    vectors: createMemoryVectorIndex({ clock }),
    latencies: new LatencyExchange(new SharedLatencies(clock), clock),
  };
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  /** Calls of workers, by name. */
  const calls: Record<string, number> = {};
  const begin = async () => {
    const near = connect(port, '127.0.0.1');
    const [far] = (await once(server, 'connection')) as [typeof near];
    const served = serveStores(stores, clock, () => parentSide);
    const counted = Object.fromEntries(
      Object.entries(served.calls).map(([name, work]) => [
        name,
        (...args: never[]) => {
          calls[name] = (calls[name] ?? 0) + 1;
          return work(...args);
        },
      ]),
    );
    const parentSide = new Channel<LoanCalls & LatencyCalls>(far, counted);
    void parentSide.closed.then(() => served.end());
    const offered: Record<string, (...args: never[]) => unknown> = {};
    const parent = new Channel<ParentCalls>(near, offered);
    const own = createParentStores({
      parent,
      clock,
      log,
      metrics: createMetrics(),
      maxValueBytes: 100,
      minRequests,
    });
    const recalls: Offered<LoanCalls> = { 'loans.recall': (numbers) => own.leases.recall(numbers) };
    Object.assign(offered, recalls);
    return {
      ...own,
      kill: async () => {
        near.destroy();
        await parentSide.closed;
        await settle();
      },
      /** Takes calls, and answers none. */
      hang: () => void (offered['loans.recall'] = () => new Promise(() => undefined)),
    };
  };
  const workers: Awaited<ReturnType<typeof begin>>[] = [];
  for (let i = 0; i < count; i++) workers.push(await begin());
  return {
    ...{ clock, windows, budgets, loans, workers, calls, begin },
    close: async () => {
      for (const worker of workers) await worker.kill();
      server.close();
      windows.close();
    },
  };
}

async function opened(t: TestContext, count?: number, minRequests?: number) {
  const subject = await open(count, minRequests);
  t.after(() => subject.close());
  return subject;
}

const minute = 60_000;
const perMinute = (limit: number) => testCharges([{ key: 'r', limit, windowMs: minute }]);

/** Admits this many requests, one after the other; resolves with how many were admitted. */
async function ask(limiter: Limiter, charges: Charges, count: number): Promise<number> {
  let admitted = 0;
  for (let i = 0; i < count; i++)
    if (outcomeOf(await limiter.admit(charges, expects(1, 0.01))) === 'admitted') admitted += 1;
  return admitted;
}

test('two workers at once admit exactly the limit, with few calls of their parent', async (t) => {
  const { workers, calls, clock } = await opened(t);
  const charges = perMinute(3000);
  const admissions: Promise<Admission>[] = [];
  for (let round = 0; round < 80; round++) {
    for (const { limiter } of workers)
      for (let i = 0; i < 25; i++) admissions.push(Promise.resolve(limiter.admit(charges, expects(0))));
    await clock.pass(20);
  }
  const outcomes = (await Promise.all(admissions)).map(outcomeOf);
  assert.equal(outcomes.filter((one) => one === 'admitted').length, 3000);
  assert.equal(outcomes.length, 4000);
  // A refusal is a call of its own.
  assert.ok((calls['limiter.admit'] ?? 0) < 1000 + 400, JSON.stringify(calls));
});

test('what one worker holds and does not take is admitted on the other, and by the parent', async (t) => {
  const { workers, loans, windows, calls } = await opened(t);
  const [one, other] = workers as [(typeof workers)[0], (typeof workers)[0]];
  const charges = perMinute(400);
  assert.equal(await ask(one.limiter, charges, 60), 60);
  const left = windows.take(charges.requests?.windows ?? [], 0).windows[0]?.remaining ?? 0;
  assert.ok(left < 340, `the parent counts what is lent: ${left}`);
  const before = calls['limiter.admit'];
  assert.equal(await ask(other.limiter, charges, 300), 300);
  assert.equal(await ask(loans, charges, 100), 40);
  assert.equal(await ask(one.limiter, charges, 10), 0, 'nothing is left in any process');
  assert.ok((calls['limiter.admit'] ?? 0) - (before ?? 0) < 200, JSON.stringify(calls));
});

test('a budget is used up to its limit over workers, and what is not used comes back', async (t) => {
  const { workers, budgets, calls, clock } = await opened(t);
  const budget = testBudget('b', 'cost', 10);
  const charges = testCharges([], [], [budget]);
  let admitted = 0;
  for (let i = 0; i < 1500; i++) {
    const { limiter } = workers[i % 2] as (typeof workers)[0];
    const admission = await limiter.admit(charges, expects(1, 0.02));
    if (outcomeOf(admission) !== 'admitted') continue;
    admitted += 1;
    await (admission as LimitReservation).settle({ cost: 0.01, tokens: 1, requests: 1 });
    if (i % 10 === 0) clock.advance(5);
  }
  assert.equal(admitted, 1000);
  assert.equal(budgets.usage(budget).used, 10);
  assert.ok((calls['limiter.admit'] ?? 0) < 800, JSON.stringify(calls));
});

test('what a worker has taken is told within a tenth of a second, and what it does not take goes back', async (t) => {
  const { workers, windows, budgets, clock } = await opened(t);
  const [{ limiter }] = workers as [(typeof workers)[0]];
  const window = { key: 'r', limit: 1000, windowMs: minute };
  const budget = testBudget('b', 'requests', 1000);
  for (let i = 0; i < 50; i++) {
    const admission = await limiter.admit(testCharges([window], [], [budget]), expects(0));
    await (admission as LimitReservation).settle({ cost: 0, tokens: 0, requests: 1 });
  }
  await clock.pass(100);
  assert.equal(budgets.usage(budget).used, 50);
  for (let i = 0; i < 12; i++) await clock.pass(100);
  assert.equal(windows.take([window], 0).windows[0]?.remaining, 950);
  assert.equal(budgets.leftOf(budget), 950);
});

test('what a killed worker held is used, and does not come back', async (t) => {
  const { workers, windows, budgets, clock } = await opened(t);
  const [killed, other] = workers as [(typeof workers)[0], (typeof workers)[0]];
  const window = { key: 'r', limit: 400, windowMs: minute };
  const budget = testBudget('b', 'requests', 1000);
  assert.equal(await ask(killed.limiter, testCharges([window], [], [budget]), 50), 50);
  await clock.pass(100);
  const left = windows.leftOf(window);
  assert.ok(left < 350, String(left));
  await killed.kill();
  assert.equal(await ask(other.limiter, testCharges([window]), 400), left);
  assert.equal(budgets.usage(budget).used, 400 - left);
  await clock.pass(minute);
  assert.equal(windows.leftOf(window), 400);
});

test('a worker that does not answer holds up a refusal for a second, and once', async (t) => {
  const { workers, clock, windows } = await opened(t);
  const [hangs, other] = workers as [(typeof workers)[0], (typeof workers)[0]];
  const charges = perMinute(100);
  await ask(hangs.limiter, charges, 20);
  hangs.hang();
  const left = windows.leftOf({ key: 'r', limit: 100, windowMs: minute });
  assert.equal(await ask(other.limiter, charges, left - 1), left - 1);
  const last = ask(other.limiter, charges, 2);
  await settle();
  await clock.pass(1000);
  assert.equal(await last, 1);
  assert.equal(await ask(other.limiter, charges, 5), 0);
});

test('a lowered limit takes back what was lent under the higher one', async (t) => {
  const { workers } = await opened(t);
  const [one, other] = workers as [(typeof workers)[0], (typeof workers)[0]];
  assert.equal(await ask(one.limiter, perMinute(1000), 50), 50);
  assert.equal(await ask(other.limiter, perMinute(60), 50), 10);
  assert.equal(await ask(one.limiter, perMinute(60), 50), 0);
  assert.equal(await ask(one.limiter, perMinute(1000), 50), 50);
});

test('counters of plugins are lent too, and say what is left', async (t) => {
  const { workers, calls } = await opened(t);
  const windows = [{ key: 'p', limit: 500, windowMs: minute }];
  const take = async (by: number) => {
    const { counters } = workers[by] as (typeof workers)[0];
    return counters.take(windows, 1);
  };
  for (let i = 1; i <= 100; i++) assert.equal((await take(0)).windows[0]?.remaining, 500 - i);
  assert.ok((calls['counters.take'] ?? 0) < 40, JSON.stringify(calls));
  let admitted = 0;
  for (let i = 0; i < 500; i++) if ((await take(1)).allowed) admitted += 1;
  assert.equal(admitted, 400);
  const refused = await take(0);
  assert.deepEqual(
    [refused.allowed, refused.windows[0]?.remaining, refused.windows[0]?.resetMs],
    [false, 0, minute],
  );
});

test('a window that is used as a count is exact on every worker', async (t) => {
  const { workers } = await opened(t);
  const windows = [{ key: 'breaker', limit: 1_000_000_000, windowMs: minute, isCount: true as const }];
  for (let count = 1; count <= 100; count++) {
    const { counters } = workers[count % 2] as (typeof workers)[0];
    const { windows: states } = await counters.take(windows, 1);
    assert.equal(1_000_000_000 - (states[0]?.remaining ?? 0), count);
  }
});

test('a raised limit does not count for what was lent under the lower one', async (t) => {
  const { workers } = await opened(t);
  const [one, other] = workers as [(typeof workers)[0], (typeof workers)[0]];
  assert.equal(await ask(one.limiter, perMinute(100), 30), 30);
  assert.equal(await ask(other.limiter, perMinute(1000), 200), 200);
  assert.equal(await ask(one.limiter, perMinute(100), 10), 0);
});

type Opened = Awaited<ReturnType<typeof open>>;

/** Has every worker tell what it knows before and after each settlement: what is given back, is at that moment. */
function telling(limiter: Limiter, workers: Opened['workers']): Limiter {
  const tell = () => Promise.all(workers.map(({ leases }) => leases.report()));
  return {
    admit: async (charges, expected) => {
      const admission = await limiter.admit(charges, expected);
      if (admission?.isAdmitted !== true) return admission;
      const { reserved } = admission;
      const done = async (used: BudgetAmounts): Promise<void> => {
        await tell();
        await admission.settle(used);
        await tell();
      };
      return { isAdmitted: true, reserved, settle: done };
    },
  };
}

type Step =
  | {
      readonly kind: 'ask';
      readonly by: number;
      readonly of: number;
      readonly tokens: number;
      readonly count: number;
    }
  | { readonly kind: 'settle'; readonly which: number; readonly part: number }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'limit'; readonly factor: number };

const aStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('ask' as const),
      by: fc.nat(2),
      of: fc.nat(4),
      tokens: fc.integer({ min: 1, max: 20 }),
      count: fc.integer({ min: 1, max: 12 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('settle' as const), which: fc.nat(99), part: fc.nat(3) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(1, 30, 150, 1200) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('limit' as const), factor: fc.constantFrom(0.5, 1, 2) }),
  },
);

test('admits in any sequence what one process would, and most of it without a call of the parent', async (t) => {
  const { clock, workers, loans, calls } = await opened(t, 2, 1);
  const log = recordingLog([]);
  const counters = createMemoryCounters({ clock, log });
  const single = createMemoryLimiter({ counters, budgets: createBudgets({ clock, log }) });
  t.after(() => counters.close());
  const gateways = [...workers.map(({ limiter }) => limiter), loans].map((one) => telling(one, workers));
  let sequence = 0;
  let asked = 0;
  const run = async (steps: readonly Step[]): Promise<void> => {
    const name = `s${(sequence += 1)}`;
    let factor = 1;
    let known = new Map<number, Charges>();
    const chargesOf = (of: number): Charges => {
      const requests = [{ key: `${name}-r`, limit: 60 * factor, windowMs: 2400 }];
      const tokens = [{ key: `${name}-t`, limit: 600 * factor, windowMs: 1200 }];
      const budgets = [
        testBudget(`${name}-tokens`, 'tokens', 900 * factor, 5000),
        testBudget(`${name}-cost`, 'cost', 50 * factor),
      ];
      const all = [
        testCharges(requests),
        testCharges([], tokens),
        testCharges([], [], budgets),
        testCharges(requests, tokens, budgets.slice(0, 1)),
        testCharges([], [], budgets.slice(1)),
      ];
      const charges = known.get(of) ?? all[of] ?? testCharges([]);
      known.set(of, charges);
      return charges;
    };
    const underWay: { one: LimitReservation; same: LimitReservation; tokens: number }[] = [];
    for (const step of steps) {
      if (step.kind === 'wait') await clock.pass(step.ms);
      else if (step.kind === 'limit') {
        factor = step.factor;
        known = new Map();
      } else if (step.kind === 'ask') {
        const use = expects(step.tokens, step.tokens / 10);
        for (let i = 0; i < step.count; i++) {
          if (step.by < 2) asked += 1;
          const charges = chargesOf(step.of);
          const one = await (gateways[step.by] as Limiter).admit(charges, use);
          const same = single.admit(charges, use);
          assert.equal(outcomeOf(one), outcomeOf(same));
          if (one?.isAdmitted === true && same?.isAdmitted === true) {
            assert.deepEqual(one.reserved, same.reserved);
            underWay.push({ one, same, tokens: step.tokens });
          }
        }
      } else if (underWay.length > 0) {
        const [{ one, same, tokens }] = underWay.splice(step.which % underWay.length, 1) as [
          (typeof underWay)[0],
        ];
        const amount = Math.floor((tokens * step.part) / 2);
        const used = { cost: amount / 10, tokens: amount, requests: 1 };
        await one.settle(used);
        await same.settle(used);
      }
    }
  };
  await fc.assert(fc.asyncProperty(fc.array(aStep, { minLength: 20, maxLength: 120 }), run), { numRuns: 60 });
  assert.ok((calls['limiter.admit'] ?? 0) < asked * 0.7, `${calls['limiter.admit']} of ${asked}`);
});

limiterConformance('a parent and two workers that borrow what they can', async () => {
  const { clock, workers, loans, budgets, close } = await open(2, 1);
  const parents = { ...budgets, usage: budgets.usage.bind(budgets), groups: budgets.groups.bind(budgets) };
  const told = { ...parents, reset: loans.reset.bind(loans), tell: budgets.tell.bind(budgets) };
  return {
    gateways: [...workers.map(({ limiter }) => limiter), loans].map((limiter) => ({
      limiter: telling(limiter, workers),
      budgets: told,
    })),
    sharesUsual: true,
    advance: (ms) => clock.advance(ms),
    close,
  };
});
