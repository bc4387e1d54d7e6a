import type { Clock } from '../ports/clock.ts';

/** How long to wait and what to report when it was not enough. */
export interface Bound {
  readonly clock: Clock;
  /** Milliseconds. */
  readonly ms: number;
  /** The error to reject with when the time is up. */
  readonly late: () => Error;
}

/**
 * Runs `work` and settles as it does, or rejects with `late()` once the time is up. The work itself cannot be
 * stopped: whoever calls must cope with it ending later. A throw becomes a rejection.
 */
export function bounded<T>(work: () => T | Promise<T>, bound: Bound): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = bound.clock.after(bound.ms, () => reject(bound.late()));
    const running = async (): Promise<T> => work();
    void running().then(resolve, reject).finally(cancel);
  });
}
