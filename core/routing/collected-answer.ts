import { GatewayError } from '../errors/gateway-error.ts';
import { type HeaderList, headerValue } from '../ports/header-list.ts';
import type { Transport, UpstreamCall, UpstreamRequest } from '../ports/transport.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { AnswerFacts } from '../dialects/dialect.ts';
import { isEventStreamType } from '../dialects/stream-event.ts';
import type { Answer } from '../pipeline/answer.ts';
import { callHook, type HookRuntime } from '../pipeline/call-hook.ts';
import { providerCall } from '../pipeline/keys.ts';
import { callBody, type CallBody, ProviderCall } from '../redaction/provider-call.ts';

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

/** Copies the facts of an answer for metrics, limits and the log; facts that it lacks stay unchanged. */
export function learnFacts({ facts }: Exchange, found: AnswerFacts): void {
  if (found.usage) facts.usage = found.usage;
  if (found.model) facts.modelAnswered = found.model;
  if (found.finishReason) facts.finishReason = found.finishReason;
}

const nothing: CallBody = { bytes: Buffer.alloc(0), truncated: true };

/** Keeps the outgoing request for `settled` where a plugin of the pipeline wants it: references, up to the plugin's bound. */
export function noteCall(exchange: Exchange, request: UpstreamRequest, runtime: HookRuntime): void {
  const { keepsCall } = exchange.pipeline;
  const asks = ({ instance, run }: (typeof keepsCall)[number]): boolean =>
    callHook(instance, 'keepsCall', runtime, () => run(exchange)) === true;
  if (!keepsCall.some(asks)) return;
  exchange.set(providerCall, new ProviderCall(request, sentBody(exchange, request.body)));
}

function sentBody(exchange: Exchange, body: UpstreamRequest['body']): ProviderCall['body'] {
  if (!(body instanceof Uint8Array)) return undefined;
  const { body: own } = exchange;
  if (own.loaded && body === own.outgoing) return 'own';
  return holdBody(exchange, body, exchange.get(providerCall)?.heldBytes ?? 0);
}

/**
 * Keeps the whole answer of a provider before its translation, unless it is a stream. Not where a plugin judges or
 * changes answers, because parts that it removes must not be kept.
 */
export function noteAnswer(exchange: Exchange, { status, headers }: Answer, bytes: Buffer): void {
  const { pipeline } = exchange;
  if (pipeline.keepsCall.length === 0 || exchange.aborted) return;
  if (isEventStreamType(headerValue(headers, 'content-type') ?? '')) return;
  if (pipeline.response.length > 0 || pipeline.attempted.some(({ judges }) => judges)) return;
  const call = exchange.get(providerCall);
  call?.answered(status, headers, holdBody(exchange, bytes, 0));
}

/** The body up to the plugin's bound; nothing where memory is short. `before`: bytes already held that it replaces. */
function holdBody(exchange: Exchange, bytes: Uint8Array, before: number): CallBody {
  const kept = callBody(bytes, exchange.pipeline.keepsResponseBytes);
  const more = kept.bytes.length - before;
  try {
    if (more > 0) exchange.body.hold(more, true);
    return kept;
  } catch {
    return nothing;
  }
}
