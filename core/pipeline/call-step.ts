import { callHook, type HookRuntime, isPromise, type GuardedCall, type PluginInstance } from './call-hook.ts';
import type { RequestStep, Step } from './compile.ts';
import type { Exchange } from './exchange.ts';
import type { MaybePromise, RequestContext } from './context.ts';
import type { Endpoint } from '../dialects/endpoint.ts';
import type { LazyBody } from './request-body.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Clock } from '../ports/clock.ts';
import { noteVerdict, type Verdict } from './facts.ts';
import { judged } from './keys.ts';
import type { StreamTap } from './plugin.ts';

/**
 * Runs a hook of a guardrail and notes its verdict. A hook that ends without a verdict is noted as `unknown`: only the
 * plugin can tell whether it looked at anything.
 */
export function runWithVerdict<T>(
  context: RequestContext,
  { name }: Pick<PluginInstance, 'name'>,
  hook: Verdict['hook'],
  clock: Pick<Clock, 'monotonic'>,
  call: () => T | Promise<T>,
): T | Promise<T> {
  const startedAt = clock.monotonic();
  const note = noteVerdict(context.facts, name, hook);
  const passed = (result: T): T => {
    note.ms = clock.monotonic() - startedAt;
    note.verdict = takeVerdict(context);
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

/**
 * A guardrail's tap that notes its verdict: once it has ended, or at the first event that it refuses or fails on.
 */
export function tapWithVerdict(
  tap: StreamTap,
  context: RequestContext,
  { name }: Pick<PluginInstance, 'name'>,
  clock: Pick<Clock, 'monotonic'>,
): StreamTap {
  const startedAt = clock.monotonic();
  const note = noteVerdict(context.facts, name, 'stream');
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
        const done = (): void => close(takeVerdict(context));
        return isPromise(pending) ? pending.then(done) : done();
      }),
  };
}

/** Takes the plugin's verdict on the hook that has just ended. */
function takeVerdict(context: RequestContext): Verdict['verdict'] {
  const said = context.get(judged);
  forget(context);
  return said ?? 'unknown';
}

function forget(context: RequestContext): void {
  if (context.get(judged) !== undefined) context.set(judged, undefined);
}

type TracedHook = 'request' | 'attempt' | 'attempted' | 'response';

/**
 * Calls one hook of a request as `callHook` does. Notes the verdict of a guardrail's hook, and the duration when the
 * request is traced.
 */
export function callStep<T>(
  { instance, hook, judges }: Step<TracedHook>,
  exchange: Exchange,
  runtime: HookRuntime,
  call: () => T | Promise<T>,
): T | undefined | Promise<T | undefined> {
  const { trace } = exchange;
  const run = judges ? () => runWithVerdict(exchange, instance, hook, runtime.clock, call) : call;
  const guarded = judges && instance.breaker !== undefined ? notJudged(exchange, instance, hook) : undefined;
  if (trace === undefined) return callHook(instance, hook, runtime, run, guarded);
  const isAttemptHook = hook === 'attempt' || hook === 'attempted';
  const attempt = isAttemptHook ? exchange.facts.attempts : undefined;
  const note = trace.begin(instance.name, hook, attempt);
  const traced: GuardedCall = {
    passedOver(whenOpen) {
      note.skipped = 'breaker open';
      guarded?.passedOver?.(whenOpen);
    },
  };
  return trace.measure(note, () => callHook(instance, hook, runtime, run, traced));
}

/** A guardrail whose breaker is open has not judged, and its record says so: it is skipped, or it fails. */
export function notJudged(
  context: RequestContext,
  { name }: Pick<PluginInstance, 'name'>,
  hook: Verdict['hook'],
): GuardedCall {
  return {
    passedOver(whenOpen) {
      noteVerdict(context.facts, name, hook, whenOpen === 'bypass' ? 'skipped' : 'failed');
    },
  };
}

/** Part of a request that decides whether its body is loaded. */
interface BodyHolder {
  readonly body: LazyBody;
  readonly endpoint: Endpoint;
  header(name: string): string | undefined;
}

/**
 * Loads a body for a hook that needs it. Uploads are useless to a hook that reads JSON or text, and would only fill the
 * memory: they stay unread.
 */
export function loadBody(request: BodyHolder, need: RequestStep['loadsBody']): MaybePromise<void> {
  if (need === 'never' || request.body.loaded) return;
  if (need === 'always' || mayHoldJson(request)) return request.body.bring();
  request.body.passUnread();
}

/**
 * A modelled endpoint takes every body as JSON, whatever its content type; elsewhere a missing or odd type may still be
 * JSON.
 */
export function mayHoldJson(
  request: Omit<BodyHolder, 'body'> & { readonly body: Pick<LazyBody, 'present'> },
): boolean {
  if (request.endpoint.modelled || !request.body.present) return true;
  return !/^\s*((multipart|audio|image|video)\/|application\/octet-stream)/i.test(
    request.header('content-type') ?? '',
  );
}
