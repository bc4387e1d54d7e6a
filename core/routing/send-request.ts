import type { Answer } from '../pipeline/answer.ts';
import { clientLeft } from '../pipeline/client-left.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { Clock } from '../ports/clock.ts';
import type { TryOptions } from '../pipeline/router.ts';
import type { Transport, UpstreamCall, UpstreamRequest } from '../ports/transport.ts';
import { TryTimers } from './attempts/try-timers.ts';
import { FailedAttempt, UpstreamAnswer } from './upstream-answer.ts';

/** One request on its way to its provider. */
export interface Sending {
  readonly exchange: Exchange;
  readonly options: TryOptions;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly request: UpstreamRequest;
  /** The usage event for which the gateway asked is taken out again. */
  readonly stripUsage: boolean;
  /** Set when a codec reads the answer. */
  readonly translated: { readonly streams: boolean } | undefined;
}

/** Sends it, once more on a fresh connection when a pooled one turns out to be stale. Rejects with what it fails with. */
export function sendRequest(sending: Sending): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { exchange } = sending;
    begin(sending, (result) => {
      if (!(result instanceof FailedAttempt)) return resolve(result);
      // A pooled connection that the provider had closed meanwhile: not the provider's failure, and nothing was served.
      if (!result.facts.stale || !isResendable(sending) || exchange.aborted) return reject(result.error);
      exchange.facts.resent = true;
      // Not from within the callback of the connection that has just failed.
      queueMicrotask(() =>
        begin(sending, (again) => {
          if (again instanceof FailedAttempt) reject(again.error);
          else resolve(again);
        }),
      );
    });
  });
}

function begin(sending: Sending, resolve: (result: Answer | FailedAttempt) => void): void {
  const { exchange, options, clock, stripUsage, translated } = sending;
  const { maxAnswerBytes } = options;
  const answer = new UpstreamAnswer(exchange, resolve, { clock, maxAnswerBytes, stripUsage, translated });
  const call = sending.transport.send(sending.request, answer);
  answer.started(call, timersOf(options, clock, call));
  exchange.onAbort(abortOf(exchange, call));
}

// Closures that live as long as a stream are made where they hold nothing but what they need.

function timersOf(options: TryOptions, clock: Clock, call: UpstreamCall): TryTimers | undefined {
  if (options.requestTimeoutMs === 0 && options.firstTokenTimeoutMs === 0) return undefined;
  return new TryTimers(options, clock, (error) => call.abort(error));
}

function abortOf(exchange: Exchange, call: UpstreamCall): () => void {
  return () => call.abort(exchange.failure ?? clientLeft());
}

function isResendable({ request: { body } }: Sending): boolean {
  return body === null || body instanceof Uint8Array;
}
