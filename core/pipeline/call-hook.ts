import { isPromise } from '../base/turns.ts';
import type { Endpoint } from '../dialects/endpoint.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { MaybePromise, RequestContext } from './context.ts';
import type { DecisionTrace } from './decision-trace.ts';
import { noteVerdict, type Verdict } from './facts.ts';
import { judged } from './keys.ts';
import type { AnyPlugin, Hooks, StreamTap } from './plugin.ts';
import type { CallPart, PluginBreaker, PluginWork } from './plugin-breaker.ts';
import type { Histogram, Metrics } from '../ports/metrics.ts';
import type { LazyBody } from './request-body.ts';

/** Times the request hooks of some requests. */
export interface HookTimes {
  /** Whether those of the next request are timed. */
  wanted(): boolean;
  /** A hook has ended without refusing. */
  took(instance: PluginInstance, ms: number): void;
}

/** One request in this many is timed: reading the clock around each hook of each one would cost more than most hooks do. */
const every = 32;

const buckets = [0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1];

/**
 * Measures how long plugins take to let a request pass: authentication, limits, the cache look-up. A plugin that always
 * answers (`provider`) is left out: its time is the provider's.
 */
export function createHookTimes(metrics: Metrics): HookTimes {
  const seconds = metrics.histogram({
    name: 'weir_plugin_duration_seconds',
    help: 'Duration of request hooks of plugins, sampled for one request in 32: use it for means and quantiles, not for counts.',
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

/** Dependencies of the hook runner; one object per generation. */
export interface HookRuntime {
  readonly log: Log;
  readonly clock: Clock;
  /** Counts a failure of a plugin's code (not a refusal). */
  countPluginError(plugin: string, hook: string): void;
  /** Measures the hooks of third-party plugins. Default: nothing is measured. */
  readonly work?: PluginWork | undefined;
  /** Bounds hooks of third-party plugins while the gateway shuts down. Default: their own bounds alone. */
  readonly pending?: PendingHooks;
}

/** While the gateway shuts down, a third-party plugin's hook may take this long, in milliseconds. */
const shutdownHookMs = 5000;

/**
 * Hooks of third-party plugins that are under way. Once `beginShutdown` was called, none of them takes longer than 5 s
 * more: a hook that never settles does not hold the shutdown until its own bound.
 */
export class PendingHooks {
  readonly #ends = new Set<(ms: number) => void>();
  readonly #clock: Clock;
  #shutsDown = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Bounds the hooks that are under way, and those that begin from now on. */
  beginShutdown(): void {
    if (this.#shutsDown) return;
    this.#shutsDown = true;
    const underWay = [...this.#ends];
    this.#clock.after(shutdownHookMs, () => {
      for (const end of underWay) if (this.#ends.has(end)) end(shutdownHookMs);
    });
  }

  /** Calls `end` when the time is up: after `ms` (0: no bound), or sooner in a shutdown. Returns the function that cancels it. */
  bound(ms: number, end: (ms: number) => void): () => void {
    const own = this.#shutsDown ? Math.min(ms || shutdownHookMs, shutdownHookMs) : ms;
    const cancel = own === 0 ? undefined : this.#clock.after(own, () => end(own));
    this.#ends.add(end);
    return () => {
      this.#ends.delete(end);
      cancel?.();
    };
  }
}

/** A call's relation to the breaker of its plugin. */
export interface GuardedCall {
  /** Default: `whole`. */
  readonly part?: CallPart;
  /** Called when the hook is not run because its breaker is open. */
  passedOver?(whenOpen: 'bypass' | 'refuse'): void;
}

/**
 * Calls one hook of one plugin. A `GatewayError` is the plugin's refusal and is rethrown; any other thrown value, and a
 * promise that outlasts its bound, is a failure: `on_error: skip` continues as if the hook had
 * returned nothing, `fail` throws `plugin_failed` or `plugin_timeout`. A hook whose breaker is open is not called: it
 * continues as if it had returned nothing, or throws `plugin_unavailable`. Awaits promises only.
 */
export function callHook<T>(
  instance: PluginInstance,
  hook: string,
  runtime: HookRuntime,
  call: () => T | Promise<T>,
  guarded?: GuardedCall,
): T | undefined | Promise<T | undefined> {
  const { breaker } = instance;
  if (breaker === undefined) return callOnce(instance, hook, runtime, call);
  const part = guarded?.part ?? 'whole';
  const attempt = breaker.begin(hook, part);
  if (attempt === undefined) return leftAlone(breaker, hook, guarded);
  return callOnce(instance, hook, runtime, call, (failed) =>
    attempt.end(failed ? 'failed' : part === 'begin' ? 'unknown' : 'ended'),
  );
}

/** Called once with the outcome of a call. */
type Ended = (failed: boolean) => void;

function callOnce<T>(
  instance: PluginInstance,
  hook: string,
  runtime: HookRuntime,
  call: () => T | Promise<T>,
  ended?: Ended,
): T | undefined | Promise<T | undefined> {
  // Plugins of the gateway itself are not measured: reading the clock twice costs more than most hooks.
  const work = instance.builtIn ? undefined : runtime.work;
  const startedAt = work === undefined ? 0 : runtime.clock.monotonic();
  let result: T | Promise<T>;
  try {
    result = call();
  } catch (error) {
    work?.returned(instance.name, hook, runtime.clock.monotonic() - startedAt);
    return failed(instance, hook, runtime, error, ended);
  }
  const heldMs = work === undefined ? 0 : runtime.clock.monotonic() - startedAt;
  if (!isPromise(result)) {
    work?.returned(instance.name, hook, heldMs);
    ended?.(false);
    return result;
  }
  work?.waits(instance.name, hook, heldMs);
  const measure = (): void => work?.ended(instance.name, hook, runtime.clock.monotonic() - startedAt);
  return bounded(instance, hook, runtime, result).then(
    (value) => {
      measure();
      ended?.(false);
      return value;
    },
    (error: unknown) => {
      measure();
      return failed(instance, hook, runtime, error, ended);
    },
  );
}

/** Replaces a call while the breaker is open: bypasses the plugin, or refuses the request. */
function leftAlone(breaker: PluginBreaker, hook: string, guarded: GuardedCall | undefined): undefined {
  const { settings } = breaker;
  guarded?.passedOver?.(settings.whenOpen);
  if (settings.whenOpen === 'bypass') return undefined;
  throw unavailable(breaker, hook, ', and no request may pass without it');
}

function unavailable(breaker: PluginBreaker, hook: string, consequence: string): GatewayError {
  const { plugin } = breaker;
  const seconds = breaker.retryAfter(hook);
  return new GatewayError(
    'plugin_unavailable',
    `The plugin "${plugin}" keeps failing and is left alone for now${consequence}. Try again in ${seconds} s; the gateway's log says why it fails.`,
    { plugin, headers: ['retry-after', String(seconds)] },
  );
}

/**
 * Calls a check that a plugin offers: measured as a hook of the check's name, with a breaker of its own. A failure is
 * counted and thrown on, because `on_error` of the check decides; so is one while the breaker is open, for every
 * `when_open`. An abort of `signal` ends the call: by a `TimeoutError` as a failure.
 */
export function callCheck<T>(
  { breaker, name }: PluginInstance,
  check: string,
  { work, clock, countPluginError }: HookRuntime,
  { signal, call }: { readonly signal: () => AbortSignal; call(): T | Promise<T> },
): T | Promise<T> {
  const attempt = breaker?.begin(check, 'whole');
  if (breaker !== undefined && attempt === undefined) throw unavailable(breaker, check, '');
  const startedAt = clock.monotonic();
  const tookMs = (): number => clock.monotonic() - startedAt;
  const failed = (): void => {
    countPluginError(name, check);
    attempt?.end('failed');
  };
  let result: T | Promise<T>;
  try {
    result = call();
  } catch (error) {
    work?.returned(name, check, tookMs());
    failed();
    throw error;
  }
  if (!isPromise(result)) {
    work?.returned(name, check, tookMs());
    attempt?.end('ended');
    return result;
  }
  work?.waits(name, check, tookMs());
  let isOver = false;
  const end = (ended: () => void): void => {
    if (isOver) return;
    isOver = true;
    aborting.removeEventListener('abort', aborted);
    work?.ended(name, check, tookMs());
    ended();
  };
  const aborting = signal();
  const aborted = (): void =>
    end(() => ((aborting.reason as Error).name === 'TimeoutError' ? failed() : attempt?.end('unknown')));
  aborting.addEventListener('abort', aborted);
  return result.then(
    (value) => {
      end(() => attempt?.end('ended'));
      return value;
    },
    (error: unknown) => {
      end(failed);
      throw error;
    },
  );
}

/** Decides what a thrown value means: rethrows refusals and failures of `fail` plugins, swallows those of `skip` ones. */
function failed(
  instance: PluginInstance,
  hook: string,
  runtime: HookRuntime,
  error: unknown,
  ended: Ended | undefined,
): undefined {
  if (GatewayError.is(error) && error.code !== 'plugin_timeout') {
    error.plugin ??= instance.name;
    ended?.(false);
    throw error;
  }
  runtime.countPluginError(instance.name, hook);
  runtime.log.error('A plugin failed', { plugin: instance.name, hook, on_error: instance.onError, error });
  ended?.(true);
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
  const { timeoutMs, name } = instance;
  const pending = instance.builtIn ? undefined : runtime.pending;
  if (timeoutMs === 0 && pending === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    const end = (ms: number): void =>
      reject(
        new GatewayError(
          'plugin_timeout',
          `The plugin "${name}" did not finish its ${hook} hook within ${ms} ms.`,
          { plugin: name },
        ),
      );
    const cancel =
      pending === undefined
        ? runtime.clock.after(timeoutMs, () => end(timeoutMs))
        : pending.bound(timeoutMs, end);
    promise.then(resolve, reject).finally(cancel);
  });
}

/** A plugin created for one place in one pipeline of one generation. */
export interface PluginInstance {
  readonly definition: AnyPlugin;
  /** The plugin's name: label of logs, metrics and errors. */
  readonly name: string;
  readonly hooks: Hooks;
  readonly onError: 'fail' | 'skip';
  /** 0 for no bound. */
  readonly timeoutMs: number;
  /** Stops calls of its hooks for a while when they keep failing. Default: no breaker. */
  readonly breaker?: PluginBreaker | undefined;
  /** True for plugins that come with the gateway. */
  readonly builtIn: boolean;
}

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

/** One plugin's place in one phase. */
export interface Step<H extends keyof Hooks> {
  readonly instance: PluginInstance;
  /** Position in the file; answers and refusals run only the later phases of plugins before theirs. */
  readonly index: number;
  readonly hook: H;
  /** It belongs to a guardrail: its verdict is noted. */
  readonly judges: boolean;
  readonly run: Extract<Hooks[H], (...args: never[]) => unknown>;
}

export interface RequestStep extends Step<'request'> {
  /** It identifies the caller: the key's scopes are checked right after it. */
  readonly identifies: boolean;
  /** Whether the body must be in memory before the hook runs: `json` only where it may hold JSON or text. */
  readonly loadsBody: 'never' | 'json' | 'always';
}

type TracedHook = 'request' | 'attempt' | 'attempted' | 'response';

interface TracedRequest extends RequestContext {
  readonly trace: DecisionTrace | undefined;
}

/**
 * Calls one hook of a request as `callHook` does. Notes the verdict of a guardrail's hook, and the duration when the
 * request is traced.
 */
export function callStep<T>(
  { instance, hook, judges }: Step<TracedHook>,
  exchange: TracedRequest,
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
