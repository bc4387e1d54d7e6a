import type { Counter, Histogram, Metrics } from '../ports/metrics.ts';

const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const gatewayBuckets = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5];

/** What tells one kind of request from another. */
export interface RequestLabels {
  readonly provider: string;
  readonly endpoint: string;
  readonly status: number;
  readonly outcome: string;
  readonly source: string;
  readonly method: string;
  readonly stream: boolean;
  readonly cacheStatus: string;
}

/** The series of one combination of labels; those that not every request needs are bound on first use. */
export interface Series {
  readonly requests: Counter;
  readonly duration: Histogram;
  /** By kind. */
  readonly tokens: Map<string, Counter>;
  provider: ProviderSeries | undefined;
  cost: Counter | undefined;
  bindProvider(): ProviderSeries;
  bindCost(): Counter;
  /** Labels of counters of tokens, but for the kind. */
  readonly both: Readonly<Record<string, string>>;
}

/** Series of requests that a provider was asked for. */
export interface ProviderSeries {
  readonly gateway: Histogram;
  readonly firstToken: Histogram;
  readonly whole: Histogram;
  readonly firstByte: Histogram;
  readonly rest: Histogram;
  readonly before: Histogram;
  readonly after: Histogram;
}

/** The families of metrics that requests are counted in. */
export interface RequestFamilies {
  /** `further` are the values of the labels that the configuration asks for. */
  bind(labels: RequestLabels, further: Readonly<Record<string, string>>): Series;
  bindTokens(series: Series, kind: string): Counter;
}

/** Defines the families; `further` are the names of labels that the configuration asks for. */
export function requestFamilies(metrics: Metrics, further: readonly string[]): RequestFamilies {
  const requests = metrics.counter<string>({
    name: 'weir_requests_total',
    help: 'Requests by provider, endpoint, status, outcome, method, stream, cache status and source of the answer.',
    labels: [
      ...['provider', 'endpoint', 'status', 'outcome', 'method', 'stream', 'cache_status', 'source'],
      ...further,
    ],
  });
  const seconds = (name: string, help: string, buckets: readonly number[]) =>
    metrics.histogram<string>({
      ...{ name, help, buckets },
      labels: ['provider', 'endpoint', 'code', 'stream', ...further],
    });
  const duration = seconds(
    'weir_request_duration_seconds',
    'From acceptance to the last byte.',
    durationBuckets,
  );
  const provider = {
    gateway: seconds(
      'weir_gateway_duration_seconds',
      'The part of the duration not spent waiting for the provider.',
      gatewayBuckets,
    ),
    firstToken: seconds(
      'weir_time_to_first_token_seconds',
      'From acceptance to the first token of a stream.',
      durationBuckets,
    ),
    whole: seconds(
      'weir_provider_duration_seconds',
      'From sending to the provider until the last byte of its answer, for the try that was served.',
      durationBuckets,
    ),
    firstByte: seconds(
      'weir_provider_first_byte_seconds',
      'From sending to the provider until the first byte of its answer.',
      durationBuckets,
    ),
    rest: seconds(
      'weir_provider_last_byte_diff_seconds',
      'From the first byte of the provider’s answer to its last.',
      durationBuckets,
    ),
    before: seconds(
      'weir_pre_request_duration_seconds',
      'From acceptance until the provider is asked, of requests with one try: body, plugins, routing.',
      gatewayBuckets,
    ),
    after: seconds(
      'weir_post_request_duration_seconds',
      'From the last byte of the provider’s answer to the last byte for the client.',
      gatewayBuckets,
    ),
  };
  const tokens = metrics.counter<string>({
    name: 'weir_tokens_total',
    help: 'Tokens by provider, endpoint and kind; cached, reasoning and audio ones are part of prompt or completion.',
    labels: ['provider', 'endpoint', 'kind', ...further],
  });
  const cost = metrics.counter<string>({
    name: 'weir_cost_usd_total',
    help: 'US dollars; requests without a known price are not in it.',
    labels: ['provider', 'endpoint', ...further],
  });
  return {
    bind(labels, values) {
      const { provider: name, endpoint, status, outcome, source, method } = labels;
      const both = { provider: name, endpoint, ...values };
      const stream = String(labels.stream);
      const timed = { ...both, code: classOf(status), stream };
      return {
        requests: requests({
          ...{ ...both, status: String(status), outcome, method, stream, source },
          cache_status: labels.cacheStatus,
        }),
        duration: duration(timed),
        tokens: new Map(),
        provider: undefined,
        cost: undefined,
        both,
        bindProvider: () => ({
          gateway: provider.gateway(timed),
          firstToken: provider.firstToken(timed),
          whole: provider.whole(timed),
          firstByte: provider.firstByte(timed),
          rest: provider.rest(timed),
          before: provider.before(timed),
          after: provider.after(timed),
        }),
        bindCost: () => cost(both),
      };
    },
    bindTokens: ({ both }, kind) => tokens({ ...both, kind }),
  };
}

/** `2xx`, `4xx` … */
function classOf(status: number): string {
  return `${Math.floor(status / 100)}xx`;
}
