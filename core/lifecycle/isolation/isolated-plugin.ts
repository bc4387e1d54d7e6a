import { pathToFileURL } from 'node:url';
import type { TSchema } from 'typebox';
import type { StreamEvent } from '../../dialects/stream-event.ts';
import type { Emit, RequestContext, StreamTap } from '../../pipeline/context.ts';
import type { AnyPlugin, Hooks, OptionFault, Scope } from '../../pipeline/plugin.ts';
import { bounded } from '../../base/deadline.ts';
import type { Clock } from '../../ports/clock.ts';
import { describeThrown, pluginErrors } from '../plugin-errors.ts';
import { IsolatedChecks } from './isolated-checks.ts';
import { IsolatedThread, type IsolationLimits, type StopReason } from './isolated-thread.ts';
import {
  type Description,
  type FromThread,
  heardError,
  type HookReturn,
  type IsolatedHook,
  type SentContext,
  type Service,
  type ThreadRequest,
  toldError,
} from './messages.ts';
import { applyReturn, PluginSight } from './sent-context.ts';

/** How long a thread may take to load a plugin, in milliseconds. */
const loadMs = 10_000;

/** Settings for loading an isolated plugin. */
interface IsolationSetup {
  /** Absolute path of the plugin's bundle. */
  readonly file: string;
  readonly limits: IsolationLimits;
  readonly clock: Clock;
}

/**
 * The definition of a plugin whose code runs in threads of its own, and never here: one thread that describes it and
 * checks options, then one for each place in a pipeline. Throws, or reports faults, as loading it here would.
 */
export async function isolatedDefinition(
  setup: IsolationSetup,
): Promise<{ readonly definition: AnyPlugin } | { readonly faults: readonly string[] }> {
  const passing = new PassingThread(setup);
  const told = await passing.ask<Description>({ ask: 'describe' });
  if ('faults' in told) return told;
  const { name, description, schema, capabilities, hasCheck, offers } = told;
  /** Those of its generation, in the order of the configuration. */
  const places = new Set<IsolatedPlugin>();
  const checks = new IsolatedChecks({
    clock: setup.clock,
    async running() {
      const [first] = places;
      if (first === undefined) throw new Error('the plugin that offers it is not running');
      return first.running();
    },
    async ask(call) {
      const [first] = places;
      return first === undefined ? passing.ask(call) : (await first.running()).call(call);
    },
  });
  const definition: AnyPlugin = {
    name,
    ...(description !== undefined && { description }),
    ...(schema !== undefined && { schema: JSON.parse(schema) as TSchema }),
    ...(offers.length > 0 && { offers: offers.map((one, index) => checks.definition(one, index)) }),
    capabilities,
    ...(hasCheck && {
      check: (options) => passing.ask<readonly OptionFault[]>({ ask: 'check', options }),
    }),
    create(options, scope) {
      const place = new IsolatedPlugin({ ...setup, name, options, scope, capabilities });
      places.add(place);
      scope.onDispose(() => void places.delete(place));
      return place.start();
    },
  };
  return { definition };
}

/** How long a thread for questions waits for the next one, in milliseconds. */
const lingerMs = 500;

/** A thread that only answers questions about a plugin: it starts with one, and ends when none has come for a while. */
class PassingThread {
  readonly #setup: IsolationSetup;
  #thread: IsolatedThread | undefined;
  #asked = 0;
  #cancelEnd: () => void = () => undefined;

  constructor(setup: IsolationSetup) {
    this.#setup = setup;
  }

  async ask<T>(call: ThreadRequest): Promise<T> {
    const { clock } = this.#setup;
    this.#cancelEnd();
    this.#asked += 1;
    const thread = (this.#thread ??= this.#start());
    const late = (): Error => new Error(`it has not answered within ${loadMs} ms`);
    try {
      return await bounded(() => thread.call<T>(call), { clock, ms: loadMs, late });
    } catch (error) {
      this.#end(thread);
      throw error;
    } finally {
      this.#asked -= 1;
      if (this.#asked === 0) this.#cancelEnd = clock.after(lingerMs, () => this.#end(thread));
    }
  }

  #start(): IsolatedThread {
    const { file, limits, clock } = this.#setup;
    const nothing = (): void => undefined;
    const module = pathToFileURL(file).href;
    return new IsolatedThread({ module, limits, clock, heard: nothing, stopped: nothing });
  }

  #end(thread: IsolatedThread): void {
    if (this.#thread === thread) this.#thread = undefined;
    void thread.terminate();
  }
}

interface IsolatedPluginSetup extends IsolationSetup {
  readonly name: string;
  readonly options: unknown;
  readonly scope: Scope;
  readonly capabilities: NonNullable<AnyPlugin['capabilities']>;
}

/** The first pause before a thread is started again, and the longest, in milliseconds. */
const firstPauseMs = 100;
const longestPauseMs = 30_000;
/** Lifetime of a thread after which its restart pause does not grow, in milliseconds. */
const steadyMs = 60_000;

/** One plugin in a thread of its own, which is started again when it ends: makes hooks of it. */
class IsolatedPlugin {
  readonly #setup: IsolatedPluginSetup;
  readonly #sight: PluginSight;
  #thread: IsolatedThread | undefined;
  /** Resolves when the present thread has created the plugin. */
  #ready: Promise<IsolatedThread> | undefined;
  #startedAt = 0;
  #pauseMs = 0;
  #cancelRestart: () => void = () => undefined;
  #isDisposed = false;
  #lastStop = '';
  #taps = 0;

  constructor(setup: IsolatedPluginSetup) {
    this.#setup = setup;
    this.#sight = new PluginSight(setup.capabilities);
  }

  async start(): Promise<Hooks> {
    const { scope } = this.#setup;
    scope.onDispose(() => this.#dispose());
    try {
      return this.#hooks(new Set(await this.#create()));
    } catch (error) {
      this.#isDisposed = true;
      await this.#thread?.terminate();
      throw error;
    }
  }

  async #create(): Promise<readonly IsolatedHook[]> {
    const { file, limits, clock, options, scope } = this.#setup;
    this.#startedAt = clock.monotonic();
    const thread = new IsolatedThread({
      module: pathToFileURL(file).href,
      limits,
      clock,
      heard: (message) => this.#heard(thread, message),
      stopped: (reason, message) => this.#stopped(reason, message),
    });
    this.#thread = thread;
    const { headerPrefix, keyPrefix, basePath, publicUrl } = scope;
    const settings = { headerPrefix, keyPrefix, basePath, publicUrl };
    const created = thread.call<readonly IsolatedHook[]>({ ask: 'create', options, settings });
    this.#ready = created.then(() => thread);
    this.#ready.catch(() => undefined);
    return created;
  }

  #stopped(reason: StopReason, message: string): void {
    const { name, scope, clock } = this.#setup;
    if (this.#isDisposed) return;
    const livedMs = clock.monotonic() - this.#startedAt;
    this.#pauseMs =
      livedMs > steadyMs || this.#pauseMs === 0 ? firstPauseMs : Math.min(this.#pauseMs * 2, longestPauseMs);
    this.#thread = undefined;
    this.#ready = undefined;
    this.#lastStop = message;
    scope.metrics
      .counter({
        name: 'weir_plugin_thread_stops_total',
        help: 'Threads of isolated plugins that ended: memory, cpu, exit. Each is started again.',
        labels: ['plugin', 'reason'],
      })({ plugin: name, reason })
      .inc();
    scope.log.error(`plugin "${name}" was stopped: ${message}; it is started again`, {
      reason,
      pause_ms: this.#pauseMs,
    });
    this.#restartLater();
  }

  #restartLater(): void {
    const { scope, clock } = this.#setup;
    this.#cancelRestart = clock.after(this.#pauseMs, () => {
      this.#create().catch((error: unknown) => {
        scope.log.error('an isolated plugin could not be created again', { error: describeThrown(error) });
        const thread = this.#thread;
        // A thread that has ended is restarted by its own end handler.
        if (thread === undefined || this.#isDisposed) return;
        void thread.terminate();
        this.#stopped('exit', 'it could not be created again');
      });
    });
  }

  async #dispose(): Promise<void> {
    this.#isDisposed = true;
    this.#cancelRestart();
    const thread = this.#thread;
    if (thread === undefined) return;
    const { clock } = this.#setup;
    const late = (): Error => new Error('its clean-up has not ended in time');
    // Less than the scope waits for one clean-up step.
    await bounded(() => thread.call({ ask: 'dispose' }), { clock, ms: 4000, late }).catch(() => undefined);
    await thread.terminate();
  }

  /** The present thread. Calls wait while one starts, and fail when none is running or starting. */
  async running(): Promise<IsolatedThread> {
    if (this.#ready === undefined) throw new Error(`it is being started again, because ${this.#lastStop}`);
    return this.#ready;
  }

  async #ask(call: ThreadRequest): Promise<HookReturn> {
    return (await this.running()).call<HookReturn>(call);
  }

  #hooks(names: ReadonlySet<IsolatedHook>): Hooks {
    const hook = (name: Exclude<IsolatedHook, 'stream'>, context: SentContext): Promise<HookReturn> =>
      this.#ask({ ask: 'hook', hook: name, context });
    const sight = this.#sight;
    const hooks: Hooks = {
      ...(names.has('admit') && {
        admit: async (context) => void applyReturn(await hook('admit', sight.request(context)), { context }),
      }),
      ...(names.has('request') && {
        request: async (context) => applyReturn(await hook('request', sight.request(context)), { context }),
      }),
      ...(names.has('attempt') && {
        attempt: async (context) =>
          applyReturn(await hook('attempt', sight.attempt(context)), {
            context,
            attempt: context.attempt,
          }),
      }),
      ...(names.has('response') && {
        response: async (context) => {
          const { response } = context;
          applyReturn(await hook('response', sight.response(context)), { context, response });
        },
      }),
      ...(names.has('stream') && { stream: (context) => this.#tap(context) }),
      ...(names.has('settled') && {
        settled: async (context, outcome) =>
          void applyReturn(await hook('settled', sight.outcome(context, outcome)), { context }),
      }),
      retiring: () => this.#thread?.send({ retiring: true }),
    };
    return hooks;
  }

  #tap(context: RequestContext): StreamTap {
    const id = ++this.#taps;
    const begun = this.#ask({ ask: 'tap', tap: id, context: this.#sight.request(context) });
    begun.catch(() => undefined);
    context.onAbort(() => this.#thread?.send({ drop: id }));
    const ask = async (call: ThreadRequest): Promise<HookReturn> => {
      applyReturn(await begun, { context });
      const told = await this.#ask(call);
      applyReturn(told, { context });
      return told;
    };
    return this.#setup.capabilities.stream === 'observe'
      ? new ObservingTap(id, ask)
      : new JudgingTap(id, ask);
  }

  #heard(thread: IsolatedThread, message: Exclude<FromThread, { id: number }>): void {
    const { scope, name } = this.#setup;
    if ('log' in message) {
      scope.log[message.log](message.message, JSON.parse(message.fields) as Record<string, unknown>);
    } else if ('metric' in message) {
      const { metric, definition, labels, value } = message;
      if (metric === 'counter') scope.metrics.counter(definition)(labels).inc(value);
      else if (metric === 'gauge') scope.metrics.gauge(definition)(labels).set(value);
      else scope.metrics.histogram(definition)(labels).observe(value);
    } else if ('fault' in message) {
      pluginErrors(scope.metrics)({ plugin: name, hook: message.fault }).inc();
      scope.log.error(`plugin "${name}" failed in its ${message.fault}`, {
        hook: message.fault,
        error: describeThrown(heardError(message.error)),
      });
    } else if ('asks' in message) {
      const { asks, service, args } = message;
      Promise.resolve()
        .then(() => serve(scope, service, args))
        .then(
          (value) => thread.send({ answered: asks, value }),
          (error: unknown) => thread.send({ refused: asks, error: toldError(error) }),
        );
    } else {
      scope.metrics
        .gauge({
          name: 'weir_plugin_thread_memory_bytes',
          help: 'Heap and buffers of the thread of an isolated plugin.',
          labels: ['plugin'],
        })({ plugin: name })
        .set(message.memoryBytes);
    }
  }
}

/** Runs a service for a thread. The form of the arguments is the responsibility of the plugin's author. */
function serve(scope: Scope, service: Service, args: readonly unknown[]): unknown {
  const { counters, cache, guardedFetch } = scope;
  switch (service) {
    case 'fetch':
      return guardedFetch.fetch(...(args as Parameters<typeof guardedFetch.fetch>)).answer;
    case 'counters.take':
      return counters.take(...(args as Parameters<typeof counters.take>));
    case 'counters.adjust':
      return counters.adjust(...(args as Parameters<typeof counters.adjust>));
    case 'cache.get':
      return cache.get(...(args as Parameters<typeof cache.get>));
    case 'cache.set':
      return cache.set(...(args as Parameters<typeof cache.set>));
    case 'cache.delete':
      return cache.delete(...(args as Parameters<typeof cache.delete>));
  }
}

type Ask = (call: ThreadRequest) => Promise<HookReturn>;

/** A tap that may change the stream: each event goes to the thread, and the emitted events come back. */
class JudgingTap implements StreamTap {
  readonly #id: number;
  readonly #ask: Ask;
  /** Events that the plugin has not passed on yet, by their numbers. */
  readonly #held = new Map<number, StreamEvent>();
  #count = 0;

  constructor(id: number, ask: Ask) {
    this.#id = id;
    this.#ask = ask;
  }

  async event(event: StreamEvent, emit: Emit): Promise<void> {
    const first = this.#count++;
    this.#held.set(first, event);
    this.#pass(await this.#ask({ ask: 'events', tap: this.#id, first, events: [event] }), emit);
  }

  async end(emit: Emit): Promise<void> {
    this.#pass(await this.#ask({ ask: 'end', tap: this.#id }), emit);
    this.#held.clear();
  }

  #pass({ emitted = [] }: HookReturn, emit: Emit): void {
    for (const one of emitted) {
      const event = typeof one === 'number' ? this.#held.get(one) : one;
      if (typeof one === 'number') this.#held.delete(one);
      if (event !== undefined) emit(event);
    }
  }
}

/** Events that are sent together. */
const mostTogether = 64;

/** A tap that only observes: events pass at once, and go to the thread in batches. */
class ObservingTap implements StreamTap {
  readonly #id: number;
  readonly #ask: Ask;
  #batch: StreamEvent[] = [];
  #count = 0;
  #sent: Promise<unknown> = Promise.resolve();
  #failure: unknown;

  constructor(id: number, ask: Ask) {
    this.#id = id;
    this.#ask = ask;
  }

  event(event: StreamEvent, emit: Emit): Promise<void> | undefined {
    emit(event);
    if (this.#failure !== undefined) throw this.#failed();
    this.#batch.push(event);
    if (this.#batch.length === 1) setImmediate(() => this.#flush());
    if (this.#batch.length < mostTogether) return undefined;
    // The provider is paused while the thread is behind.
    const before = this.#sent;
    this.#flush();
    return before.then(() => undefined);
  }

  async end(): Promise<void> {
    this.#flush();
    await this.#sent;
    if (this.#failure !== undefined) throw this.#failed();
    await this.#ask({ ask: 'end', tap: this.#id });
  }

  #flush(): void {
    const events = this.#batch;
    if (events.length === 0) return;
    this.#batch = [];
    const first = this.#count;
    this.#count += events.length;
    const asked = this.#ask({ ask: 'events', tap: this.#id, first, events });
    this.#sent = Promise.all([this.#sent, asked]).catch((error: unknown) => (this.#failure ??= error));
  }

  #failed(): unknown {
    const failure = this.#failure;
    this.#failure = undefined;
    return failure;
  }
}
