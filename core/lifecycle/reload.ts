import { isDeepStrictEqual } from 'node:util';
import { formatProblem, type Problem } from '../config/problem.ts';
import type { GatewayConfig } from '../config/schema.ts';
import type { Gauge, Metrics } from '../ports/metrics.ts';
import { startGeneration, type Generation, type StartOptions } from './generation.ts';
import type { ConfigSource } from '../config/config-source.ts';
import { describeThrown } from './plugin-errors.ts';
import type { PluginBundler } from './plugin-bundler.ts';
import { prepareGeneration, type PrepareSources } from './prepare.ts';

/** The configuration as read, or why it cannot be; `files` are those that took part in the attempt. */
type ConfigLoad =
  | {
      readonly ok: true;
      readonly config: GatewayConfig;
      readonly source: ConfigSource;
      readonly warnings: readonly Problem[];
    }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly files: readonly string[] };

/** Options of a `Reloader`. */
interface ReloaderOptions<C> extends StartOptions<C>, PrepareSources {
  readonly bundler: PluginBundler;
  readonly metrics: Metrics;
  /** Reads the configuration again, environment included; with `draft` in the place of its main file. */
  readonly load: (draft?: Uint8Array) => Promise<ConfigLoad>;
  /**
   * Calls `onChange` when one of the files (absolute names and patterns, read again each time) has changed
   * since then (by the clock). Returns the function that stops it.
   */
  readonly watch: (files: () => string[], onChange: () => Promise<void>, since: number) => () => void;
  /** A sentence when a change takes effect only after a restart. */
  readonly restartNeeded: (before: GatewayConfig, after: GatewayConfig) => string | undefined;
  /** Called with each configuration that begins to serve. Must not throw. */
  readonly inUse?: (config: GatewayConfig) => void;
  /** Other processes that serve the same configuration. Default: none. */
  readonly followers?: Followers;
}

/** Processes that serve what this one serves: a change is in force in all of them or in none. */
export interface Followers {
  /** Builds the next generation in every process; resolves with the reasons of those that cannot, empty for none. */
  prepare(source: ConfigSource): Promise<readonly string[]>;
  /** Serves it in every process. */
  commit(): Promise<void>;
  /** Drops it in every process. */
  abandon(): Promise<void>;
}

/** How a reload ended. `stopped`: after `stop`, nothing was done. */
type ReloadOutcome = 'swapped' | 'unchanged' | 'failed' | 'stopped';

/** The last reload that failed, until one succeeds. */
interface ReloadError {
  readonly problems: readonly Problem[];
  /** Wall clock, milliseconds since the epoch. */
  readonly at: number;
}

/** One reload, or the start, that changed something or failed. */
interface ReloadNote {
  readonly outcome: 'started' | 'swapped' | 'failed';
  readonly reason: string;
  /** Wall clock at its end, milliseconds since the epoch. */
  readonly at: number;
  readonly tookMs: number;
  /** Hash of the generation that serves after it. */
  readonly generation: string;
  readonly problems: readonly Problem[];
}

/** Most reloads that are remembered. */
const maxNotes = 20;

/** Problems of a failed attempt, and its files, which are watched although they do not serve. */
interface FailedAttempt {
  readonly problems: readonly Problem[];
  readonly files: readonly string[];
}

/** The next generation, built and not serving; undefined when nothing has changed. */
interface Built<C> {
  readonly source: ConfigSource;
  readonly generation: Generation<C> | undefined;
}

/**
 * Holds the generation that serves, and replaces it: builds the whole next one, starts it, swaps one reference,
 * then retires the old one when its last request has settled. After any failure the old one continues to serve.
 */
export class Reloader<C> {
  readonly #options: ReloaderOptions<C>;
  readonly #retiring = new Set<Generation<C>>();
  readonly #count: (labels: { result: string }) => { inc(): void };
  readonly #lastSuccess: Gauge;
  #current: Generation<C> | undefined;
  #startedWith: GatewayConfig | undefined;
  #next: Built<C> | undefined;
  #canary: Generation<C> | undefined;
  #sourceFiles: readonly string[] = [];
  #failedFiles: readonly string[] = [];
  #lastError: ReloadError | undefined;
  readonly #history: ReloadNote[] = [];
  #restartNeeded: string | undefined;
  #waiting: Promise<ReloadOutcome> | undefined;
  #tail: Promise<unknown> = Promise.resolve();
  #stopWatching: (() => void) | undefined;
  #stopped = false;

  constructor(options: ReloaderOptions<C>) {
    this.#options = options;
    const { metrics } = options;
    const labels = ['result'] as const;
    const help = 'Reloads of the configuration by result: success, unchanged, failure.';
    this.#count = metrics.counter({ name: 'weir_config_reloads_total', help, labels });
    const gauge = {
      name: 'weir_config_last_reload_success',
      help: '1 when the last reload succeeded.',
      labels: [],
      over: 'min' as const,
    };
    this.#lastSuccess = metrics.gauge(gauge)({});
  }

  /** The serving generation. Read it again for each request. Throws before `start` has succeeded. */
  get current(): Generation<C> {
    if (this.#current === undefined) throw new Error('there is no generation yet; call start() first');
    return this.#current;
  }

  /** Why the configuration on disk is not the one that serves, or undefined when it is. */
  get lastError(): ReloadError | undefined {
    return this.#lastError;
  }

  /** The start and the reloads that changed something or failed, newest first, 20 at the most. */
  get history(): readonly ReloadNote[] {
    return this.#history;
  }

  /** Changes since `start` that need a restart, in one sentence; undefined for none. */
  get restartNeeded(): string | undefined {
    return this.#restartNeeded;
  }

  /** Generations that still finish requests. */
  get retiring(): number {
    return this.#retiring.size;
  }

  /** Builds the first generation and begins to watch. On failure nothing runs, and the problems say why. */
  async start(): Promise<{ ok: true } | { ok: false; problems: readonly Problem[] }> {
    const since = this.#options.clock.now();
    const begun = this.#options.clock.monotonic();
    const first = await this.#attempt(() => this.#change('start'));
    if (typeof first !== 'string') return { ok: false, problems: first.problems };
    this.#startedWith = this.current.config;
    this.#note('started', 'the start', begun);
    this.#lastSuccess.set(1);
    this.#stopWatching = this.#options.watch(
      () => this.watchedFiles(),
      async () => void (await this.reload('a file has changed')),
      since,
    );
    return { ok: true };
  }

  /**
   * Reads everything again. Reloads run one at a time; while one runs, all further calls share the one that follows
   * it, which sees the latest state. Never rejects.
   */
  reload(reason: string): Promise<ReloadOutcome> {
    if (this.#waiting !== undefined) return this.#waiting;
    const turn = this.#tail.then(() => {
      this.#waiting = undefined;
      return this.#reload(reason);
    });
    this.#waiting = turn;
    this.#tail = turn;
    return turn;
  }

  /**
   * First half of a change that another process leads: builds the next generation, which does not serve yet. Resolves
   * with the reasons why it cannot; empty when `commit` may follow.
   */
  async prepare(): Promise<readonly Problem[]> {
    await this.abandon();
    const built = await this.#attempt(() => this.#buildNext());
    if ('problems' in built) return built.problems;
    this.#next = built;
    return [];
  }

  /** Second half: serves what `prepare` has built. */
  commit(reason: string): void {
    const next = this.#next;
    this.#next = undefined;
    if (next !== undefined) this.#serve(next, reason);
  }

  /** Drops what `prepare` has built. */
  async abandon(): Promise<void> {
    const next = this.#next;
    this.#next = undefined;
    await next?.generation?.retire();
  }

  /**
   * Builds a second generation, which serves only what somebody gives it, beside the one that serves. It lasts until
   * `endCanary`, or until the next one is built. Resolves with the reasons why it cannot.
   */
  async buildCanary(
    load: () => Promise<ConfigLoad>,
  ): Promise<{ readonly generation: Generation<C>; readonly source: ConfigSource } | FailedAttempt> {
    this.endCanary();
    const built = await this.#attempt(() => this.#build(load, true));
    if ('problems' in built) return built;
    const { generation, source } = built;
    if (generation === undefined)
      return { problems: [this.#problem('it says what serves already')], files: source.files };
    this.#canary = generation;
    return { generation, source };
  }

  /** Takes the second generation out of service; requests that it has begun end on it. */
  endCanary(): void {
    const canary = this.#canary;
    this.#canary = undefined;
    if (canary !== undefined) this.#retire(canary);
  }

  /** Names and patterns of files whose change causes a reload: of configuration, serving plugins and a failed attempt. */
  watchedFiles(): string[] {
    return [...new Set([...this.#sourceFiles, ...(this.#current?.pluginInputs ?? []), ...this.#failedFiles])];
  }

  /** Stops watching, retires the serving generation, and resolves when every generation is disposed. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#stopWatching?.();
    await this.#tail;
    await this.abandon();
    this.endCanary();
    if (this.#current !== undefined) this.#retire(this.#current);
    await Promise.all([...this.#retiring].map((generation) => generation.retire()));
  }

  async #reload(reason: string): Promise<ReloadOutcome> {
    if (this.#stopped) return 'stopped';
    const begun = this.#options.clock.monotonic();
    const result = await this.#attempt(() => this.#change(reason));
    if (typeof result !== 'string') {
      this.#note('failed', reason, begun, result.problems);
      return this.#fail(reason, result);
    }
    if (result === 'swapped') this.#note('swapped', reason, begun);
    this.#failedFiles = [];
    this.#lastError = undefined;
    this.#lastSuccess.set(1);
    this.#count({ result: result === 'swapped' ? 'success' : 'unchanged' }).inc();
    return result;
  }

  async #attempt<R>(work: () => Promise<R | FailedAttempt>): Promise<R | FailedAttempt> {
    try {
      return await work();
    } catch (error) {
      const { log } = this.#options;
      log.error('building a generation failed unexpectedly', { error: describeThrown(error) });
      const message = `an unexpected error: ${String(error)}`;
      return { problems: [this.#problem(message)], files: this.#failedFiles };
    }
  }

  /** A problem of the configuration as a whole. */
  #problem(message: string): Problem {
    return { file: this.#sourceFiles[0] ?? '', line: 0, column: 0, path: '', message };
  }

  async #change(reason: string): Promise<'swapped' | 'unchanged' | FailedAttempt> {
    const built = await this.#buildNext();
    if ('problems' in built) return built;
    const { followers } = this.#options;
    if (built.generation === undefined) {
      this.#sourceFiles = built.source.files;
      return 'unchanged';
    }
    const refusals = (await followers?.prepare(built.source)) ?? [];
    if (refusals.length > 0) {
      await followers?.abandon();
      await built.generation.retire();
      return { problems: refusals.map((message) => this.#problem(message)), files: built.source.files };
    }
    this.#serve(built, reason);
    await followers?.commit();
    return 'swapped';
  }

  #buildNext(): Promise<Built<C> | FailedAttempt> {
    return this.#build(() => this.#options.load());
  }

  async #build(load: () => Promise<ConfigLoad>, isCanary = false): Promise<Built<C> | FailedAttempt> {
    const { builtIns, bundler, providerNames, providerRows, clock } = this.#options;
    const loaded = await load();
    if (!loaded.ok) return loaded;
    const { config, source } = loaded;
    const result = await prepareGeneration({
      config,
      source,
      builtIns,
      bundler,
      providerNames,
      clock,
      ...(providerRows !== undefined && { providerRows }),
    });
    if (!result.ok) return { problems: result.problems, files: [...source.files, ...result.pluginInputs] };
    const { prepared } = result;
    this.#warn([...loaded.warnings, ...prepared.warnings]);
    const current = this.#current;
    // The hash knows no secrets; a changed variable shows only in the resolved values, which stay in memory.
    if (current?.hash === prepared.hash && isDeepStrictEqual(current.config, config))
      return { source, generation: undefined };
    const started = await startGeneration(prepared, this.#options, isCanary);
    if (!started.ok) return { problems: started.problems, files: [...source.files, ...started.pluginInputs] };
    return { source, generation: started.generation };
  }

  #serve({ source, generation }: Built<C>, reason: string): void {
    this.#sourceFiles = source.files;
    if (generation !== undefined) this.#swap(generation, reason);
  }

  #swap(next: Generation<C>, reason: string): void {
    const { log, bundler, restartNeeded } = this.#options;
    const previous = this.#current;
    this.#current = next;
    this.#options.inUse?.(next.config);
    if (previous !== undefined) {
      log.info(`configuration reloaded: ${reason}`, {
        generation: next.hash,
        previous: previous.hash,
      });
      this.#retire(previous);
    }
    this.#restartNeeded = this.#startedWith && restartNeeded(this.#startedWith, next.config);
    if (this.#restartNeeded !== undefined) log.warn(this.#restartNeeded);
    const canary = this.#canary === undefined ? [] : [this.#canary];
    const inUse = [next, ...canary, ...this.#retiring].flatMap((generation) => [...generation.codeHashes]);
    void bundler.prune(new Set(inUse));
  }

  #retire(generation: Generation<C>): void {
    this.#retiring.add(generation);
    void generation.retire().finally(() => this.#retiring.delete(generation));
  }

  #note(
    outcome: ReloadNote['outcome'],
    reason: string,
    begun: number,
    problems: readonly Problem[] = [],
  ): void {
    const { clock } = this.#options;
    const tookMs = clock.monotonic() - begun;
    this.#history.unshift({
      ...{ outcome, reason, tookMs, problems },
      at: clock.now(),
      generation: this.current.hash,
    });
    this.#history.length = Math.min(this.#history.length, maxNotes);
  }

  #fail(reason: string, { problems, files }: FailedAttempt): ReloadOutcome {
    const { log, clock } = this.#options;
    for (const problem of problems) log.error(formatProblem(problem));
    const message = `configuration not reloaded (${reason}); generation ${this.current.hash} keeps serving`;
    log.error(message, { problems: problems.length });
    this.#failedFiles = files;
    this.#lastError = { problems, at: clock.now() };
    this.#lastSuccess.set(0);
    this.#count({ result: 'failure' }).inc();
    return 'failed';
  }

  #warn(warnings: readonly Problem[]): void {
    const { log } = this.#options;
    for (const warning of warnings) {
      if (warning.severity === 'note') log.info(formatProblem(warning));
      else log.warn(formatProblem(warning));
    }
  }
}
