import type { Clock } from '../../core/ports/clock.ts';
import type { Counters, Decision, Window, WindowState } from '../../core/ports/counters.ts';
import type { Log } from '../../core/ports/log.ts';
import { KeyTable } from './key-table.ts';
import type { SlidingWindow } from './sliding-window.ts';

/** What `createMemoryCounters` needs. */
export interface MemoryCountersOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Keys held at once (a key over windows of two lengths counts twice); beyond it new keys are refused. Default 1,000,000. */
  readonly maxKeys?: number;
}

/** Counters in this process; they answer at once. */
export interface MemoryCounters extends Counters {
  take(windows: readonly Window[], amount: number): Decision;
  adjust(windows: readonly Window[], delta: number): void;
  /** Stops the sweep and forgets everything. */
  close(): void;
  /** Keys held now, idle ones that no sweep has reached yet included. */
  readonly size: number;
}

/**
 * Counters in the memory of this process, for one gateway process.
 *
 * Time is the monotonic clock, held still should it ever go back: a corrected wall clock neither opens a limit
 * nor keeps it shut. Throws RangeError on an amount or window length that cannot be counted.
 */
export function createMemoryCounters(options: MemoryCountersOptions): MemoryCounters {
  return new InMemoryCounters(options);
}

/** Keys looked at before a new one is refused for want of room. */
const sweptBeforeRefusal = 64;
/** Keys looked at after a call with new ones, so that a flood of new keys sweeps as it goes. */
const sweptPerNewKeys = 4;

class InMemoryCounters implements MemoryCounters {
  private readonly clock: Clock;
  private readonly keys: KeyTable;
  private latest = 0;
  /** The counters of the call in progress, by index of its windows; reused, because calls are synchronous. */
  private readonly found: (SlidingWindow | undefined)[] = [];

  constructor({ clock, log, maxKeys = 1_000_000 }: MemoryCountersOptions) {
    this.clock = clock;
    this.keys = new KeyTable({ clock, log, maxKeys, now: () => this.now() });
  }

  get size(): number {
    return this.keys.size;
  }

  take(windows: readonly Window[], amount: number): Decision {
    if (!(amount >= 0 && amount < Infinity)) {
      throw new RangeError(
        `Cannot take ${amount} from a counter; take a number of zero or more, give back with adjust().`,
      );
    }
    const now = this.now();
    let missing = this.look(windows);
    // A probe (amount 0) creates no key, and so needs no room for one.
    let hasRoom = missing === 0 || amount === 0 || this.keys.hasRoom(missing);
    if (!hasRoom) {
      this.keys.sweep(sweptBeforeRefusal);
      missing = this.look(windows);
      hasRoom = this.keys.hasRoom(missing);
      if (!hasRoom) this.keys.reportFull();
    }
    const allowed = hasRoom && this.fits(windows, amount, now);
    if (allowed && amount > 0) this.commit(windows, amount, now);
    const states: WindowState[] = [];
    for (let i = 0; i < windows.length; i += 1) {
      states.push(stateOf(windows[i] as Window, this.found[i], now, hasRoom));
    }
    const refusedBy = allowed ? -1 : this.longest(windows, amount, now, hasRoom);
    if (missing > 0) this.keys.sweep(sweptPerNewKeys);
    return { allowed, refusedBy, windows: states };
  }

  adjust(windows: readonly Window[], delta: number): void {
    if (!Number.isFinite(delta)) {
      throw new RangeError(`Cannot adjust a counter by ${delta}; give a finite number.`);
    }
    const now = this.now();
    for (const { key, windowMs } of windows) {
      let counter = this.keys.find(key, windowMs);
      counter?.total(now);
      if (delta < 0) counter?.giveBack(-delta);
      if (delta <= 0) continue;
      if (counter === undefined) {
        this.keys.check(windowMs);
        if (!this.keys.hasRoom(1)) this.keys.sweep(sweptBeforeRefusal);
        if (!this.keys.hasRoom(1)) {
          this.keys.reportFull();
          continue;
        }
        counter = this.keys.create(key, windowMs);
      }
      counter.add(now, delta);
    }
  }

  close(): void {
    this.keys.close();
    this.found.length = 0;
  }

  /** Fills `found` and returns how many are missing. */
  private look(windows: readonly Window[]): number {
    let missing = 0;
    for (let i = 0; i < windows.length; i += 1) {
      const { key, windowMs } = windows[i] as Window;
      const counter = this.keys.find(key, windowMs);
      this.found[i] = counter;
      if (counter === undefined) {
        this.keys.check(windowMs);
        missing += 1;
      }
    }
    return missing;
  }

  private fits(windows: readonly Window[], amount: number, now: number): boolean {
    for (let i = 0; i < windows.length; i += 1) {
      const total = this.found[i]?.total(now) ?? 0;
      // Written so that a limit that is no number refuses instead of letting everything through.
      if (!(total + amount <= (windows[i] as Window).limit)) return false;
    }
    return true;
  }

  private commit(windows: readonly Window[], amount: number, now: number): void {
    for (let i = 0; i < windows.length; i += 1) {
      const window = windows[i] as Window;
      const counter = (this.found[i] ??= this.keys.create(window.key, window.windowMs));
      counter.add(now, amount);
    }
  }

  /** Which window keeps `amount` out for longest. Only refusals pay for this. */
  private longest(windows: readonly Window[], amount: number, now: number, hasRoom: boolean): number {
    let index = 0;
    let longest = -1;
    for (let i = 0; i < windows.length; i += 1) {
      const { limit, windowMs } = windows[i] as Window;
      const counter = this.found[i];
      let wait = counter?.untilAtMost(limit - amount, now) ?? (amount > limit ? Infinity : 0);
      if (counter === undefined && !hasRoom) wait = Math.max(wait, windowMs);
      if (wait > longest) {
        longest = wait;
        index = i;
      }
    }
    return index;
  }

  private now(): number {
    const now = Math.floor(this.clock.monotonic());
    if (now > this.latest) this.latest = now;
    return this.latest;
  }
}

function stateOf(
  { limit, windowMs }: Window,
  counter: SlidingWindow | undefined,
  now: number,
  hasRoom: boolean,
): WindowState {
  if (counter === undefined && !hasRoom) return { limit, windowMs, remaining: 0, resetMs: windowMs };
  const total = counter === undefined ? 0 : counter.total(now);
  if (total < limit) return { limit, windowMs, remaining: limit - total, resetMs: 0 };
  // A limit below one never lets one more in: the length of the window is the honest upper end then.
  const wait = counter?.untilAtMost(limit - 1, now) ?? Infinity;
  return { limit, windowMs, remaining: 0, resetMs: Number.isFinite(wait) ? wait : windowMs };
}
