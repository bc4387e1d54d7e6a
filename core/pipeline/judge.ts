import { GatewayError } from '../errors/gateway-error.ts';
import type { Clock } from '../ports/clock.ts';
import { isPromise } from './call-hook.ts';
import type { MaybePromise, RequestContext } from './context.ts';
import type { RequestFacts, Verdict } from './facts.ts';
import { judged } from './keys.ts';
import type { PluginInstance } from './plugin-instance.ts';
import type { StreamTap } from './plugin.ts';

/** More than any request needs; a plan with many tries judges each of them. */
const mostVerdicts = 64;

/** Notes that a guardrail has begun; until somebody says more, it is `unfinished`. */
function beginVerdict(facts: RequestFacts, name: string, hook: Verdict['hook']): Verdict {
  const verdict: Verdict = { name, hook, verdict: 'unfinished', ms: 0 };
  if (facts.verdicts.length < mostVerdicts) facts.verdicts = [...facts.verdicts, verdict];
  return verdict;
}

/**
 * Runs a hook of a guardrail and notes what came of it. A hook that ends without a word about it is `unknown`: whether
 * it looked at anything, only the plugin can say.
 */
export function judge<T>(
  context: RequestContext,
  { name }: Pick<PluginInstance, 'name'>,
  hook: Verdict['hook'],
  clock: Pick<Clock, 'monotonic'>,
  call: () => T | Promise<T>,
): T | Promise<T> {
  const startedAt = clock.monotonic();
  const note = beginVerdict(context.facts, name, hook);
  const passed = (result: T): T => {
    note.ms = clock.monotonic() - startedAt;
    note.verdict = saidVerdict(context);
    return result;
  };
  const refused = (error: unknown): never => {
    note.ms = clock.monotonic() - startedAt;
    note.verdict = GatewayError.is(error) ? 'refused' : 'failed';
    throw error;
  };
  forget(context);
  let result: T | Promise<T>;
  try {
    result = call();
  } catch (error) {
    return refused(error);
  }
  return isPromise(result) ? result.then(passed, refused) : passed(result);
}

/** A guardrail's tap that notes what came of it: once it has ended, or at the first event that it refuses or fails on. */
export function judgedTap(
  tap: StreamTap,
  context: RequestContext,
  { name }: Pick<PluginInstance, 'name'>,
  clock: Pick<Clock, 'monotonic'>,
): StreamTap {
  const startedAt = clock.monotonic();
  const note = beginVerdict(context.facts, name, 'stream');
  const close = (verdict: Verdict['verdict']): void => {
    if (note.verdict !== 'unfinished') return;
    note.verdict = verdict;
    note.ms = clock.monotonic() - startedAt;
  };
  const fault = (error: unknown): never => {
    close(GatewayError.is(error) ? 'refused' : 'failed');
    throw error;
  };
  const watched = (call: () => MaybePromise<void>): MaybePromise<void> => {
    try {
      const pending = call();
      return isPromise(pending) ? pending.catch(fault) : pending;
    } catch (error) {
      return fault(error);
    }
  };
  return {
    event: (event, emit) => watched(() => tap.event(event, emit)),
    end: (emit) =>
      watched(() => {
        const pending = tap.end?.(emit);
        const done = (): void => close(saidVerdict(context));
        return isPromise(pending) ? pending.then(done) : done();
      }),
  };
}

/** What the plugin said of the hook that has just ended. */
function saidVerdict(context: RequestContext): Verdict['verdict'] {
  const said = context.get(judged);
  forget(context);
  return said ?? 'unknown';
}

function forget(context: RequestContext): void {
  if (context.get(judged) !== undefined) context.set(judged, undefined);
}
