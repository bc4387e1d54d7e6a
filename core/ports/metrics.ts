/** A series with its labels already chosen: bind once, then count without a look-up. */
export interface Counter {
  inc(by?: number): void;
}
export interface Gauge {
  set(value: number): void;
}
export interface Histogram {
  observe(value: number): void;
}

export interface MetricDefinition<Label extends string> {
  /** Prometheus name with its unit as suffix (`weir_request_duration_seconds`). */
  readonly name: string;
  readonly help: string;
  readonly labels: readonly Label[];
  /** Histogram bounds, in the unit of the name. */
  readonly buckets?: readonly number[];
  /** How the values of several processes become one. Default `sum`. */
  readonly over?: 'sum' | 'min' | 'max' | 'first';
}

/** Metrics registry. Defining the same name twice returns the same family, so that reloads are harmless. */
export interface Metrics {
  counter<L extends string>(definition: MetricDefinition<L>): (labels: Record<L, string>) => Counter;
  gauge<L extends string>(definition: MetricDefinition<L>): (labels: Record<L, string>) => Gauge;
  histogram<L extends string>(definition: MetricDefinition<L>): (labels: Record<L, string>) => Histogram;
  /** Runs just before each scrape, to set gauges. Returns the function that removes it. */
  onScrape(collect: () => void): () => void;
  /** The Prometheus text exposition of every family. */
  render(): Promise<{ contentType: string; text: string }>;
}
