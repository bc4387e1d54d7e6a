import { callHook, type HookRuntime } from './call-hook.ts';
import type { Step } from './compile.ts';
import type { Exchange } from './exchange.ts';

type TracedHook = 'request' | 'attempt' | 'attempted' | 'response';

/** Calls one hook of a request as `callHook` does, and notes what it took when the request is traced. */
export function callStep<T>(
  { instance, hook }: Step<TracedHook>,
  exchange: Exchange,
  runtime: HookRuntime,
  call: () => T | Promise<T>,
): T | undefined | Promise<T | undefined> {
  const { trace } = exchange;
  if (trace === undefined) return callHook(instance, hook, runtime, call);
  const isOfTry = hook === 'attempt' || hook === 'attempted';
  const attempt = isOfTry ? exchange.facts.attempts : undefined;
  const note = trace.begin(instance.name, hook, attempt);
  return trace.measure(note, () => callHook(instance, hook, runtime, call));
}
