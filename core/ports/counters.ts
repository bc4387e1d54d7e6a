import type { Budget, BudgetAmounts, BudgetRefusal, ExpectedUse } from './budgets.ts';

/** One sliding window over one key. */
export interface Window {
  /** What is counted, unique per limit and group (`rpm:<key id>`). */
  readonly key: string;
  /**
   * Whose it is: the organisation's id. A shared store keeps a group in one place, so that all windows of one call
   * are of the same group. Default: none.
   */
  readonly group?: string;
  /** The most that `amount`s may add up to within `windowMs`. */
  readonly limit: number;
  readonly windowMs: number;
}

export interface WindowState {
  readonly limit: number;
  readonly windowMs: number;
  /** What may still be taken now; never negative. */
  readonly remaining: number;
  /** Milliseconds until at least one more may be taken (0 when `remaining` > 0). */
  readonly resetMs: number;
}

export interface Decision {
  readonly allowed: boolean;
  /** Index into the windows of the one that refused for longest; -1 when allowed. */
  readonly refusedBy: number;
  readonly windows: readonly WindowState[];
}

/**
 * What happens to a `take` while a shared store is away or slow (more than 50 ms): `open` lets it through uncounted
 * (a decision without windows), `closed` throws or rejects with a `GatewayError` `limits_unavailable`, `local` counts
 * in this process. The memory implementation is never away.
 */
export type OnStoreFailure = 'open' | 'closed' | 'local';

/**
 * Shared counters. A window is 60 sub-buckets, each of which counts until the last of it is as old as the window: never
 * over the limit in any stretch of its length, and a request counts one sixtieth longer at the most. Counters live here and never in a plugin, so that a reload resets nobody's limit.
 */
export interface Counters {
  /**
   * Takes `amount` from every window, or from none when one of them would go over: one atomic decision.
   * The memory implementation answers at once, a remote one with a promise. `onFailure` is `local` by default.
   */
  take(windows: readonly Window[], amount: number, onFailure?: OnStoreFailure): Decision | Promise<Decision>;
  /** Adds to (or, negative, gives back from) windows without a check: reconciling an estimate, refunds. */
  adjust(windows: readonly Window[], delta: number): void | Promise<void>;
}

/** Windows that one request takes the same amount of. */
interface ChargedWindows {
  readonly windows: readonly Window[];
  /** The smallest of their limits: more at once fits into none of them. */
  readonly smallest: number;
}

/**
 * Everything that one request is counted in, all of one organisation. The texts that a store gets for it are put together
 * once: it does not change any more when it has been asked with.
 */
export interface Charges {
  /** One is taken of each. Undefined when nothing limits requests. */
  readonly requests: ChargedWindows | undefined;
  /** What the request will probably use is taken of each, at least 1, and at most what fits into an empty one. */
  readonly tokens: ChargedWindows | undefined;
  /** Undefined when no usage limit holds. */
  readonly budgets: readonly Budget[] | undefined;
}

/** A window that has no room for a request. */
export interface WindowRefusal {
  readonly isAdmitted: false;
  /** The list that it is in, and its index there: of several that refuse, the one that does so for longest. */
  readonly list: 'requests' | 'tokens';
  readonly index: number;
  readonly window: WindowState;
}

/** What was taken for a request whose use is not known yet. */
export interface LimitReservation {
  readonly isAdmitted: true;
  /** What was taken of each; of tokens, the more of windows and budgets. */
  readonly reserved: BudgetAmounts;
  /**
   * Counts what was used instead of what was taken; once, when it is known. NaN changes nothing. Nobody
   * has to wait for the promise, which never rejects: a shared store knows it when it resolves.
   */
  settle(used: BudgetAmounts): void | Promise<void>;
}

/** Undefined: admitted, with nothing to settle. */
export type Admission = LimitReservation | WindowRefusal | BudgetRefusal | undefined;

/** Decides over requests by everything that they are counted in. */
export interface Limiter {
  /**
   * Counts a request in all of its windows and budgets, or in none when one of them refuses: one atomic decision, for
   * all gateways that share the store. `expected` is what it reserves of budgets and takes of windows of tokens; it is
   * admitted also where a budget has less left than that. A budget is named before a window, and requests before tokens. The memory implementation answers at once, a remote one with a promise.
   *
   * While a shared store is away or slow, `open` (of `onFailure`, by default `local`) admits: windows count nothing,
   * budgets what is used; `closed` throws or rejects with a `GatewayError` `limits_unavailable`; `local` decides by
   * what this process knows.
   */
  admit(charges: Charges, expected: ExpectedUse, onFailure?: OnStoreFailure): Admission | Promise<Admission>;
}
