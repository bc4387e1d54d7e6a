import { GatewayError } from '../errors/gateway-error.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type { Transport, UpstreamCall, UpstreamRequest } from '../ports/transport.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { AnswerFacts } from '../dialects/dialect.ts';

interface CollectedAnswer {
  readonly status: number;
  readonly headers: HeaderList;
  readonly body: Buffer;
}

/**
 * Sends a request of the gateway itself and collects its answer. Rejects with the transport's error,
 * `upstream_too_large`, or the reason of `signal`, a GatewayError that aborts the call.
 */
export function collectUpstream(
  transport: Transport,
  request: UpstreamRequest,
  maxBytes: number,
  signal?: AbortSignal,
): Promise<CollectedAnswer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let status = 0;
    let headers: HeaderList = [];
    const tooLarge = new GatewayError('upstream_too_large', `The answer is larger than ${maxBytes} bytes.`, {
      source: 'provider',
    });
    const call: UpstreamCall = transport.send(request, {
      head(received, fields) {
        status = received;
        headers = fields;
      },
      data(chunk) {
        size += chunk.length;
        if (size > maxBytes) {
          call.abort(tooLarge);
          return false;
        }
        chunks.push(chunk);
        return true;
      },
      end: () => resolve({ status, headers, body: Buffer.concat(chunks) }),
      fail: (error) => reject(error),
    });
    signal?.addEventListener('abort', () => call.abort(signal.reason as GatewayError), { once: true });
  });
}

/** Whether this content type is a stream of the client's dialect: events, or the framing that its request asks for. */
export function isStreamType({ dialect, facts, query }: Exchange, contentType: string): boolean {
  if (contentType.startsWith('text/event-stream')) return true;
  const framings = facts.stream ? dialect.frames?.framings : undefined;
  return framings !== undefined && contentType.startsWith(framings.contentTypeFor(query));
}

/** Copies the facts of an answer for metrics, limits and the log; facts that it lacks stay unchanged. */
export function learnFacts({ facts }: Exchange, found: AnswerFacts): void {
  if (found.usage) facts.usage = found.usage;
  if (found.model) facts.modelAnswered = found.model;
  if (found.finishReason) facts.finishReason = found.finishReason;
}
