import type { Counters, Decision, Window } from '../../ports/counters.ts';

/** Requests and failures count for this long. */
const countedMs = 60_000;
/** Counting windows refuse nothing: what they hold is their limit less what remains. */
const countless = 1_000_000_000;

/**
 * What the breakers of one target and organisation share through `Counters`: the failures and requests of the last
 * minute, and the mark that the breaker is open. Counters in memory are heard before the call returns, remote ones
 * later. A store that is away is never heard of.
 */
export class BreakerCounts {
  private readonly counters: Counters;
  private readonly group: string;
  private readonly name: string;
  private readonly failure: readonly Window[];
  private readonly request: readonly Window[];
  private readonly failedRequest: readonly Window[];
  private mark: readonly Window[] = [];
  private cooldownMs = 0;

  constructor(counters: Counters, id: string, group: string) {
    this.counters = counters;
    this.group = group;
    // Counters in memory know no groups, and the failures of one organisation are no other's.
    this.name = `${group}/${id}`;
    const failure = this.window('fail', countless, countedMs);
    const request = this.window('all', countless, countedMs);
    this.failure = [failure];
    this.request = [request];
    this.failedRequest = [failure, request];
  }

  countRequest(): void {
    this.take(this.request, 1);
  }

  countFailure(withRequest: boolean, heard: (failures: number, requests: number) => void): void {
    this.take(withRequest ? this.failedRequest : this.failure, 1, (decision) => {
      // A store without room for another key counts nothing; it says so itself.
      if (decision.allowed) heard(countOf(decision, 0), countOf(decision, 1));
    });
  }

  /** Everybody who counts along starts anew. */
  clear(): void {
    try {
      // Giving back stops at zero.
      this.counters.adjust(this.failedRequest, -countless)?.catch(ignore);
    } catch {
      // Then the failures expire by themselves.
    }
  }

  /** Marks it as open, unless somebody else was first: `heard` is told for how long in both cases. */
  open(cooldownMs: number, heard: (ms: number) => void): void {
    this.take(this.markFor(cooldownMs), 1, (decision) => {
      const ms = decision.windows[0]?.resetMs ?? 0;
      if (ms > 0) heard(ms);
    });
  }

  /** How long the mark stays, somebody else's included; undefined when there is none or the store is away. */
  look(cooldownMs: number, heard: (ms: number | undefined) => void): void {
    const nobody = (): void => heard(undefined);
    this.take(
      this.markFor(cooldownMs),
      0,
      ({ windows: [state] }) => heard(state === undefined || state.remaining > 0 ? undefined : state.resetMs),
      nobody,
    );
  }

  private take(
    windows: readonly Window[],
    amount: number,
    heard: (decision: Decision) => void = ignore,
    failed: () => void = ignore,
  ): void {
    let decision: Decision | Promise<Decision>;
    try {
      decision = this.counters.take(windows, amount, 'local');
    } catch {
      return failed();
    }
    if (decision instanceof Promise) void decision.then(heard, failed);
    else heard(decision);
  }

  private markFor(cooldownMs: number): readonly Window[] {
    if (cooldownMs !== this.cooldownMs) {
      this.cooldownMs = cooldownMs;
      this.mark = [this.window('open', 1, Math.max(1, Math.round(cooldownMs)))];
    }
    return this.mark;
  }

  private window(what: string, limit: number, windowMs: number): Window {
    return { key: `cb:${what}:${this.name}`, group: this.group, limit, windowMs };
  }
}

function countOf({ windows }: Decision, index: number): number {
  const state = windows[index];
  return state === undefined ? 0 : state.limit - state.remaining;
}

function ignore(): void {
  // Nothing depends on how it came out.
}
