import {
  AggregatorRegistry,
  collectDefaultMetrics,
  Counter as PromCounter,
  Gauge as PromGauge,
  Histogram as PromHistogram,
  type MetricObjectWithValues,
  type MetricValueWithName,
  Registry,
} from 'prom-client';
import type { Counter, Gauge, Histogram, MetricDefinition, Metrics } from '../../core/ports/metrics.ts';

interface FamilySettings<L extends string> {
  readonly name: string;
  readonly help: string;
  readonly labelNames: L[];
  readonly registers: Registry[];
  readonly aggregator: NonNullable<MetricDefinition<L>['over']>;
}

/**
 * A counter family whose series count in plain fields. prom-client hashes the labels at every `inc`, about a
 * microsecond; here that happens once per scrape.
 */
function countedLocally<L extends string>(
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

  /** Count since the last scrape. */
  take(): number {
    const since = this.#since;
    this.#since = 0;
    return since;
  }
}

/** A histogram family whose series count in plain fields; prom-client reads them at each scrape. */
function observedLocally<L extends string>(
  settings: FamilySettings<L>,
  bounds: readonly number[],
): (labels: Record<L, string>) => Histogram {
  const family = new LocalHistogram<L>(settings, bounds);
  return (labels) => family.series(labels);
}

type Collected<L extends string> = MetricObjectWithValues<MetricValueWithName<L>>;

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

  /** Values for another process. */
  override get(): Promise<Collected<L>> {
    const { name, help, aggregator } = this.#settings;
    const values = this.#series.flatMap((one) => one.values(name));
    // The types name an enum that the package does not export, and a member that only its own metrics have.
    const collected: unknown = { name, help, type: 'histogram', aggregator, values };
    return Promise.resolve(collected as Collected<L>);
  }

  /** Method that prom-client's registry calls for its text. It is missing in its types. */
  getForPromString(): Promise<Collected<L>> {
    return this.get();
  }
}

class ObservedSeries<L extends string> implements Histogram {
  readonly #labels: Record<L, string>;
  readonly #bounds: readonly number[];
  /** One count per bound, and one for all values above. */
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

/** Of several processes, that of the oldest one: the gateway has run since then. */
const startTime = 'process_start_time_seconds';

/** Default buckets of prom-client, in seconds. */
const defaultBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

type Kind = 'counter' | 'gauge' | 'histogram';

/** A histogram series is as long as a dozen others. */
const maxSeries: Readonly<Record<Kind, number>> = { counter: 10_000, gauge: 10_000, histogram: 2000 };

interface Family {
  readonly kind: Kind;
  readonly labels: readonly string[];
  readonly child: (labels: Record<string, string>) => unknown;
}

/** Values of one process, in a form that only `render` and `totalsOf` read. */
export type CollectedMetrics = readonly object[];

/** Counters and histograms of several processes as those of one. Gauges of processes that have ended mean nothing. */
export async function totalsOf(processes: readonly CollectedMetrics[]): Promise<CollectedMetrics> {
  const totals = processes.map((families) =>
    families.filter(
      (family) => 'type' in family && (family.type === 'counter' || family.type === 'histogram'),
    ),
  );
  return AggregatorRegistry.aggregate(totals).getMetricsAsJSON();
}

/** Metrics of a process that may be one of several. */
export interface ProcessMetrics extends Metrics {
  /** The present values of every family, for `render` in another process: plain JSON. */
  collect(): Promise<CollectedMetrics>;
  /** As `Metrics.render`, together with the values of other processes. */
  render(others?: readonly CollectedMetrics[]): Promise<{ contentType: string; text: string }>;
}

/**
 * Metrics on prom-client, in a registry of their own that also holds the process's (event loop, memory, CPU).
 *
 * A family keeps 10,000 series, a histogram family 2,000; further label values are counted together in one series whose
 * labels are all `other`. Non-finite values and negative counts are ignored. Defining a name again with another kind or
 * other labels throws.
 */
export function createMetrics(): ProcessMetrics {
  return new PrometheusMetrics();
}

class PrometheusMetrics implements ProcessMetrics {
  readonly #registry = new Registry();
  readonly #families = new Map<string, Family>();
  readonly #collectors = new Set<() => void>();
  readonly #failedCollectors: Counter;

  constructor() {
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: 20 });
    this.#failedCollectors = this.counter({
      name: 'weir_scrape_failures_total',
      help: 'Collectors that failed during a scrape; their metrics are out of date.',
      labels: [],
    })({});
  }

  counter<L extends string>(definition: MetricDefinition<L>): (labels: Record<L, string>) => Counter {
    return this.#family('counter', definition, () => countedLocally<L>(this.#configuration(definition)));
  }

  gauge<L extends string>(definition: MetricDefinition<L>): (labels: Record<L, string>) => Gauge {
    return this.#family('gauge', definition, () => {
      const family = new PromGauge<L>(this.#configuration(definition));
      return (labels): Gauge => {
        const child = family.labels(labels);
        return {
          set: (value) => {
            if (Number.isFinite(value)) child.set(value);
          },
        };
      };
    });
  }

  histogram<L extends string>(definition: MetricDefinition<L>): (labels: Record<L, string>) => Histogram {
    return this.#family('histogram', definition, () =>
      observedLocally<L>(this.#configuration(definition), definition.buckets ?? defaultBuckets),
    );
  }

  onScrape(collect: () => void): () => void {
    // A separate function for each call, so that the same collector registered twice is removed one by one.
    const entry = (): void => collect();
    this.#collectors.add(entry);
    return () => void this.#collectors.delete(entry);
  }

  async collect(): Promise<CollectedMetrics> {
    this.#runCollectors();
    const families = await this.#registry.getMetricsAsJSON();
    // prom-client would leave it out of what several processes tell together.
    return families.map((family) => (family.name === startTime ? { ...family, aggregator: 'min' } : family));
  }

  async render(others: readonly CollectedMetrics[] = []): Promise<{ contentType: string; text: string }> {
    const { contentType } = this.#registry;
    if (others.length === 0) {
      this.#runCollectors();
      return { contentType, text: await this.#registry.metrics() };
    }
    const all = AggregatorRegistry.aggregate([await this.collect(), ...others] as object[][]);
    return { contentType, text: await all.metrics() };
  }

  #runCollectors(): void {
    for (const collect of this.#collectors) {
      try {
        collect();
      } catch {
        this.#failedCollectors.inc();
      }
    }
  }

  #configuration<L extends string>({
    name,
    help,
    labels,
    over = 'sum',
  }: MetricDefinition<L>): FamilySettings<L> {
    return { name, help, labelNames: [...labels], registers: [this.#registry], aggregator: over };
  }

  #family<L extends string, C>(
    kind: Kind,
    definition: MetricDefinition<L>,
    create: () => (labels: Record<L, string>) => C,
  ): (labels: Record<L, string>) => C {
    const { name, labels } = definition;
    const known = this.#families.get(name);
    if (known === undefined) {
      const child = boundedChildren(labels, create(), maxSeries[kind]);
      this.#families.set(name, { kind, labels: [...labels], child });
      return child;
    }
    if (known.kind !== kind || known.labels.join() !== labels.join()) {
      throw new Error(
        `metric ${name} is defined as a ${known.kind} with labels [${known.labels.join()}]; give the ${kind} with [${labels.join()}] another name`,
      );
    }
    return known.child as (labels: Record<L, string>) => C;
  }
}

/**
 * Caches the child of each combination of label values. Beyond `most` combinations the rest share one child whose
 * labels are all `other`: label values chosen by callers must not fill the memory.
 */
function boundedChildren<L extends string, C>(
  names: readonly L[],
  create: (labels: Record<L, string>) => C,
  most: number,
): (labels: Record<L, string>) => C {
  const children = new Map<string, C>();
  let other: C | undefined;
  return (labels) => {
    const key = childKey(names, labels);
    const known = children.get(key);
    if (known !== undefined) return known;
    if (children.size >= most) {
      other ??= create(relabelled(names, () => 'other'));
      return other;
    }
    const child = create(relabelled(names, (name) => labels[name]));
    children.set(key, child);
    return child;
  };
}

function childKey<L extends string>(names: readonly L[], labels: Record<L, string>): string {
  if (names.length === 1) return labels[names[0] as L];
  let key = '';
  // The length distinguishes `a` + `bc` from `ab` + `c`.
  for (const name of names) key += `${labels[name].length}:${labels[name]}`;
  return key;
}

function relabelled<L extends string>(names: readonly L[], value: (name: L) => string): Record<L, string> {
  return Object.fromEntries(names.map((name) => [name, value(name)])) as Record<L, string>;
}
