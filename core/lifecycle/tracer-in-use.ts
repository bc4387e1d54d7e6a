import { isDeepStrictEqual } from 'node:util';
import type { Outcome, RequestContext, RequestTracer } from '../pipeline/context.ts';
import type { OtlpSettings } from '../base/trace-context.ts';

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
