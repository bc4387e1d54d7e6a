import { Breaker, type BreakerAttempt, type BreakerCounts, type BreakerTurn } from '../base/breaker.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { Counter, Gauge, Histogram, Metrics } from '../ports/metrics.ts';

/** When the breaker of a plugin opens, for how long, and how requests are served meanwhile. */
export interface PluginBreakerSettings {
  /** Failures of one of its hooks within a minute. */
  readonly failureThreshold: number;
  /** Milliseconds until one call may try again. */
  readonly cooldownMs: number;
  /** `bypass`: requests go on without the plugin. `refuse`: they are refused. */
  readonly whenOpen: 'bypass' | 'refuse';
}

/** Where a call of a hook stands: a tap is begun once and called midway, when it is too late to bypass it. */
export type CallPart = 'whole' | 'begin' | 'midway';

/** How a call came out. */
type CallOutcome = 'ended' | 'failed' | 'unknown';

/** Failures count for this long, in milliseconds. */
const countedMs = 60_000;

/** The failures of one hook in this process: the times of as many as open the breaker. */
class OwnCounts implements BreakerCounts {
  readonly #monotonic: () => number;
  readonly #most: number;
  #times: number[] = [];

  constructor(most: number, monotonic: () => number) {
    this.#most = most;
    this.#monotonic = monotonic;
  }

  countRequest(): void {
    // Only the number of failures counts.
  }

  countFailure(_withRequest: boolean, heard: (failures: number, requests: number) => void): void {
    const now = this.#monotonic();
    this.#times.push(now);
    if (this.#times.length > this.#most) this.#times.shift();
    const counted = this.#times.filter((time) => now - time < countedMs).length;
    heard(counted, counted);
  }

  clear(): void {
    this.#times = [];
  }

  open(): void {
    this.#times = [];
  }

  look(_cooldownMs: number, heard: (ms: number | undefined) => void): void {
    heard(undefined);
  }
}

/** Receives events of the breakers of a process. */
interface BreakerListener {
  turned(plugin: string, hook: string, turn: BreakerTurn, why: string): void;
  passedOver(plugin: string, hook: string): void;
}

/** The breaker of one hook of one plugin. */
class HookBreaker extends Breaker<CallOutcome> {
  protected readonly rules: {
    readonly failureThreshold: number;
    readonly cooldownMs: number;
    readonly failureThresholdPercentage: undefined;
    readonly minimumRequests: number;
  };
  readonly #turned: (turn: BreakerTurn, why: string) => void;

  constructor(
    { failureThreshold, cooldownMs }: PluginBreakerSettings,
    monotonic: () => number,
    turned: (turn: BreakerTurn, why: string) => void,
  ) {
    super(new OwnCounts(failureThreshold, monotonic), monotonic);
    this.rules = { failureThreshold, cooldownMs, failureThresholdPercentage: undefined, minimumRequests: 0 };
    this.#turned = turned;
  }

  protected judge(outcome: CallOutcome): { readonly failed: boolean; readonly how: string } | undefined {
    if (outcome === 'unknown') return undefined;
    const failed = outcome === 'failed';
    return { failed, how: failed ? 'failed again' : 'came out well' };
  }

  protected turned(turn: BreakerTurn, why: string): void {
    this.#turned(turn, why);
  }
}

/**
 * The breakers of one plugin instance, one for each of its hooks. Failures are those that `on_error` handles: exceptions
 * and timeouts. A refusal is not a failure.
 */
export class PluginBreaker {
  readonly plugin: string;
  readonly settings: PluginBreakerSettings;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #listener: BreakerListener;
  readonly #hooks = new Map<string, HookBreaker>();

  constructor(
    plugin: string,
    settings: PluginBreakerSettings,
    clock: Pick<Clock, 'monotonic'>,
    listener: BreakerListener,
  ) {
    this.plugin = plugin;
    this.settings = settings;
    this.#clock = clock;
    this.#listener = listener;
  }

  /** Begins a call; undefined when it must not be made. Every returned call has to be ended. */
  begin(hook: string, part: CallPart): BreakerAttempt<CallOutcome> | undefined {
    const breaker = this.#hooks.get(hook) ?? this.#add(hook);
    const now = this.#clock.monotonic();
    if (part !== 'midway' && breaker.isOpen(now)) {
      this.#listener.passedOver(this.plugin, hook);
      return undefined;
    }
    return breaker.begin(now);
  }

  /** Seconds until the hook may be tried again, at least 1. */
  retryAfter(hook: string): number {
    const ms = this.#hooks.get(hook)?.waitMs(this.#clock.monotonic()) ?? 0;
    return Math.max(1, Math.ceil(ms / 1000));
  }

  /** Its hooks that have failed or run, and the state of their breakers. */
  states(): { readonly hook: string; readonly state: BreakerTurn }[] {
    const now = this.#clock.monotonic();
    return [...this.#hooks].map(([hook, breaker]) => {
      if (!breaker.isTripped) return { hook, state: 'closed' };
      return { hook, state: breaker.waitMs(now) > 0 ? 'open' : 'half-open' };
    });
  }

  #add(hook: string): HookBreaker {
    const breaker = new HookBreaker(
      this.settings,
      () => this.#clock.monotonic(),
      (turn, why) => this.#listener.turned(this.plugin, hook, turn, why),
    );
    this.#hooks.set(hook, breaker);
    return breaker;
  }
}

/** Options of `PluginBreakers`. */
interface PluginBreakersOptions {
  readonly clock: Clock;
  /** Logs when a breaker opens (warn), lets one call try and closes (info). */
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Entry of `/status` for a breaker that is not closed. */
interface TrippedBreaker {
  readonly plugin: string;
  readonly hook: string;
  readonly state: BreakerTurn;
  readonly when_open: PluginBreakerSettings['whenOpen'];
}

/** The breakers of all serving plugins. Each belongs to one plugin of one generation: a reload makes new ones. */
export class PluginBreakers {
  readonly #options: PluginBreakersOptions;
  readonly #known = new Set<PluginBreaker>();
  readonly #turns: (labels: { plugin: string; hook: string; to: string }) => Counter;
  readonly #passedOver: (labels: { plugin: string; hook: string }) => Counter;
  readonly #open: (labels: { plugin: string; hook: string }) => Gauge;
  /** Series that were set before: those of removed hooks and closed breakers must not stay at 1. */
  readonly #shown = new Map<string, Gauge>();

  constructor(options: PluginBreakersOptions) {
    this.#options = options;
    const { metrics } = options;
    this.#turns = metrics.counter({
      name: 'weir_plugin_breaker_turns_total',
      help: 'State changes of the breakers of plugins: opened, half-open with a trial call, closed again.',
      labels: ['plugin', 'hook', 'to'],
    });
    this.#passedOver = metrics.counter({
      name: 'weir_plugin_breaker_passed_total',
      help: 'Calls of plugins skipped because a breaker was open.',
      labels: ['plugin', 'hook'],
    });
    this.#open = metrics.gauge({
      name: 'weir_plugin_breaker_open',
      help: '1 while the breaker of a hook of a plugin is open or half-open.',
      over: 'max',
      labels: ['plugin', 'hook'],
    });
    metrics.onScrape(() => this.#show());
  }

  /** Those that are not closed. */
  get tripped(): readonly TrippedBreaker[] {
    return [...this.#known].flatMap((breaker) =>
      breaker
        .states()
        .filter(({ state }) => state !== 'closed')
        .map((one) => ({ plugin: breaker.plugin, ...one, when_open: breaker.settings.whenOpen })),
    );
  }

  /** The breaker of one plugin instance; `release` it with the instance. */
  create(plugin: string, settings: PluginBreakerSettings): PluginBreaker {
    const { clock, log } = this.#options;
    const breaker = new PluginBreaker(plugin, settings, clock, {
      turned: (name, hook, turn, why) => {
        this.#turns({ plugin: name, hook, to: turn }).inc();
        const fields = { plugin: name, hook, when_open: settings.whenOpen };
        const message = `breaker of plugin "${name}" is ${turn}: ${why}`;
        if (turn === 'open') log.warn(message, fields);
        else log.info(message, fields);
      },
      passedOver: (name, hook) => this.#passedOver({ plugin: name, hook }).inc(),
    });
    this.#known.add(breaker);
    return breaker;
  }

  /** The instance is gone. */
  release(breaker: PluginBreaker): void {
    this.#known.delete(breaker);
  }

  #show(): void {
    for (const gauge of this.#shown.values()) gauge.set(0);
    for (const { plugin, hook } of this.tripped) {
      const key = `${plugin}\0${hook}`;
      let gauge = this.#shown.get(key);
      if (gauge === undefined) this.#shown.set(key, (gauge = this.#open({ plugin, hook })));
      gauge.set(1);
    }
  }
}

/** A call of a third-party plugin that blocked the event loop. */
interface LoopBlock {
  readonly plugin: string;
  readonly hook: string;
  /** Milliseconds without a turn of the event loop. */
  readonly ms: number;
  /** Wall clock, milliseconds since the epoch. */
  readonly at: number;
}

/** The series of one hook of one plugin. */
interface HookSeries {
  readonly seconds: Histogram;
  readonly loopSeconds: Counter;
  readonly blocks: Counter;
  /** On the monotonic clock: until then, blocks are counted and not logged. */
  quietUntil: number;
  /** Blocks that were not logged since the last one that was. */
  unlogged: number;
}

/** A call that holds the event loop for longer, in milliseconds, is named. */
const blockedMs = 200;
/** One line per plugin and hook within this time, in milliseconds. */
const logEveryMs = 10_000;
/** Blocks that are remembered. */
const maxBlocks = 20;
/** Most pairs of plugin and hook with series of their own. */
const maxSeries = 1000;
const buckets = [0.00001, 0.0001, 0.001, 0.005, 0.025, 0.1, 0.25, 1, 5, 30];

/**
 * Measures the hooks of third-party plugins: the time until each has ended, the time for which it holds the event loop,
 * and the calls that hold it for too long. The gateway's own plugins are not measured, which saves the cost.
 */
export class PluginWork {
  readonly #options: PluginBreakersOptions;
  readonly #seconds: (labels: { plugin: string; hook: string }) => Histogram;
  readonly #loopSeconds: (labels: { plugin: string; hook: string }) => Counter;
  readonly #blockCount: (labels: { plugin: string; hook: string }) => Counter;
  readonly #series = new Map<string, Map<string, HookSeries>>();
  readonly #blocks: LoopBlock[] = [];
  #count = 0;

  constructor(options: PluginBreakersOptions) {
    this.#options = options;
    const { metrics } = options;
    const labels = ['plugin', 'hook'] as const;
    this.#seconds = metrics.histogram({
      name: 'weir_plugin_hook_seconds',
      help: 'Duration of hooks of third-party plugins, including waiting.',
      labels,
      buckets,
    });
    this.#loopSeconds = metrics.counter({
      name: 'weir_plugin_loop_seconds_total',
      help: 'Time for which hooks of third-party plugins block the event loop, until they return or first wait.',
      labels,
    });
    this.#blockCount = metrics.counter({
      name: 'weir_plugin_loop_blocks_total',
      help: `Calls of third-party plugins that blocked the event loop for more than ${blockedMs} ms.`,
      labels,
    });
  }

  /** The latest calls that held the event loop for more than 200 ms, newest first, 20 at the most. */
  get blocks(): readonly LoopBlock[] {
    return this.#blocks;
  }

  /** A call has returned: it held the event loop to its end. */
  returned(plugin: string, hook: string, ms: number): void {
    const series = this.#of(plugin, hook);
    if (series === undefined) return;
    series.seconds.observe(ms / 1000);
    this.#held(plugin, hook, ms, series);
  }

  /** A call begins to wait: it held the event loop until now, and `ended` follows. */
  waits(plugin: string, hook: string, ms: number): void {
    const series = this.#of(plugin, hook);
    if (series !== undefined) this.#held(plugin, hook, ms, series);
  }

  /** A call that waited has ended or timed out: its total time. */
  ended(plugin: string, hook: string, ms: number): void {
    this.#of(plugin, hook)?.seconds.observe(ms / 1000);
  }

  #held(plugin: string, hook: string, ms: number, series: HookSeries): void {
    series.loopSeconds.inc(ms / 1000);
    if (ms > blockedMs) this.#blocked({ plugin, hook, ms: Math.round(ms) }, series);
  }

  #blocked(call: Omit<LoopBlock, 'at'>, series: HookSeries): void {
    const { log, clock } = this.#options;
    series.blocks.inc();
    this.#blocks.unshift({ ...call, at: clock.now() });
    if (this.#blocks.length > maxBlocks) this.#blocks.pop();
    const now = clock.monotonic();
    if (now < series.quietUntil) {
      series.unlogged += 1;
      return;
    }
    log.warn('A plugin held the event loop', { ...call, unlogged: series.unlogged });
    series.unlogged = 0;
    series.quietUntil = now + logEveryMs;
  }

  #of(plugin: string, hook: string): HookSeries | undefined {
    let hooks = this.#series.get(plugin);
    const known = hooks?.get(hook);
    if (known !== undefined) return known;
    if (this.#count >= maxSeries) return undefined;
    if (hooks === undefined) this.#series.set(plugin, (hooks = new Map<string, HookSeries>()));
    const labels = { plugin, hook };
    const series = {
      seconds: this.#seconds(labels),
      loopSeconds: this.#loopSeconds(labels),
      blocks: this.#blockCount(labels),
      quietUntil: 0,
      unlogged: 0,
    };
    hooks.set(hook, series);
    this.#count += 1;
    return series;
  }
}
