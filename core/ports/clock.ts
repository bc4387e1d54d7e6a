/** The machine's own time. Its timers keep no process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Time as the gateway sees it; tests replace it. */
export interface Clock {
  /** Wall clock, milliseconds since the epoch. */
  now(): number;
  /** A clock that never goes back, milliseconds with fractions. For durations. */
  monotonic(): number;
  /** Runs once after `ms`; the returned function cancels it. Never keeps the process alive. */
  after(ms: number, run: () => void): () => void;
}

/** How long to wait and what to report when it was not enough. */
interface Bound {
  readonly clock: Clock;
  /** Milliseconds. */
  readonly ms: number;
  /** The error to reject with when the time is up. */
  readonly late: () => Error;
}

/**
 * Runs `work` and settles as it does, or rejects with `late()` once the time is up. The work itself cannot be
 * stopped: the caller must cope with it ending later. A throw becomes a rejection.
 */
export function bounded<T>(work: () => T | Promise<T>, bound: Bound): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = bound.clock.after(bound.ms, () => reject(bound.late()));
    const running = async (): Promise<T> => work();
    void running().then(resolve, reject).finally(cancel);
  });
}
