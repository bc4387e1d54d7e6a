import { GatewayError } from '../errors/gateway-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { PluginInstance } from './plugin-instance.ts';

/** What running hooks needs from outside; one object per generation. */
export interface HookRuntime {
  readonly log: Log;
  readonly clock: Clock;
  /** Counts a failure of a plugin's code (not a refusal). */
  countPluginError(plugin: string, hook: string): void;
}

/** A synchronous hook that holds the event loop for longer is named in the log. */
const syncBudgetMs = 50;

export function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  );
}

/**
 * Calls one hook of one plugin. A `GatewayError` is the plugin's refusal and is thrown on; anything else that it
 * throws, and a promise that outlasts its bound, is a failure: `on_error: skip` goes on as if the hook had
 * returned nothing, `fail` throws `plugin_failed` or `plugin_timeout`. Awaits nothing that is no promise.
 */
export function callHook<T>(
  instance: PluginInstance,
  hook: string,
  runtime: HookRuntime,
  call: () => T | Promise<T>,
): T | undefined | Promise<T | undefined> {
  let result: T | Promise<T>;
  try {
    if (instance.builtIn) {
      result = call();
    } else {
      const startedAt = runtime.clock.monotonic();
      result = call();
      const took = runtime.clock.monotonic() - startedAt;
      if (took > syncBudgetMs) {
        runtime.log.warn('A plugin held the event loop', {
          plugin: instance.name,
          hook,
          ms: Math.round(took),
        });
      }
    }
  } catch (error) {
    return failed(instance, hook, runtime, error);
  }
  if (!isPromise(result)) return result;
  return bounded(instance, hook, runtime, result).catch((error: unknown) =>
    failed(instance, hook, runtime, error),
  );
}

/** Decides what a thrown value means: rethrows refusals and failures of `fail` plugins, swallows those of `skip` ones. */
function failed(instance: PluginInstance, hook: string, runtime: HookRuntime, error: unknown): undefined {
  if (GatewayError.is(error) && error.code !== 'plugin_timeout') {
    error.plugin ??= instance.name;
    throw error;
  }
  runtime.countPluginError(instance.name, hook);
  runtime.log.error('A plugin failed', { plugin: instance.name, hook, on_error: instance.onError, error });
  if (instance.onError === 'skip') return undefined;
  if (GatewayError.is(error)) throw error;
  throw new GatewayError(
    'plugin_failed',
    `The plugin "${instance.name}" failed. The gateway's log says why.`,
    {
      cause: error,
      plugin: instance.name,
    },
  );
}

function bounded<T>(
  instance: PluginInstance,
  hook: string,
  runtime: HookRuntime,
  promise: Promise<T>,
): Promise<T> {
  if (instance.timeoutMs === 0) return promise;
  return new Promise<T>((resolve, reject) => {
    const cancel = runtime.clock.after(instance.timeoutMs, () =>
      reject(
        new GatewayError(
          'plugin_timeout',
          `The plugin "${instance.name}" did not finish its ${hook} hook within ${instance.timeoutMs} ms.`,
          { plugin: instance.name },
        ),
      ),
    );
    promise.then(resolve, reject).finally(cancel);
  });
}
