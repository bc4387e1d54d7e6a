import type { Metrics } from '../../core/ports/metrics.ts';

/** What the transport holds at this moment. */
export interface TransportStats {
  readonly origins: number;
  /** Sockets that are open, being opened or being closed. */
  readonly connections: number;
  /** Calls that wait for a connection. */
  readonly pending: number;
  /** Calls whose request is on the wire. */
  readonly running: number;
}

/** What the transport counts. */
export interface TransportMetrics {
  /** A socket stood after this many seconds. */
  connected(seconds: number): void;
  /** A call failed with this error code. */
  failed(code: string): void;
  dispose(): void;
}

/** Defines the transport's families; gauges are read from `stats` at each scrape. */
export function transportMetrics(metrics: Metrics, stats: () => TransportStats): TransportMetrics {
  const connect = metrics.histogram({
    name: 'weir_upstream_connect_seconds',
    help: 'Time until a new connection to a provider stood, TLS included.',
    labels: [],
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  })({});
  const failures = metrics.counter({
    name: 'weir_upstream_failures_total',
    help: 'Calls to providers that ended without a complete answer, by error code.',
    labels: ['code'],
  });
  const gauge = (name: string, help: string) => metrics.gauge({ name, help, labels: [] })({});
  const connections = gauge('weir_upstream_connections', 'Open connections to providers.');
  const origins = gauge('weir_upstream_origins', 'Providers (origins) with open connections.');
  const pending = gauge('weir_upstream_calls_pending', 'Calls that wait for a connection to a provider.');
  const running = gauge('weir_upstream_calls_running', 'Calls whose request has been sent to a provider.');
  const dispose = metrics.onScrape(() => {
    const now = stats();
    connections.set(now.connections);
    origins.set(now.origins);
    pending.set(now.pending);
    running.set(now.running);
  });
  return {
    connected: (seconds) => connect.observe(seconds),
    failed: (code) => failures({ code }).inc(),
    dispose,
  };
}
