import { callHook, type HookRuntime } from './call-hook.ts';
import type { Step } from './compile.ts';
import type { Exchange } from './exchange.ts';
import { judge } from './judge.ts';

type TracedHook = 'request' | 'attempt' | 'attempted' | 'response';

/**
 * Calls one hook of a request as `callHook` does. Notes what came of it when it judges, and what it took when the request
 * is traced.
 */
export function callStep<T>(
  { instance, hook, judges }: Step<TracedHook>,
  exchange: Exchange,
  runtime: HookRuntime,
  call: () => T | Promise<T>,
): T | undefined | Promise<T | undefined> {
  const { trace } = exchange;
  const run = judges ? () => judge(exchange, instance, hook, runtime.clock, call) : call;
  if (trace === undefined) return callHook(instance, hook, runtime, run);
  const isOfTry = hook === 'attempt' || hook === 'attempted';
  const attempt = isOfTry ? exchange.facts.attempts : undefined;
  const note = trace.begin(instance.name, hook, attempt);
  return trace.measure(note, () => callHook(instance, hook, runtime, run));
}
