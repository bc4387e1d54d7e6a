import {
  Counter as PromCounter,
  Histogram as PromHistogram,
  type MetricValueWithName,
  type Registry,
} from 'prom-client';
import type { Counter, Histogram } from '../../core/ports/metrics.ts';

interface FamilySettings<L extends string> {
  readonly name: string;
  readonly help: string;
  readonly labelNames: L[];
  readonly registers: Registry[];
}

/**
 * A counter family whose series count in plain fields. prom-client hashes the labels at every `inc`, about a
 * microsecond; here that happens once per scrape.
 */
export function countedLocally<L extends string>(
  settings: FamilySettings<L>,
): (labels: Record<L, string>) => Counter {
  const series: CountedSeries<L>[] = [];
  new PromCounter<L>({
    ...settings,
    collect() {
      for (const one of series) this.inc(one.labels, one.take());
    },
  });
  return (labels) => {
    const one = new CountedSeries(labels);
    series.push(one);
    return one;
  };
}

class CountedSeries<L extends string> implements Counter {
  readonly labels: Record<L, string>;
  #since = 0;

  constructor(labels: Record<L, string>) {
    this.labels = labels;
  }

  inc(by = 1): void {
    if (by >= 0 && Number.isFinite(by)) this.#since += by;
  }

  /** What was counted since the last scrape. */
  take(): number {
    const since = this.#since;
    this.#since = 0;
    return since;
  }
}

/** A histogram family whose series count in plain fields; prom-client asks for them at each scrape. */
export function observedLocally<L extends string>(
  settings: FamilySettings<L>,
  bounds: readonly number[],
): (labels: Record<L, string>) => Histogram {
  const family = new LocalHistogram<L>(settings, bounds);
  return (labels) => family.series(labels);
}

class LocalHistogram<L extends string> extends PromHistogram<L> {
  readonly #settings: FamilySettings<L>;
  readonly #bounds: readonly number[];
  readonly #series: ObservedSeries<L>[] = [];

  constructor(settings: FamilySettings<L>, bounds: readonly number[]) {
    super({ ...settings, buckets: [...bounds] });
    this.#settings = settings;
    this.#bounds = [...bounds];
  }

  series(labels: Record<L, string>): Histogram {
    const one = new ObservedSeries(labels, this.#bounds);
    this.#series.push(one);
    return one;
  }

  /** What prom-client's registry asks a histogram for; `get` builds on it, too. It is not among its types. */
  getForPromString(): Promise<{
    name: string;
    help: string;
    type: string;
    values: MetricValueWithName<L>[];
  }> {
    const { name, help } = this.#settings;
    return Promise.resolve({
      name,
      help,
      type: 'histogram',
      values: this.#series.flatMap((one) => one.values(name)),
    });
  }
}

class ObservedSeries<L extends string> implements Histogram {
  readonly #labels: Record<L, string>;
  readonly #bounds: readonly number[];
  /** One count per bound, and one for what lies above them all. */
  readonly #counts: number[];
  #sum = 0;

  constructor(labels: Record<L, string>, bounds: readonly number[]) {
    this.#labels = labels;
    this.#bounds = bounds;
    this.#counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    if (!Number.isFinite(value)) return;
    let at = 0;
    while (at < this.#bounds.length && value > (this.#bounds[at] as number)) at++;
    (this.#counts[at] as number)++;
    this.#sum += value;
  }

  values(name: string): MetricValueWithName<L>[] {
    let total = 0;
    const buckets = this.#counts.map((count, at) => {
      total += count;
      const le = this.#bounds[at] ?? '+Inf';
      return { metricName: `${name}_bucket`, labels: { le, ...this.#labels }, value: total };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels: this.#labels, value: this.#sum },
      { metricName: `${name}_count`, labels: this.#labels, value: total },
    ];
  }
}
