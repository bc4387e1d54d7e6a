import { collectDefaultMetrics, Gauge as PromGauge, Registry } from 'prom-client';
import type { Counter, Gauge, Histogram, MetricDefinition, Metrics } from '../../core/ports/metrics.ts';
import { boundedChildren } from './bounded-children.ts';
import { countedLocally, observedLocally } from './counted-locally.ts';

/** prom-client's own, in seconds. */
const defaultBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

type Kind = 'counter' | 'gauge' | 'histogram';

/** A series of a histogram is as long as a dozen others. */
const maxSeries: Readonly<Record<Kind, number>> = { counter: 10_000, gauge: 10_000, histogram: 2000 };

interface Family {
  readonly kind: Kind;
  readonly labels: readonly string[];
  readonly child: (labels: Record<string, string>) => unknown;
}

/**
 * Metrics on prom-client, in a registry of their own that also holds the process's (event loop, memory, CPU).
 *
 * A family keeps 10,000 series, one of histograms 2,000; further label values are counted together in one series whose labels are all
 * `other`. Values that are no finite number, and negative counts, are left out. Defining a name again with another
 * kind or other labels throws.
 */
export function createMetrics(): Metrics {
  return new PrometheusMetrics();
}

class PrometheusMetrics implements Metrics {
  readonly #registry = new Registry();
  readonly #families = new Map<string, Family>();
  readonly #collectors = new Set<() => void>();
  readonly #failedCollectors: Counter;

  constructor() {
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: 20 });
    this.#failedCollectors = this.counter({
      name: 'weir_scrape_failures_total',
      help: 'Collectors that failed during a scrape; what they set is out of date.',
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
    // A function of its own for each call, so that the same collector registered twice is removed one by one.
    const entry = (): void => collect();
    this.#collectors.add(entry);
    return () => void this.#collectors.delete(entry);
  }

  async render(): Promise<{ contentType: string; text: string }> {
    for (const collect of this.#collectors) {
      try {
        collect();
      } catch {
        this.#failedCollectors.inc();
      }
    }
    return { contentType: this.#registry.contentType, text: await this.#registry.metrics() };
  }

  #configuration<L extends string>({
    name,
    help,
    labels,
  }: MetricDefinition<L>): {
    name: string;
    help: string;
    labelNames: L[];
    registers: Registry[];
  } {
    return { name, help, labelNames: [...labels], registers: [this.#registry] };
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
