/** What a breaker turns into; `half-open` when the attempt starts that may try. */
export type BreakerTurn = 'open' | 'half-open' | 'closed';

/** When a breaker opens, and for how long. */
export interface BreakerRules {
  /** Failures within a minute that open it. */
  readonly failureThreshold: number;
  /** Share of failures, in percent, that opens it as well, once `minimumRequests` were made within the minute. */
  readonly failureThresholdPercentage: number | undefined;
  readonly minimumRequests: number;
  /** How long it stays open before one attempt may try. */
  readonly cooldownMs: number;
}

/** Failures and attempts of the last minute, and the mark that the breaker is open, for all who share them. */
export interface BreakerCounts {
  countRequest(): void;
  countFailure(withRequest: boolean, heard: (failures: number, requests: number) => void): void;
  /** Everybody who counts along starts anew. */
  clear(): void;
  /** Marks it as open, unless somebody else was first: `heard` is told for how long in both cases. */
  open(cooldownMs: number, heard: (ms: number) => void): void;
  /** How long the mark stays, somebody else's included; undefined when there is none, or nobody can say. */
  look(cooldownMs: number, heard: (ms: number | undefined) => void): void;
}

/** How an attempt came out, in words that complete "the attempt that tried"; undefined: it says nothing. */
type Judged = { readonly failed: boolean; readonly how: string } | undefined;

/** How often it is asked whether somebody else has opened the same breaker. */
const refreshMs = 1000;

/**
 * A circuit breaker: closed, open, then half-open until one attempt has come out well. `Outcome` is what attempts end
 * with. Everything is answered from here; counts are told and asked in the background.
 */
export abstract class Breaker<Outcome> {
  private readonly counts: BreakerCounts;
  private readonly monotonic: () => number;
  /** On the monotonic clock; 0 when it is closed. When that time has come it is half-open. */
  private openUntil = 0;
  private probe: BreakerAttempt<Outcome> | undefined;
  /** Attempts and answers of the counts that belong to an earlier turn say nothing about now. */
  private turn = 0;
  private refreshAt = 0;
  private isRefreshing = false;

  constructor(counts: BreakerCounts, monotonic: () => number) {
    this.counts = counts;
    this.monotonic = monotonic;
  }

  protected abstract readonly rules: BreakerRules;
  protected abstract judge(outcome: Outcome): Judged;
  /** Hears of each turn. `why`: `3 failures within a minute`. */
  protected abstract turned(turn: BreakerTurn, why: string): void;

  /** Not closed. */
  get isTripped(): boolean {
    return this.openUntil > 0;
  }

  /** Milliseconds until one attempt may try; 0 when it may. */
  waitMs(now: number): number {
    return Math.max(0, this.openUntil - now);
  }

  /** What it guards is to be left alone: open, or half-open while its probe is under way. */
  isOpen(now: number): boolean {
    this.refresh(now);
    return this.openUntil > 0 && (now < this.openUntil || this.probe !== undefined);
  }

  /** An attempt starts, also one that is made although it is open. */
  begin(now: number): BreakerAttempt<Outcome> {
    this.refresh(now);
    const attempt = new BreakerAttempt<Outcome>(this, this.turn);
    if (this.openUntil > 0 && now >= this.openUntil && this.probe === undefined) {
      this.probe = attempt;
      this.turned('half-open', 'the cooldown is over, one request tries');
    }
    return attempt;
  }

  /** An attempt has ended, for `BreakerAttempt`. */
  ended(attempt: BreakerAttempt<Outcome>, turn: number, outcome: Outcome): void {
    const isProbe = attempt === this.probe;
    if (isProbe) this.probe = undefined;
    if (turn !== this.turn) return;
    const judged = this.judge(outcome);
    if (judged === undefined) return;
    if (isProbe) {
      const why = `the request that tried ${judged.how}`;
      if (judged.failed) this.open(why);
      else this.close(why);
    } else if (this.openUntil === 0) {
      this.count(judged.failed);
    }
  }

  private count(failed: boolean): void {
    const inPercent = this.rules.failureThresholdPercentage !== undefined;
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
    const { failureThreshold, failureThresholdPercentage: share, minimumRequests } = this.rules;
    if (failures >= failureThreshold) return `${failures} failures within a minute`;
    if (share === undefined || requests < minimumRequests || failures * 100 < share * requests)
      return undefined;
    return `${failures} failures among ${requests} requests within a minute`;
  }

  private open(why: string): void {
    const { cooldownMs } = this.rules;
    const turn = this.stayOpen(cooldownMs, why);
    // Somebody else may have been first: then all try again at the same time.
    this.counts.open(cooldownMs, (ms) => {
      if (turn === this.turn) this.openUntil = this.monotonic() + ms;
    });
  }

  private stayOpen(ms: number, why: string): number {
    this.openUntil = this.monotonic() + ms;
    this.turn++;
    this.turned('open', why);
    return this.turn;
  }

  private close(why: string): void {
    this.openUntil = 0;
    this.turn++;
    this.counts.clear();
    this.turned('closed', why);
  }

  /** Looks whether somebody else has opened it, or opened it again. */
  private refresh(now: number): void {
    if (now < this.refreshAt || this.isRefreshing || now < this.openUntil) return;
    this.refreshAt = now + refreshMs;
    this.isRefreshing = true;
    const { turn } = this;
    this.counts.look(this.rules.cooldownMs, (ms) => {
      this.isRefreshing = false;
      if (ms !== undefined && turn === this.turn) this.stayOpen(ms, 'another gateway has opened it');
    });
  }
}

/** One attempt at something that has a breaker. */
export class BreakerAttempt<Outcome> {
  private breaker: Breaker<Outcome> | undefined;
  private readonly turn: number;

  constructor(breaker: Breaker<Outcome>, turn: number) {
    this.breaker = breaker;
    this.turn = turn;
  }

  /**
   * Tells how the attempt came out; only the first call counts. Every attempt has to end: a probe that never does keeps
   * its breaker open.
   */
  end(outcome: Outcome): void {
    const { breaker } = this;
    this.breaker = undefined;
    breaker?.ended(this, this.turn, outcome);
  }
}
