import type { Clock } from '../../ports/clock.ts';
import { RecentMap } from '../../base/recent-map.ts';
import type { LatencyReport, MergedLatencies, OwnLatencies, TargetLatency } from '../../ports/latencies.ts';

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

/** What several processes measure within this time counts as one measurement, their mean. */
const windowMs = 1000;
/** Older measurements are not told to a process that starts. */
const toldMs = 10 * 60_000;
/** More failures than this within one report change nothing. */
const maxDoublings = 20;

/** A moving average of latencies. */
interface Average {
  ms: number;
  /** Time of the last measurement. */
  at: number;
}

/** Counts a measurement: the older the last one, the more. */
function count(average: Average, ms: number, at: number): void {
  const kept = Math.exp(-Math.max(0, at - average.at) / memoryMs);
  average.ms = average.ms * kept + ms * (1 - kept);
  average.at = at;
}

function punish(average: Average, failures: number, at: number): void {
  const times = Math.min(failures, maxDoublings);
  for (let i = 0; i < times; i++) average.ms = Math.min(maxPenaltyMs, Math.max(minPenaltyMs, average.ms * 2));
  average.at = at;
}

/** Measurements that are not told yet, or not merged. */
type Measured = { -readonly [Name in Exclude<keyof LatencyReport, 'id'>]: number };

/** State of strategies between requests. One per process; it survives reloads of the configuration, not restarts. */
export class RoutingState implements OwnLatencies {
  readonly #clock: Clock;
  readonly #latencies = new RecentMap<Average>(maxIds);
  /** Undefined while nobody is told. */
  #untold: RecentMap<Measured> | undefined;
  /** Told, and not answered yet. */
  #told = new Map<string, Measured>();
  #onMeasured: () => void = () => undefined;
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
    if (known === undefined) this.#latencies.set(id, { ms, at });
    else count(known, ms, at);
    if (this.#untold !== undefined) this.#note(this.#untold, id, ms, false);
  }

  /** Records a failure with a penalty, so that fast refusals do not make a target look fast. */
  recordFailure(id: string): void {
    const at = this.#clock.monotonic();
    const known = this.#latencies.touch(id);
    if (known === undefined) this.#latencies.set(id, { ms: firstPenaltyMs, at });
    else punish(known, 1, at);
    if (this.#untold !== undefined) this.#note(this.#untold, id, 0, true);
  }

  onMeasured(run: () => void): void {
    this.#untold ??= new RecentMap<Measured>(maxIds);
    this.#onMeasured = run;
  }

  take(max: number): readonly LatencyReport[] {
    this.#told = new Map();
    for (const [id, measured] of this.#untold?.entries() ?? []) {
      if (this.#told.size === max) break;
      this.#told.set(id, measured);
    }
    for (const id of this.#told.keys()) this.#untold?.delete(id);
    return [...this.#told].map(([id, measured]) => ({ id, ...measured }));
  }

  learn(known: readonly TargetLatency[], isAnswer: boolean): void {
    if (isAnswer) this.#told = new Map();
    const now = this.#clock.monotonic();
    for (const { id, ms, ageMs } of known) {
      const average = { ms, at: now - ageMs };
      for (const own of [this.#told.get(id), this.#untold?.get(id)]) {
        if (own === undefined) continue;
        if (own.count > 0) count(average, own.sumMs / own.count, now);
        punish(average, own.failures, average.at);
      }
      this.#latencies.touch(id);
      this.#latencies.set(id, average);
    }
  }

  #note(untold: RecentMap<Measured>, id: string, ms: number, isFailure: boolean): void {
    const isFirst = untold.size === 0;
    let measured = untold.get(id);
    if (measured === undefined) untold.set(id, (measured = { sumMs: 0, count: 0, failures: 0 }));
    if (isFailure) measured.failures += 1;
    else {
      measured.sumMs += ms;
      measured.count += 1;
    }
    if (isFirst) this.#onMeasured();
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

/** Of a target: the average before the present window, and what was measured in it. */
interface MergedAverage extends Average {
  before: Average | undefined;
  since: number;
  sumMs: number;
  count: number;
}

/**
 * Latencies that several processes measure, as one process would have averaged them. What they tell within a second is
 * added up and counts as one measurement: so each request weighs the same, whichever process served it, and the average
 * does not depend on how often they tell.
 */
export class SharedLatencies implements MergedLatencies {
  readonly #clock: Clock;
  readonly #averages = new RecentMap<MergedAverage>(maxIds);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  merge(reports: readonly LatencyReport[]): void {
    const now = this.#clock.monotonic();
    for (const report of reports) this.#merge(report, now);
  }

  of(ids: Iterable<string>): readonly TargetLatency[] {
    const now = this.#clock.monotonic();
    return [...ids].flatMap((id) => {
      const known = this.#averages.get(id);
      return known === undefined ? [] : [{ id, ms: known.ms, ageMs: now - known.at }];
    });
  }

  recent(max: number): readonly TargetLatency[] {
    const since = this.#clock.monotonic() - toldMs;
    const ids = [...this.#averages.entries()].filter(([, { at }]) => at >= since).map(([id]) => id);
    return this.of(ids.slice(-max));
  }

  #merge({ id, sumMs, count: measured, failures }: LatencyReport, now: number): void {
    let known = this.#averages.touch(id);
    if (known === undefined) {
      const ms = measured > 0 ? 0 : firstPenaltyMs;
      known = { ms, at: now, before: undefined, since: now, sumMs: 0, count: 0 };
      this.#averages.set(id, known);
      if (measured === 0) return punish(known, failures - 1, now);
    } else if (now - known.since >= windowMs || known.count === 0) {
      known.before = { ms: known.ms, at: known.at };
      known.since = now;
      known.sumMs = 0;
      known.count = 0;
    }
    if (measured > 0) {
      known.sumMs += sumMs;
      known.count += measured;
      const mean = known.sumMs / known.count;
      const next = known.before === undefined ? { ms: mean, at: now } : { ...known.before };
      if (known.before !== undefined) count(next, mean, now);
      known.ms = next.ms;
    }
    known.at = now;
    if (failures === 0) return;
    punish(known, failures, now);
    // Measurements from now on count after the failure.
    known.count = 0;
  }
}
