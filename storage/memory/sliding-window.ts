import { subBuckets } from '../../core/ports/counters.ts';

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
  /** Lent to other processes, which have not told yet what they have taken of it: it counts as taken now. */
  lent = 0;
  private ring = new Float64Array(firstCapacity * 2);
  private oldest = 0;
  private length = 0;
  private newest = -1;
  private sum = 0;

  constructor(windowMs: number, next: SlidingWindow | undefined) {
    this.windowMs = windowMs;
    this.next = next;
  }

  /** The count at `now` with what is lent, after dropping expired pairs. */
  total(now: number): number {
    if (this.length > 0) this.expire(now - this.windowMs);
    return this.sum + this.lent;
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

  /** Counts `amount` at an earlier moment than the newest, as if it had come in its turn. Call `total` first. */
  addAt(at: number, amount: number): void {
    if (this.length === 0 || at >= this.newest) return this.add(at, amount);
    // The oldest pair that ends at this moment or later.
    let index = this.length - 1;
    while (index > 0 && this.read(this.slot(index - 1)) >= at) index -= 1;
    const bucket = this.bucketAt(at);
    if (index > 0 && this.bucketAt(this.read(this.slot(index - 1))) === bucket) {
      index -= 1;
      this.ring[this.slot(index)] = at;
    } else if (this.bucketAt(this.read(this.slot(index))) !== bucket) {
      this.insert(index, at);
    }
    const slot = this.slot(index) + 1;
    this.ring[slot] = this.read(slot) + amount;
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
    if (this.sum + this.lent <= most) return 0;
    if (most < 0) return Infinity;
    // Taken at this moment, as far as this process knows.
    if (this.lent > most) return this.windowMs;
    let rest = this.sum + this.lent;
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

  /** An empty pair at this index; later ones move on. */
  private insert(index: number, at: number): void {
    if (this.length * 2 === this.ring.length) this.grow();
    this.length += 1;
    for (let i = this.length - 1; i > index; i -= 1) {
      const to = this.slot(i);
      const from = this.slot(i - 1);
      this.ring[to] = this.read(from);
      this.ring[to + 1] = this.read(from + 1);
    }
    const slot = this.slot(index);
    this.ring[slot] = at;
    this.ring[slot + 1] = 0;
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
