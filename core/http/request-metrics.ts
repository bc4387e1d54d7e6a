import type { Outcome } from '../pipeline/context.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { Counter, Histogram, Metrics } from '../ports/metrics.ts';

const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const gatewayBuckets = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5];
/** Combinations of labels whose series stay bound; beyond it series are looked up each time. */
const maxBound = 5000;

interface Series {
  readonly requests: Counter;
  readonly duration: Histogram;
  readonly gateway: Histogram;
  readonly firstToken: Histogram;
  readonly promptTokens: Counter;
  readonly completionTokens: Counter;
  readonly cost: Counter;
}

/** Counts every settled request for Prometheus. Series are bound once per provider, endpoint and status. */
export function createRequestMetrics(metrics: Metrics): (exchange: Exchange, outcome: Outcome) => void {
  const labels = ['provider', 'endpoint'] as const;
  const requests = metrics.counter({
    name: 'weir_requests_total',
    help: 'Requests by provider, endpoint, status and outcome.',
    labels: [...labels, 'status', 'outcome'],
  });
  const seconds = (name: string, help: string, buckets: readonly number[]) =>
    metrics.histogram({ name, help, labels, buckets });
  const duration = seconds(
    'weir_request_duration_seconds',
    'From acceptance to the last byte.',
    durationBuckets,
  );
  const gateway = seconds(
    'weir_gateway_duration_seconds',
    'The part of the duration not spent waiting for the provider.',
    gatewayBuckets,
  );
  const firstToken = seconds(
    'weir_time_to_first_token_seconds',
    'From acceptance to the first token of a stream.',
    durationBuckets,
  );
  const tokens = metrics.counter({
    name: 'weir_tokens_total',
    help: 'Tokens by provider, endpoint and kind.',
    labels: [...labels, 'kind'],
  });
  const cost = metrics.counter({
    name: 'weir_cost_usd_total',
    help: 'US dollars; requests without a known price are not in it.',
    labels,
  });
  const bound = new Map<string, Series>();

  const bind = (exchange: Exchange, outcome: Outcome): Series => {
    const both = {
      provider: exchange.facts.provider,
      endpoint: exchange.matched.route?.id ?? exchange.endpoint.id,
    };
    return {
      requests: requests({ ...both, status: String(outcome.status), outcome: outcome.kind }),
      duration: duration(both),
      gateway: gateway(both),
      firstToken: firstToken(both),
      promptTokens: tokens({ ...both, kind: 'prompt' }),
      completionTokens: tokens({ ...both, kind: 'completion' }),
      cost: cost(both),
    };
  };

  return (exchange, outcome) => {
    const { facts } = exchange;
    const key = `${facts.provider}|${exchange.matched.route?.id ?? exchange.endpoint.id}|${outcome.status}|${outcome.kind}`;
    let series = bound.get(key);
    if (!series) {
      series = bind(exchange, outcome);
      if (bound.size < maxBound) bound.set(key, series);
    }
    series.requests.inc();
    series.duration.observe(outcome.latencyMs / 1000);
    if (facts.upstreamEndedAt > 0) {
      series.gateway.observe(
        Math.max(0, outcome.latencyMs - (facts.upstreamEndedAt - facts.upstreamStartedAt)) / 1000,
      );
    }
    if (facts.firstTokenAt > 0)
      series.firstToken.observe((facts.firstTokenAt - exchange.startedMonotonic) / 1000);
    if (!facts.usage) return;
    series.promptTokens.inc(facts.usage.promptTokens);
    series.completionTokens.inc(facts.usage.completionTokens);
    if (outcome.price.status === 'priced') series.cost.inc(Number(outcome.price.cost));
  };
}
