import type { Counter, Metrics } from '../ports/metrics.ts';

/** Counts what plugins throw where nobody waits for them: `weir_plugin_errors_total{plugin,hook}`. */
export function pluginErrors(metrics: Metrics): (labels: { plugin: string; hook: string }) => Counter {
  return metrics.counter({
    name: 'weir_plugin_errors_total',
    help: 'Errors raised by plugins, by plugin and hook.',
    labels: ['plugin', 'hook'],
  });
}

/** What to log of something thrown: its stack where it has one. Never throws, whatever was thrown. */
export function describeThrown(thrown: unknown): string {
  try {
    if (thrown instanceof Error) return thrown.stack ?? thrown.message;
    return String(thrown);
  } catch {
    return 'a value that cannot be shown';
  }
}
