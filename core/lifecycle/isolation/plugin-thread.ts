// A thread of its own for one plugin: loads its bundle, creates it, and runs its hooks for the gateway.
import { getHeapStatistics } from 'node:v8';
import { parentPort, workerData } from 'node:worker_threads';
import type { StreamEvent } from '../../dialects/stream-event.ts';
import { isStreamSource } from '../../pipeline/answer.ts';
import type { MaybePromise, StreamTap } from '../../pipeline/context.ts';
import * as pluginModule from '../../pipeline/plugin.ts';
import type { AnyCheck, AnyPlugin, Hooks, Scope } from '../../pipeline/plugin.ts';
import { checkDefinition, checkReturnedHooks, defaultExport } from '../check-definition.ts';
import { pluginRegistry } from '../plugin-registry.ts';
import {
  type DescribedCheck,
  type Description,
  type FromThread,
  type HookReturn,
  isolatedHooks,
  type IsolatedHook,
  type ThreadData,
  type ThreadRequest,
  toldError,
  type ToThread,
} from './messages.ts';
import { notIsolated, ThreadContext } from './thread-context.ts';
import { ThreadChecks } from './thread-checks.ts';
import { ThreadScope } from './thread-scope.ts';

/** Taps of streams that were given up without an end; the oldest are forgotten. */
const mostTaps = 10_000;

/** A tap with the events that it has seen and not passed on. */
interface OpenTap {
  readonly tap: StreamTap | undefined;
  readonly context: ThreadContext;
  readonly seen: Map<StreamEvent, number>;
}

// Errors name the lines of the plugin's sources.
process.setSourceMapsEnabled(true);
const { module, turns } = workerData as ThreadData;
const send = (message: FromThread): void => parentPort?.postMessage(message);
const scope = new ThreadScope(send);
const taps = new Map<number, OpenTap>();
const checks = new ThreadChecks();
let hooks: Hooks = {};
/** What the plugin was created with. */
let lent: Scope | undefined;

const refused = (what: string) => (): never => {
  throw notIsolated(what);
};
pluginRegistry({
  ...pluginModule,
  defineKey: refused('A key of its own (defineKey)'),
  defineRoute: refused('A route (defineRoute)'),
  defineMediaRoute: refused('A route (defineMediaRoute)'),
});

const fault =
  (hook: string) =>
  (thrown: unknown): void =>
    send({ fault: hook, error: toldError(thrown) });
process.on('unhandledRejection', fault('unhandled_rejection'));
process.on('uncaughtException', fault('uncaught_exception'));
process.kill = (pid, signal) => {
  throw new Error(`process.kill(${pid}, ${signal}) is not for plugins that run in a thread of the gateway.`);
};

let loading: Promise<AnyPlugin | { readonly faults: readonly string[] }> | undefined;

async function load(): Promise<AnyPlugin | { readonly faults: readonly string[] }> {
  const exports = (await import(module)) as Readonly<Record<string, unknown>>;
  const checked = checkDefinition(defaultExport(exports));
  return 'faults' in checked ? checked : checked.definition;
}

async function definition(): Promise<AnyPlugin> {
  const loaded = await (loading ??= load());
  if ('faults' in loaded) throw new Error(loaded.faults.join('; '));
  return loaded;
}

async function describe(): Promise<Description> {
  const loaded = await (loading ??= load());
  if ('faults' in loaded) return loaded;
  const { name, description, schema, capabilities = {}, check, offers = [] } = loaded;
  const faults: string[] = [];
  if (capabilities.routes === true) faults.push(notIsolated('A route (capabilities.routes)').message);
  if ((capabilities.provides ?? []).length > 0)
    faults.push(notIsolated('What a plugin provides for others (capabilities.provides)').message);
  if (faults.length > 0) return { faults };
  const text = schema && JSON.stringify(schema);
  const hasCheck = check !== undefined;
  return { name, description, schema: text, capabilities, hasCheck, offers: offers.map(describeCheck) };
}

function describeCheck(offered: AnyCheck): DescribedCheck {
  const { id, aliases, description, phases, changes, timeoutMs, schema, check, reach } = offered;
  return {
    ...{ id, description, phases, schema: JSON.stringify(schema) },
    ...(aliases !== undefined && { aliases }),
    ...(changes !== undefined && { changes }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    hasCheck: check !== undefined,
    hasReach: reach !== undefined,
  };
}

async function create({ options, settings }: Extract<ThreadRequest, { ask: 'create' }>): Promise<string[]> {
  const plugin = await definition();
  lent = scope.lend(settings);
  const created: unknown = await plugin.create(options, lent);
  const faults = checkReturnedHooks(created);
  if (faults.length > 0) throw new Error(faults.join('; '));
  hooks = created as Hooks;
  for (const hook of ['attempted', 'keepsCall', 'routes'] as const)
    if (hooks[hook] !== undefined) throw notIsolated(`The hook "${hook}"`);
  return isolatedHooks.filter((hook) => hooks[hook] !== undefined);
}

async function runHook({ hook, context }: Extract<ThreadRequest, { ask: 'hook' }>): Promise<HookReturn> {
  const own = new ThreadContext(context);
  const answer = await callOf(hook, own);
  if (answer === undefined || answer === null) return { operations: own.take() };
  const { status, headers, body } = answer;
  if (body !== null && isStreamSource(body)) throw notIsolated('A streamed answer');
  return {
    operations: own.take(),
    answer: { status, headers, body: body === null ? null : new Uint8Array(body) },
  };
}

type Answered = MaybePromise<pluginModule.Answer | undefined | void>;

function callOf(hook: Exclude<IsolatedHook, 'stream'>, context: ThreadContext): Answered {
  switch (hook) {
    case 'admit':
      return hooks.admit?.(context.request());
    case 'request':
      return hooks.request?.(context.request());
    case 'attempt':
      return hooks.attempt?.(context.attempt());
    case 'response':
      return hooks.response?.(context.response());
    case 'settled':
      return hooks.settled?.(context.request(), context.outcome());
  }
}

function openTap(id: number, { context }: Extract<ThreadRequest, { ask: 'tap' }>): HookReturn {
  const own = new ThreadContext(context);
  const tap = hooks.stream?.(own.request());
  const [oldest] = taps.keys();
  if (taps.size >= mostTaps && oldest !== undefined) taps.delete(oldest);
  taps.set(id, { tap, context: own, seen: new Map() });
  return { operations: own.take() };
}

async function tapEvents({
  tap: id,
  first,
  events,
}: Extract<ThreadRequest, { ask: 'events' }>): Promise<HookReturn> {
  const { tap, context, seen } = tapOf(id);
  const emitted: (number | StreamEvent)[] = [];
  let number = first;
  for (const event of events) {
    seen.set(event, number++);
    if (tap === undefined) emit(event);
    else await tap.event(event, emit);
  }
  return { operations: context.take(), emitted };

  function emit(event: StreamEvent): void {
    emitted.push(seen.get(event) ?? event);
    seen.delete(event);
  }
}

async function endTap({ tap: id }: Extract<ThreadRequest, { ask: 'end' }>): Promise<HookReturn> {
  const { tap, context, seen } = tapOf(id);
  taps.delete(id);
  const emitted: (number | StreamEvent)[] = [];
  await tap?.end?.((event) => void emitted.push(seen.get(event) ?? event));
  return { operations: context.take(), emitted };
}

function tapOf(id: number): OpenTap {
  const found = taps.get(id);
  if (found === undefined) throw new Error('The thread does not know this stream: it was started again.');
  return found;
}

function perform(id: number, call: ThreadRequest): unknown {
  switch (call.ask) {
    case 'describe':
      return describe();
    case 'check':
      return definition().then((plugin) => plugin.check?.(call.options) ?? []);
    case 'create':
      return create(call);
    case 'dispose':
      return scope.dispose();
    case 'hook':
      return runHook(call);
    case 'tap':
      return openTap(call.tap, call);
    case 'events':
      return tapEvents(call);
    case 'end':
      return endTap(call);
    case 'parameters':
      return definition().then((plugin) => checks.look(plugin, call));
    case 'judge':
      return definition().then((plugin) => checks.judge(id, call, { plugin, scope: lent }));
  }
}

async function answer(id: number, call: ThreadRequest): Promise<void> {
  try {
    send({ id, value: await perform(id, call) });
  } catch (thrown) {
    send({ id, error: toldError(thrown) });
  }
}

function heard(message: ToThread): void {
  Atomics.add(turns, 0, 1);
  if ('call' in message) void answer(message.id, message.call);
  else if ('ping' in message) {
    const { used_heap_size: heap, external_memory: external } = getHeapStatistics();
    send({ memoryBytes: heap + external });
  } else if ('drop' in message) taps.delete(message.drop);
  else if ('abort' in message) checks.abort(message.abort);
  else if ('retiring' in message) {
    try {
      hooks.retiring?.();
    } catch (thrown) {
      fault('retiring')(thrown);
    }
  } else scope.answered(message);
}

parentPort?.on('message', heard);
