/** Where spans are sent, with everything filled in. Holds secrets: never log it whole. */
export interface OtlpSettings {
  /** Complete, path included. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly service_name: string;
  /** Attributes of the resource beside the name of the service. */
  readonly resource: Readonly<Record<string, string>>;
  /** 0 to 1: of traces that begin here. */
  readonly sample_ratio: number;
  /** Spans hold what was asked and answered. */
  readonly content: boolean;
  readonly timeout_ms: number;
  /** Most spans that wait. */
  readonly queue: number;
}

/** What other systems are told of requests. */
export interface TelemetrySettings {
  /** Providers are told the trace that a request belongs to. */
  readonly propagate: boolean;
  /** Undefined: no spans are sent. */
  readonly otlp: OtlpSettings | undefined;
  readonly metrics: {
    readonly labels: readonly string[];
    readonly max_label_values: number;
  };
}
