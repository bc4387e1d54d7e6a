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
export class SlidingWindow {
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
