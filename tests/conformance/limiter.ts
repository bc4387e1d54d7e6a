import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import {
  type Budget,
  type BudgetAmounts,
  type Budgets,
  type ExpectedUse,
  nothingUsed,
  wholeUnits,
} from '../../core/ports/budgets.ts';
import type { Admission, Charges, Limiter, LimitReservation, Window } from '../../core/ports/counters.ts';
import { ModelBudget, ModelWindow } from './limiter-model.ts';

/** One gateway's limiter, and the usage that it tells. */
interface LimiterUnderTest {
  readonly limiter: Limiter;
  readonly budgets: Budgets;
}

/** Gateways that count together, with a hand on their clock. */
export interface LimitersUnderTest {
  readonly gateways: readonly LimiterUnderTest[];
  /** They learn together what a request costs; by default each for itself. */
  readonly sharesUsual?: boolean;
  /** Moves the time that all of them see, to the millisecond. */
  advance(ms: number): void | Promise<void>;
  close(): void | Promise<void>;
}

/** Opens the limiters of one test. Keys are unique per test, so that a shared store may be reused. */
type OpenLimiters = () => LimitersUnderTest | Promise<LimitersUnderTest>;

let opened = 0;

/** A budget of a test; it begins anew every `periodMs`, or never. */
export function testBudget(key: string, unit: Budget['unit'], limit: number, periodMs?: number): Budget {
  return {
    key,
    organisationId: 'org-1',
    unit,
    limit,
    threshold: undefined,
    period(at) {
      if (periodMs === undefined) return { start: 0, end: undefined };
      const start = Math.floor(at / periodMs) * periodMs;
      return { start, end: start + periodMs };
    },
    subject: { type: 'api_key', id: 'k', name: 'ours', workspaceId: 'w' },
  };
}

/** Windows of requests and of tokens, and budgets, as one request is counted in them. */
export function testCharges(
  requests: readonly Window[],
  tokens: readonly Window[] = [],
  budgets: readonly Budget[] = [],
): Charges {
  const list = (windows: readonly Window[]) =>
    windows.length === 0 ? undefined : { windows, smallest: Math.min(...windows.map(({ limit }) => limit)) };
  return {
    requests: list(requests),
    tokens: list(tokens),
    budgets: budgets.length === 0 ? undefined : budgets,
  };
}

/** What a request is expected to use; undefined dollars: nothing says what it costs. */
export function expects(tokens: number, cost?: number): ExpectedUse {
  return { tokens, cost };
}

/** What came of an admission: `admitted`, or what refuses. */
export function outcomeOf(admission: Admission): string {
  if (admission === undefined || admission.isAdmitted) return 'admitted';
  if ('budget' in admission) return admission.isExhausted ? 'exhausted' : 'reserved';
  return admission.list;
}

type Begin = (t: TestContext) => Promise<LimitersUnderTest & { key: string }>;

/** What every implementation of `Limiter` promises. `runs` is the number of random sequences. */
export function limiterConformance(name: string, open: OpenLimiters, runs = 100): void {
  async function begin(t: TestContext): Promise<LimitersUnderTest & { key: string }> {
    const subject = await open();
    t.after(() => subject.close());
    opened += 1;
    return { ...subject, key: `limiter-${process.pid}-${opened}` };
  }

  describe(`${name}: one decision`, () => decides(begin));
  describe(`${name}: any sequence`, () => followsModel(begin, runs));
  describe(`${name}: at the same time`, () => isExact(begin, runs));
}

function decides(begin: Begin): void {
  test('counts in everything, or in nothing', async (t) => {
    const { gateways, key } = await begin(t);
    const [{ limiter }] = gateways as [LimiterUnderTest];
    const group = 'org-1';
    const requests = [{ key: `${key}-r`, group, limit: 3, windowMs: 60_000 }];
    const tokens = [{ key: `${key}-t`, group, limit: 25, windowMs: 60_000 }];
    const budget = testBudget(`${key}-b`, 'requests', 2);
    const all = testCharges(requests, tokens, [budget]);
    const first = await limiter.admit(all, expects(20));
    assert.equal(outcomeOf(first), 'admitted');
    for (let i = 0; i < 5; i += 1) {
      const refused = await limiter.admit(all, expects(20));
      assert.ok(refused !== undefined && !refused.isAdmitted && 'list' in refused);
      assert.deepEqual([refused.list, refused.index, refused.window.remaining], ['tokens', 0, 5]);
    }
    await (first as LimitReservation).settle({ cost: 0, tokens: 10, requests: 1 });
    const others = testCharges(requests, [], [budget]);
    assert.equal(outcomeOf(await limiter.admit(others, expects(0))), 'admitted');
    assert.equal(outcomeOf(await limiter.admit(others, expects(0))), 'reserved');
    assert.equal(outcomeOf(await limiter.admit(testCharges(requests), expects(0))), 'admitted');
    assert.equal(outcomeOf(await limiter.admit(testCharges(requests), expects(0))), 'requests');
  });

  test('names an exhausted budget before one that comes back, and a budget before a window', async (t) => {
    const { gateways, key } = await begin(t);
    const [{ limiter }] = gateways as [LimiterUnderTest];
    const held = testBudget(`${key}-held`, 'requests', 1);
    const gone = testBudget(`${key}-gone`, 'tokens', 5);
    await limiter.admit(testCharges([], [], [held]), expects(0));
    const use = (await limiter.admit(testCharges([], [], [gone]), expects(1))) as LimitReservation;
    await use.settle({ cost: 0, tokens: 7, requests: 1 });
    const closed = [{ key: `${key}-r`, group: 'org-1', limit: 0, windowMs: 1000 }];
    const refused = await limiter.admit(testCharges(closed, [], [held, gone]), expects(1));
    assert.ok(refused !== undefined && !refused.isAdmitted && 'budget' in refused);
    assert.deepEqual(
      [refused.budget, refused.isExhausted, refused.used, refused.resetsAt],
      [gone, true, 7, undefined],
    );
  });

  for (const unit of ['cost', 'tokens'] as const) {
    const amount = (count: number): number => (unit === 'cost' ? count / 100 : count);

    test(`of twenty at once two are admitted where ${unit} are left for two, and what was not used comes back`, async (t) => {
      const { gateways, key } = await begin(t);
      const charges = testCharges([], [], [testBudget(`${key}-b`, unit, amount(60))]);
      const admit = async (index: number) => {
        const { limiter } = gateways[index % gateways.length] as LimiterUnderTest;
        return limiter.admit(charges, expects(30, amount(30)));
      };
      const admissions = await Promise.all(Array.from({ length: 20 }, (_, index) => admit(index)));
      const outcomes = admissions.map(outcomeOf);
      assert.deepEqual(
        [
          outcomes.filter((one) => one === 'admitted').length,
          outcomes.filter((one) => one === 'reserved').length,
        ],
        [2, 18],
      );
      const used = { ...nothingUsed, [unit]: amount(1), requests: 1 };
      for (const one of admissions) if (one?.isAdmitted === true) await one.settle(used);
      assert.deepEqual([outcomeOf(await admit(0)), outcomeOf(await admit(1))], ['admitted', 'admitted']);
      assert.equal(outcomeOf(await admit(2)), 'reserved');
    });

    test(`a request that is expected to use more ${unit} than are left is admitted when none is under way`, async (t) => {
      const { gateways, key } = await begin(t);
      const { limiter } = gateways[0] as LimiterUnderTest;
      const charges = testCharges([], [], [testBudget(`${key}-b`, unit, amount(10))]);
      const more = expects(500, amount(500));
      for (const used of [4, 5, 6]) {
        const one = (await limiter.admit(charges, more)) as LimitReservation;
        assert.equal(outcomeOf(one), 'admitted');
        assert.equal(one.reserved[unit], amount(500));
        assert.equal(outcomeOf(await limiter.admit(charges, expects(1, amount(1)))), 'reserved');
        await one.settle({ ...nothingUsed, [unit]: amount(used), requests: 1 });
      }
      assert.equal(outcomeOf(await limiter.admit(charges, more)), 'exhausted');
    });
  }

  test('a request of which nothing says what it costs reserves what those before it have cost', async (t) => {
    const { gateways, key } = await begin(t);
    const { limiter } = gateways[0] as LimiterUnderTest;
    const charges = testCharges([], [], [testBudget(`${key}-b`, 'cost', 1)]);
    const first = (await limiter.admit(charges, expects(5))) as LimitReservation;
    assert.equal(first.reserved.cost, 0);
    await first.settle({ cost: 0.5, tokens: 5, requests: 1 });
    const second = (await limiter.admit(charges, expects(5))) as LimitReservation;
    assert.equal(second.reserved.cost, 0.5);
    assert.equal(outcomeOf(await limiter.admit(charges, expects(5))), 'reserved');
    await second.settle(nothingUsed);
    const free = (await limiter.admit(charges, expects(5, 0))) as LimitReservation;
    assert.equal(free.reserved.cost, 0);
  });

  test('settling counts once, and what is no number changes nothing', async (t) => {
    const { gateways, key } = await begin(t);
    const [{ limiter, budgets }] = gateways as [LimiterUnderTest];
    const window = { key: `${key}-t`, group: 'org-1', limit: 30, windowMs: 60_000 };
    const budget = testBudget(`${key}-b`, 'tokens', 30);
    const charges = testCharges([], [window], [budget]);
    const first = (await limiter.admit(charges, expects(10))) as LimitReservation;
    assert.equal(first.reserved.tokens, 10);
    await first.settle({ cost: 0, tokens: 4, requests: 1 });
    await first.settle({ cost: 0, tokens: 400, requests: 1 });
    const second = (await limiter.admit(charges, expects(10))) as LimitReservation;
    await second.settle({ cost: Number.NaN, tokens: Number.NaN, requests: Number.NaN });
    assert.equal(budgets.usage(budget).used, 4);
    const refused = await limiter.admit(testCharges([], [{ ...window, limit: 14 }]), expects(1));
    assert.ok(refused !== undefined && !refused.isAdmitted && 'list' in refused);
    assert.equal(refused.window.remaining, 0);
  });

  test('a clock that goes back opens neither a window nor a budget', async (t) => {
    const { gateways, advance, key } = await begin(t);
    const [{ limiter }] = gateways as [LimiterUnderTest];
    const window = { key: `${key}-r`, group: 'org-1', limit: 1, windowMs: 10_000 };
    const budget = testBudget(`${key}-b`, 'requests', 1, 10_000);
    const use = (await limiter.admit(testCharges([], [], [budget]), expects(0))) as LimitReservation;
    await use.settle({ cost: 0, tokens: 0, requests: 1 });
    await limiter.admit(testCharges([window]), expects(0));
    await advance(-25_000);
    assert.equal(outcomeOf(await limiter.admit(testCharges([], [], [budget]), expects(0))), 'exhausted');
    assert.equal(outcomeOf(await limiter.admit(testCharges([window]), expects(0))), 'requests');
  });

  test('nothing that limits admits at once', async (t) => {
    const { gateways } = await begin(t);
    const [{ limiter }] = gateways as [LimiterUnderTest];
    assert.equal(await limiter.admit(testCharges([]), expects(5)), undefined);
  });
}

/** Where the next sequence of a test counts. */
function placesOf(key: string) {
  const group = 'org-1';
  const budget = (name: string, unit: Budget['unit'], periodMs?: number) => (limit: number) =>
    testBudget(`${key}-${name}`, unit, limit, periodMs);
  return {
    requests: [
      { key: `${key}-r1`, group, limit: 4, windowMs: 240 },
      { key: `${key}-r2`, group, limit: 9, windowMs: 960 },
    ],
    tokens: [{ key: `${key}-t1`, group, limit: 60, windowMs: 480 }],
    budgets: [budget('requests', 'requests'), budget('tokens', 'tokens', 2000), budget('cost', 'cost', 5000)],
  };
}

interface UnderWay {
  readonly gateway: number;
  readonly reservation: LimitReservation;
  readonly tokens: number;
  readonly isWindowed: boolean;
  readonly amounts: readonly { readonly index: number; readonly amount: number }[];
}

type Step =
  | {
      readonly kind: 'admit';
      readonly by: number;
      readonly of: readonly boolean[];
      readonly expected: ExpectedUse;
    }
  | { readonly kind: 'settle'; readonly which: number; readonly used: BudgetAmounts }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'limit'; readonly index: number; readonly limit: number }
  | { readonly kind: 'reset'; readonly by: number; readonly index: number };

const aStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('admit' as const),
      by: fc.nat(9),
      of: fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }),
      expected: fc.record({
        tokens: fc.nat(40),
        cost: fc.option(
          fc.nat(40).map((cents) => cents / 100),
          { nil: undefined },
        ),
      }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('settle' as const),
      which: fc.nat(50),
      used: fc.oneof(
        fc.constant(nothingUsed),
        fc.record({
          cost: fc.nat(30).map((cents) => cents / 100),
          tokens: fc.nat(50),
          requests: fc.constant(1),
        }),
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('wait' as const),
      ms: fc.oneof({ weight: 6, arbitrary: fc.nat(90) }, fc.constantFrom(700, 3000, 20_000)),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('limit' as const),
      index: fc.nat(2),
      limit: fc.integer({ min: 0, max: 12 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('reset' as const), by: fc.nat(9), index: fc.nat(2) }),
  },
);

/** Runs steps on gateways and on the model, and compares what they say. */
class Run {
  readonly #gateways: readonly LimiterUnderTest[];
  readonly #sharesUsual: boolean;
  readonly #places: ReturnType<typeof placesOf>;
  readonly #windows: readonly ModelWindow[];
  readonly #models = [new ModelBudget(), new ModelBudget(), new ModelBudget()];
  readonly #underWay: UnderWay[] = [];
  /** The charges that a generation keeps, by what they are of. */
  readonly #charges = new Map<string, Charges>();
  #budgets: readonly Budget[];
  now = 1_700_000_000_000;

  constructor(gateways: readonly LimiterUnderTest[], key: string, sharesUsual: boolean) {
    this.#sharesUsual = sharesUsual;
    this.#gateways = gateways;
    this.#places = placesOf(key);
    const { requests, tokens, budgets } = this.#places;
    this.#windows = [...requests, ...tokens].map((window) => new ModelWindow(window));
    this.#budgets = [budgets[0]?.(8), budgets[1]?.(90), budgets[2]?.(1)] as readonly Budget[];
  }

  async step(step: Exclude<Step, { readonly kind: 'wait' }>): Promise<void> {
    this.#renew();
    if (step.kind === 'admit') return this.#admit(step.by % this.#gateways.length, step.of, step.expected);
    if (step.kind === 'settle') return this.#settle(step.which, step.used);
    if (step.kind === 'limit') {
      const scale = [1, 15, 0.2][step.index] as number;
      const budget = this.#places.budgets[step.index]?.(step.limit * scale) as Budget;
      this.#budgets = this.#budgets.with(step.index, budget);
      return this.#charges.clear();
    }
    const { key } = this.#budgets[step.index] as Budget;
    const gateway = this.#gateways[step.by % this.#gateways.length] as LimiterUnderTest;
    const model = this.#models[step.index] as ModelBudget;
    model.used = 0;
    model.epoch = await gateway.budgets.reset(key, 'org-1');
  }

  /** The used amount, as each gateway knows it when the server has told it. */
  async end(): Promise<void> {
    this.#renew();
    for (const [index, budget] of this.#budgets.entries()) {
      const raised = { ...budget, limit: 1_000_000 };
      for (const { limiter, budgets } of this.#gateways) {
        const admission = (await limiter.admit(
          testCharges([], [], [raised]),
          expects(0),
        )) as LimitReservation;
        const { used } = budgets.usage(raised);
        assert.equal(wholeUnits(used, budget.unit), this.#models[index]?.used, budget.key);
        await admission.settle(nothingUsed);
      }
    }
  }

  #learner(gateway: number): number {
    return this.#sharesUsual ? 0 : gateway;
  }

  #renew(): void {
    this.#models.forEach((model, index) => model.beginAt(this.#startOf(index)));
  }

  #startOf(index: number): number {
    return (this.#budgets[index] as Budget).period(this.now).start;
  }

  async #admit(gateway: number, of: readonly boolean[], use: ExpectedUse): Promise<void> {
    const chosen = of.join();
    const { requests, tokens: tokenWindows } = this.#places;
    const budgets = this.#budgets.filter((_, index) => of[3 + index]);
    let charges = this.#charges.get(chosen);
    if (charges === undefined) {
      charges = testCharges(
        requests.filter((_, index) => of[index]),
        tokenWindows.filter((_, index) => of[2 + index]),
        budgets,
      );
      this.#charges.set(chosen, charges);
    }
    const amount =
      charges.tokens === undefined ? 0 : Math.max(1, Math.min(use.tokens, charges.tokens.smallest));
    const expected = this.#expected(of, amount);
    const { limiter } = this.#gateways[gateway] as LimiterUnderTest;
    const admission = await limiter.admit(charges, use);
    assert.equal(outcomeOf(admission), expected);
    if (admission === undefined) assert.equal(charges.tokens ?? charges.budgets, undefined);
    if (expected !== 'admitted') return;
    this.#windows.forEach((window, index) => {
      if (of[index] === true) window.adjust(this.now, index < 2 ? 1 : amount);
    });
    if (admission === undefined || !admission.isAdmitted) return;
    const amounts = this.#models.flatMap((model, index) => {
      if (of[3 + index] !== true) return [];
      const reserved = model.amount(this.#learner(gateway), (this.#budgets[index] as Budget).unit, use);
      model.reserved += reserved;
      return [{ index, amount: reserved }];
    });
    const isWindowed = charges.tokens !== undefined;
    this.#underWay.push({ gateway, reservation: admission, tokens: amount, isWindowed, amounts });
  }

  #expected(of: readonly boolean[], amount: number): string {
    let expected = '';
    this.#models.forEach(({ used, reserved }, index) => {
      const { limit, unit } = this.#budgets[index] as Budget;
      if (of[3 + index] !== true || used + reserved < wholeUnits(limit, unit)) return;
      if (used >= wholeUnits(limit, unit)) expected = 'exhausted';
      else expected ||= 'reserved';
    });
    if (expected !== '') return expected;
    const hasNoRoom = (index: number, more: number): boolean => {
      const model = this.#windows[index] as ModelWindow;
      return of[index] === true && model.total(this.now) + more > model.window.limit;
    };
    if (hasNoRoom(0, 1) || hasNoRoom(1, 1)) return 'requests';
    return hasNoRoom(2, amount) ? 'tokens' : 'admitted';
  }

  async #settle(which: number, used: BudgetAmounts): Promise<void> {
    if (this.#underWay.length === 0) return;
    const [one] = this.#underWay.splice(which % this.#underWay.length, 1) as [UnderWay];
    await one.reservation.settle(used);
    if (one.isWindowed) this.#windows[2]?.adjust(this.now, used.tokens - one.tokens);
    for (const { index, amount } of one.amounts) {
      const { unit } = this.#budgets[index] as Budget;
      this.#models[index]?.settle(this.#learner(one.gateway), amount, wholeUnits(used[unit], unit));
    }
  }
}

function followsModel(begin: Begin, runs: number): void {
  test('of admissions, settlements, waits, changed limits and resets goes as it is defined', async (t) => {
    const { gateways, advance, key, sharesUsual = false } = await begin(t);
    let sequence = 0;
    let now = 1_700_000_000_000;
    await fc.assert(
      fc.asyncProperty(fc.array(aStep, { minLength: 1, maxLength: 80 }), async (steps) => {
        sequence += 1;
        const run = new Run(gateways, `${key}-${sequence}`, sharesUsual);
        run.now = now;
        for (const step of steps) {
          if (step.kind !== 'wait') {
            await run.step(step);
            continue;
          }
          await advance(step.ms);
          now += step.ms;
          run.now = now;
        }
        await run.end();
      }),
      { numRuns: runs },
    );
  });
}

function isExact(begin: Begin, runs: number): void {
  test('no limit of requests is exceeded, and none is left unused', async (t) => {
    const { gateways, key } = await begin(t);
    let sequence = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 0, max: 40 }),
        fc.integer({ min: 0, max: 40 }),
        fc.array(fc.boolean(), { minLength: 60, maxLength: 60 }),
        async (count, ofBudget, ofWindow, settles) => {
          sequence += 1;
          const window = { key: `${key}-w${sequence}`, group: 'org-1', limit: ofWindow, windowMs: 60_000 };
          const budget = testBudget(`${key}-b${sequence}`, 'requests', ofBudget);
          const charges = testCharges([window], [], [budget]);
          const admitted = await Promise.all(
            Array.from({ length: count }, async (_, index) => {
              const { limiter } = gateways[index % gateways.length] as LimiterUnderTest;
              const admission = await limiter.admit(charges, expects(0));
              if (outcomeOf(admission) !== 'admitted') return false;
              if (settles[index] === true)
                await (admission as LimitReservation).settle({ cost: 0, tokens: 0, requests: 1 });
              return true;
            }),
          );
          assert.equal(admitted.filter(Boolean).length, Math.min(count, ofBudget, ofWindow));
        },
      ),
      { numRuns: runs },
    );
  });

  test('use goes over a budget by no more than what was under way, nor than one request where all is expected rightly', async (t) => {
    const { gateways, key } = await begin(t);
    let sequence = 0;
    const amount = fc.integer({ min: 1, max: 90 });
    const uses = fc.array(fc.record({ use: amount, expected: fc.option(amount, { nil: undefined }) }), {
      minLength: 1,
      maxLength: 40,
    });
    const units = fc.constantFrom<'cost' | 'tokens'>('cost', 'tokens');
    const limits = fc.integer({ min: 1, max: 300 });
    await fc.assert(
      fc.asyncProperty(uses, units, limits, fc.boolean(), async (all, unit, limit, isRight) => {
        sequence += 1;
        const budget = testBudget(`${key}-o${sequence}`, unit, limit);
        const charges = testCharges([], [], [budget]);
        let used = 0;
        const underWay = new Map<number, number>();
        /** Requests that were under way when the budget was exhausted. */
        let mostOver = 0;
        await Promise.all(
          all.map(async ({ use, expected }, index) => {
            const { limiter } = gateways[index % gateways.length] as LimiterUnderTest;
            const before = used;
            underWay.set(index, use);
            const told = isRight ? use : expected;
            const admission = await limiter.admit(charges, expects(told ?? 10, told));
            if (outcomeOf(admission) !== 'admitted') return void underWay.delete(index);
            assert.ok(before < limit, `admitted at ${before} of ${limit}`);
            await new Promise((resolve) => setImmediate(resolve));
            await (admission as LimitReservation).settle({ ...nothingUsed, [unit]: use, requests: 1 });
            if (used < limit && used + use >= limit)
              mostOver = [...underWay.values()].reduce((sum, one) => sum + one, 0);
            used += use;
            underWay.delete(index);
          }),
        );
        assert.ok(used - limit <= mostOver, `${used} of ${limit}`);
        if (isRight) assert.ok(used - limit < Math.max(...all.map(({ use }) => use)), `${used} of ${limit}`);
        for (const { limiter } of gateways) {
          const admission = await limiter.admit(charges, expects(0));
          assert.equal(outcomeOf(admission), used >= limit ? 'exhausted' : 'admitted');
          if (admission?.isAdmitted === true) await admission.settle(nothingUsed);
        }
      }),
      { numRuns: runs },
    );
  });
}
