import type { Clock } from '../../core/ports/clock.ts';
import type {
  Counters,
  Decision,
  LendableWindows,
  Window,
  WindowRefusal,
  WindowState,
} from '../../core/ports/counters.ts';
import type { Log } from '../../core/ports/log.ts';
import { SlidingWindow } from './sliding-window.ts';

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
export interface MemoryCounters extends Counters, LendableWindows {
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
      const counter = this.keys.find(key, windowMs);
      counter?.total(now);
      if (delta < 0) counter?.giveBack(-delta);
      else if (delta > 0) (counter ?? this.created(key, windowMs))?.add(now, delta);
    }
  }

  leftOf({ key, windowMs, limit }: Window): number {
    return limit - (this.keys.find(key, windowMs)?.total(this.now()) ?? 0);
  }

  lend({ key, windowMs }: Window, amount: number): void {
    const counter = this.keys.find(key, windowMs) ?? (amount > 0 ? this.created(key, windowMs) : undefined);
    if (counter !== undefined) counter.lent = Math.max(0, counter.lent + amount);
  }

  takeEarlier({ key, windowMs }: Window, amount: number, agoMs: number): void {
    if (agoMs >= windowMs) return;
    const now = this.now();
    const counter = this.keys.find(key, windowMs) ?? this.created(key, windowMs);
    counter?.total(now);
    counter?.addAt(now - Math.floor(Math.max(0, agoMs)), amount);
  }

  /** A new counter; undefined without room for it. */
  private created(key: string, windowMs: number): SlidingWindow | undefined {
    this.keys.check(windowMs);
    if (!this.keys.hasRoom(1)) this.keys.sweep(sweptBeforeRefusal);
    if (this.keys.hasRoom(1)) return this.keys.create(key, windowMs);
    this.keys.reportFull();
    return undefined;
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
