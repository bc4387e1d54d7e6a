import type { Budget } from '../../core/ports/budgets.ts';
import { subBuckets, type Window } from '../../core/ports/counters.ts';
import type { LoanReport } from './parent-calls.ts';

/** Demand is counted in seconds: a wish is for one second's use. */
const periodMs = 1000;

/** A worker's part of one window or budget, and its use of it that the parent does not know yet. */
export class Lease {
  /** The worker's own number of it. */
  readonly number: number;
  /** As it was lent last. */
  of: Window | Budget;
  /** True while requests may take from it. */
  isOpen = false;
  /** Limit under which it was lent. */
  limit = 0;
  /** Amount that may be taken here. */
  left = 0;
  /** Amount that was left beside it at the last grant. */
  beyond = 0;
  /** Something is to be reported. */
  isDirty = false;
  /** Ticks since it was last taken from. */
  idleTicks = 0;
  #lastGrant = 0;
  #released = 0;
  /** Pairs of amount and time. */
  #taken: number[] = [];
  #used = 0;
  #requests = 0;
  #periodAt = -Infinity;
  #demand = 0;
  #demandRequests = 0;
  #wish = 0;
  readonly #minRequests: number;

  /** It is borrowed for `minRequests` requests of a second at least. */
  constructor(number: number, of: Window | Budget, minRequests: number) {
    this.number = number;
    this.of = of;
    this.#minRequests = minRequests;
  }

  /** Number of pairs to report. */
  get moments(): number {
    return this.#taken.length / 2;
  }

  /** Notes what a request takes, here or at the parent. */
  note(now: number, amount: number): void {
    if (now - this.#periodAt >= periodMs) {
      const isOver = now - this.#periodAt >= 2 * periodMs || this.#demandRequests < this.#minRequests;
      this.#wish = isOver ? 0 : this.#demand;
      this.#periodAt = now;
      this.#demand = 0;
      this.#demandRequests = 0;
    }
    this.#demand += amount;
    this.#demandRequests += 1;
  }

  /** Amount worth borrowing; 0 for none. */
  get wish(): number {
    return Math.max(this.#wish, this.#demandRequests < this.#minRequests ? 0 : this.#demand);
  }

  /** True when a request may take this amount under this limit. */
  holds(amount: number, limit: number): boolean {
    return this.isOpen && this.limit === limit && this.left >= amount;
  }

  granted(number: number, amount: number, beyond: number): void {
    this.#lastGrant = number;
    this.left += amount;
    this.beyond = beyond;
    this.isOpen = true;
    this.idleTicks = 0;
  }

  /** Gives back what is left. */
  close(): void {
    this.isOpen = false;
    this.#released += this.left;
    this.left = 0;
  }

  /** Takes an amount of a window; what is left may be less. */
  take(now: number, amount: number): void {
    const ours = Math.min(amount, this.left);
    this.left -= ours;
    this.#released += ours;
    this.idleTicks = 0;
    this.change(now, amount);
  }

  /** Takes or (negative) gives back, in the order of the calls. */
  change(now: number, amount: number): void {
    const taken = this.#taken;
    const last = taken.length - 1;
    if (
      last > 0 &&
      (taken[last - 1] as number) > 0 === amount > 0 &&
      this.#isOneMoment(taken[last] as number, now)
    ) {
      taken[last - 1] = (taken[last - 1] as number) + amount;
      taken[last] = now;
    } else taken.push(amount, now);
  }

  /** Reserves an amount of a budget. */
  reserve(amount: number): void {
    this.left -= amount;
    this.idleTicks = 0;
  }

  /** Replaces a reservation by the usage, in whole units. False: the parent should know at once. */
  settle(reserved: number, used: number): boolean {
    this.#used += used;
    this.#requests += 1;
    // A reserved part that is not used can be taken again, unless the parent has asked for it.
    const isCovered = this.isOpen && used <= reserved + this.left;
    const released = isCovered ? used : reserved + this.left;
    this.#released += released;
    this.left += reserved - released;
    return isCovered;
  }

  /** The amount that is to be told, once. */
  report(now: number, wallNow: number): LoanReport {
    const taken = this.#taken;
    for (let i = 1; i < taken.length; i += 2) taken[i] = now - (taken[i] as number);
    const report: LoanReport = {
      number: this.number,
      released: this.#released,
      taken,
      used: this.#used,
      requests: this.#requests,
      period: 'period' in this.of ? this.of.period(wallNow) : undefined,
      closedAfter: this.isOpen ? 0 : this.#lastGrant,
    };
    this.isDirty = false;
    this.#released = 0;
    this.#taken = [];
    this.#used = 0;
    this.#requests = 0;
    return report;
  }

  #isOneMoment(one: number, other: number): boolean {
    const parts = 'windowMs' in this.of ? subBuckets / this.of.windowMs : 1;
    return Math.floor(one * parts) === Math.floor(other * parts);
  }
}
