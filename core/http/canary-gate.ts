/** Which requests of this process meet the new configuration, and what became of both kinds. */

/** Requests of one side. `latencies` counts by bucket, see `bucketOf`. */
export interface CanaryCounts {
  requests: number;
  errors: number;
  refusals: number;
  readonly latencies: number[];
}

/** What a process has counted since it was asked last. */
export interface CanaryReport {
  readonly before: CanaryCounts;
  readonly after: CanaryCounts;
  /** It has met so many failures in a row that this process stopped it by itself. */
  readonly isStopped: boolean;
}

/** How a request ended. */
interface Ended {
  readonly kind: 'completed' | 'refused' | 'failed' | 'cancelled';
  readonly status: number;
  readonly latencyMs: number;
}

/** The part of a generation that is chosen between. */
interface Choice {
  readonly hash: string;
}

/** Each bucket ends a tenth higher than the one before it; the last one takes everything beyond. */
const step = 1.1;
const buckets = 160;
/** Failures in a row that stop a canary whose old configuration never fails. */
const fewestInRow = 3;
/** A run of failures that the old configuration itself would show with this chance is none of the new one. */
const chance = 1e-6;
/** Requests that may be under way until one has ended well: a provider that hangs meets no more. */
const unprovenAtOnce = 3;

/** Counts with nothing in them. */
function noCounts(): CanaryCounts {
  return { requests: 0, errors: 0, refusals: 0, latencies: [] };
}

/** Adds the counts of `more` to `sum`. */
function addCounts(sum: CanaryCounts, more: CanaryCounts): void {
  sum.requests += more.requests;
  sum.errors += more.errors;
  sum.refusals += more.refusals;
  more.latencies.forEach((count, bucket) => {
    sum.latencies[bucket] = (sum.latencies[bucket] ?? 0) + count;
  });
}

/** The median of the latencies in milliseconds; undefined for none. */
function medianOf({ latencies }: CanaryCounts): number | undefined {
  const bucket = medianBucket(latencies);
  return bucket === undefined ? undefined : step ** (bucket + 0.5);
}

function medianBucket(latencies: readonly number[]): number | undefined {
  const whole = sumOf(latencies);
  let seen = 0;
  for (let bucket = 0; bucket < latencies.length; bucket++) {
    seen += latencies[bucket] ?? 0;
    if (whole > 0 && seen * 2 >= whole) return bucket;
  }
  return undefined;
}

/** How many answers of `after` came faster than the median of `before`, and within its bucket, and all of them. */
function sharesAround(
  before: CanaryCounts,
  { latencies }: CanaryCounts,
): { readonly faster: number; readonly alike: number; readonly all: number } {
  const bucket = medianBucket(before.latencies) ?? 0;
  return {
    faster: sumOf(latencies.slice(0, bucket)),
    alike: latencies[bucket] ?? 0,
    all: sumOf(latencies),
  };
}

/** Buckets without a count may be missing in the list. */
function sumOf(latencies: readonly number[]): number {
  return latencies.reduce((sum, count) => sum + count, 0);
}

/** Arithmetic on the counts of a side: none of them, their sum, their median, and the shares around a median. */
export const canaryCounts = { none: noCounts, add: addCounts, medianOf, sharesAround };

/** A canary in one process. */
class RunningCanary<G extends Choice> {
  readonly generation: G;
  readonly #serving: string;
  #share: number;
  #due = 0;
  #inRow = 0;
  #underWay = 0;
  #isProven = false;
  #isStopped = false;
  #before = noCounts();
  #after = noCounts();
  /** Since it began: of the old configuration. */
  #all = 0;
  #bad = 0;

  constructor(generation: G, serving: string, share: number) {
    this.generation = generation;
    this.#serving = serving;
    this.#share = share / 100;
  }

  set share(percent: number) {
    this.#share = percent / 100;
  }

  /** The new configuration for one request in so many as the share says; undefined for the others. */
  choose(): G | undefined {
    if (this.#isStopped) return undefined;
    this.#due += this.#share;
    if (this.#due < 1) return undefined;
    if (!this.#isProven && this.#underWay >= unprovenAtOnce) {
      this.#due = 1;
      return undefined;
    }
    this.#due -= 1;
    this.#underWay += 1;
    return this.generation;
  }

  /** The chosen request is not served by it after all. */
  giveBack(): void {
    this.#underWay -= 1;
  }

  /** Counts a request that has ended, by the hash of the generation that served it. */
  count(hash: string, { kind, status, latencyMs }: Ended): void {
    const isNew = hash === this.generation.hash;
    if (!isNew && hash !== this.#serving) return;
    if (isNew) this.#underWay -= 1;
    const left = kind === 'cancelled';
    const isError = !left && (kind === 'failed' || status >= 500);
    const isRefusal = !left && !isError && status >= 400;
    const counts = isNew ? this.#after : this.#before;
    counts.requests += 1;
    if (isError) counts.errors += 1;
    else if (isRefusal) counts.refusals += 1;
    else if (!left) {
      const bucket = Math.min(buckets, Math.max(0, Math.floor(Math.log(latencyMs) / Math.log(step))));
      counts.latencies[bucket] = (counts.latencies[bucket] ?? 0) + 1;
    }
    const isBad = isError || isRefusal;
    if (!isNew) {
      this.#all += 1;
      if (isBad) this.#bad += 1;
      return;
    }
    this.#inRow = isBad ? this.#inRow + 1 : 0;
    this.#isProven ||= !isBad && !left;
    if (this.#inRow >= this.#mostInRow()) this.#isStopped = true;
  }

  /** The counts since the last call. */
  report(): CanaryReport {
    const [before, after] = [this.#before, this.#after];
    this.#before = noCounts();
    this.#after = noCounts();
    return { before, after, isStopped: this.#isStopped };
  }

  /** A side whose requests often fail anyhow shows longer runs of failures. */
  #mostInRow(): number {
    const rate = Math.min(0.99, this.#all === 0 ? 0 : this.#bad / this.#all);
    return rate === 0 ? fewestInRow : Math.max(fewestInRow, Math.ceil(Math.log(chance) / Math.log(rate)));
  }
}

/** Between the requests of a process and a canary. `running` is undefined for most of its life: that is its whole cost. */
export class CanaryGate<G extends Choice> {
  running: RunningCanary<G> | undefined;

  begin(generation: G, serving: string, share: number): void {
    this.running = new RunningCanary(generation, serving, share);
  }

  end(): void {
    this.running = undefined;
  }
}
