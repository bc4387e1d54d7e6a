import type { Clock } from '../../ports/clock.ts';
import { RecentMap } from '../../base/recent-map.ts';

/** Upper bound of remembered targets, and of branches; the least recently used are evicted first. */
const maxIds = 10_000;
const maxAssignments = 100_000;
/** Age at which a measurement has lost two thirds of its weight. */
const memoryMs = 30_000;
/** Bounds of the latency that a failure counts as: twice the average of the target. */
const minPenaltyMs = 1000;
const maxPenaltyMs = 60_000;
/** Latency that a failure counts as at a target without an average. */
const firstPenaltyMs = 10_000;

/** State of strategies between requests. One per process; it survives reloads of the configuration, not restarts. */
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

  /** Records that a target's first token came after `ms`. The older the last measurement, the more this one counts. */
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

  /** Records a failure with a penalty, so that fast refusals do not make a target look fast. */
  recordFailure(id: string): void {
    const at = this.#clock.monotonic();
    const known = this.#latencies.touch(id);
    if (known === undefined) {
      this.#latencies.set(id, { ms: firstPenaltyMs, at });
      return;
    }
    known.ms = Math.min(maxPenaltyMs, Math.max(minPenaltyMs, known.ms * 2));
    known.at = at;
  }

  /** Counts the calls for a branch: 0, 1, 2 … */
  turn(id: string): number {
    const known = this.#turns.touch(id);
    if (known !== undefined) return known.next++;
    this.#turns.set(id, { next: 1 });
    return 0;
  }

  /** The child of a branch to which a hash is assigned; undefined without an assignment or after its expiry. */
  assigned(id: string, hash: string): number | undefined {
    const found = this.#assignments.get(`${id}\n${hash}`);
    return found === undefined || found.until <= this.#clock.monotonic() ? undefined : found.child;
  }

  /** Assigns a hash to a child of a branch for `ttlMs` from now, and replaces an earlier assignment. */
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
