import { isDeepStrictEqual } from 'node:util';
import type { OtlpSettings } from '../base/trace-context.ts';
import type { Problem } from '../config/problem.ts';
import type { ConfigSource } from '../config/config-source.ts';
import type { GatewayConfig, PipelineConfig, PluginBreakerInput } from '../config/schema.ts';
import type { HookRuntime, PluginInstance } from '../pipeline/call-hook.ts';
import type { Outcome, RequestContext, RequestTracer } from '../pipeline/context.ts';
import type { PluginBreakers, PluginBreakerSettings } from '../pipeline/plugin-breaker.ts';
import { bounded } from '../base/deadline.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import { problemAt } from './problem-at.ts';
import { describeThrown, frameWithin } from './plugin-errors.ts';
import type { Prepared } from './prepare.ts';
import { createPluginScope, type Services } from './scope.ts';
import { UndoStack } from './undo-stack.ts';
import { type CheckedPipeline, checkHooks, type CreatedPlugin, type Locate } from '../pipeline/compile.ts';
import type { Hooks, Scope } from '../pipeline/plugin.ts';
import { checkReturnedHooks } from './check-definition.ts';

type PreparedPipeline = Prepared['pipelines'][number];
type PreparedPlugin = PreparedPipeline['plugins'][number];

/** One configuration at work: its compiled pipelines, its plugin instances, and the number of requests that use it. */
export interface Generation<C> {
  /** 12 hexadecimal digits over the configuration's text and the plugins' code. */
  readonly hash: string;
  readonly config: GatewayConfig;
  /** Where `config` was read from. */
  readonly source: ConfigSource;
  /** Result of `compile` for the pipelines. */
  readonly compiled: C;
  /** All of them, in the order in which they were created. */
  readonly instances: readonly PluginInstance[];
  /** Source files of its third-party plugins, absolute, to be watched. */
  readonly pluginInputs: readonly string[];
  /** Hashes of the plugin bundles that it runs. */
  readonly codeHashes: ReadonlySet<string>;
  /** Requests that use it now. */
  readonly active: number;
  /** Takes it for one request. Throws once it has been disposed. */
  acquire(): void;
  /** Gives it back, exactly once per `acquire` and after the request's last hook. Throws when called too often. */
  release(): void;
  /** Calls its plugins' `retiring` hooks, once: no new request will come. */
  retiring(): void;
  /** Takes no new requests by agreement; resolves when the last one has released and everything is disposed. */
  retire(): Promise<void>;
}

/** Dependencies and settings for starting a generation. */
export interface StartOptions<C> {
  readonly log: Log;
  readonly clock: Clock;
  /** Makes the services of this configuration's plugins; `isCanary` for one that serves beside another. */
  readonly services: (
    prepared: Pick<Prepared, 'config' | 'source' | 'checks' | 'hash'>,
    isCanary: boolean,
  ) => Services;
  /** Lays out the pipelines, in file order; throwing keeps the generation from starting. */
  readonly compile: (pipelines: readonly CreatedPipeline[]) => C;
  /** Makes the breakers of plugins. Default: no plugin has one. */
  readonly breakers?: PluginBreakers;
  /** Measures the checks that plugins offer. Default: they run by themselves. */
  readonly runtime?: HookRuntime;
  /** Longest time for one plugin's `create`, in milliseconds. Default 10000. */
  readonly createTimeoutMs?: number;
}

/** A generation, or why there is none; `pluginInputs` are to be watched in either case. */
type BuildResult<C> =
  | { readonly ok: true; readonly generation: Generation<C> }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly pluginInputs: readonly string[] };

/**
 * Creates the plugins of a prepared generation and compiles its pipelines. On any failure everything created so
 * far is disposed, last first, before this resolves. `isCanary`: it serves beside another one. Default false.
 */
export async function startGeneration<C>(
  prepared: Prepared,
  options: StartOptions<C>,
  isCanary = false,
): Promise<BuildResult<C>> {
  const { log, clock, createTimeoutMs = 10_000 } = options;
  const onError = (error: unknown): void =>
    log.error('a generation could not be disposed completely', { error: describeThrown(error) });
  // Each instance bounds its own clean-up steps; this bound only has to be beyond them.
  const stack = new UndoStack({ clock, timeoutMs: 60_000, onError });
  const refuse = async (problems: readonly Problem[]): Promise<BuildResult<C>> => {
    await stack.dispose();
    return { ok: false, problems, pluginInputs: prepared.pluginInputs };
  };
  try {
    const services = options.services(prepared, isCanary);
    const { breakers } = options;
    const created = await createInstances({ prepared, services, stack, createTimeoutMs, breakers });
    if (!created.ok) return await refuse(created.problems);
    const compiled = options.compile(created.pipelines);
    const instances = created.pipelines.flatMap((pipeline) => pipeline.instances);
    if (options.runtime !== undefined) prepared.checks.runBy(instances, options.runtime);
    return { ok: true, generation: new RunningGeneration({ prepared, compiled, instances, stack, log }) };
  } catch (error) {
    log.debug('a generation could not be put together', { error: describeThrown(error) });
    const reason = error instanceof Error ? error.message : String(error);
    const place = prepared.source.locate('/pipelines', 'key');
    return refuse([problemAt(place, '/pipelines', `the pipelines cannot be put together: ${reason}`)]);
  }
}

interface RunningParts<C> {
  readonly prepared: Prepared;
  readonly compiled: C;
  readonly instances: readonly PluginInstance[];
  readonly stack: UndoStack;
  readonly log: Log;
}

class RunningGeneration<C> implements Generation<C> {
  readonly hash: string;
  readonly config: GatewayConfig;
  readonly source: ConfigSource;
  readonly compiled: C;
  readonly instances: readonly PluginInstance[];
  readonly pluginInputs: readonly string[];
  readonly codeHashes: ReadonlySet<string>;
  readonly #stack: UndoStack;
  readonly #log: Log;
  #told = false;
  #active = 0;
  #retirement: Promise<void> | undefined;
  #onIdle: (() => void) | undefined;
  #disposed = false;

  constructor({ prepared, compiled, instances, stack, log }: RunningParts<C>) {
    this.#log = log;
    this.hash = prepared.hash;
    this.config = prepared.config;
    this.source = prepared.source;
    this.compiled = compiled;
    this.instances = instances;
    this.pluginInputs = prepared.pluginInputs;
    this.codeHashes = prepared.codeHashes;
    this.#stack = stack;
  }

  get active(): number {
    return this.#active;
  }

  acquire(): void {
    if (this.#disposed)
      throw new Error(`generation ${this.hash} has been disposed and cannot serve a request`);
    this.#active += 1;
  }

  release(): void {
    if (this.#active === 0) throw new Error(`generation ${this.hash} was released more often than acquired`);
    this.#active -= 1;
    if (this.#active === 0) this.#onIdle?.();
  }

  retiring(): void {
    if (this.#told) return;
    this.#told = true;
    for (const { name, hooks } of this.instances) {
      try {
        hooks.retiring?.();
      } catch (error) {
        this.#log.error(`plugin "${name}" failed in its retiring`, { error: describeThrown(error) });
      }
    }
  }

  retire(): Promise<void> {
    this.retiring();
    this.#retirement ??= this.#disposeWhenIdle();
    return this.#retirement;
  }

  async #disposeWhenIdle(): Promise<void> {
    while (this.#active > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve));
    this.#disposed = true;
    await this.#stack.dispose();
  }
}

/** Input for creating plugins. */
interface CreateInput {
  readonly prepared: Prepared;
  readonly services: Services;
  /** Undoes every instance; each is pushed before its `create` runs. */
  readonly stack: UndoStack;
  /** Longest time for one `create` in milliseconds. */
  readonly createTimeoutMs: number;
  readonly breakers: PluginBreakers | undefined;
}

/** A pipeline and its plugins in file order. */
export interface CreatedPipeline {
  readonly config: PipelineConfig;
  readonly instances: readonly PluginInstance[];
}

/** The pipelines in file order, or the failure. */
type CreateResult =
  | { readonly ok: true; readonly pipelines: readonly CreatedPipeline[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * Creates the plugins one after the other in file order and checks the hooks that they return. Stops at the first
 * `create` that fails; the created instances are on the stack, for the caller to undo.
 */
async function createInstances(input: CreateInput): Promise<CreateResult> {
  const { source } = input.prepared;
  const pipelines: (PreparedPipeline & CheckedPipeline<CreatedInstance>)[] = [];
  for (const pipeline of input.prepared.pipelines) {
    const created = await createAll(pipeline.plugins, input);
    if ('problem' in created) return { ok: false, problems: [created.problem] };
    pipelines.push({ ...pipeline, plugins: created.plugins });
  }
  const locate: Locate = (pointer, part) => source.locate(pointer, part);
  const problems = pipelines.flatMap((pipeline) => checkHooks(pipeline, locate));
  if (problems.length > 0) return { ok: false, problems };
  const toPipeline = ({ config, plugins }: (typeof pipelines)[number]): CreatedPipeline => ({
    config,
    instances: plugins.map((plugin: CreatedInstance) => toInstance(plugin, input)),
  });
  return { ok: true, pipelines: pipelines.map(toPipeline) };
}

type CreatedInstance = PreparedPlugin & CreatedPlugin;

async function createAll(
  preparedPlugins: readonly PreparedPlugin[],
  input: CreateInput,
): Promise<{ plugins: CreatedInstance[] } | { problem: Problem }> {
  const plugins: CreatedInstance[] = [];
  for (const prepared of preparedPlugins) {
    const { scope, dispose } = createPluginScope(prepared.definition.name, input.services);
    input.stack.push(dispose);
    try {
      const hooks = await createHooks(prepared, scope, input.createTimeoutMs);
      plugins.push({ ...prepared, hooks });
    } catch (error) {
      scope.log.debug('create failed', { error: describeThrown(error) });
      return { problem: createProblem(prepared, error, input.prepared) };
    }
  }
  return { plugins };
}

async function createHooks(
  { definition, options }: PreparedPlugin,
  scope: Scope,
  ms: number,
): Promise<Hooks> {
  const late = (): Error => new Error(`it has not finished within ${ms} ms; check what it waits for`);
  const hooks: unknown = await bounded(() => definition.create(options, scope), {
    clock: scope.clock,
    ms,
    late,
  });
  const faults = checkReturnedHooks(hooks);
  if (faults.length > 0) throw new Error(faults.join('; '));
  return hooks as Hooks;
}

function createProblem({ entry, definition }: PreparedPlugin, error: unknown, prepared: Prepared): Problem {
  const frame = frameWithin(error, prepared.pluginInputs);
  const thrownAt = frame === undefined ? '' : ` (at ${frame.file}:${frame.line}:${frame.column})`;
  const reason = error instanceof Error ? error.message : String(error);
  const place = prepared.source.locate(entry.pointer, 'value');
  return problemAt(
    place,
    entry.pointer,
    `plugin "${definition.name}" could not be created: ${reason}${thrownAt}`,
  );
}

function toInstance(created: CreatedInstance, { breakers, stack }: CreateInput): PluginInstance {
  const { definition, hooks, entry, plugin } = created;
  const onError = entry.onError ?? (onlyObserves(created) ? 'skip' : 'fail');
  const settings = breakerSettings(created, onError);
  const breaker = settings && breakers?.create(definition.name, settings);
  if (breaker !== undefined) stack.push(() => breakers?.release(breaker));
  return {
    definition,
    name: definition.name,
    hooks,
    onError,
    timeoutMs: entry.timeoutMs ?? definition.capabilities?.timeoutMs ?? 30_000,
    breaker,
    builtIn: plugin.builtIn,
  };
}

/** The operator's breaker settings, else the author's. */
function breakerSettings(
  { definition, entry }: PreparedPlugin,
  onError: PluginInstance['onError'],
): PluginBreakerSettings | undefined {
  const declared = definition.capabilities?.breaker;
  if (entry.breaker === false || (entry.breaker ?? declared) === undefined) return undefined;
  const own: PluginBreakerInput = entry.breaker === true || entry.breaker === undefined ? {} : entry.breaker;
  const authors = declared === true || declared === undefined ? {} : declared;
  return {
    failureThreshold: own.failure_threshold ?? authors.failureThreshold ?? 5,
    cooldownMs: own.cooldown_interval ?? authors.cooldownMs ?? 30_000,
    whenOpen: own.when_open ?? authors.whenOpen ?? (onError === 'skip' ? 'bypass' : 'refuse'),
  };
}

/** A failure of a plugin that only observes must not fail requests. */
function onlyObserves({ definition, hooks }: CreatedPlugin): boolean {
  const { admit, request, attempt, attempted, response, routes } = hooks;
  if (admit ?? request ?? attempt ?? attempted ?? response ?? routes) return false;
  if (hooks.stream !== undefined && definition.capabilities?.stream !== 'observe') return false;
  return (hooks.stream ?? hooks.settled) !== undefined;
}

/** Dependencies of a `TracerInUse`. */
interface TracerInUseParts {
  create(settings: OtlpSettings): RequestTracer;
  /** Longest time in which a replaced tracer may send its queued spans, in milliseconds. */
  readonly closeMs: number;
}

/**
 * The tracer of the serving configuration. It stays, with its queue and its connection, while its settings stay the same;
 * when they change, a new tracer replaces it, and it sends its queue and ends. A request that settles after a reload is
 * reported to the new one.
 */
export class TracerInUse {
  readonly #parts: TracerInUseParts;
  readonly #closing = new Set<Promise<void>>();
  #settings: OtlpSettings | undefined;
  #tracer: RequestTracer | undefined;

  constructor(parts: TracerInUseParts) {
    this.#parts = parts;
  }

  /** Applies these settings; undefined for no tracer. */
  use(settings: OtlpSettings | undefined): void {
    if (isDeepStrictEqual(settings, this.#settings)) return;
    this.#retire();
    this.#settings = settings;
    this.#tracer = settings && this.#parts.create(settings);
  }

  /** Reports the request to the tracer, if there is one. */
  settled(context: RequestContext, outcome: Outcome, acceptedAt: number): void {
    if (this.#tracer !== undefined) this.#tracer.settled(context, outcome, acceptedAt);
  }

  /** Ends the tracer; resolves when every tracer that was in use has ended. */
  async close(): Promise<void> {
    this.use(undefined);
    await Promise.all(this.#closing);
  }

  #retire(): void {
    const ending = this.#tracer?.close(this.#parts.closeMs);
    if (ending === undefined) return;
    this.#closing.add(ending);
    void ending.finally(() => this.#closing.delete(ending));
  }
}
