import {
  type BudgetAmounts,
  type BudgetReservation,
  type ExpectedUse,
  type LocalBudgets,
  nothingUsed,
} from '../../core/ports/budgets.ts';
import type { Admission, Charges, Limiter, LimitReservation, Window } from '../../core/ports/counters.ts';
import type { MemoryCounters } from './counters.ts';

/** Dependencies. */
interface MemoryLimiterOptions {
  readonly counters: MemoryCounters;
  readonly budgets: LocalBudgets;
}

/** A limiter with synchronous answers. */
interface MemoryLimiter extends Limiter {
  admit(charges: Charges, expected: ExpectedUse): Admission;
  /**
   * Same for one of `replicas` gateways that decide independently, each with its own windows: from budgets it takes no
   * more than its share of the remainder.
   */
  admitShare(charges: Charges, expected: ExpectedUse, replicas: number): Admission;
}

/** Decides by the counts in the memory of this process. */
export function createMemoryLimiter({ counters, budgets }: MemoryLimiterOptions): MemoryLimiter {
  return {
    admit(charges, expected) {
      return this.admitShare(charges, expected, 1);
    },
    admitShare({ requests, tokens: tokenWindows, budgets: charged }, expected, replicas) {
      const reservation = charged === undefined ? undefined : budgets.reserve(charged, expected, replicas);
      if (reservation?.isAdmitted === false) return reservation;
      if (requests === undefined && tokenWindows === undefined) return reservation;
      const amount =
        tokenWindows === undefined ? 0 : Math.max(1, Math.min(expected.tokens, tokenWindows.smallest));
      const refusal = counters.takeBoth(requests?.windows ?? none, tokenWindows?.windows ?? none, amount);
      if (refusal !== undefined) {
        reservation?.settle(nothingUsed);
        return refusal;
      }
      if (tokenWindows === undefined) return reservation;
      return new MemoryReservation(counters, { windows: tokenWindows.windows, amount }, reservation);
    },
  };
}

const none: readonly never[] = [];

/** Amounts taken from token windows. */
interface TakenTokens {
  readonly windows: readonly Window[];
  readonly amount: number;
}

class MemoryReservation implements LimitReservation {
  readonly isAdmitted = true;
  readonly #counters: MemoryCounters;
  readonly #taken: TakenTokens;
  readonly #budgets: BudgetReservation | undefined;
  #isSettled = false;

  constructor(counters: MemoryCounters, taken: TakenTokens, budgets: BudgetReservation | undefined) {
    this.#counters = counters;
    this.#taken = taken;
    this.#budgets = budgets;
  }

  get reserved(): BudgetAmounts {
    const { cost, tokens, requests } = this.#budgets?.reserved ?? nothingUsed;
    return { cost, tokens: Math.max(this.#taken.amount, tokens), requests };
  }

  settle(used: BudgetAmounts): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#budgets?.settle(used);
    const { windows, amount } = this.#taken;
    const difference = used.tokens - amount;
    if (difference !== 0 && Number.isFinite(difference)) this.#counters.adjust(windows, difference);
  }
}
