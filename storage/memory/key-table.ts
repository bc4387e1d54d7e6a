import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { SlidingWindow } from './sliding-window.ts';

const sweepIntervalMs = 1000;
const leastPerSweep = 1000;

/** What `KeyTable` needs. */
export interface KeyTableOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly maxKeys: number;
  /** The time that the counters are kept in: whole milliseconds that never go back. */
  now(): number;
}

/**
 * The counters by key, bounded: idle ones are swept a few at a time (in the background, all of them within
 * about 100 s), live ones are never evicted, because that would reset somebody's limit.
 */
export class KeyTable {
  private readonly options: KeyTableOptions;
  private readonly heads = new Map<string, SlidingWindow>();
  private cursor: MapIterator<[string, SlidingWindow]> = this.heads.entries();
  private cancelSweep: () => void;
  private reportedFull = false;
  /** Counters held; a key has one per window length. */
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

  /** Throws RangeError on a length that cannot be counted: check it before anything is changed. */
  check(windowMs: number): void {
    if (!Number.isSafeInteger(windowMs) || windowMs <= 0) {
      throw new RangeError(`A window of ${windowMs} ms cannot be counted; give a whole number above zero.`);
    }
  }

  /** Adds a counter. Ask `hasRoom` and `check` first. */
  create(key: string, windowMs: number): SlidingWindow {
    const counter = new SlidingWindow(windowMs, this.heads.get(key));
    this.heads.set(key, counter);
    this.size += 1;
    return counter;
  }

  hasRoom(count: number): boolean {
    return this.size + count <= this.options.maxKeys;
  }

  /** Says once per shortage that new keys are being refused. */
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
   * Looks at the next `keys` keys and forgets what is idle. A counter found before is void afterwards, because
   * it may have been forgotten.
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
      this.sweep(Math.max(leastPerSweep, Math.ceil(this.heads.size / 100)));
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
