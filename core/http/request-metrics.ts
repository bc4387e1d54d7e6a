import type { Usage } from '../dialects/usage.ts';
import type { Outcome } from '../pipeline/context.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { Counter, Metrics } from '../ports/metrics.ts';
import type { TelemetrySettings } from '../base/trace-context.ts';
import { BoundSeries } from './bound-series.ts';
import { metricLabels, type MetricLabel } from './metric-label.ts';
import {
  requestFamilies,
  type ProviderSeries,
  type RequestFamilies,
  type Series,
} from './request-families.ts';

/** Callers may send any method that HTTP knows. */
const methods: ReadonlySet<string> = new Set(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']);
const none: TelemetrySettings['metrics'] = { labels: [], max_label_values: 0 };

/** Counts every settled request for Prometheus. Series are bound once per combination of labels, when they are needed. */
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
      provider: facts.provider,
      endpoint: exchange.matched.route?.id ?? exchange.endpoint.id,
      status: outcome.status,
      outcome: outcome.kind,
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

/** Who wrote the answer. */
function sourceOf({ facts }: Exchange): 'provider' | 'cache' | 'gateway' {
  if (facts.upstreamStartedAt > 0) return 'provider';
  return facts.cacheStatus.endsWith('HIT') ? 'cache' : 'gateway';
}

/** Where the time went, as far as it is known: seconds. */
function observeProvider(
  series: ProviderSeries,
  { facts, startedMonotonic }: Exchange,
  outcome: Outcome,
): void {
  const { upstreamStartedAt: sent, firstByteAt, firstTokenAt, upstreamEndedAt: ended } = facts;
  if (firstTokenAt > 0) series.firstToken.observe((firstTokenAt - startedMonotonic) / 1000);
  // What came before a later try is no work of the gateway.
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

/** Kinds of tokens beside the two that every request has; series of those that are never used do not exist. */
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
