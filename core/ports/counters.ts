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
 * Shared counters. A window is 60 sub-buckets with the oldest counted in full: never over the limit, at most
 * one sixtieth early. Counters live here and never in a plugin, so that a reload resets nobody's limit.
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
