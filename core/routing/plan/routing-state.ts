import type { Clock } from '../../ports/clock.ts';
import { RecentMap } from '../../base/recent-map.ts';

/** Targets, and branches, that are remembered; those not used for the longest time go first. */
const maxIds = 10_000;
const maxAssignments = 100_000;
/** A measurement that is this old has lost two thirds of its weight. */
const memoryMs = 30_000;
/** What a failure counts for: twice what the target took so far, within these bounds. */
const leastPenaltyMs = 1000;
const mostPenaltyMs = 60_000;
/** What a failure counts for at a target that never answered. */
const firstPenaltyMs = 10_000;

/** What strategies remember between requests. One per process; it survives reloads of the configuration, not restarts. */
export class RoutingState {
  readonly #clock: Clock;
  readonly #latencies = new RecentMap<{ ms: number; at: number }>(maxIds);
  readonly #turns = new RecentMap<{ next: number }>(maxIds);
  readonly #assignments = new RecentMap<{ child: number; until: number }>(maxAssignments);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Moving average of the time to the first token of a target, in milliseconds; undefined before the first measurement. */
  latency(id: string): number | undefined {
    return this.#latencies.get(id)?.ms;
  }

  /** A target's first token came after `ms`. The longer the last measurement is ago, the more this one counts. */
  recordLatency(id: string, ms: number): void {
    if (!Number.isFinite(ms) || ms < 0) return;
    const at = this.#clock.monotonic();
    const known = this.#latencies.touch(id);
    if (known === undefined) {
      this.#latencies.set(id, { ms, at });
      return;
    }
    const kept = Math.exp(-Math.max(0, at - known.at) / memoryMs);
    known.ms = known.ms * kept + ms * (1 - kept);
    known.at = at;
  }

  /** A target failed: fast refusals must not make it look fast. */
  recordFailure(id: string): void {
    const at = this.#clock.monotonic();
    const known = this.#latencies.touch(id);
    if (known === undefined) {
      this.#latencies.set(id, { ms: firstPenaltyMs, at });
      return;
    }
    known.ms = Math.min(mostPenaltyMs, Math.max(leastPenaltyMs, known.ms * 2));
    known.at = at;
  }

  /** Counts the calls for a branch: 0, 1, 2 … */
  turn(id: string): number {
    const known = this.#turns.touch(id);
    if (known !== undefined) return known.next++;
    this.#turns.set(id, { next: 1 });
    return 0;
  }

  /** The child of a branch that a hash is assigned to; undefined when nobody assigned it or it was not renewed in time. */
  assigned(id: string, hash: string): number | undefined {
    const found = this.#assignments.get(`${id}\n${hash}`);
    return found === undefined || found.until <= this.#clock.monotonic() ? undefined : found.child;
  }

  /** Assigns a hash to a child of a branch for `ttlMs` from now on, in place of what it was assigned to. */
  assign(id: string, hash: string, child: number, ttlMs: number): void {
    const key = `${id}\n${hash}`;
    const until = this.#clock.monotonic() + ttlMs;
    const known = this.#assignments.touch(key);
    if (known === undefined) this.#assignments.set(key, { child, until });
    else {
      known.child = child;
      known.until = until;
    }
  }
}
