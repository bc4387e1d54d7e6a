import type { ErrorContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ProviderError } from '../../../core/dialects/canonical/provider-error.ts';
import type { GatewayError } from '../../../core/errors/gateway-error.ts';
import { writeSseFrame } from '../../framing/sse-frame.ts';
import type { JsonObject } from '../json-reading.ts';
import { encodeErrorJson } from '../openai-error.ts';
import { errorDetails } from './message-threads.ts';

/** The error types that Anthropic clients know, by status. Other 4xx are `invalid_request_error`, 5xx `api_error`. */
const typeByStatus: ReadonlyMap<number, string> = new Map([
  [401, 'authentication_error'],
  [402, 'billing_error'],
  [403, 'permission_error'],
  [404, 'not_found_error'],
  [408, 'timeout_error'],
  [413, 'request_too_large'],
  [429, 'rate_limit_error'],
  [503, 'overloaded_error'],
  [504, 'timeout_error'],
  [529, 'overloaded_error'],
]);

/** The body of an error as Anthropic clients read it, with the error's `extra` members at its top level. */
export function encodeAnthropicError(error: GatewayError, requestId: string): Buffer {
  return Buffer.from(errorJson(error, requestId));
}

/** The same as the `error` event of a message stream. */
export function encodeAnthropicStreamError(error: GatewayError, requestId: string): Buffer {
  return writeSseFrame(errorJson(error, requestId), 'error');
}

/**
 * A provider's error as Anthropic clients read it, as JSON: the kind by its status, the provider's own words for it, and
 * its name in `provider`.
 */
export function providerErrorJson(error: ProviderError, { provider, requestId }: ErrorContext): string {
  const { status, message, type, code, param } = error;
  const own: JsonObject = { type: typeOf(status), message };
  if (code !== undefined) own.code = code;
  if (param !== undefined) own.param = param;
  if (type !== undefined && type !== own.type) own.provider_type = type;
  return encodeErrorJson({ type: 'error', error: own, request_id: requestId, provider });
}

function typeOf(status: number): string {
  return typeByStatus.get(status) ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
}

function errorJson(error: GatewayError, requestId: string): string {
  return encodeErrorJson({
    ...error.extra,
    type: 'error',
    error: { type: typeOf(error.status), message: error.message, details: errorDetails(error) },
    request_id: requestId,
  });
}
