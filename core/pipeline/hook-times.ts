import type { Histogram, Metrics } from '../ports/metrics.ts';
import type { PluginInstance } from './plugin-instance.ts';

/** Times the request hooks of some requests. */
export interface HookTimes {
  /** Whether those of the next request are timed. */
  wanted(): boolean;
  /** A hook has ended without refusing. */
  took(instance: PluginInstance, ms: number): void;
}

/** One request in so many: reading the clock around each hook of each one would cost more than most hooks do. */
const every = 32;
const buckets = [0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1];

/**
 * Tells how long plugins take to let a request pass: authentication, limits, the look into the cache. A plugin that always
 * answers (`provider`) is left out, what it takes is the provider's time.
 */
export function createHookTimes(metrics: Metrics): HookTimes {
  const seconds = metrics.histogram({
    name: 'weir_plugin_duration_seconds',
    help: 'Time in the request hook of a plugin, of one request in 32: for means and quantiles, not for counts.',
    labels: ['plugin'],
    buckets,
  });
  const bound = new Map<string, Histogram>();
  let requests = 0;
  return {
    wanted: () => requests++ % every === 0,
    took({ name, definition }, ms) {
      if (definition.capabilities?.answers === true) return;
      let series = bound.get(name);
      if (series === undefined) {
        series = seconds({ plugin: name });
        if (bound.size < 1000) bound.set(name, series);
      }
      series.observe(ms / 1000);
    },
  };
}
