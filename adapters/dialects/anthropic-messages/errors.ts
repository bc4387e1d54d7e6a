import type { ErrorContext } from '../../../core/dialects/canonical/chat-codec.ts';
import { type ProviderError, unreadableProviderError } from '../../../core/dialects/canonical/chat-answer.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { writeSseFrame } from '../../../core/base/sse.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { openAiErrors } from '../openai-shapes.ts';
import { anthropicErrorMessage } from './answer.ts';

/** Errors, to and from the wire. */
export const anthropicErrors = {
  decode: decodeError,
  ofStream: streamError,
  encode: encodeAnthropicError,
  encodeStream: encodeAnthropicStreamError,
  providerJson: providerErrorJson,
};

/** HTTP status by error type of an event. */
const statuses: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  timeout_error: 504,
  overloaded_error: 529,
};

/** The error of an answer with an error status, in Anthropic's shape or that of a host in front of it (Google's). */
function decodeError(status: number, body: Buffer): ProviderError {
  const json = parseErrorBody(body);
  return (json === undefined ? undefined : errorOf(json, status)) ?? unreadableProviderError(status, body);
}

/** The error of a stream event; `data` may be invalid JSON. */
function streamError(json: JsonObject | undefined, data: string): ProviderError {
  if (json === undefined)
    return { status: 502, message: data.trim() === '' ? 'unknown error' : data.slice(0, 500) };
  const type = asText(asObject(json.error)?.type) ?? '';
  const status = Object.hasOwn(statuses, type) ? (statuses[type] as number) : 502;
  return errorOf(json, status) ?? { status, message: 'unknown error' };
}

function errorOf(json: JsonObject, status: number): ProviderError | undefined {
  const message = anthropicErrorMessage(json, asText(json.message) === undefined ? '' : 'error');
  if (message === undefined) return undefined;
  const error = asObject(json.error) ?? json;
  const type = asText(error.type) ?? asText(error.status);
  const code = typeof error.code === 'number' ? String(error.code) : asText(error.code);
  const param = asText(error.param);
  return {
    status,
    message,
    ...(type === undefined || type === 'error' ? {} : { type }),
    ...(code === undefined ? {} : { code }),
    ...(param === undefined ? {} : { param }),
  };
}

/** The error object; some hosts wrap it in an array. */
function parseErrorBody(body: Buffer): JsonObject | undefined {
  try {
    const json: unknown = JSON.parse(body.toString('utf8'));
    return asObject(json) ?? asObject(asArray(json)[0]);
  } catch {
    return undefined;
  }
}

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
function encodeAnthropicError(error: GatewayError, requestId: string): Buffer {
  return Buffer.from(errorJson(error, requestId));
}

/** Same error as the `error` event of a message stream. */
function encodeAnthropicStreamError(error: GatewayError, requestId: string): Buffer {
  return writeSseFrame(errorJson(error, requestId), 'error');
}

/**
 * A provider's error as Anthropic clients read it, as JSON: the kind by its status, the provider's own words for it, and
 * its name in `provider`.
 */
function providerErrorJson(error: ProviderError, { provider, requestId }: ErrorContext): string {
  const { status, message, type, code, param } = error;
  const own: JsonObject = { type: typeOf(status), message };
  if (code !== undefined) own.code = code;
  if (param !== undefined) own.param = param;
  if (type !== undefined && type !== own.type) own.provider_type = type;
  return openAiErrors.json({ type: 'error', error: own, request_id: requestId, provider });
}

function typeOf(status: number): string {
  return typeByStatus.get(status) ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
}

function errorJson(error: GatewayError, requestId: string): string {
  return openAiErrors.json({
    ...error.extra,
    type: 'error',
    error: { type: typeOf(error.status), message: error.message, details: errorDetails(error) },
    request_id: requestId,
  });
}

/**
 * Throws `not_supported` for a request that begins or continues a message thread, a conversation that the vendor stores
 * (https://platform.claude.com/docs/en/build-with-claude/message-threads): a continued thread carries only the new
 * messages, so another provider would answer without the history. Clients recognise the error code and send the full
 * conversation again.
 */
export function refuseThread({ thread }: JsonObject): void {
  if (thread === undefined || thread === null) return;
  throw new GatewayError(
    'not_supported',
    'thread asks for a conversation that the provider keeps, and this request goes to one that keeps none. Send all messages in "messages", without "thread".',
    { param: 'thread' },
  );
}

/**
 * The `details` by which clients of this wire recognise the reason of an error; undefined when they know no such
 * reason.
 */
function errorDetails({ code, param }: GatewayError): JsonObject | undefined {
  if (code !== 'not_supported' || param !== 'thread') return undefined;
  return { error_code: 'thread_unsupported_request', unsupported: ['thread'] };
}
