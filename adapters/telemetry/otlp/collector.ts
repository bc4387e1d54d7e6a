import { Agent, request } from 'undici';
import { retryAfterMs } from '../../../core/base/retry-after.ts';
import type { Clock } from '../../../core/ports/clock.ts';
import type { OtlpSettings } from '../../../core/base/trace-context.ts';

/** What became of a batch. */
export type Delivery =
  | { readonly kind: 'taken'; readonly rejected: number; readonly reason: string }
  /** Another try may help; `afterMs` is what the collector asks to wait. */
  | { readonly kind: 'again'; readonly reason: string; readonly afterMs: number | undefined }
  | { readonly kind: 'refused'; readonly reason: string };

/** Statuses after which OTLP has a batch sent again. */
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const maxAnswerBytes = 65_536;

/** The collector's side of the wire: posts batches on a connection that is kept. */
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
      const text = await bounded(answer.body);
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

/** The beginning of an answer's body; the rest is read and dropped, so that its connection stays usable. */
async function bounded(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size <= maxAnswerBytes) chunks.push(chunk);
    else if (size > maxAnswerBytes * 16) break;
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** How many spans of a batch the collector took for unusable, and why. */
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

/** In a few words, without the address: that may be none of the log's business. */
function causeOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return code === '' ? 'the connection failed' : `the connection failed (${code})`;
}
