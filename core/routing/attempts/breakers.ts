import type { Clock } from '../../ports/clock.ts';
import type { Counters } from '../../ports/counters.ts';
import type { Log } from '../../ports/log.ts';
import type { Counter, Metrics } from '../../ports/metrics.ts';
import type { PlanLeaf } from '../plan/plan-node.ts';
import { Breaker, type BreakerServices, type BreakerTry, type BreakerTurn } from './breaker.ts';

/** What `Breakers` needs. */
export interface BreakersOptions {
  readonly counters: Counters;
  readonly clock: Clock;
  /** Hears when a breaker opens (warn), lets one request try and closes (info). */
  readonly log?: Log;
  readonly metrics?: Metrics;
  /** Breakers remembered at once. Default 10,000. */
  readonly maxBreakers?: number;
}

/** A breaker that nobody has used for this long is forgotten; its failures have expired long before. */
const idleMs = 10 * 60_000;
/** How often idle ones are looked for, when new ones come. */
const sweepMs = 60_000;
/** When there is no room: the share of all that leaves, those that were unused for longest. */
const evictedShare = 0.1;

/**
 * The circuit breakers of this process, one for each target with breaker settings and each organisation (`group`).
 * They outlive reloads: a target is known by its id.
 *
 * A target is asked about (`isOpen`) when a plan is made, and each try at it is begun and ended. Nothing here waits or
 * throws. Gateways that share the counters share failures at once, and that a breaker is open within a second.
 */
export class Breakers {
  private readonly clock: Clock;
  private readonly maxBreakers: number;
  private readonly services: BreakerServices;
  private readonly groups = new Map<string, Map<string, Breaker>>();
  private count = 0;
  private sweepAt = 0;

  constructor({ counters, clock, log, metrics, maxBreakers = 10_000 }: BreakersOptions) {
    this.clock = clock;
    this.maxBreakers = maxBreakers;
    const counted = metrics === undefined ? undefined : turnCounter(metrics);
    this.services = {
      counters,
      clock,
      turned(leaf, turn, why) {
        counted?.[turn].inc();
        if (log !== undefined) report(log, leaf, turn, why);
      },
    };
    metrics?.onScrape(gaugeOf(metrics, () => this.tripped));
  }

  /** Breakers remembered now. */
  get size(): number {
    return this.count;
  }

  /**
   * The target is to be left alone, as long as there are others. Half-open ones are not, until a request has begun that
   * tries them.
   */
  isOpen(leaf: PlanLeaf, group: string): boolean {
    if (leaf.breaker === undefined) return false;
    const now = this.clock.monotonic();
    return this.breaker(leaf, group, now)?.isOpen(now) ?? false;
  }

  /**
   * A try at the target starts; end what is returned when it is known how the try came out. Undefined for a target
   * without a breaker.
   */
  begin(leaf: PlanLeaf, group: string): BreakerTry | undefined {
    if (leaf.breaker === undefined) return undefined;
    const now = this.clock.monotonic();
    return this.breaker(leaf, group, now)?.begin(now);
  }

  private breaker(leaf: PlanLeaf, group: string, now: number): Breaker | undefined {
    const { breaker: settings } = leaf;
    if (settings === undefined) return undefined;
    let known = this.groups.get(group);
    let breaker = known?.get(leaf.id);
    if (breaker === undefined) {
      this.makeRoom(now);
      breaker = new Breaker(leaf, settings, group, this.services);
      known = this.groups.get(group);
      if (known === undefined) this.groups.set(group, (known = new Map<string, Breaker>()));
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

  /** Those that were not used after `usedAt`. What is open is marked in the counters, and learned again from there. */
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

  private *all(): Generator<Breaker> {
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
    help: 'Turns of circuit breakers: opened, half-open with a request that tries, closed again.',
    labels: ['to'],
  });
  return {
    open: turns({ to: 'open' }),
    'half-open': turns({ to: 'half-open' }),
    closed: turns({ to: 'closed' }),
  };
}

/** One number for all: targets of configs that requests bring along would make labels without end. */
function gaugeOf(metrics: Metrics, tripped: () => number): () => void {
  const gauge = metrics.gauge({
    name: 'weir_breakers_open',
    help: 'Circuit breakers that are open or half-open in this process.',
    labels: [],
  })({});
  return () => gauge.set(tripped());
}
