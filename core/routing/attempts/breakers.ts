import { Breaker, type BreakerAttempt, type BreakerCounts, type BreakerTurn } from '../../base/breaker.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Counters, Decision, Window } from '../../ports/counters.ts';
import type { Log } from '../../ports/log.ts';
import type { Counter, Metrics } from '../../ports/metrics.ts';
import type { BreakerSettings, PlanLeaf } from '../plan/plan-node.ts';

/** Requests and failures count for this long. */
const countedMs = 60_000;
/** Limit of windows that only count: it is never reached, and the count is the limit minus `remaining`. */
const countless = 1_000_000_000;

/**
 * Shared state, in `Counters`, of the breakers of one target and organisation: the failures and requests of the last
 * minute, and the mark that the breaker is open. Counters in memory call back before the method returns, remote ones
 * later. While the store is unreachable there is no callback.
 */
class SharedCounts implements BreakerCounts {
  private readonly counters: Counters;
  private readonly group: string;
  private readonly name: string;
  private readonly failure: readonly Window[];
  private readonly request: readonly Window[];
  private readonly failedRequest: readonly Window[];
  private mark: readonly Window[] = [];
  private cooldownMs = 0;

  constructor({ counters, apart = '' }: BreakerServices, id: string, group: string) {
    this.counters = counters;
    this.group = group;
    // Counters in memory ignore groups, so the name keeps organisations apart.
    this.name = `${apart}${group}/${id}`;
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
      // A store without room for another key counts nothing, and reports it itself.
      if (decision.allowed) heard(countOf(decision, 0), countOf(decision, 1));
    });
  }

  /** Resets the counts for all gateways. */
  clear(): void {
    try {
      // The counters stop at zero.
      this.counters.adjust(this.failedRequest, -countless)?.catch(ignore);
    } catch {
      // Without the reset the failures expire by themselves.
    }
  }

  /** Marks it as open, unless another gateway was first; passes the remaining time to `heard` in both cases. */
  open(cooldownMs: number, heard: (ms: number) => void): void {
    this.take(this.markFor(cooldownMs), 1, (decision) => {
      const ms = decision.windows[0]?.resetMs ?? 0;
      if (ms > 0) heard(ms);
    });
  }

  /** Remaining time of the mark, also of another gateway's; undefined without a mark or while the store is unreachable. */
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
    return { key: `cb:${what}:${this.name}`, group: this.group, limit, windowMs, isCount: true };
  }
}

function countOf({ windows }: Decision, index: number): number {
  const state = windows[index];
  return state === undefined ? 0 : state.limit - state.remaining;
}

function ignore(): void {
  // The result does not matter.
}

/**
 * Result of an attempt: the status that a client would see, or `abandoned` when it proves nothing about the target (the
 * client disconnected, a hedge was lost, a plugin refused or answered before the request was sent).
 */
export type AttemptOutcome = { readonly status: number } | 'abandoned';

/** Dependencies of breakers; shared by all breakers of a process. */
interface BreakerServices {
  readonly counters: Counters;
  /** Precedes the names of what is shared. */
  readonly apart: string | undefined;
  readonly clock: Clock;
  /** Called at each transition. `why`: `3 failures within a minute`. */
  turned(leaf: PlanLeaf, turn: BreakerTurn, why: string): void;
}

/** The client disconnected: the attempt proves nothing about the target. */
const clientClosed = 499;

/**
 * The breaker of one target and organisation. Counts and the mark that it is open are shared through `Counters`. The store
 * says how long it stays open, so that all gateways agree.
 */
class TargetBreaker extends Breaker<AttemptOutcome> {
  /** Time of the last use, on the monotonic clock. */
  usedAt = 0;
  protected rules: BreakerSettings;
  private leaf: PlanLeaf;
  private readonly services: BreakerServices;

  constructor(leaf: PlanLeaf, settings: BreakerSettings, group: string, services: BreakerServices) {
    super(new SharedCounts(services, leaf.id, group), () => services.clock.monotonic());
    this.leaf = leaf;
    this.rules = settings;
    this.services = services;
  }

  /** Takes over a changed config. An open breaker keeps its remaining time. */
  configure(leaf: PlanLeaf, settings: BreakerSettings): void {
    this.leaf = leaf;
    this.rules = settings;
  }

  protected judge(result: AttemptOutcome): { readonly failed: boolean; readonly how: string } | undefined {
    if (result === 'abandoned' || result.status === clientClosed) return undefined;
    const { status } = result;
    const failed = this.rules.failureStatusCodes?.has(status) ?? (status >= 500 || status === 408);
    return { failed, how: `came out with ${status}` };
  }

  protected turned(turn: BreakerTurn, why: string): void {
    this.services.turned(this.leaf, turn, why);
  }
}

/** Options of `Breakers`. */
interface BreakersOptions {
  readonly counters: Counters;
  readonly clock: Clock;
  /** Logs when a breaker opens (warn), becomes half-open and closes (info). */
  readonly log?: Log;
  readonly metrics?: Metrics;
  /** Upper bound of breakers. Default 10,000. */
  readonly maxBreakers?: number;
  /**
   * For a canary of the configuration: its name. Targets are known by their place in a config, so that its failures would
   * open breakers of the serving configuration. Default: breakers of what serves.
   */
  readonly apart?: string;
}

/** Idle time after which a breaker is removed; its failures have expired long before. */
const idleMs = 10 * 60_000;
/** Minimum interval between sweeps for idle breakers, which run when a new one is created. */
const sweepMs = 60_000;
/** Share of breakers that is evicted at the bound, least recently used first. */
const evictedShare = 0.1;

/**
 * The circuit breakers of this process, one for each target with breaker settings and each organisation (`group`).
 * They outlive reloads, because they are keyed by the target's id.
 *
 * A plan calls `isOpen` for its targets, and each attempt is begun and ended. No method waits or throws. Gateways that
 * share the counters share failures at once, and the open state within a second.
 */
export class Breakers {
  private readonly clock: Clock;
  private readonly maxBreakers: number;
  private readonly services: BreakerServices;
  private readonly groups = new Map<string, Map<string, TargetBreaker>>();
  private count = 0;
  private sweepAt = 0;

  constructor({ counters, clock, log, metrics, maxBreakers = 10_000, apart }: BreakersOptions) {
    this.clock = clock;
    this.maxBreakers = maxBreakers;
    const counted = metrics === undefined ? undefined : turnCounter(metrics);
    this.services = {
      counters,
      apart: apart === undefined ? undefined : `${apart}/`,
      clock,
      turned(leaf, turn, why) {
        counted?.[turn].inc();
        if (log !== undefined) report(log, leaf, turn, why);
      },
    };
    metrics?.onScrape(gaugeOf(metrics, () => this.tripped));
  }

  /** Number of breakers. */
  get size(): number {
    return this.count;
  }

  /**
   * True when the target should be skipped, as long as there are others. False for a half-open one until its probe has
   * begun.
   */
  isOpen(leaf: PlanLeaf, group: string): boolean {
    if (leaf.breaker === undefined) return false;
    const now = this.clock.monotonic();
    return this.breaker(leaf, group, now)?.isOpen(now) ?? false;
  }

  /**
   * Notes the start of an attempt at the target; the caller must end the returned attempt. Undefined for a target
   * without a breaker.
   */
  begin(leaf: PlanLeaf, group: string): BreakerAttempt<AttemptOutcome> | undefined {
    if (leaf.breaker === undefined) return undefined;
    const now = this.clock.monotonic();
    return this.breaker(leaf, group, now)?.begin(now);
  }

  private breaker(leaf: PlanLeaf, group: string, now: number): TargetBreaker | undefined {
    const { breaker: settings } = leaf;
    if (settings === undefined) return undefined;
    let known = this.groups.get(group);
    let breaker = known?.get(leaf.id);
    if (breaker === undefined) {
      this.makeRoom(now);
      breaker = new TargetBreaker(leaf, settings, group, this.services);
      known = this.groups.get(group);
      if (known === undefined) this.groups.set(group, (known = new Map<string, TargetBreaker>()));
      known.set(leaf.id, breaker);
      this.count++;
    }
    breaker.configure(leaf, settings);
    breaker.usedAt = now;
    return breaker;
  }

  private makeRoom(now: number): void {
    if (now >= this.sweepAt) {
      this.sweepAt = now + sweepMs;
      this.forget(now - idleMs);
    }
    if (this.count < this.maxBreakers) return;
    const used = [...this.all()].map(({ usedAt }) => usedAt).sort((a, b) => a - b);
    this.forget(used[Math.floor(used.length * evictedShare)] ?? now);
  }

  /** Removes breakers that were not used after `usedAt`. The open state is restored from the mark in the counters. */
  private forget(usedAt: number): void {
    for (const [group, known] of this.groups) {
      for (const [id, breaker] of known) {
        if (breaker.usedAt > usedAt) continue;
        known.delete(id);
        this.count--;
      }
      if (known.size === 0) this.groups.delete(group);
    }
  }

  private get tripped(): number {
    let tripped = 0;
    for (const breaker of this.all()) if (breaker.isTripped) tripped++;
    return tripped;
  }

  private *all(): Generator<TargetBreaker> {
    for (const known of this.groups.values()) yield* known.values();
  }
}

function report(log: Log, { id, path, name, provider }: PlanLeaf, turn: BreakerTurn, why: string): void {
  const fields = { target: id, name, provider: provider?.name };
  if (turn === 'open') log.warn(`breaker of ${path} is open: ${why}`, fields);
  else log.info(`breaker of ${path} is ${turn}: ${why}`, fields);
}

function turnCounter(metrics: Metrics): Record<BreakerTurn, Counter> {
  const turns = metrics.counter({
    name: 'weir_breaker_turns_total',
    help: 'State changes of circuit breakers: opened, half-open with a trial request, closed again.',
    labels: ['to'],
  });
  return {
    open: turns({ to: 'open' }),
    'half-open': turns({ to: 'half-open' }),
    closed: turns({ to: 'closed' }),
  };
}

/** One gauge for all breakers: a label per target would be unbounded, because requests can send inline configs. */
function gaugeOf(metrics: Metrics, tripped: () => number): () => void {
  const gauge = metrics.gauge({
    name: 'weir_breakers_open',
    help: 'Circuit breakers that are open or half-open in this process.',
    over: 'max',
    labels: [],
  })({});
  return () => gauge.set(tripped());
}
