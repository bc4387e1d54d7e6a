import type { Clock } from '../../core/ports/clock.ts';

/** A clock for tests that stands still until `advance` or `pass` moves it; timers that fall due run in order. */
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
    return () => void this.timers.delete(timer);
  }

  /** Timers that wait, for asserting that they were cancelled. */
  get waiting(): number {
    return this.timers.size;
  }

  /** Milliseconds until the next timer falls due; undefined without one. */
  get nextIn(): number | undefined {
    const [first] = this.dueBy(Infinity);
    return first === undefined ? undefined : Math.max(0, first.at - this.time);
  }

  /** Moves time by `ms`, also backwards, and runs what has fallen due. */
  advance(ms: number): void {
    const end = this.time + ms;
    while (this.runNext(end));
    this.time = end;
  }

  /** Moves on like `advance`, and lets promises and callbacks settle before, after, and between the timers. */
  async pass(ms: number): Promise<void> {
    const end = this.time + ms;
    await settle();
    while (this.runNext(end)) await settle();
    this.time = end;
    await settle();
  }

  /** Moves on in steps of 20 ms until a promise is done. */
  async passUntil(promise: Promise<unknown> | undefined): Promise<void> {
    let isDone = false;
    void Promise.resolve(promise).then(() => (isDone = true));
    while (!isDone) await this.pass(20);
  }

  private runNext(end: number): boolean {
    const [due] = this.dueBy(end);
    if (due === undefined) return false;
    this.timers.delete(due);
    this.time = Math.max(this.time, due.at);
    due.run();
    return true;
  }

  private dueBy(end: number) {
    return [...this.timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
  }
}

/** Lets every promise and every callback that can come without input do so. */
export async function settle(): Promise<void> {
  for (let round = 0; round < 4; round++) await new Promise((resolve) => setImmediate(resolve));
}
