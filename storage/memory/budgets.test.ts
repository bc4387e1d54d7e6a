import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { expects } from '../../tests/conformance/limiter.ts';
import fc from 'fast-check';
import type {
  AlertClaim,
  Budget,
  BudgetRefusal,
  BudgetReservation,
  UsageDelta,
  UsageLedger,
  UsageRow,
  UsageCrossing,
} from '../../core/ports/budgets.ts';
import { budgetPeriod } from '../../core/access/budget-period.ts';
import { createBudgets } from './budgets.ts';
import { recordingLog } from '../embedded/chdb-fixture.ts';

const day = 86_400_000;

class TestClock {
  time = Date.parse('2026-11-25T10:00:00Z');
  now(): number {
    return this.time;
  }
  monotonic(): number {
    return this.time;
  }
  after(): () => void {
    return () => undefined;
  }
}

/** A ledger as the store keeps one, in memory. */
class TestLedger implements UsageLedger {
  readonly rows = new Map<string, UsageRow & { change: number }>();
  readonly isShared = true;
  isAway = false;
  exchanges = 0;
  /** Runs while an exchange is under way. */
  meanwhile: () => void = () => undefined;
  #changes = 0;

  exchange(deltas: readonly UsageDelta[], after: string): ReturnType<UsageLedger['exchange']> {
    this.exchanges++;
    if (this.isAway) return Promise.reject(new Error('away'));
    this.meanwhile();
    for (const { key, organisationId, epoch, added, since } of deltas) {
      const claimed = { threshold: '', exhausted: '' };
      const fresh = { key, organisationId, epoch: 0, used: 0, since, corrections: 0, claimed };
      const row = this.rows.get(key) ?? fresh;
      if (epoch < row.epoch) continue;
      const used = epoch > row.epoch ? added : row.used + added;
      const first = epoch > row.epoch ? since : Math.min(since, row.since ?? since);
      this.rows.set(key, { ...row, epoch, used, since: first, change: ++this.#changes });
    }
    const rows = [...this.rows.values()].filter(({ change }) => change > Number(after || 0));
    return Promise.resolve({ rows, mark: String(this.#changes) });
  }

  correct(): Promise<ReadonlySet<string>> {
    return Promise.reject(new Error('not here'));
  }

  claim({ key, kind, mark }: AlertClaim): Promise<boolean> {
    const row = this.rows.get(key);
    if (row === undefined || row.claimed[kind] === mark) return Promise.resolve(false);
    this.rows.set(key, { ...row, claimed: { ...row.claimed, [kind]: mark } });
    return Promise.resolve(true);
  }
}

function budget(limit: number, given: Partial<Budget> = {}): Budget {
  return {
    key: 'key:o:k',
    organisationId: 'o',
    unit: 'tokens',
    limit,
    threshold: undefined,
    period: budgetPeriod({}, 0),
    subject: { type: 'api_key', id: 'k', name: 'ours', workspaceId: 'w' },
    ...given,
  };
}

const none = { cost: 0, tokens: 0, requests: 0 };
const tokens = (count: number) => ({ ...none, tokens: count });
const isRefusal = (result: BudgetReservation | BudgetRefusal): result is BudgetRefusal => 'budget' in result;

function open({ clock = new TestClock(), ledger = new TestLedger() } = {}) {
  const alerts: UsageCrossing[] = [];
  const log = recordingLog();
  const budgets = createBudgets({
    clock,
    log,
    ledger,
    alerts: { crossed: (crossing) => alerts.push(crossing) },
  });
  /** Uses so much at once; false when it was refused. */
  const use = (of: Budget, amount: number): boolean => {
    const result = budgets.reserve([of], expects(1));
    if (isRefusal(result)) return false;
    result.settle({ cost: amount, tokens: amount, requests: 1 });
    return true;
  };
  return { clock, ledger, budgets, alerts, use, lines: log.lines };
}

describe('budgets', () => {
  test('admit while something is left, and not when it is used up', () => {
    const { budgets, use } = open();
    assert.equal(use(budget(20), 32), true);
    const refused = budgets.reserve([budget(20)], expects(1));
    assert.ok(isRefusal(refused));
    assert.deepEqual([refused.isExhausted, refused.used, refused.resetsAt], [true, 32, undefined]);
    assert.equal(use(budget(40), 1), true, 'a higher limit lets it in at once');
    assert.equal(use(budget(0, { key: 'nothing' }), 1), false);
  });

  test('what requests under way have reserved is not given to others, and comes back', () => {
    const { budgets } = open();
    const first = budgets.reserve([budget(20)], expects(30));
    assert.ok(!isRefusal(first));
    const second = budgets.reserve([budget(20)], expects(1));
    assert.ok(isRefusal(second));
    assert.equal(second.isExhausted, false);
    first.settle(none);
    first.settle(tokens(50));
    assert.ok(!isRefusal(budgets.reserve([budget(20)], expects(1))), 'settling counts once');
  });

  test('of several budgets all are charged, or none', () => {
    const { budgets, use } = open();
    const small = budget(1, { key: 'small' });
    assert.equal(use(small, 5), true);
    const refused = budgets.reserve([budget(100), small], expects(60));
    assert.ok(isRefusal(refused));
    assert.equal(refused.budget, small);
    const other = budgets.reserve([budget(100)], expects(60));
    assert.ok(!isRefusal(other), 'the refused request reserved nothing');
  });

  test('cost is exact to a billionth of a dollar', () => {
    const { budgets, use } = open();
    const cents = budget(1, { unit: 'cost' });
    for (let i = 0; i < 10; i++) assert.equal(use(cents, 0.1), true);
    const { used, isExhausted } = budgets.usage(cents);
    assert.deepEqual([used, isExhausted], [1, true]);
  });

  test('a new period begins anew, and so does a reset, for every process', async () => {
    const clock = new TestClock();
    const ledger = new TestLedger();
    const here = open({ clock, ledger });
    const there = open({ clock, ledger });
    const daily = budget(10, { period: budgetPeriod({ periodicResetDays: 1 }, 0) });
    assert.equal(here.use(daily, 10), true);
    await here.budgets.sync();
    await there.budgets.sync();
    assert.equal(there.use(daily, 1), false, 'what one process counts is known to the other');
    await there.budgets.reset(daily.key, 'o');
    assert.equal(there.use(daily, 1), true);
    await here.budgets.sync();
    assert.equal(here.use(daily, 9), true);
    await here.budgets.sync();
    await there.budgets.sync();
    assert.equal(there.budgets.usage(daily).used, 10);
    clock.time += day;
    assert.equal(here.budgets.usage(daily).used, 0);
    assert.equal(here.use(daily, 3), true);
    await here.budgets.sync();
    await there.budgets.sync();
    assert.equal(there.budgets.usage(daily).used, 3);
  });

  test('the ledger knows since when a request counts that costs nothing, in each period once', async () => {
    const clock = new TestClock();
    const { ledger, budgets } = open({ clock });
    const monthly = budget(1, { unit: 'cost', period: budgetPeriod({ periodicReset: 'monthly' }, 0) });
    const free = () => {
      const reserved = budgets.reserve([monthly], expects(1));
      assert.ok(!isRefusal(reserved));
      reserved.settle(none);
    };
    free();
    await budgets.sync();
    const row = ledger.rows.get(monthly.key);
    assert.deepEqual([row?.used, row?.since], [0, clock.time - 50]);
    free();
    await budgets.sync();
    assert.equal(ledger.rows.get(monthly.key)?.change, row?.change);
    clock.time += 31 * day;
    free();
    await budgets.sync();
    assert.deepEqual([ledger.rows.get(monthly.key)?.since], [clock.time - 50]);
  });

  test('what is counted during an exchange waits for the next one', async () => {
    const { ledger, budgets, use } = open();
    use(budget(1000), 1);
    ledger.meanwhile = () => use(budget(1000), 1);
    await budgets.sync();
    assert.equal(ledger.exchanges, 1);
    await budgets.sync();
    assert.deepEqual([ledger.exchanges, ledger.rows.get('key:o:k')?.used], [2, 2]);
  });

  test('switched off they refuse and count nothing', () => {
    const budgets = createBudgets({ clock: new TestClock(), log: recordingLog(), enforces: false });
    for (let i = 0; i < 3; i++) {
      const result = budgets.reserve([budget(1)], expects(1));
      assert.ok(!isRefusal(result));
      result.settle(tokens(5));
    }
    assert.equal(budgets.usage(budget(1)).used, 0);
  });

  test('a restart forgets nothing', async () => {
    const ledger = new TestLedger();
    const before = open({ ledger });
    before.use(budget(20), 32);
    await before.budgets.close();
    const after = open({ ledger });
    await after.budgets.start();
    assert.equal(after.use(budget(20), 1), false);
    await after.budgets.close();
  });

  test('while the store is away it is counted here, told once, and stored later', async () => {
    const { ledger, budgets, use, lines } = open();
    ledger.isAway = true;
    assert.equal(use(budget(20), 15), true);
    await assert.rejects(budgets.sync());
    await assert.rejects(budgets.sync());
    assert.equal(use(budget(20), 15), true);
    assert.equal(use(budget(20), 15), false);
    assert.equal(lines.filter((line) => line.includes('cannot be exchanged')).length, 1);
    ledger.isAway = false;
    await budgets.sync();
    assert.equal(ledger.rows.get('key:o:k')?.used, 30);
  });

  test('each process tells a crossing once, and again after a higher limit or a new period', async () => {
    const clock = new TestClock();
    const ledger = new TestLedger();
    const all = [open({ clock, ledger }), open({ clock, ledger })] as const;
    /** What both have told since they were asked last: the same. */
    const told = async (): Promise<string[]> => {
      for (let i = 0; i < 2; i++) for (const { budgets } of all) await budgets.sync();
      const [here, there] = all.map(({ alerts }) => alerts.splice(0).map(({ id }) => id));
      assert.deepEqual(here, there);
      return here ?? [];
    };
    const of = (limit: number, threshold: number | undefined = 10): Budget =>
      budget(limit, { threshold, period: budgetPeriod({ periodicResetDays: 1 }, 0) });
    const start = clock.time - (clock.time % day);
    for (const { use } of all) use(of(20), 6);
    assert.deepEqual(await told(), [`key:o:k:threshold:${start}:20:10`]);
    for (const { use } of all) use(of(20), 6);
    assert.deepEqual(await told(), [`key:o:k:exhausted:${start}:20`]);
    for (const { use } of all) use(of(20), 1);
    assert.deepEqual(await told(), []);
    for (const { use } of all) use(of(40), 4);
    assert.deepEqual(await told(), [`key:o:k:threshold:${start}:40:10`]);
    for (const { use } of all) assert.equal(use(of(30), 1), false);
    const lowered = [`key:o:k:threshold:${start}:30:10`, `key:o:k:exhausted:${start}:30`];
    assert.deepEqual(await told(), lowered, 'a lowered limit is crossed without any use');
    clock.time += day;
    for (const { use } of all) use(of(30), 6);
    assert.deepEqual(await told(), [`key:o:k:threshold:${start + day}:30:10`]);
  });

  test('after a restart a crossing is told again unless it was claimed', async () => {
    const ledger = new TestLedger();
    const of = budget(20, { threshold: 10 });
    const before = open({ ledger });
    before.use(of, 32);
    await before.budgets.close();
    const told = before.alerts.map(({ kind }) => kind);
    assert.deepEqual(told, ['threshold', 'exhausted']);
    const [threshold] = before.alerts;
    assert.ok(threshold && (await ledger.claim({ ...threshold, by: 'here' })));
    const after = open({ ledger });
    await after.budgets.start();
    assert.equal(after.use(of, 1), false);
    await after.budgets.close();
    assert.deepEqual(
      after.alerts.map(({ kind }) => kind),
      ['exhausted'],
    );
  });

  test('tell the ledger since when they count: from the first request of a period, or from a reset', async () => {
    const { budgets, clock, ledger, use } = open();
    const daily = budget(1000, { period: budgetPeriod({ periodicResetDays: 1 }, 0) });
    const since = async (): Promise<number | undefined> => {
      await budgets.sync();
      return ledger.rows.get(daily.key)?.since;
    };
    use(daily, 1);
    const first = clock.time - 50;
    clock.time += 1000;
    use(daily, 1);
    assert.equal(await since(), first);
    clock.time += day;
    use(daily, 1);
    assert.equal(await since(), clock.time - 50);
    clock.time += 1000;
    await budgets.reset(daily.key, 'o');
    assert.equal(await since(), clock.time);
  });

  test('say whether the present threshold is reached', () => {
    const { use, budgets } = open();
    const isReached = (threshold?: number): boolean =>
      budgets.usage(budget(100, { threshold })).isThresholdReached;
    use(budget(100), 59);
    assert.deepEqual([isReached(60), isReached()], [false, false]);
    use(budget(100), 1);
    assert.deepEqual([isReached(60), isReached(61), isReached()], [true, false, false]);
  });

  test('hear that the ledger was corrected', async () => {
    const { budgets, ledger, use } = open();
    use(budget(100), 10);
    await budgets.sync();
    const row = ledger.rows.get('key:o:k');
    assert.ok(row);
    ledger.rows.set('key:o:k', { ...row, used: 30, corrections: 1 });
    use(budget(100), 1);
    await budgets.reread();
    assert.equal(budgets.usage(budget(100)).used, 31);
  });

  test('property: what is used never goes over the limit by more than what was under way', () => {
    const step = fc.oneof(
      fc.record({ expected: fc.integer({ min: 0, max: 50 }) }),
      fc.record({ settles: fc.nat(20), used: fc.integer({ min: 0, max: 60 }) }),
      fc.record({ waits: fc.integer({ min: 1, max: 12 }) }),
    );
    const limits = fc.array(fc.integer({ min: 0, max: 200 }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(limits, fc.array(step, { maxLength: 60 }), (bounds, steps) => {
        const { budgets, clock } = open();
        const all = bounds.map((limit, index) =>
          budget(limit, { key: `b${index}`, period: budgetPeriod({ periodicResetDays: index + 1 }, 0) }),
        );
        const model = all.map(() => ({ used: 0, start: 0 }));
        const underWay: BudgetReservation[] = [];
        const renew = (): void =>
          model.forEach((one, index) => {
            const { start } = (all[index] as Budget).period(clock.now());
            if (start > one.start) Object.assign(one, { start, used: 0 });
          });
        for (const one of steps) {
          renew();
          if ('waits' in one) clock.time += one.waits * 3_600_000;
          else if ('expected' in one) {
            const exhausted = model.some(({ used }, index) => used >= (bounds[index] as number));
            const result = budgets.reserve(all, expects(one.expected));
            if (isRefusal(result)) {
              assert.equal(result.isExhausted, exhausted);
              assert.ok(exhausted || underWay.length > 0, 'nothing stands in the way');
            } else {
              assert.ok(!exhausted, 'admitted though exhausted');
              underWay.push(result);
            }
          } else if (underWay.length > 0) {
            const [reservation] = underWay.splice(one.settles % underWay.length, 1);
            reservation?.settle(tokens(one.used));
            for (const counted of model) counted.used += one.used;
          }
        }
        renew();
        model.forEach(({ used }, index) => assert.equal(budgets.usage(all[index] as Budget).used, used));
      }),
    );
  });
});
