import type { Problem } from '../config/problem.ts';
import type { ConfigSource } from '../config/config-source.ts';
import type { GatewayConfig } from '../config/schema.ts';
import type { PluginInstance } from '../pipeline/plugin-instance.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import { createInstances, type CreatedPipeline } from './create-instances.ts';
import { problemAt } from './problem-at.ts';
import { describeThrown } from './plugin-errors.ts';
import { prepareGeneration, type Prepared, type PrepareInput } from './prepare.ts';
import type { Services } from './scope.ts';
import { UndoStack } from './undo-stack.ts';

/** One configuration at work: what it compiled to, its plugin instances, and how many requests still use it. */
export interface Generation<C> {
  /** 12 hexadecimal digits over the configuration's text and the plugins' code. */
  readonly hash: string;
  readonly config: GatewayConfig;
  /** Where `config` was read from. */
  readonly source: ConfigSource;
  /** What `compile` made of the pipelines. */
  readonly compiled: C;
  /** All of them, in the order in which they were created. */
  readonly instances: readonly PluginInstance[];
  /** Source files of its third-party plugins, absolute: what to watch. */
  readonly pluginInputs: readonly string[];
  /** Hashes of the plugin bundles that it runs. */
  readonly codeHashes: ReadonlySet<string>;
  /** Requests that use it now. */
  readonly active: number;
  /** Takes it for one request. Throws once it has been disposed. */
  acquire(): void;
  /** Gives it back, exactly once per `acquire` and after the request's last hook. Throws when called too often. */
  release(): void;
  /** Tells its plugins, once, that no new request will come. */
  retiring(): void;
  /** Takes no new requests by agreement; resolves when the last one has released and everything is disposed. */
  retire(): Promise<void>;
}

/** What starting a generation needs. */
export interface StartOptions<C> {
  readonly log: Log;
  readonly clock: Clock;
  /** What plugins of this configuration may use. */
  readonly services: (config: GatewayConfig, source: ConfigSource) => Services;
  /** Lays out the pipelines, in file order; throwing keeps the generation from starting. */
  readonly compile: (pipelines: readonly CreatedPipeline[]) => C;
  /** Longest time for one plugin's `create`, in milliseconds. Default 10000. */
  readonly createTimeoutMs?: number;
}

/** A generation, or why there is none; `pluginInputs` are to be watched in either case. */
export type BuildResult<C> =
  | { readonly ok: true; readonly generation: Generation<C> }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly pluginInputs: readonly string[] };

/** Builds the whole next generation: `prepareGeneration`, then `startGeneration`. Nothing is left behind on failure. */
export async function buildGeneration<C>(input: PrepareInput & StartOptions<C>): Promise<BuildResult<C>> {
  const result = await prepareGeneration(input);
  return result.ok ? startGeneration(result.prepared, input) : result;
}

/**
 * Creates the plugins of a prepared generation and compiles its pipelines. On any failure everything created so
 * far is disposed, last first, before this resolves.
 */
export async function startGeneration<C>(
  prepared: Prepared,
  options: StartOptions<C>,
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
    const services = options.services(prepared.config, prepared.source);
    const created = await createInstances({ prepared, services, stack, createTimeoutMs });
    if (!created.ok) return await refuse(created.problems);
    const compiled = options.compile(created.pipelines);
    const instances = created.pipelines.flatMap((pipeline) => pipeline.instances);
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
