import type { Analytics } from '../../core/ports/analytics.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import { QueryGate, type GateBounds } from './query-gate.ts';

/** Seconds. */
const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20];
const waitMs = 10_000;

/**
 * The store behind a gate that bounds how many queries run and wait (ten seconds at the most), and that shows both in
 * `weir_analytics_queries_running`, `…_waiting`, `…_refused_total`, `weir_analytics_query_seconds` and
 * `weir_analytics_query_wait_seconds`. What stores rows, looks for rows to put back, or asks whether the store answers
 * passes at once.
 */
export function gateQueries(
  store: Analytics,
  {
    clock,
    metrics,
    ...bounds
  }: Omit<GateBounds, 'waitMs'> & { readonly clock: Clock; readonly metrics: Metrics },
): Analytics {
  const gate = watchedGate({ ...bounds, waitMs }, clock, metrics);
  return {
    insert: (...rows) => store.insert(...rows),
    storedIds: (...wanted) => store.storedIds(...wanted),
    ping: () => store.ping(),
    close: () => store.close(),
    groups: (query) => gate.run('groups', query.visibility, () => store.groups(query)),
    series: (query) => gate.run('series', query.visibility, () => store.series(query)),
    feedbackSeries: (query) =>
      gate.run('feedback_series', query.visibility, () => store.feedbackSeries(query)),
    logs: (query) => gate.run('logs', query.visibility, () => store.logs(query)),
    countLogs: (query) => gate.run('count_logs', query.visibility, () => store.countLogs(query)),
    newLogs: (query) => gate.run('new_logs', query.visibility, () => store.newLogs(query)),
    trace: (id, window, visibility) =>
      gate.run('trace', visibility, () => store.trace(id, window, visibility)),
    traces: (query) => gate.run('traces', query.visibility, () => store.traces(query)),
    usageOfKeys: (query) => gate.run('usage_of_keys', query.visibility, () => store.usageOfKeys(query)),
    requestById: (id, window, visibility) =>
      gate.run('request_by_id', visibility, () => store.requestById(id, window, visibility)),
    feedbackById: (id, window, visibility) =>
      gate.run('feedback_by_id', visibility, () => store.feedbackById(id, window, visibility)),
  };
}

function watchedGate(bounds: GateBounds, clock: Clock, metrics: Metrics): QueryGate {
  const none = [] as const;
  const refused = metrics.counter({
    name: 'weir_analytics_queries_refused_total',
    help: 'Queries of logs and analytics that got no place: too many waited, or it came too late.',
    labels: ['reason'],
  });
  const seconds = metrics.histogram({
    name: 'weir_analytics_query_seconds',
    help: 'How long queries of logs and analytics ran.',
    labels: ['verb'],
    buckets,
  });
  const waited = metrics.histogram({
    name: 'weir_analytics_query_wait_seconds',
    help: 'How long queries of logs and analytics waited before they ran.',
    labels: none,
    buckets,
  })({});
  const running = metrics.gauge({
    name: 'weir_analytics_queries_running',
    help: 'Queries of logs and analytics that run.',
    labels: none,
  })({});
  const waiting = metrics.gauge({
    name: 'weir_analytics_queries_waiting',
    help: 'Queries of logs and analytics that wait for their turn.',
    labels: none,
  })({});
  for (const reason of ['full', 'late'] as const) refused({ reason });
  const gate = new QueryGate(bounds, clock, {
    refused: (reason) => refused({ reason }).inc(),
    ended(verb, ranMs, waitedMs) {
      seconds({ verb }).observe(ranMs / 1000);
      waited.observe(waitedMs / 1000);
    },
  });
  metrics.onScrape(() => {
    running.set(gate.running);
    waiting.set(gate.waiting);
  });
  return gate;
}
