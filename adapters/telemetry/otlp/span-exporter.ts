import type { Clock } from '../../../core/ports/clock.ts';
import type { Log } from '../../../core/ports/log.ts';
import type { Counter, Metrics } from '../../../core/ports/metrics.ts';
import type { Delivery } from './collector.ts';
import { SpanQueue } from './span-queue.ts';

/** What an exporter works with. */
export interface SpanExporterParts {
  /** Posts a batch. Must not reject. */
  post(spans: readonly string[]): Promise<Delivery>;
  /** Most spans that wait. */
  readonly queue: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** At least 0 and below 1. */
  readonly random: () => number;
}

/** How long the first span of a batch waits for others. */
const gatherMs = 1000;
const batchSpans = 512;
const batchBytes = 1_048_576;
const firstBackOffMs = 1000;
const longestBackOffMs = 30_000;
/** After this long a batch is given up: the next ones say more. */
const patienceMs = 60_000;

/**
 * Sends spans in batches, one after the other, beside the requests. A full queue drops what comes; what is dropped, given
 * up or refused is counted. A batch that may pass later is sent again after a wait that doubles, with jitter, or as long
 * as the collector asks for.
 */
export class SpanExporter {
  readonly #parts: SpanExporterParts;
  readonly #queue: SpanQueue;
  readonly #count: (result: 'exported' | 'dropped' | 'rejected' | 'failed', spans: number) => void;
  readonly #stopGauge: () => void;
  #cancelGather: (() => void) | undefined;
  #running: Promise<void> | undefined;
  #wake: (() => void) | undefined;
  #closing = false;
  #ended = false;
  /** What was warned of last; a lasting failure is told once. */
  #trouble = '';

  constructor(parts: SpanExporterParts) {
    this.#parts = parts;
    this.#queue = new SpanQueue(parts.queue);
    this.#count = counterOf(parts.metrics);
    const waiting = parts.metrics.gauge({
      name: 'weir_otlp_queue_spans',
      help: 'Spans that wait to be sent to the collector.',
      labels: [],
    })({});
    this.#stopGauge = parts.metrics.onScrape(() => waiting.set(this.#queue.size));
  }

  /** Takes spans, each as JSON, or drops those that find no room. */
  add(spans: readonly string[]): void {
    for (const span of spans) {
      if (this.#closing || !this.#queue.push(span)) this.#count('dropped', 1);
    }
    if (this.#running !== undefined || this.#queue.size === 0) return;
    if (this.#queue.size >= batchSpans) this.#start();
    else this.#cancelGather ??= this.#parts.clock.after(gatherMs, () => this.#start());
  }

  /** Sends what waits, within the deadline, each batch once at the most; counts what is left as failed. */
  async close(deadlineMs: number): Promise<void> {
    this.#closing = true;
    this.#wake?.();
    this.#start();
    let cancel = (): void => undefined;
    const deadline = new Promise<void>((resolve) => {
      cancel = this.#parts.clock.after(deadlineMs, resolve);
    });
    await Promise.race([this.#running, deadline]);
    cancel();
    this.#ended = true;
    this.#wake?.();
    this.#stopGauge();
    this.#give(this.#queue.clear());
  }

  #start(): void {
    this.#cancelGather?.();
    this.#cancelGather = undefined;
    this.#running ??= this.#run().finally(() => (this.#running = undefined));
  }

  async #run(): Promise<void> {
    while (this.#queue.size > 0 && !this.#ended) {
      const batch = this.#queue.take(batchSpans, batchBytes);
      await this.#send(batch);
    }
  }

  async #send(batch: readonly string[]): Promise<void> {
    const { clock } = this.#parts;
    const startedAt = clock.monotonic();
    for (let tries = 0; ; tries++) {
      const delivery = await this.#parts.post(batch);
      if (this.#ended) return this.#give(batch.length);
      if (delivery.kind === 'taken') return this.#taken(batch.length, delivery);
      const waited = clock.monotonic() - startedAt;
      const left = delivery.kind === 'again' && !this.#closing ? patienceMs - waited : 0;
      const wait = delivery.kind === 'again' ? this.#waitOf(delivery.afterMs, tries) : 0;
      if (wait > left || left <= 0) return this.#lost(batch.length, delivery);
      this.#warn(`Spans could not be sent to the collector and are tried again: ${delivery.reason}`);
      await this.#pause(wait);
    }
  }

  /** What the collector asks for, or a wait that doubles; a part of it is left to chance. */
  #waitOf(afterMs: number | undefined, tries: number): number {
    const { random } = this.#parts;
    if (afterMs !== undefined) return afterMs + random() * Math.max(100, afterMs / 10);
    return Math.min(longestBackOffMs, firstBackOffMs * 2 ** tries) * (0.5 + random() / 2);
  }

  #pause(ms: number): Promise<void> {
    if (this.#closing) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = this.#parts.clock.after(ms, () => this.#wake?.());
      this.#wake = () => {
        this.#wake = undefined;
        cancel();
        resolve();
      };
    });
  }

  #taken(spans: number, { rejected, reason }: Extract<Delivery, { kind: 'taken' }>): void {
    const refused = Math.min(spans, rejected);
    if (refused > 0) {
      this.#count('rejected', refused);
      this.#warn(`The collector rejected spans: ${reason || 'it does not say why'}`);
    } else if (this.#trouble !== '') {
      this.#trouble = '';
      this.#parts.log.info('Spans reach the collector again');
    }
    if (spans > refused) this.#count('exported', spans - refused);
  }

  #lost(spans: number, { reason }: Delivery): void {
    this.#count('failed', spans);
    this.#warn(`Spans were given up, the collector did not take them: ${reason}`);
  }

  #give(spans: number): void {
    if (spans > 0) this.#count('failed', spans);
  }

  #warn(message: string): void {
    if (message === this.#trouble) return;
    this.#trouble = message;
    this.#parts.log.warn(message);
  }
}

function counterOf(metrics: Metrics): (result: string, spans: number) => void {
  const spans = metrics.counter({
    name: 'weir_otlp_spans_total',
    help: 'Spans for the collector: exported; dropped because the queue was full; rejected by the collector; failed.',
    labels: ['result'],
  });
  const bound = new Map<string, Counter>();
  for (const result of ['exported', 'dropped', 'rejected', 'failed']) bound.set(result, spans({ result }));
  return (result, count) => bound.get(result)?.inc(count);
}
