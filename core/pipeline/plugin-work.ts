import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { Counter, Histogram, Metrics } from '../ports/metrics.ts';

/** A call of a third-party plugin that blocked the event loop. */
interface LoopBlock {
  readonly plugin: string;
  readonly hook: string;
  /** Milliseconds without a turn of the event loop. */
  readonly ms: number;
  /** Wall clock, milliseconds since the epoch. */
  readonly at: number;
}

/** Options of `PluginWork`. */
interface PluginWorkOptions {
  readonly metrics: Metrics;
  readonly log: Log;
  readonly clock: Clock;
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
  readonly #options: PluginWorkOptions;
  readonly #seconds: (labels: { plugin: string; hook: string }) => Histogram;
  readonly #loopSeconds: (labels: { plugin: string; hook: string }) => Counter;
  readonly #blockCount: (labels: { plugin: string; hook: string }) => Counter;
  readonly #series = new Map<string, Map<string, HookSeries>>();
  readonly #blocks: LoopBlock[] = [];
  #count = 0;

  constructor(options: PluginWorkOptions) {
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
