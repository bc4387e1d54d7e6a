import type { GatewayError } from '../../../core/errors/gateway-error.ts';
import { writeSseFrame } from '../../framing/sse-frame.ts';
import { encodeErrorJson } from '../openai-error.ts';

/** The error types that Anthropic clients know, by status. Other 4xx are `invalid_request_error`, 5xx `api_error`. */
const typeByStatus: ReadonlyMap<number, string> = new Map([
  [401, 'authentication_error'],
  [403, 'permission_error'],
  [404, 'not_found_error'],
  [408, 'timeout_error'],
  [413, 'request_too_large'],
  [429, 'rate_limit_error'],
  [503, 'overloaded_error'],
  [504, 'timeout_error'],
]);

/** The body of an error as Anthropic clients read it, with the error's `extra` members at its top level. */
export function encodeAnthropicError(error: GatewayError, requestId: string): Buffer {
  return Buffer.from(errorJson(error, requestId));
}

/** The same as the `error` event of a message stream. */
export function encodeAnthropicStreamError(error: GatewayError, requestId: string): Buffer {
  return writeSseFrame(errorJson(error, requestId), 'error');
}

function errorJson(error: GatewayError, requestId: string): string {
  const fallback = error.status >= 500 ? 'api_error' : 'invalid_request_error';
  const type = typeByStatus.get(error.status) ?? fallback;
  return encodeErrorJson({
    ...error.extra,
    type: 'error',
    error: { type, message: error.message },
    request_id: requestId,
  });
}
