import type { Usage } from '../dialects/usage.ts';
import type { Outcome } from '../pipeline/context.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { Counter, Histogram, Metrics } from '../ports/metrics.ts';
import type { TelemetrySettings } from '../base/trace-context.ts';
import { isSameList } from '../ports/header-list.ts';
import { callerKey } from '../pipeline/keys.ts';

const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const gatewayBuckets = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5];

/** Labels of a request's series. */
interface RequestLabels {
  readonly provider: string;
  readonly endpoint: string;
  readonly status: number;
  readonly outcome: string;
  readonly source: string;
  readonly method: string;
  readonly stream: boolean;
  readonly cacheStatus: string;
}

/** The series of one combination of labels. Series that not every request needs are bound at their first use. */
interface Series {
  readonly requests: Counter;
  readonly duration: Histogram;
  /** By kind. */
  readonly tokens: Map<string, Counter>;
  provider: ProviderSeries | undefined;
  cost: Counter | undefined;
  bindProvider(): ProviderSeries;
  bindCost(): Counter;
  /** Labels of token counters, without the kind. */
  readonly both: Readonly<Record<string, string>>;
}

/** Series of requests that went to a provider. */
interface ProviderSeries {
  readonly gateway: Histogram;
  readonly firstToken: Histogram;
  readonly whole: Histogram;
  readonly firstByte: Histogram;
  readonly rest: Histogram;
  readonly before: Histogram;
  readonly after: Histogram;
}

/** Metric families of requests. */
interface RequestFamilies {
  /** `further` holds the values of the labels from the configuration. */
  bind(labels: RequestLabels, further: Readonly<Record<string, string>>): Series;
  bindTokens(series: Series, kind: string): Counter;
}

/** Defines the families; `further` holds the names of the labels from the configuration. */
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
      name,
      help,
      buckets,
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
      'From sending to the provider until the last byte of its answer, for the attempt that was served.',
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
      'From acceptance until the provider is asked, of requests with one attempt: body, plugins, routing.',
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
    help: 'Tokens by provider, endpoint and kind; cached, reasoning and audio tokens are also part of prompt or completion.',
    labels: ['provider', 'endpoint', 'kind', ...further],
  });
  const cost = metrics.counter<string>({
    name: 'weir_cost_usd_total',
    help: 'Cost in US dollars, without requests that have no known price.',
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
          ...both,
          status: String(status),
          outcome,
          method,
          stream,
          source,
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

/** A metric label whose values callers choose. Values beyond its bound become `other`. */
interface MetricLabel {
  /** A valid Prometheus label name. */
  readonly name: string;
  valueOf(exchange: Exchange, outcome: Outcome): string;
}

const prefix = 'metadata.';
/** Upper bound of a value's length; monitoring systems truncate longer ones anyway. */
const maxLength = 128;

/** Labels from the configuration (`model`, `config`, `api_key_name`, `metadata.<key>`), each bounded. */
function metricLabels(wanted: readonly string[], maxValues: number): readonly MetricLabel[] {
  const names = new Set<string>();
  return wanted.map((one) => {
    const plain = one.replaceAll(/[^A-Za-z0-9_]/g, '_');
    let name = plain;
    for (let n = 2; names.has(name); n++) name = `${plain}_${n}`;
    names.add(name);
    return new BoundedLabel(name, one, maxValues);
  });
}

class BoundedLabel implements MetricLabel {
  readonly name: string;
  readonly #read: (exchange: Exchange) => string;
  /** A new value counts only with a successful answer, so that invented model names do not fill the bound. */
  readonly #needsSuccess: boolean;
  readonly #maxValues: number;
  readonly #known = new Set<string>(['']);

  constructor(name: string, wanted: string, maxValues: number) {
    this.name = name;
    this.#read = readerOf(wanted);
    this.#needsSuccess = wanted === 'model';
    // The empty value does not count towards the bound.
    this.#maxValues = maxValues + 1;
  }

  valueOf(exchange: Exchange, outcome: Outcome): string {
    const value = this.#read(exchange);
    if (this.#known.has(value)) return value;
    if (this.#known.size >= this.#maxValues || value.length > maxLength) return 'other';
    if (this.#needsSuccess && outcome.status >= 400) return 'other';
    this.#known.add(value);
    return value;
  }
}

function readerOf(wanted: string): (exchange: Exchange) => string {
  if (wanted === 'model') return ({ facts }) => facts.modelAnswered || facts.modelRequested;
  if (wanted === 'config') return ({ facts }) => facts.config;
  if (wanted === 'api_key_name') return (exchange) => exchange.get(callerKey)?.name ?? '';
  const key = wanted.slice(prefix.length);
  return ({ facts: { metadata } }) => (Object.hasOwn(metadata, key) ? (metadata[key] ?? '') : '');
}

/** Upper bound of label combinations whose series stay bound; others are looked up each time. */
const maxBound = 5000;
/** Number of latest combinations to compare first; a gateway mostly serves so few in turn. */
const maxLatest = 4;

/** A combination of labels. */
interface Combination extends RequestLabels {
  /** Values of the labels from the configuration, in its order. */
  readonly further: readonly string[];
}

interface Bound extends Combination {
  readonly series: Series;
}

/**
 * Series by their labels. The latest ones are found by comparison, which costs a fraction of building a key and looking
 * it up.
 */
export class BoundSeries {
  private readonly byKey = new Map<string, Bound>();
  private readonly latest: Bound[] = [];
  private next = 0;
  private readonly bind: (one: Combination) => Series;

  /** `bind` creates the series of a new combination. */
  constructor(bind: (one: Combination) => Series) {
    this.bind = bind;
  }

  of(one: Combination): Series {
    for (const bound of this.latest) if (areSame(bound, one)) return bound.series;
    const key = keyOf(one);
    let bound = this.byKey.get(key);
    if (bound === undefined) {
      bound = { ...one, series: this.bind(one) };
      if (this.byKey.size < maxBound) this.byKey.set(key, bound);
    }
    this.latest[this.next] = bound;
    this.next = (this.next + 1) % maxLatest;
    return bound.series;
  }
}

function areSame(one: Combination, other: Combination): boolean {
  return (
    one.cacheStatus === other.cacheStatus &&
    one.status === other.status &&
    one.provider === other.provider &&
    one.endpoint === other.endpoint &&
    one.outcome === other.outcome &&
    one.method === other.method &&
    one.stream === other.stream &&
    one.source === other.source &&
    isSameList(one.further, other.further)
  );
}

function keyOf(one: Combination): string {
  const { provider, endpoint, status, outcome, method, stream, source, cacheStatus, further } = one;
  const own = `${provider}|${endpoint}|${status}|${outcome}|${method}|${stream ? 's' : ''}${source}|${cacheStatus}`;
  return further.length === 0 ? own : own + JSON.stringify(further);
}

/** Methods with a label value of their own; callers may send any other. */
const methods: ReadonlySet<string> = new Set(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']);
const none: TelemetrySettings['metrics'] = { labels: [], max_label_values: 0 };

/**
 * Counts every settled request for Prometheus. Series are bound once per combination of labels, at their first use.
 */
export function createRequestMetrics(
  metrics: Metrics,
  settings: TelemetrySettings['metrics'] = none,
): (exchange: Exchange, outcome: Outcome) => void {
  const further = metricLabels(settings.labels, settings.max_label_values);
  const families = requestFamilies(
    metrics,
    further.map(({ name }) => name),
  );
  const bound = new BoundSeries((one) => families.bind(one, labelled(further, one.further)));
  return (exchange, outcome) => {
    const { facts, method } = exchange;
    const series = bound.of({
      provider: facts.provider || facts.mcpServer,
      endpoint: exchange.matched.route?.id ?? (facts.operation || exchange.endpoint.id),
      status: outcome.status,
      outcome: facts.answerFailed ? 'failed_in_answer' : outcome.kind,
      method: methods.has(method) ? method : 'other',
      stream: facts.stream,
      source: sourceOf(exchange),
      cacheStatus: facts.cacheStatus,
      further: further.length === 0 ? noValues : further.map((one) => one.valueOf(exchange, outcome)),
    });
    series.requests.inc();
    series.duration.observe(outcome.latencyMs / 1000);
    if (facts.upstreamStartedAt > 0)
      observeProvider((series.provider ??= series.bindProvider()), exchange, outcome);
    if (facts.usage !== undefined) countUsage(series, families, facts.usage, outcome);
  };
}

const noValues: readonly string[] = [];

function labelled(further: readonly MetricLabel[], values: readonly string[]): Record<string, string> {
  return Object.fromEntries(further.map(({ name }, index) => [name, values[index] ?? '']));
}

/** Source of the answer. */
function sourceOf({ facts }: Exchange): 'provider' | 'cache' | 'gateway' {
  if (facts.upstreamStartedAt > 0) return 'provider';
  return facts.cacheStatus.endsWith('HIT') ? 'cache' : 'gateway';
}

/** Observes the known phases of a request in seconds. */
function observeProvider(
  series: ProviderSeries,
  { facts, startedMonotonic }: Exchange,
  outcome: Outcome,
): void {
  const { upstreamStartedAt: sent, firstByteAt, firstTokenAt, upstreamEndedAt: ended } = facts;
  if (firstTokenAt > 0) series.firstToken.observe((firstTokenAt - startedMonotonic) / 1000);
  // The time before a later attempt is not the gateway's own.
  if (facts.attempts === 1) series.before.observe(seconds(sent - startedMonotonic));
  if (firstByteAt > 0) series.firstByte.observe(seconds(firstByteAt - sent));
  if (ended === 0) return;
  series.whole.observe(seconds(ended - sent));
  series.gateway.observe(seconds(outcome.latencyMs - (ended - sent)));
  series.after.observe(seconds(startedMonotonic + outcome.latencyMs - ended));
  if (firstByteAt > 0) series.rest.observe(seconds(ended - firstByteAt));
}

function seconds(ms: number): number {
  return Math.max(0, ms) / 1000;
}

/** Kinds of tokens beside the two of every request; unused kinds have no series. */
const details: readonly (readonly [keyof Usage, string])[] = [
  ['cachedTokens', 'cached'],
  ['cacheWriteTokens', 'cache_write'],
  ['reasoningTokens', 'reasoning'],
  ['inputAudioTokens', 'input_audio'],
  ['outputAudioTokens', 'output_audio'],
];

function countUsage(series: Series, families: RequestFamilies, usage: Usage, { price }: Outcome): void {
  const { tokens } = series;
  count(tokens, 'prompt', usage.promptTokens, series, families);
  count(tokens, 'completion', usage.completionTokens, series, families);
  for (const [member, kind] of details) {
    if (usage[member] > 0) count(tokens, kind, usage[member], series, families);
  }
  if (price.status === 'priced') (series.cost ??= series.bindCost()).inc(Number(price.cost));
}

function count(
  tokens: Map<string, Counter>,
  kind: string,
  amount: number,
  series: Series,
  { bindTokens }: RequestFamilies,
): void {
  let counter = tokens.get(kind);
  if (counter === undefined) tokens.set(kind, (counter = bindTokens(series, kind)));
  counter.inc(amount);
}
