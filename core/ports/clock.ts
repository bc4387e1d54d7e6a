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
