import type { Clock } from '../../core/ports/clock.ts';
import type { Counters, Decision, Window, WindowRefusal, WindowState } from '../../core/ports/counters.ts';
import type { Log } from '../../core/ports/log.ts';

const sweepIntervalMs = 1000;
const minPerSweep = 1000;

/** Dependencies and options of `KeyTable`. */
interface KeyTableOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly maxKeys: number;
  /** Time of the counters: whole milliseconds that never go back. */
  now(): number;
}

/**
 * The counters by key, bounded: idle ones are swept a few at a time (in the background, all of them within about 100
 * s), live ones are never evicted, because that would reset a limit.
 */
class KeyTable {
  private readonly options: KeyTableOptions;
  private readonly heads = new Map<string, SlidingWindow>();
  private cursor: MapIterator<[string, SlidingWindow]> = this.heads.entries();
  private cancelSweep: () => void;
  private reportedFull = false;
  /** Number of counters; a key has one per window length. */
  size = 0;

  constructor(options: KeyTableOptions) {
    this.options = options;
    this.cancelSweep = this.scheduleSweep();
  }

  find(key: string, windowMs: number): SlidingWindow | undefined {
    let counter = this.heads.get(key);
    while (counter !== undefined && counter.windowMs !== windowMs) counter = counter.next;
    return counter;
  }

  /** Throws RangeError for a length that cannot be counted: call it before any change. */
  check(windowMs: number): void {
    if (!Number.isSafeInteger(windowMs) || windowMs <= 0) {
      throw new RangeError(`A window of ${windowMs} ms cannot be counted; give a whole number above zero.`);
    }
  }

  /** Adds a counter. Call `hasRoom` and `check` first. */
  create(key: string, windowMs: number): SlidingWindow {
    const counter = new SlidingWindow(windowMs, this.heads.get(key));
    this.heads.set(key, counter);
    this.size += 1;
    return counter;
  }

  hasRoom(count: number): boolean {
    return this.size + count <= this.options.maxKeys;
  }

  /** Logs once per shortage that new keys are refused. */
  reportFull(): void {
    if (this.reportedFull) return;
    this.reportedFull = true;
    const { log, maxKeys } = this.options;
    log.error(
      `counters: all ${maxKeys} keys are in use, so requests with a new key are refused; group limits by fewer distinct values, or count in a shared store`,
      { keys: this.size },
    );
  }

  /**
   * Checks the next `keys` keys and removes idle ones. A counter found before is invalid afterwards, because it may
   * have been removed.
   */
  sweep(keys: number): void {
    const now = this.options.now();
    for (let i = 0; i < keys; i += 1) {
      const entry = this.cursor.next();
      if (entry.done === true) {
        this.cursor = this.heads.entries();
        break;
      }
      this.dropIdle(entry.value[0], entry.value[1], now);
    }
    if (this.size < this.options.maxKeys * 0.9) this.reportedFull = false;
  }

  close(): void {
    this.cancelSweep();
    this.heads.clear();
    this.size = 0;
  }

  private scheduleSweep(): () => void {
    return this.options.clock.after(sweepIntervalMs, () => {
      this.sweep(Math.max(minPerSweep, Math.ceil(this.heads.size / 100)));
      this.cancelSweep = this.scheduleSweep();
    });
  }

  private dropIdle(key: string, head: SlidingWindow, now: number): void {
    let kept: SlidingWindow | undefined;
    let counter: SlidingWindow | undefined = head;
    while (counter !== undefined) {
      const next: SlidingWindow | undefined = counter.next;
      if (counter.total(now) > 0) {
        counter.next = kept;
        kept = counter;
      } else {
        this.size -= 1;
      }
      counter = next;
    }
    if (kept === undefined) this.heads.delete(key);
    else if (kept !== head) this.heads.set(key, kept);
  }
}

/** Dependencies and options. */
interface MemoryCountersOptions {
  readonly clock: Clock;
  readonly log: Log;
  /**
   * Upper bound of keys (a key over windows of two lengths counts twice); beyond it new keys are refused. Default
   * 1,000,000.
   */
  readonly maxKeys?: number;
}

/** Counters in this process, with synchronous answers. */
export interface MemoryCounters extends Counters {
  take(windows: readonly Window[], amount: number): Decision;
  adjust(windows: readonly Window[], delta: number): void;
  /**
   * Takes one from each of the first windows and `amount` from each of the others, or nothing at all, and returns the
   * refusing window. Undefined: taken.
   */
  takeBoth(requests: readonly Window[], tokens: readonly Window[], amount: number): WindowRefusal | undefined;
  /** Stops the sweep and removes all counters. */
  close(): void;
  /** Number of counters, including idle ones that were not swept yet. */
  readonly size: number;
}

/**
 * Counters in the memory of this process, for one gateway process.
 *
 * Uses the monotonic clock, held still should it ever go back: a corrected wall clock neither opens a limit nor keeps
 * it shut. Throws RangeError for an amount or window length that cannot be counted.
 */
export function createMemoryCounters(options: MemoryCountersOptions): MemoryCounters {
  return new InMemoryCounters(options);
}

/** Keys checked before a new one is refused for lack of room. */
const sweptBeforeRefusal = 64;
/** Keys checked after a call with new ones, so that a flood of new keys sweeps as it goes. */
const sweptPerNewKeys = 4;

const none: readonly never[] = [];

/** Result of a search for counters. */
interface Look {
  /** Number of missing counters. */
  missing: number;
  /** True when they can be created. */
  hasRoom: boolean;
}

class InMemoryCounters implements MemoryCounters {
  private readonly clock: Clock;
  private readonly keys: KeyTable;
  private latest = 0;
  /** The counters of the call in progress, by index of its windows; reused, because calls are synchronous. */
  private readonly found: (SlidingWindow | undefined)[] = [];
  private readonly result: Look = { missing: 0, hasRoom: true };

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
    // A probe (amount 0) creates no key, and so needs no room for one.
    const { missing, hasRoom } = this.look(windows, none, amount === 0);
    const allowed = hasRoom && this.fits(windows, amount, now, 0);
    if (allowed && amount > 0) this.commit(windows, amount, now, 0);
    const states: WindowState[] = [];
    for (let i = 0; i < windows.length; i += 1) {
      states.push(stateOf(windows[i] as Window, this.found[i], now, hasRoom));
    }
    const refusedBy = allowed ? -1 : this.longest(windows, amount, { now, hasRoom, from: 0 });
    if (missing > 0) this.keys.sweep(sweptPerNewKeys);
    return { allowed, refusedBy, windows: states };
  }

  takeBoth(
    requests: readonly Window[],
    tokens: readonly Window[],
    amount: number,
  ): WindowRefusal | undefined {
    const now = this.now();
    const from = requests.length;
    const { missing, hasRoom } = this.look(requests, tokens, false);
    const fitRequests = hasRoom && this.fits(requests, 1, now, 0);
    let refusal: WindowRefusal | undefined;
    if (fitRequests && this.fits(tokens, amount, now, from)) {
      this.commit(requests, 1, now, 0);
      this.commit(tokens, amount, now, from);
    } else {
      const isTokens = fitRequests || from === 0;
      const list = isTokens ? tokens : requests;
      const place = { now, hasRoom, from: isTokens ? from : 0 };
      const index = this.longest(list, isTokens ? amount : 1, place);
      const window = stateOf(list[index] as Window, this.found[place.from + index], now, hasRoom);
      refusal = { isAdmitted: false, list: isTokens ? 'tokens' : 'requests', index, window };
    }
    if (missing > 0) this.keys.sweep(sweptPerNewKeys);
    return refusal;
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

  /** Fills `found` with the counters of both lists, and makes room for missing ones. */
  private look(first: readonly Window[], second: readonly Window[], isProbe: boolean): Look {
    const { result } = this;
    let missing = this.find(first, 0) + this.find(second, first.length);
    let hasRoom = missing === 0 || isProbe || this.keys.hasRoom(missing);
    if (!hasRoom) {
      this.keys.sweep(sweptBeforeRefusal);
      missing = this.find(first, 0) + this.find(second, first.length);
      hasRoom = this.keys.hasRoom(missing);
      if (!hasRoom) this.keys.reportFull();
    }
    result.missing = missing;
    result.hasRoom = hasRoom;
    return result;
  }

  /** Fills `found` from index `from` on, and returns the number of missing counters. */
  private find(windows: readonly Window[], from: number): number {
    let missing = 0;
    for (let i = 0; i < windows.length; i += 1) {
      const { key, windowMs } = windows[i] as Window;
      const counter = this.keys.find(key, windowMs);
      this.found[from + i] = counter;
      if (counter === undefined) {
        this.keys.check(windowMs);
        missing += 1;
      }
    }
    return missing;
  }

  private fits(windows: readonly Window[], amount: number, now: number, from: number): boolean {
    for (let i = 0; i < windows.length; i += 1) {
      const total = this.found[from + i]?.total(now) ?? 0;
      // Written so that a limit of NaN refuses instead of admitting everything.
      if (!(total + amount <= (windows[i] as Window).limit)) return false;
    }
    return true;
  }

  private commit(windows: readonly Window[], amount: number, now: number, from: number): void {
    for (let i = 0; i < windows.length; i += 1) {
      const window = windows[i] as Window;
      const counter = (this.found[from + i] ??= this.keys.create(window.key, window.windowMs));
      counter.add(now, amount);
    }
  }

  /** The window that delays `amount` for longest. Only refusals pay for this. */
  private longest(
    windows: readonly Window[],
    amount: number,
    { now, hasRoom, from }: { readonly now: number; readonly hasRoom: boolean; readonly from: number },
  ): number {
    let index = 0;
    let longest = -1;
    for (let i = 0; i < windows.length; i += 1) {
      const { limit, windowMs } = windows[i] as Window;
      const counter = this.found[from + i];
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
  // A limit below one never admits one more: the length of the window is the closest upper bound.
  const wait = counter?.untilAtMost(limit - 1, now) ?? Infinity;
  return { limit, windowMs, remaining: 0, resetMs: Number.isFinite(wait) ? wait : windowMs };
}

/** Sub-buckets of a window. The count of one is kept until its last moment is as old as the window. */
const subBuckets = 60;
/** Pairs of a new ring: most keys are used a few times and never again, so a counter starts small. */
const firstCapacity = 4;

/**
 * One counter over one sliding window. It holds a ring of (last moment, amount) pairs, one per sub-bucket, oldest
 * first, and their running total; the ring grows to at most 64 pairs, because a window touches 61 sub-buckets.
 *
 * Times are whole milliseconds on a clock that never goes back; the caller ensures both.
 */
class SlidingWindow {
  readonly windowMs: number;
  /** The counter of the same key over a window of another length, if there is one. */
  next: SlidingWindow | undefined;
  private ring = new Float64Array(firstCapacity * 2);
  private oldest = 0;
  private length = 0;
  private newest = -1;
  private sum = 0;

  constructor(windowMs: number, next: SlidingWindow | undefined) {
    this.windowMs = windowMs;
    this.next = next;
  }

  /** The count at `now`, after dropping expired pairs. */
  total(now: number): number {
    if (this.length > 0) this.expire(now - this.windowMs);
    return this.sum;
  }

  /** Counts `amount` at `now`. Call `total(now)` first. */
  add(now: number, amount: number): void {
    const isNew = this.length === 0 || this.bucketAt(now) !== this.bucketAt(this.newest);
    if (isNew) {
      if (this.length * 2 === this.ring.length) this.grow();
      this.length += 1;
    }
    const slot = this.slot(this.length - 1);
    this.newest = now;
    this.ring[slot] = now;
    this.ring[slot + 1] = isNew ? amount : this.read(slot + 1) + amount;
    this.sum += amount;
  }

  /**
   * Gives back `amount`, never below zero, from the oldest pairs first: the remainder then expires as late as possible,
   * so that giving back never admits more than was really unused.
   */
  giveBack(amount: number): void {
    let rest = amount;
    for (let i = 0; i < this.length && rest > 0; i += 1) {
      const slot = this.slot(i) + 1;
      const taken = Math.min(this.read(slot), rest);
      this.ring[slot] = this.read(slot) - taken;
      rest -= taken;
    }
    this.recount();
  }

  /**
   * Milliseconds after `now` until the total is at most `most`; Infinity when it never will be. Call `total(now)`
   * first.
   */
  untilAtMost(most: number, now: number): number {
    if (this.sum <= most) return 0;
    if (most < 0) return Infinity;
    let rest = this.sum;
    for (let i = 0; i < this.length; i += 1) {
      const slot = this.slot(i);
      rest -= this.read(slot + 1);
      if (rest <= most) return this.read(slot) + this.windowMs - now;
    }
    // Only reached through a rounding remainder of fractions: after the last sub-bucket everything has expired.
    return this.newest + this.windowMs - now;
  }

  private bucketAt(now: number): number {
    return Math.floor((now * subBuckets) / this.windowMs);
  }

  private expire(until: number): void {
    if (this.read(this.slot(0)) > until) return;
    do {
      this.oldest += 2;
      if (this.oldest === this.ring.length) this.oldest = 0;
      this.length -= 1;
    } while (this.length > 0 && this.read(this.slot(0)) <= until);
    this.recount();
  }

  /** Recomputes the sum, so that fractions do not drift over the life of a busy key. */
  private recount(): void {
    let sum = 0;
    for (let i = 0; i < this.length; i += 1) sum += this.read(this.slot(i) + 1);
    this.sum = sum;
  }

  private grow(): void {
    const grown = new Float64Array(this.ring.length * 2);
    const head = this.ring.subarray(this.oldest);
    grown.set(head);
    grown.set(this.ring.subarray(0, this.oldest), head.length);
    this.ring = grown;
    this.oldest = 0;
  }

  /** Ring sizes are powers of two: the mask wraps around. */
  private slot(index: number): number {
    return (this.oldest + index * 2) & (this.ring.length - 1);
  }

  private read(slot: number): number {
    return this.ring[slot] as number;
  }
}
