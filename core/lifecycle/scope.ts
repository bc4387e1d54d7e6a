import type { Scope } from '../pipeline/plugin.ts';
import type { Metrics } from '../ports/metrics.ts';
import { describeThrown, pluginErrors } from './plugin-errors.ts';
import { UndoStack } from './undo-stack.ts';
import type { Clock } from '../ports/clock.ts';
import type { MaybePromise } from '../pipeline/context.ts';

/** Runs a function of a plugin and reports its error, under this hook's name. */
type Guard = (hook: string, run: () => MaybePromise<void>) => MaybePromise<void>;

const longestDelayMs = 2_147_483_647;

/** The timers of one plugin instance: guarded, never keeping the process alive, and stopped all at once. */
class ScopeTimers {
  readonly #clock: Clock;
  readonly #guard: Guard;
  readonly #cancels = new Set<() => void>();
  #stopped = false;

  constructor(clock: Clock, guard: Guard) {
    this.#clock = clock;
    this.#guard = guard;
  }

  /** Timers that have not fired yet, and intervals. */
  get size(): number {
    return this.#cancels.size;
  }

  /** Runs once after `ms` (0 to 2^31-1, else RangeError). Returns the function that cancels it. */
  once(run: () => MaybePromise<void>, ms: number): () => void {
    checkDelay('setTimeout', ms, 0);
    return this.#track((done) =>
      this.#clock.after(ms, () => {
        done();
        void this.#guard('timer', run);
      }),
    );
  }

  /** Runs every `ms` (1 to 2^31-1, else RangeError); a turn is left out while the one before is still running. */
  every(run: () => MaybePromise<void>, ms: number): () => void {
    checkDelay('setInterval', ms, 1);
    return this.#track(() => {
      let running = false;
      const turn = (): void => {
        cancelNext = this.#clock.after(ms, turn);
        if (running) return;
        const result = this.#guard('timer', run);
        if (result === undefined) return;
        running = true;
        void result.finally(() => (running = false));
      };
      let cancelNext = this.#clock.after(ms, turn);
      return () => cancelNext();
    });
  }

  /** Stops every timer, and starts none from now on. */
  stop(): void {
    this.#stopped = true;
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
  }

  #track(start: (done: () => void) => () => void): () => void {
    if (this.#stopped) return () => undefined;
    const done = (): void => void this.#cancels.delete(stop);
    const stopTimer = start(done);
    const stop = (): void => {
      stopTimer();
      done();
    };
    this.#cancels.add(stop);
    return stop;
  }
}

function checkDelay(name: string, ms: number, least: number): void {
  if (Number.isFinite(ms) && ms >= least && ms <= longestDelayMs) return;
  throw new RangeError(`${name} takes ${least} to ${longestDelayMs} milliseconds, not ${ms}`);
}

/** Services that the gateway lends to every plugin; a scope adds the plugin's own timers and clean-up. */
export type Services = Omit<Scope, 'onDispose' | 'setTimeout' | 'setInterval'>;

/** One plugin instance's scope and the way to end it. */
interface PluginScope {
  readonly scope: Scope;
  /** Stops the timers, then runs what `onDispose` registered, last first. Never rejects; may be called again. */
  dispose(): Promise<void>;
}

/**
 * Makes the scope of one plugin instance, before its `create` runs. Everything that the plugin registers through it ends
 * with `dispose`; errors of its timers and clean-up are logged with its name and counted, never thrown on.
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
