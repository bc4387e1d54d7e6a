import type { Scope } from '../pipeline/plugin.ts';
import type { Metrics } from '../ports/metrics.ts';
import { describeThrown, pluginErrors } from './plugin-errors.ts';
import { ScopeTimers, type Guard } from './scope-timers.ts';
import { UndoStack } from './undo-stack.ts';

/** What the gateway lends to every plugin; a scope adds the plugin's own timers and clean-up to it. */
export type Services = Omit<Scope, 'onDispose' | 'setTimeout' | 'setInterval'>;

/** One plugin instance's scope and the way to end it. */
export interface PluginScope {
  readonly scope: Scope;
  /** Stops the timers, then runs what `onDispose` registered, last first. Never rejects; may be called again. */
  dispose(): Promise<void>;
}

/**
 * Makes the scope of one plugin instance, before its `create` runs. Whatever the plugin registers through it ends
 * with `dispose`, and what its timers and clean-up throw is logged with its name and counted, never thrown on.
 */
export function createPluginScope(pluginName: string, services: Services): PluginScope {
  const log = services.log.child({ plugin: pluginName });
  const count = pluginErrors(services.metrics);
  const report = (hook: string, thrown: unknown): void => {
    count({ plugin: pluginName, hook }).inc();
    log.error(`plugin "${pluginName}" failed in its ${hook}`, { hook, error: describeThrown(thrown) });
  };
  const guard: Guard = (hook, run) => {
    try {
      return run()?.then(undefined, (thrown: unknown) => report(hook, thrown));
    } catch (thrown) {
      report(hook, thrown);
      return undefined;
    }
  };
  const { clock } = services;
  const timers = new ScopeTimers(clock, guard);
  const stack = new UndoStack({ clock, timeoutMs: 5000, onError: (thrown) => report('dispose', thrown) });
  const scope: Scope = {
    ...services,
    log,
    clock: {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      after: (ms, run) => timers.once(run, ms),
    },
    metrics: scopedMetrics(services.metrics, guard, stack),
    onDispose: (dispose) => stack.push(dispose),
    setTimeout: (run, ms) => timers.once(run, ms),
    setInterval: (run, ms) => timers.every(run, ms),
  };
  return {
    scope,
    dispose() {
      // Before the clean-up steps: a timer must not find its plugin's clients closed.
      timers.stop();
      return stack.dispose();
    },
  };
}

function scopedMetrics(metrics: Metrics, guard: Guard, stack: UndoStack): Metrics {
  return {
    counter: (definition) => metrics.counter(definition),
    gauge: (definition) => metrics.gauge(definition),
    histogram: (definition) => metrics.histogram(definition),
    render: () => metrics.render(),
    onScrape(collect) {
      const remove = metrics.onScrape(() => void guard('scrape', collect));
      stack.push(remove);
      return remove;
    },
  };
}
