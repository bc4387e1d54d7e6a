import type { Clock } from '../../../core/ports/clock.ts';
import type { Log } from '../../../core/ports/log.ts';
import type { Counter, Metrics } from '../../../core/ports/metrics.ts';
import { Agent, request } from 'undici';
import { retryAfterMs } from '../../../core/base/retry-after.ts';
import type { OtlpSettings } from '../../../core/base/trace-context.ts';

/** Result of a batch. */
export type Delivery =
  | { readonly kind: 'taken'; readonly rejected: number; readonly reason: string }
  /** A retry may help; `afterMs` is the collector's requested delay. */
  | { readonly kind: 'again'; readonly reason: string; readonly afterMs: number | undefined }
  | { readonly kind: 'refused'; readonly reason: string };

/** Statuses after which OTLP retries a batch. */
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const maxAnswerBytes = 65_536;

/** Client of the collector: posts batches over a keep-alive connection. */
export class Collector {
  readonly #settings: OtlpSettings;
  readonly #clock: Clock;
  readonly #agent: Agent;
  readonly #head: string;

  constructor(settings: OtlpSettings, clock: Clock, instance: string) {
    this.#settings = settings;
    this.#clock = clock;
    this.#agent = new Agent({ connections: 1, pipelining: 1, keepAliveTimeout: 30_000 });
    const resource = Object.entries({
      ...settings.resource,
      'service.name': settings.service_name,
      'service.instance.id': instance,
    }).map(([key, value]) => ({ key, value: { stringValue: value } }));
    this.#head = `{"resourceSpans":[{"resource":{"attributes":${JSON.stringify(resource)}},"scopeSpans":[{"scope":{"name":"weir"},"spans":[`;
  }

  /** Posts spans, each as JSON. Never rejects. */
  async post(spans: readonly string[]): Promise<Delivery> {
    const { url, headers, timeout_ms: timeoutMs } = this.#settings;
    const controller = new AbortController();
    const cancel = this.#clock.after(timeoutMs, () => controller.abort());
    try {
      const answer = await request(url, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json', accept: 'application/json' },
        body: `${this.#head}${spans.join(',')}]}]}]}`,
        dispatcher: this.#agent,
        signal: controller.signal,
        responseHeaders: 'raw',
        headersTimeout: 0,
        bodyTimeout: 0,
      });
      const text = await readBounded(answer.body);
      return this.#judge(answer.statusCode, answer.headers, text);
    } catch (error) {
      const reason = controller.signal.aborted ? `no answer within ${timeoutMs} ms` : causeOf(error);
      return { kind: 'again', reason, afterMs: undefined };
    } finally {
      cancel();
    }
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  #judge(status: number, headers: unknown, text: string): Delivery {
    if (status >= 200 && status < 300) return { kind: 'taken', ...partialSuccess(text) };
    const reason = `status ${status}`;
    if (!passing.has(status)) return { kind: 'refused', reason };
    const list = Array.isArray(headers) ? headers.map(String) : [];
    return { kind: 'again', reason, afterMs: retryAfterMs(list, this.#clock.now()) };
  }
}

/** The start of an answer's body; the rest is read and dropped, so that its connection stays usable. */
async function readBounded(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size <= maxAnswerBytes) chunks.push(chunk);
    else if (size > maxAnswerBytes * 16) break;
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Number of spans that the collector rejected, and the reason. */
function partialSuccess(text: string): { rejected: number; reason: string } {
  try {
    const answer = JSON.parse(text) as {
      partialSuccess?: { rejectedSpans?: unknown; errorMessage?: unknown };
    } | null;
    const rejected = Number(answer?.partialSuccess?.rejectedSpans ?? 0);
    const reason = answer?.partialSuccess?.errorMessage;
    return {
      rejected: Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0,
      reason: typeof reason === 'string' ? reason.slice(0, 256) : '',
    };
  } catch {
    return { rejected: 0, reason: '' };
  }
}

/** In a few words, without the address: it may not belong in the log. */
function causeOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return code === '' ? 'the connection failed' : `the connection failed (${code})`;
}

const maxBytes = 33_554_432;

/** Pending spans, as JSON: bounded in number, and to 32 MiB. */
class SpanQueue {
  readonly #most: number;
  #spans: string[] = [];
  /** Index of the oldest: removing from the front one by one would move all others. */
  #first = 0;
  #bytes = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#spans.length - this.#first;
  }

  /** False when the queue is full. */
  push(span: string): boolean {
    if (this.size >= this.#most || this.#bytes + span.length > maxBytes) return false;
    this.#spans.push(span);
    this.#bytes += span.length;
    return true;
  }

  /** The oldest ones, up to that many and that many characters together; at least one. */
  take(most: number, mostBytes: number): string[] {
    let bytes = 0;
    let end = this.#first;
    while (end < this.#spans.length && end - this.#first < most) {
      const { length } = this.#spans[end] as string;
      if (end > this.#first && bytes + length > mostBytes) break;
      bytes += length;
      end++;
    }
    const taken = this.#spans.slice(this.#first, end);
    this.#first = end;
    this.#bytes -= bytes;
    if (this.#first * 2 >= this.#spans.length) {
      this.#spans = this.#spans.slice(this.#first);
      this.#first = 0;
    }
    return taken;
  }

  /** Removes all; returns their number. */
  clear(): number {
    const { size } = this;
    this.#spans = [];
    this.#first = this.#bytes = 0;
    return size;
  }
}

/** Dependencies and settings of an exporter. */
interface SpanExporterParts {
  /** Posts a batch. Must not reject. */
  post(spans: readonly string[]): Promise<Delivery>;
  /** Upper bound of pending spans. */
  readonly queue: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** At least 0 and below 1. */
  readonly random: () => number;
}

/** Time that the first span of a batch waits for others. */
const gatherMs = 1000;
const batchSpans = 512;
const batchBytes = 1_048_576;
const firstBackOffMs = 1000;
const longestBackOffMs = 30_000;
/** A batch is dropped after this time: later ones are more useful. */
const patienceMs = 60_000;

/**
 * Sends spans in batches, one at a time, independently of the requests. A full queue drops new spans; dropped,
 * abandoned and rejected ones are counted. A batch that may succeed later is retried after a delay that doubles, with
 * jitter, or after the collector's delay.
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
  /** Cause of the last warning; a persistent failure is logged once. */
  #trouble = '';

  constructor(parts: SpanExporterParts) {
    this.#parts = parts;
    this.#queue = new SpanQueue(parts.queue);
    this.#count = counterOf(parts.metrics);
    const waiting = parts.metrics.gauge({
      name: 'weir_otlp_queue_spans',
      help: 'Spans waiting for export to the collector.',
      labels: [],
    })({});
    this.#stopGauge = parts.metrics.onScrape(() => waiting.set(this.#queue.size));
  }

  /** Queues spans, each as JSON, or drops those without room. */
  add(spans: readonly string[]): void {
    for (const span of spans) {
      if (this.#closing || !this.#queue.push(span)) this.#count('dropped', 1);
    }
    if (this.#running !== undefined || this.#queue.size === 0) return;
    if (this.#queue.size >= batchSpans) this.#start();
    else this.#cancelGather ??= this.#parts.clock.after(gatherMs, () => this.#start());
  }

  /** Sends pending spans, within the deadline, each batch at most once; counts the rest as failed. */
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
    for (let attempts = 0; ; attempts++) {
      const delivery = await this.#parts.post(batch);
      if (this.#ended) return this.#give(batch.length);
      if (delivery.kind === 'taken') return this.#taken(batch.length, delivery);
      const waited = clock.monotonic() - startedAt;
      const left = delivery.kind === 'again' && !this.#closing ? patienceMs - waited : 0;
      const wait = delivery.kind === 'again' ? this.#waitOf(delivery.afterMs, attempts) : 0;
      if (wait > left || left <= 0) return this.#lost(batch.length, delivery);
      this.#warn(`Spans could not be sent to the collector and are tried again: ${delivery.reason}`);
      await this.#pause(wait);
    }
  }

  /** The collector's delay, or one that doubles; part of it is random. */
  #waitOf(afterMs: number | undefined, attempts: number): number {
    const { random } = this.#parts;
    if (afterMs !== undefined) return afterMs + random() * Math.max(100, afterMs / 10);
    return Math.min(longestBackOffMs, firstBackOffMs * 2 ** attempts) * (0.5 + random() / 2);
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
