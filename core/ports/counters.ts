import type { Budget, BudgetAmounts, BudgetRefusal, ExpectedUse } from './budgets.ts';

/** Sub-buckets of a window. The count of one is kept until its last moment is as old as the window. */
export const subBuckets = 60;

/** One sliding window over one key. */
export interface Window {
  /** Name of the window, unique per limit and group (`rpm:<key id>`). */
  readonly key: string;
  /**
   * Owner of the window: the organisation's id. A shared store keeps a group in one place, so all windows of one call
   * must have the same group. Default: none.
   */
  readonly group?: string;
  /** Upper bound of the sum of `amount`s within `windowMs`. */
  readonly limit: number;
  readonly windowMs: number;
  /** True when its state is used as a count: no part of it is lent to another process. Default false. */
  readonly isCount?: true;
}

export interface WindowState {
  readonly limit: number;
  readonly windowMs: number;
  /** Amount that can be taken now; never negative. */
  readonly remaining: number;
  /** Milliseconds until at least one more can be taken (0 when `remaining` > 0). */
  readonly resetMs: number;
}

export interface Decision {
  readonly allowed: boolean;
  /** Index of the window that refuses for the longest time; -1 when allowed. */
  readonly refusedBy: number;
  readonly windows: readonly WindowState[];
}

/**
 * Behaviour of `take` while a shared store is unreachable or slow (more than 50 ms): `open` admits without counting
 * (a decision without windows), `closed` throws or rejects with a `GatewayError` `limits_unavailable`, `local` counts
 * in this process. The memory implementation is always available.
 */
export type OnStoreFailure = 'open' | 'closed' | 'local';

/**
 * Shared counters. A window is 60 sub-buckets; each counts until its newest request is as old as the window. So no
 * interval of the window's length exceeds the limit, and a request counts at most one sixtieth of the window longer.
 * Counters live here and not in plugins, so that a reload resets no limit.
 */
export interface Counters {
  /**
   * Takes `amount` from every window, or from none when one of them would exceed its limit: one atomic decision.
   * The memory implementation answers at once, a remote one with a promise. `onFailure` is `local` by default.
   */
  take(windows: readonly Window[], amount: number, onFailure?: OnStoreFailure): Decision | Promise<Decision>;
  /** Adds to (or, negative, gives back from) windows without a check: reconciling an estimate, refunds. */
  adjust(windows: readonly Window[], delta: number): void | Promise<void>;
}

/** Windows that one request takes the same amount of. */
interface ChargedWindows {
  readonly windows: readonly Window[];
  /** The smallest of their limits: no larger amount can be admitted. */
  readonly smallest: number;
}

/**
 * Windows and budgets that count one request, all of one organisation. Immutable after its first use, because a store
 * caches the texts that it derives from it.
 */
export interface Charges {
  /** The request takes 1 from each window. Undefined when nothing limits requests. */
  readonly requests: ChargedWindows | undefined;
  /** The request takes its expected tokens from each window: at least 1, at most `smallest`. */
  readonly tokens: ChargedWindows | undefined;
  /** Undefined when no usage limit applies. */
  readonly budgets: readonly Budget[] | undefined;
}

/** Refusal of a request by a full window. */
export interface WindowRefusal {
  readonly isAdmitted: false;
  /** List and index of the window: of several that refuse, the one that refuses for the longest time. */
  readonly list: 'requests' | 'tokens';
  readonly index: number;
  readonly window: WindowState;
}

/** Amounts that were taken for a request whose usage is not known yet. */
export interface LimitReservation {
  readonly isAdmitted: true;
  /** Amounts taken; of tokens, the larger one of windows and budgets. */
  readonly reserved: BudgetAmounts;
  /**
   * Replaces the amounts taken by the usage; call it once. NaN changes nothing. The promise never rejects and resolves
   * when a shared store has the usage; no caller needs to wait for it.
   */
  settle(used: BudgetAmounts): void | Promise<void>;
}

/** Undefined: admitted, with nothing to settle. */
export type Admission = LimitReservation | WindowRefusal | BudgetRefusal | undefined;

/** Admits or refuses requests by their windows and budgets. */
export interface Limiter {
  /**
   * Counts a request in all of its windows and budgets, or in none when one of them refuses: one atomic decision, for
   * all gateways that share the store. `expected` is reserved in budgets and taken from windows of tokens; a budget
   * admits the request even when less than that is left. Of several refusals it returns a budget before a window, and
   * requests before tokens. The memory implementation answers at once, a remote one with a promise.
   *
   * `onFailure` (default `local`) applies while a shared store is unreachable or slow. `open` admits: windows count
   * nothing, budgets count the usage; `closed` throws or rejects with a `GatewayError` `limits_unavailable`; `local`
   * decides by the counts of this process.
   */
  admit(charges: Charges, expected: ExpectedUse, onFailure?: OnStoreFailure): Admission | Promise<Admission>;
}

/*
 * Loans: the process that has the counts lends another one a part of what is left of a limit. A loan counts as
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
