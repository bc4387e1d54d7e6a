import type { Budget } from './budgets.ts';
import type { Window } from './counters.ts';

/*
 * Loans: the process that has the counts lends another one a part of what is left of a limit. What is lent counts as
 * taken until the borrower tells what it has really taken, and gives back the rest; so whatever the borrower admits
 * within its loan, no limit is exceeded.
 */

/** Windows of which a part can be lent. */
export interface LendableWindows {
  /** Amount that is neither taken nor lent; negative when more is taken than the limit. */
  leftOf(window: Window): number;
  /** Lends, or (negative) ends a part of a loan. Does not look at the limit. */
  lend(window: Window, amount: number): void;
  /** Counts what a borrower took `agoMs` milliseconds ago, as if it had been counted then. Does not look at the limit. */
  takeEarlier(window: Window, amount: number, agoMs: number): void;
}

/** Budgets of which a part can be lent. Whole units. */
export interface LendableBudgets {
  /** Amount that is neither used nor reserved nor lent. 0 where budgets are not enforced. */
  leftOf(budget: Budget): number;
  /** Lends: the amount is reserved. */
  lend(budget: Budget, amount: number): void;
  /** Ends a part of a loan, with what `requests` settled requests have used together; 0 requests: nothing is learnt. */
  repay(budget: Budget, amount: number, used: number, requests: number): void;
}
