import { requireProviderScope } from '../access/scopes.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { type Answer, clientLeft, isStreamSource } from './answer.ts';
import { callHook, isPromise } from './call-hook.ts';
import { callStep, loadBody } from './call-step.ts';
import type { MaybePromise } from './context.ts';
import { deliver, refuse } from './deliver.ts';
import { deliverSafely, type EngineRuntime, settle } from './settle.ts';
import type { Exchange } from './exchange.ts';
import { callerKey } from './keys.ts';

/** Handles an administration route once the pipeline's request hooks have let the request pass. */
type RouteHandler = (exchange: Exchange) => MaybePromise<Answer>;

/**
 * Walks one request through its pipeline: request hooks in file order until one answers or refuses, then the
 * answer back through the plugins before it, then `settled`. Never rejects.
 */
export async function runExchange(
  exchange: Exchange,
  handleRoute: RouteHandler,
  runtime: EngineRuntime,
): Promise<void> {
  let position = 0;
  let answer: Answer | undefined;
  try {
    if (exchange.pipeline.admit.length > 0) {
      const waiting = admit(exchange, runtime);
      if (waiting !== undefined) await waiting;
      if (exchange.aborted) return settleAborted(exchange, undefined, runtime);
    }
    const times = runtime.hookTimes?.wanted() === true ? runtime.hookTimes : undefined;
    for (const step of exchange.pipeline.request) {
      position = step.index;
      if (exchange.trace !== undefined) exchange.trace.authorise(exchange);
      const loading = loadBody(exchange, step.loadsBody);
      if (loading !== undefined) await loading;
      const begunAt = times === undefined ? 0 : runtime.clock.monotonic();
      const pending = callStep(step, exchange, runtime, () => step.run(exchange));
      const result = (isPromise(pending) ? await pending : pending) ?? undefined;
      if (times !== undefined) times.took(step.instance, runtime.clock.monotonic() - begunAt);
      if (exchange.aborted) return settleAborted(exchange, result, runtime);
      if (step.identifies) requireScope(exchange);
      if (result !== undefined) {
        answer = result;
        break;
      }
    }
    if (answer === undefined && exchange.matched.route) {
      position = exchange.pipeline.instances.length;
      answer = await handleRoute(exchange);
    }
    if (answer === undefined) {
      throw new GatewayError('internal', `No plugin of the pipeline "${exchange.pipeline.name}" answered.`);
    }
  } catch (error) {
    const keeping = keepBodyOfRefused(exchange, error, runtime);
    if (keeping !== undefined) await keeping;
    const refused = deliverSafely(exchange, runtime, () => refuse(exchange, error, position, runtime));
    if (isPromise(refused)) await refused;
    return;
  }
  const ready = answer;
  const upTo = position;
  const delivered = deliverSafely(exchange, runtime, () => deliver(exchange, ready, upTo, runtime));
  if (isPromise(delivered)) await delivered;
}

/** Administration is always admitted: it may be the way to make room. */
function admit(exchange: Exchange, runtime: EngineRuntime): Promise<unknown> | undefined {
  if (exchange.matched.route !== undefined) return undefined;
  let waiting: Promise<unknown>[] | undefined;
  for (const { instance, run } of exchange.pipeline.admit) {
    const pending = callHook(instance, 'admit', runtime, () => run(exchange));
    if (isPromise(pending)) (waiting ??= []).push(pending);
  }
  return waiting && Promise.all(waiting);
}

/** Checks the caller's scope for providers before any other plugin can answer. Routes of plugins check their own scopes. */
function requireScope(exchange: Exchange): void {
  if (exchange.matched.route !== undefined) return;
  const key = exchange.get(callerKey);
  if (key !== undefined) requireProviderScope(key, exchange);
}

/** How long a refused request may take to send the rest of its body, in milliseconds. */
const refusedBodyMs = 500;

/**
 * Reads the body of a known caller that is over a limit, for the log: only where a plugin keeps bodies, and only a body
 * no longer than it keeps.
 */
function keepBodyOfRefused(
  exchange: Exchange,
  error: unknown,
  { clock }: EngineRuntime,
): Promise<void> | undefined {
  const { body, endpoint, pipeline, incoming } = exchange;
  if (!GatewayError.is(error) || error.status !== 429 || exchange.aborted) return undefined;
  if (body.loaded || !body.present || !endpoint.modelled || incoming.awaitsContinue) return undefined;
  const length = exchange.header('content-length');
  if (length === undefined || Number(length) > pipeline.keepsResponseBytes) return undefined;
  if (exchange.get(callerKey) === undefined) return undefined;
  const loading = body.bring();
  if (loading === undefined) return undefined;
  return new Promise((resolve) => {
    const cancel = clock.after(refusedBodyMs, resolve);
    const done = (): void => {
      cancel();
      resolve();
    };
    loading.then(done, done);
  });
}

function settleAborted(exchange: Exchange, answer: Answer | undefined, runtime: EngineRuntime): void {
  const left = exchange.failure ?? clientLeft();
  if (answer !== undefined && isStreamSource(answer.body)) answer.body.cancel(left);
  settle(exchange, { status: left.status }, left, runtime);
}
