import {
  type Budget,
  type BudgetAmounts,
  type BudgetRefusal,
  type BudgetReservation,
  type BudgetUsage,
  type ExpectedUse,
  type LendableBudgets,
  type LocalBudgets,
  rateCrossingPrefix,
  shownUnits,
  type UsageAlerts,
  type UsageCrossing,
  type UsageDelta,
  type UsageLedger,
  wholeUnits,
} from '../../core/ports/budgets.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { acceptedBeforeMs, Count } from './budget-count.ts';

const syncMs = 1000;
/** Delay until a budget that the ledger lacks is stored. */
const firstSyncMs = 50;
/** Nothing was counted before. */
const unknownSince = Number.MAX_SAFE_INTEGER;
/** Upper bound of deltas in one exchange. */
const maxPerBatch = 5000;

/** Dependencies and options. */
interface BudgetsOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Absent: counts are lost when the process ends. */
  readonly ledger?: UsageLedger | undefined;
  /** Every process that sees a crossing reports it, until it is claimed in the ledger. */
  readonly alerts?: UsageAlerts | undefined;
  /** False: everything is admitted, and nothing counted. Default true. */
  readonly enforces?: boolean;
}

/** Budgets counted in this process. */
interface CountedBudgets extends LocalBudgets, LendableBudgets {
  /**
   * Reads the ledger, and starts to exchange with it every second. Resolves after the first exchange, even a failed
   * one.
   */
  start(): Promise<void>;
  /** Exchanges with the ledger now. Rejects when that fails. */
  sync(): Promise<void>;
  /** Reads the whole ledger again, after an external correction. Rejects when that fails. */
  reread(): Promise<void>;
  /** Stops, after a last exchange. False when that failed: part of the counts is missing in the ledger. */
  close(): Promise<boolean>;
}

/**
 * Budgets counted exactly in the memory of this process, and exchanged with a ledger every second: counts of other
 * processes arrive a second later, and the end of the process loses at most one second.
 */
export function createBudgets(options: BudgetsOptions): CountedBudgets {
  return new MemoryBudgets(options);
}

class MemoryBudgets implements CountedBudgets {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #ledger: UsageLedger | undefined;
  readonly #alerts: UsageAlerts | undefined;
  readonly enforces: boolean;
  readonly #counts = new Map<string, Count>();
  #dirty: Count[] = [];
  /** Budgets that may have crossed a limit since the last exchange. */
  readonly #crossed = new Set<Count>();
  #mark = '';
  #cancel: () => void = () => undefined;
  #running: Promise<void> | undefined;
  #isClosed = false;
  #isFailing = false;
  #isHurried = false;

  constructor({ clock, log, ledger, alerts, enforces = true }: BudgetsOptions) {
    this.enforces = enforces;
    this.#clock = clock;
    this.#log = log;
    this.#ledger = ledger;
    this.#alerts = alerts;
  }

  reserve(
    budgets: readonly Budget[],
    expected: ExpectedUse,
    replicas = 1,
  ): BudgetReservation | BudgetRefusal {
    if (!this.enforces) return new Reservation(none, none, none, this.#settle);
    const now = this.#clock.now();
    const counts: Count[] = [];
    const amounts: number[] = [];
    let refusal: BudgetRefusal | undefined;
    for (const budget of budgets) {
      const count = this.#countAt(budget, now);
      const limit = wholeUnits(budget.limit, budget.unit);
      if (count.used + count.reserved >= limit || (replicas > 1 && count.isShareTaken(limit, replicas))) {
        const isExhausted = count.used >= limit;
        // An exhausted budget is the reason that the caller needs; other limits recover by themselves.
        if (refusal === undefined || (isExhausted && !refusal.isExhausted))
          refusal = {
            isAdmitted: false,
            budget,
            isExhausted,
            used: shownUnits(count.used, budget.unit),
            resetsAt: budget.period(now).end,
          };
        // A lowered limit can be crossed without use, and a crossing missed in a restart is reported now.
        this.#look(count, budget);
        continue;
      }
      counts.push(count);
      amounts.push(count.amountFor(expected));
    }
    return refusal ?? this.#reserved(budgets, counts, amounts);
  }

  hold(budgets: readonly Budget[], amounts: readonly number[]): BudgetReservation {
    if (!this.enforces) return new Reservation(none, none, none, this.#settle);
    const now = this.#clock.now();
    const counts = budgets.map((budget) => this.#countAt(budget, now));
    return this.#reserved(budgets, counts, amounts);
  }

  #reserved(
    budgets: readonly Budget[],
    counts: readonly Count[],
    amounts: readonly number[],
  ): BudgetReservation {
    counts.forEach((count, index) => (count.reserved += amounts[index] as number));
    return new Reservation(budgets, counts, amounts, this.#settle);
  }

  countOf(budget: Budget): Count {
    return this.#countAt(budget, this.#clock.now());
  }

  learn(budget: Budget, epoch: number, used: number): void {
    const count = this.countOf(budget);
    count.learn(epoch, used, this.#clock.now());
    this.#look(count, budget);
  }

  usage({ key, unit, limit, threshold, period }: Parameters<LocalBudgets['usage']>[0]): BudgetUsage {
    const count = this.#counts.get(key);
    const { start } = period(this.#clock.now());
    const isOld = count === undefined || count.epoch < start;
    const used = isOld ? 0 : count.used;
    const epoch = Math.max(start, count?.epoch ?? 0);
    return {
      used: shownUnits(used, unit),
      isExhausted: used >= wholeUnits(limit, unit),
      lastResetAt: epoch === 0 ? undefined : epoch,
      isThresholdReached: threshold !== undefined && used >= wholeUnits(threshold, unit),
    };
  }

  groups(prefix: string): readonly string[] {
    const found: string[] = [];
    for (const key of this.#counts.keys()) if (key.startsWith(prefix)) found.push(key);
    return found;
  }

  async reset(key: string, organisationId: string, after = 0): Promise<number> {
    // Later than the present epoch, even if that started in this millisecond.
    const epoch = Math.max(this.#clock.now(), (this.#counts.get(key)?.epoch ?? 0) + 1, after + 1);
    await this.#ledger?.exchange([{ key, organisationId, epoch, added: 0, since: epoch }], this.#mark);
    this.#counts.get(key)?.restart(epoch, epoch);
    return epoch;
  }

  async start(): Promise<void> {
    try {
      await this.sync();
    } catch {
      // The failure is logged, and retried every second.
    }
    this.#schedule();
  }

  sync(): Promise<void> {
    this.#running ??= this.#exchange().finally(() => (this.#running = undefined));
    return this.#running;
  }

  async reread(): Promise<void> {
    await this.#running?.catch(() => undefined);
    this.#mark = '';
    await this.sync();
  }

  async close(): Promise<boolean> {
    this.#isClosed = true;
    this.#cancel();
    await this.#running?.catch(() => undefined);
    return this.sync().then(
      () => true,
      () => false,
    );
  }

  leftOf(budget: Budget): number {
    if (!this.enforces) return 0;
    const { used, reserved } = this.countOf(budget);
    return wholeUnits(budget.limit, budget.unit) - used - reserved;
  }

  lend(budget: Budget, amount: number): void {
    this.countOf(budget).reserved += amount;
  }

  repay(budget: Budget, amount: number, used: number, requests: number): void {
    if (requests > 0 || used > 0) this.#settle(budget, this.countOf(budget), amount, used, requests);
    else this.countOf(budget).reserved -= amount;
  }

  readonly #settle: Settle = (budget, count, reserved, used, requests = 1) => {
    count.reserved -= reserved;
    if (used <= 0) {
      // A request without a price may be priced later: only the ledger holds the start of its count.
      if (budget.unit === 'cost' && !count.isStored) this.#touch(count);
      return;
    }
    if (requests > 0) count.learnUsual(used, requests);
    const now = this.#clock.now();
    count.beginAt(budget.period(now).start, now);
    count.used += used;
    count.pending += used;
    count.alone += used;
    this.#touch(count);
    if (!count.isStored) this.#hurry();
    this.#look(count, budget);
  };

  #countAt(budget: Budget, now: number): Count {
    const { key, organisationId } = budget;
    let count = this.#counts.get(key);
    if (count === undefined)
      this.#counts.set(key, (count = new Count(key, organisationId, now - acceptedBeforeMs)));
    count.budget = budget;
    count.beginAt(budget.period(now).start, now);
    return count;
  }

  #touch(count: Count): void {
    if (count.isDirty) return;
    count.isDirty = true;
    this.#dirty.push(count);
  }

  /** Notes a budget whose use exceeds its alert threshold. */
  #look(count: Count, { unit, limit, threshold = Infinity }: Budget): void {
    if (this.#alerts !== undefined && count.used >= wholeUnits(Math.min(limit, threshold), unit))
      this.#crossed.add(count);
  }

  /** Rows of requests can restore a lost count, but only the ledger shows that a budget exists. */
  #hurry(): void {
    if (this.#isHurried || this.#ledger === undefined || this.#isFailing) return;
    this.#isHurried = true;
    this.#cancel();
    this.#schedule(firstSyncMs);
  }

  #schedule(ms = syncMs): void {
    if (this.#isClosed) return;
    this.#cancel = this.#clock.after(ms, () => {
      this.#isHurried = false;
      void this.sync()
        .catch(() => undefined)
        .then(() => this.#schedule());
    });
  }

  async #exchange(): Promise<void> {
    const isNews = this.#ledger?.isShared === true || this.#dirty.length > 0 || this.#mark === '';
    if (this.#ledger !== undefined && isNews) {
      try {
        // Counts added meanwhile wait for the next exchange.
        let waiting = this.#dirty.length;
        do {
          await this.#exchangePart(this.#ledger);
          waiting -= maxPerBatch;
        } while (waiting > 0);
        if (this.#isFailing) this.#log.info('Usage of budgets is stored again');
        this.#isFailing = false;
      } catch (error) {
        if (!this.#isFailing)
          this.#log.warn(
            'Usage of budgets cannot be exchanged with the store; it is counted in this process and tried again every second',
            { error },
          );
        this.#isFailing = true;
        throw error;
      }
    }
    this.#tellCrossings();
  }

  async #exchangePart(ledger: UsageLedger): Promise<void> {
    const counts = this.#dirty.splice(0, maxPerBatch);
    const deltas: UsageDelta[] = counts.map(({ key, organisationId, epoch, pending, since }) => {
      return { key, organisationId, epoch, added: pending, since };
    });
    for (const count of counts) {
      count.isDirty = false;
      count.pending = 0;
    }
    try {
      const { rows, mark } = await ledger.exchange(deltas, this.#mark);
      this.#mark = mark;
      for (const { key, organisationId, epoch, used, since = unknownSince, claimed } of rows) {
        if (key.startsWith(rateCrossingPrefix)) continue;
        let count = this.#counts.get(key);
        if (count === undefined) this.#counts.set(key, (count = new Count(key, organisationId, since)));
        count.hear(claimed);
        if (epoch > count.epoch) count.restart(epoch, since);
        if (count.epoch !== epoch) continue;
        count.stored();
        if (since < count.since) count.since = since;
        // The row does not include counts added here meanwhile.
        count.used = used + count.pending;
        if (count.budget !== undefined) this.#look(count, count.budget);
      }
    } catch (error) {
      counts.forEach((count, index) => {
        const { epoch, added } = deltas[index] as UsageDelta;
        if (count.epoch === epoch) count.pending += added;
        this.#touch(count);
      });
      throw error;
    }
  }

  tell(crossing: UsageCrossing): void {
    this.#alerts?.crossed(crossing);
  }

  #tellCrossings(): void {
    for (const count of this.#crossed) {
      const { threshold, limit, unit } = count.budget as Budget;
      if (threshold !== undefined && count.used >= wholeUnits(threshold, unit))
        this.#tell(count, 'threshold', `${count.epoch}:${limit}:${threshold}`);
      if (count.used >= wholeUnits(limit, unit)) this.#tell(count, 'exhausted', `${count.epoch}:${limit}`);
    }
    this.#crossed.clear();
  }

  #tell(count: Count, kind: UsageCrossing['kind'], mark: string): void {
    if (count.told[kind] === mark) return;
    count.told = { ...count.told, [kind]: mark };
    const budget = count.budget as Budget;
    const { organisationId, subject, unit, limit, threshold } = budget;
    const { workspaceId, emails, ...named } = subject;
    const at = this.#clock.now();
    this.#alerts?.crossed({
      id: `${count.key}:${kind}:${mark}`,
      kind,
      key: count.key,
      mark,
      organisationId,
      workspaceId,
      subject: named,
      unit,
      limit,
      threshold,
      used: shownUnits(count.used, unit),
      resetsAt: budget.period(at).end,
      at,
      ...(emails !== undefined && { emails }),
    });
  }
}

const none: readonly never[] = [];

type Settle = (budget: Budget, count: Count, reserved: number, used: number, requests?: number) => void;

class Reservation implements BudgetReservation {
  readonly isAdmitted = true;
  readonly #budgets: readonly Budget[];
  readonly #counts: readonly Count[];
  readonly #amounts: readonly number[];
  readonly #settle: Settle;
  #isSettled = false;

  constructor(
    budgets: readonly Budget[],
    counts: readonly Count[],
    amounts: readonly number[],
    settle: Settle,
  ) {
    this.#budgets = budgets;
    this.#counts = counts;
    this.#amounts = amounts;
    this.#settle = settle;
  }

  get reserved(): BudgetAmounts {
    const reserved = { cost: 0, tokens: 0, requests: 0 };
    const amounts = this.#amounts;
    this.#budgets.forEach(
      ({ unit }, index) => (reserved[unit] ||= shownUnits(amounts[index] as number, unit)),
    );
    return reserved;
  }

  settle(used: BudgetAmounts): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#budgets.forEach((budget, index) => {
      const amount = wholeUnits(used[budget.unit], budget.unit);
      this.#settle(budget, this.#counts[index] as Count, this.#amounts[index] as number, amount);
    });
  }
}
