import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { FailureFacts, Transport, UpstreamCall, UpstreamHandler } from '../../core/ports/transport.ts';
import type { TokenFetch, TokenRequest } from './credential-context.ts';

/** Longest answer of a token endpoint: 1 MiB. */
const maxAnswerBytes = 1_048_576;

interface HttpTokenFetchOptions {
  readonly transport: Transport;
  readonly clock: Clock;
}

/**
 * Calls token endpoints over the transport. Rejects with the transport's error, with `upstream_timeout` when the answer
 * is not complete in time, or with `upstream_too_large` beyond 1 MiB. A request on a stale connection is sent once
 * more.
 */
export function createHttpTokenFetch({ transport, clock }: HttpTokenFetchOptions): TokenFetch {
  return async (request) => {
    const first = new TokenCall(request, transport, clock);
    try {
      return await first.answer;
    } catch (error) {
      if (!first.stale) throw error;
      return await new TokenCall(request, transport, clock).answer;
    }
  };
}

type TokenAnswer = Awaited<ReturnType<TokenFetch>>;

class TokenCall implements UpstreamHandler {
  readonly answer: Promise<TokenAnswer>;
  /** The request failed because its idle connection had been closed. */
  stale = false;
  readonly #call: UpstreamCall;
  readonly #host: string;
  readonly #chunks: Buffer[] = [];
  readonly #cancelTimer: () => void;
  #size = 0;
  #status = 0;
  #resolve!: (answer: TokenAnswer) => void;
  #reject!: (error: GatewayError) => void;

  constructor(
    { url: text, method, headers, body, timeoutMs }: TokenRequest,
    transport: Transport,
    clock: Clock,
  ) {
    const url = new URL(text);
    this.#host = url.host;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#call = transport.send(
      {
        origin: url.origin,
        method,
        path: url.pathname + url.search,
        headers: [...Object.entries(headers).flat(), 'accept-encoding', 'identity'],
        body: body === undefined ? null : Buffer.from(body),
        connectTimeoutMs: timeoutMs,
        headTimeoutMs: timeoutMs,
        idleTimeoutMs: timeoutMs,
      },
      this,
    );
    this.#cancelTimer = clock.after(timeoutMs, () =>
      this.#call.abort(
        new GatewayError('upstream_timeout', `${this.#host} gave no whole answer within ${timeoutMs} ms`),
      ),
    );
  }

  head(status: number): void {
    this.#status = status;
  }

  data(chunk: Buffer): boolean {
    this.#size += chunk.length;
    if (this.#size <= maxAnswerBytes) {
      this.#chunks.push(chunk);
      return true;
    }
    this.#chunks.length = 0;
    this.#call.abort(
      new GatewayError('upstream_too_large', `${this.#host} answered more than ${maxAnswerBytes} bytes`),
    );
    return false;
  }

  end(): void {
    this.#cancelTimer();
    this.#resolve({ status: this.#status, body: Buffer.concat(this.#chunks).toString('utf8') });
  }

  fail(error: GatewayError, facts: FailureFacts): void {
    this.#cancelTimer();
    this.stale = facts.stale;
    this.#reject(error);
  }
}
