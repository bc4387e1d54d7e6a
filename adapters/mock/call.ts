import { Readable } from 'node:stream';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { UpstreamCall, UpstreamHandler, UpstreamRequest } from '../../core/ports/transport.ts';
import { bodyFromBytes, bodyFromStream, type ReceivedBody } from './body.ts';
import type { Faults } from './fault-words.ts';
import { wireAnswer } from './pieces.ts';
import type { MockService } from './service.ts';

const notStale = { stale: false };

/** One request on its way through the mock provider: reads the body, plays the answer in time, ends exactly once. */
export class MockCall implements UpstreamCall {
  readonly #request: UpstreamRequest;
  readonly #handler: UpstreamHandler;
  readonly #clock: Clock;
  #over = false;
  #resumed = false;
  #wake: (() => void) | undefined;
  #cancelTimer: (() => void) | undefined;
  readonly #onOver: () => void;

  /** `onOver` runs when the call has ended in whatever way. */
  constructor(request: UpstreamRequest, handler: UpstreamHandler, clock: Clock, onOver: () => void) {
    this.#request = request;
    this.#handler = handler;
    this.#clock = clock;
    this.#onOver = onOver;
  }

  /** Serves the request; the handler hears nothing before the current turn has ended. */
  async run(service: MockService): Promise<void> {
    await Promise.resolve();
    try {
      await this.#play(service);
    } catch (cause) {
      this.abort(
        GatewayError.is(cause)
          ? cause
          : new GatewayError('internal', 'The mock provider failed while it answered.', { cause }),
      );
    }
  }

  resume(): void {
    this.#resumed = true;
    this.#wake?.();
  }

  abort(error: GatewayError): void {
    if (this.#over) return;
    this.#finish();
    this.#handler.fail(error, notStale);
  }

  async #play(service: MockService): Promise<void> {
    const { origin, method, path: target, headers } = this.#request;
    const body = await this.#body();
    if (this.#over) return;
    const { answer, faults } = service.serve({ origin, method, target, headers, body });
    await this.#beforeHead(faults);
    if (this.#over) return;
    const wire = wireAnswer(answer, faults);
    this.#handler.head(wire.status, wire.headers);
    if (method !== 'HEAD') await this.#bodyOf(wire.pieces, faults);
    if (this.#over) return;
    if (faults.content_length_mismatch === true && answer.kind === 'plain' && method !== 'HEAD') {
      await this.#turn();
      throw reset('before the promised length', 'content_length_mismatch');
    }
    this.#finish();
    this.#handler.end();
  }

  async #body(): Promise<ReceivedBody> {
    const { body } = this.#request;
    if (!(body instanceof Readable)) return bodyFromBytes(body ?? new Uint8Array());
    try {
      return await bodyFromStream(body);
    } catch (cause) {
      throw new GatewayError('client_closed', 'The request body ended before it was complete.', { cause });
    }
  }

  async #beforeHead(faults: Faults): Promise<void> {
    const bound = this.#request.headTimeoutMs;
    if (faults.latency_ms !== undefined) await this.#pass(faults.latency_ms, bound, 'head');
    if (this.#over) return;
    if (faults.stall_before_head === true) await this.#pass(Infinity, bound, 'head');
    if (faults.reset_before_head === true && !this.#over) {
      await this.#turn();
      throw reset('before its head', 'reset_before_head');
    }
  }

  async #bodyOf(pieces: Iterable<Buffer> | AsyncIterable<Buffer>, faults: Faults): Promise<void> {
    const bound = this.#request.idleTimeoutMs;
    let index = 0;
    for await (const piece of pieces) {
      if (this.#over) return;
      if (index > 0 || faults.reset_after_chunks === 0) await this.#turn();
      if (index === faults.reset_after_chunks) throw reset('in mid-answer', 'reset_after_chunks');
      if (index === faults.stall_after_chunks) await this.#pass(Infinity, bound, 'idle');
      if (index > 0 && faults.chunk_latency_ms !== undefined && !this.#over) {
        await this.#pass(faults.chunk_latency_ms, bound, 'idle');
      }
      if (this.#over) return;
      await this.#give(piece);
      index += 1;
    }
  }

  /** Hands a piece over and, when there is no room for more, waits for `resume`. */
  async #give(piece: Buffer): Promise<void> {
    this.#resumed = false;
    if (this.#handler.data(piece) || this.#over) return;
    while (!this.#resumed && !this.#over) await this.#sleep();
  }

  /** Lets time pass. When the caller's bound is shorter, only the bound passes, and the call fails. */
  async #pass(ms: number, boundMs: number, phase: 'head' | 'idle'): Promise<void> {
    const bounded = boundMs > 0 && boundMs < ms;
    const wait = bounded ? boundMs : ms;
    let elapsed = false;
    if (wait !== Infinity) {
      this.#cancelTimer = this.#clock.after(wait, () => {
        elapsed = true;
        this.#wake?.();
      });
    }
    while (!elapsed && !this.#over) await this.#sleep();
    this.#cancelTimer = undefined;
    if (!bounded || this.#over) return;
    throw timedOut(phase, boundMs);
  }

  #sleep(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  /** A turn of the event loop: chunks arrive one by one, and what was written is on its way before a reset. */
  #turn(): Promise<void> {
    return new Promise((resolve) => {
      setImmediate(resolve);
    });
  }

  #finish(): void {
    this.#over = true;
    this.#cancelTimer?.();
    this.#wake?.();
    const { body } = this.#request;
    if (body instanceof Readable && !body.destroyed) body.destroy();
    this.#onOver();
  }
}

/** The caller's bound passed before a head came. */
export function headTimedOut(boundMs: number): GatewayError {
  return timedOut('head', boundMs);
}

function timedOut(phase: 'head' | 'idle', boundMs: number): GatewayError {
  const what = phase === 'head' ? 'sent no head' : 'sent nothing';
  return new GatewayError(
    'upstream_timeout',
    `The mock provider ${what} for ${boundMs} ms; ask it for less delay or raise the ${phase} timeout.`,
  );
}

/** A connection that the mock provider cuts, because a fault asks for it. */
export function reset(when: string, word: string): GatewayError {
  return new GatewayError(
    'upstream_reset',
    `The mock provider cut the connection ${when}, as \`${word}\` asks.`,
  );
}
