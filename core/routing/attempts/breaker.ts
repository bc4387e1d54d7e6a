import type { Clock } from '../../ports/clock.ts';
import type { Counters } from '../../ports/counters.ts';
import type { BreakerSettings, PlanLeaf } from '../plan/plan-node.ts';
import { BreakerCounts } from './breaker-counts.ts';

/**
 * How a try came out: what a client would see of it, or `abandoned` when it says nothing about the target (the client
 * left, a hedge was lost, a plugin refused or answered before the target was asked).
 */
export type TryResult = { readonly status: number } | 'abandoned';

/** What a breaker turns into; `half-open` when the request starts that may try. */
export type BreakerTurn = 'open' | 'half-open' | 'closed';

/** What a breaker works with; shared by all breakers of a process. */
export interface BreakerServices {
  readonly counters: Counters;
  readonly clock: Clock;
  /** Hears of each turn. `why`: `3 failures within a minute`. */
  turned(leaf: PlanLeaf, turn: BreakerTurn, why: string): void;
}

/** How often it is asked whether another gateway has opened the same breaker. */
const refreshMs = 1000;
/** The client left: nobody knows what would have come. */
const clientClosed = 499;

/**
 * The breaker of one target and organisation: closed, open, then half-open until one request has come out well.
 *
 * Everything that the request path asks is answered from here. Counts and the mark that it is open are shared through
 * `Counters`, which are told and asked in the background. The store says how long it stays open, so that all gateways
 * agree: the cooldown and at most a sixtieth of it.
 */
export class Breaker {
  /** When it was last used, on the monotonic clock. */
  usedAt = 0;
  private leaf: PlanLeaf;
  private settings: BreakerSettings;
  private readonly services: BreakerServices;
  private readonly counts: BreakerCounts;
  /** On the monotonic clock; 0 when it is closed. When that time has come it is half-open. */
  private openUntil = 0;
  private probe: BreakerTry | undefined;
  /** Tries and answers of the store that belong to an earlier turn say nothing about now. */
  private turn = 0;
  private refreshAt = 0;
  private isRefreshing = false;

  constructor(leaf: PlanLeaf, settings: BreakerSettings, group: string, services: BreakerServices) {
    this.leaf = leaf;
    this.settings = settings;
    this.services = services;
    this.counts = new BreakerCounts(services.counters, leaf.id, group);
  }

  /** Takes over a changed config. What is open stays so for as long as it was to. */
  configure(leaf: PlanLeaf, settings: BreakerSettings): void {
    this.leaf = leaf;
    this.settings = settings;
  }

  /** Not closed. */
  get isTripped(): boolean {
    return this.openUntil > 0;
  }

  /** The target is to be left alone: open, or half-open while its probe is under way. */
  isOpen(now: number): boolean {
    this.refresh(now);
    return this.openUntil > 0 && (now < this.openUntil || this.probe !== undefined);
  }

  /** A try starts, also one that is made although it is open. */
  begin(now: number): BreakerTry {
    this.refresh(now);
    const attempt = new BreakerTry(this, this.turn);
    if (this.openUntil > 0 && now >= this.openUntil && this.probe === undefined) {
      this.probe = attempt;
      this.services.turned(this.leaf, 'half-open', 'the cooldown is over, one request tries');
    }
    return attempt;
  }

  /** A try has ended, for `BreakerTry`. */
  ended(attempt: BreakerTry, turn: number, result: TryResult): void {
    const isProbe = attempt === this.probe;
    if (isProbe) this.probe = undefined;
    if (turn !== this.turn || result === 'abandoned' || result.status === clientClosed) return;
    const failed = this.isFailure(result.status);
    if (isProbe) {
      const why = `the request that tried came out with ${result.status}`;
      if (failed) this.open(why);
      else this.close(why);
    } else if (this.openUntil === 0) {
      this.count(failed);
    }
  }

  private count(failed: boolean): void {
    const inPercent = this.settings.failureThresholdPercentage !== undefined;
    if (!failed) {
      if (inPercent) this.counts.countRequest();
      return;
    }
    const { turn } = this;
    this.counts.countFailure(inPercent, (failures, requests) => {
      if (turn !== this.turn) return;
      const why = this.reasonToOpen(failures, requests);
      if (why !== undefined) this.open(why);
    });
  }

  private reasonToOpen(failures: number, requests: number): string | undefined {
    const { failureThreshold, failureThresholdPercentage: share, minimumRequests } = this.settings;
    if (failures >= failureThreshold) return `${failures} failures within a minute`;
    if (share === undefined || requests < minimumRequests || failures * 100 < share * requests)
      return undefined;
    return `${failures} failures among ${requests} requests within a minute`;
  }

  private open(why: string): void {
    const { cooldownMs } = this.settings;
    const turn = this.stayOpen(cooldownMs, why);
    // Another gateway may have been first: then all try again at the same time.
    this.counts.open(cooldownMs, (ms) => {
      if (turn === this.turn) this.openUntil = this.services.clock.monotonic() + ms;
    });
  }

  private stayOpen(ms: number, why: string): number {
    this.openUntil = this.services.clock.monotonic() + ms;
    this.turn++;
    this.services.turned(this.leaf, 'open', why);
    return this.turn;
  }

  private close(why: string): void {
    this.openUntil = 0;
    this.turn++;
    this.counts.clear();
    this.services.turned(this.leaf, 'closed', why);
  }

  /** Looks whether another gateway has opened it, or opened it again. */
  private refresh(now: number): void {
    if (now < this.refreshAt || this.isRefreshing || now < this.openUntil) return;
    this.refreshAt = now + refreshMs;
    this.isRefreshing = true;
    const { turn } = this;
    this.counts.look(this.settings.cooldownMs, (ms) => {
      this.isRefreshing = false;
      if (ms !== undefined && turn === this.turn) this.stayOpen(ms, 'another gateway has opened it');
    });
  }

  private isFailure(status: number): boolean {
    const { failureStatusCodes } = this.settings;
    return failureStatusCodes?.has(status) ?? (status >= 500 || status === 408);
  }
}

/** One try at a target that has a breaker. */
export class BreakerTry {
  private breaker: Breaker | undefined;
  private readonly turn: number;

  constructor(breaker: Breaker, turn: number) {
    this.breaker = breaker;
    this.turn = turn;
  }

  /**
   * Tells how the try came out; only the first call counts. Every try has to end: a probe that never does keeps its
   * target shut.
   */
  end(result: TryResult): void {
    const { breaker } = this;
    this.breaker = undefined;
    breaker?.ended(this, this.turn, result);
  }
}
