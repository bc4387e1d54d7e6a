import type { Clock } from '../../core/ports/clock.ts';

/** A clock for tests that stands still until `advance` moves it; timers that fall due run in order. */
export class ManualClock implements Clock {
  private time: number;
  private readonly timers = new Set<{ readonly at: number; readonly run: () => void }>();

  constructor(start = 1_700_000_000_000) {
    this.time = start;
  }

  now(): number {
    return this.time;
  }

  monotonic(): number {
    return this.time;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { at: this.time + ms, run };
    this.timers.add(timer);
    return () => this.timers.delete(timer);
  }

  /** Timers that wait, for asserting that they were cancelled. */
  get waiting(): number {
    return this.timers.size;
  }

  /** Moves time by `ms`, also backwards, and runs what has fallen due. */
  advance(ms: number): void {
    const end = this.time + ms;
    for (;;) {
      const due = [...this.timers].filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.timers.delete(due);
      this.time = Math.max(this.time, due.at);
      due.run();
    }
    this.time = end;
  }
}
