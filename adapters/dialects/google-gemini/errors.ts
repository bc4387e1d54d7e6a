import type { AnswerContext } from '../../../core/dialects/canonical/chat-codec.ts';
import { type ProviderError, unreadableProviderError } from '../../../core/dialects/canonical/chat-answer.ts';
import type { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asArray, asBuffer, asCount, asObject, asText, type JsonObject } from '../json-reading.ts';
import { openAiErrors } from '../openai-shapes.ts';

/** Errors, to and from the wire. */
export const geminiErrors = {
  encode: encodeGeminiError,
  encodeStream: encodeGeminiStreamError,
  streamFrame: streamErrorFrame,
  providerJson: providerErrorJson,
  decode: decodeGeminiError,
  read: readError,
  json: errorJson,
};

/** Google's status names by HTTP status (google.rpc.Code). */
const words: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  402: 'FAILED_PRECONDITION',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  408: 'DEADLINE_EXCEEDED',
  409: 'ABORTED',
  412: 'FAILED_PRECONDITION',
  429: 'RESOURCE_EXHAUSTED',
  446: 'FAILED_PRECONDITION',
  499: 'CANCELLED',
  500: 'INTERNAL',
  501: 'UNIMPLEMENTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
  529: 'UNAVAILABLE',
};

/** HTTP status by status name, for errors inside a stream without a number. */
const numbers: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 400,
  FAILED_PRECONDITION: 400,
  OUT_OF_RANGE: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  ABORTED: 409,
  ALREADY_EXISTS: 409,
  RESOURCE_EXHAUSTED: 429,
  CANCELLED: 499,
  INTERNAL: 500,
  DATA_LOSS: 500,
  UNKNOWN: 500,
  UNIMPLEMENTED: 501,
  UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
};

/** The status name that clients of this wire expect beside a status. */
export function wordOfStatus(status: number): string {
  return words[status] ?? (status >= 500 ? 'UNAVAILABLE' : 'INVALID_ARGUMENT');
}

/** True for one of Google's status names. */
function isStatusWord(word: string): boolean {
  return Object.hasOwn(numbers, word);
}

/** HTTP status of a status name; undefined for any other text. */
function statusOfWord(word: string): number | undefined {
  return Object.hasOwn(numbers, word) ? numbers[word] : undefined;
}

const typePrefix = 'type.googleapis.com/google.rpc.';

/** The body of an error as Google's clients read it, with the error's `extra` members at its top level. */
function encodeGeminiError(error: GatewayError, requestId: string): Buffer {
  return Buffer.from(errorJson(error, requestId));
}

/** Same error inside a stream of events. */
function encodeGeminiStreamError(error: GatewayError, requestId: string): Buffer {
  return streamErrorFrame(errorJson(error, requestId));
}

/**
 * An error object as a stream event. Its frame has no space after the colon, which event readers allow: Google's own
 * client throws the error; versions of it that would read the event as an empty answer do not recognise such a frame,
 * and fail on it.
 */
function streamErrorFrame(json: string): Buffer {
  return Buffer.from(`data:${json}\n\n`);
}

/** A provider's error as JSON text, marked with the provider's name. */
function providerErrorJson(
  error: ProviderError,
  { provider, requestId }: Pick<AnswerContext, 'provider' | 'requestId'>,
): string {
  const details: JsonObject[] = [];
  if (error.type !== undefined || error.code !== undefined) {
    const info: JsonObject = { '@type': `${typePrefix}ErrorInfo`, reason: error.code ?? error.type };
    if (error.code !== undefined && error.type !== undefined) info.metadata = { type: error.type };
    details.push(info);
  }
  if (error.param !== undefined) {
    const fieldViolations = [{ field: error.param, description: error.message }];
    details.push({ '@type': `${typePrefix}BadRequest`, fieldViolations });
  }
  details.push({ '@type': `${typePrefix}RequestInfo`, requestId });
  const status =
    error.type !== undefined && isStatusWord(error.type) ? error.type : wordOfStatus(error.status);
  return openAiErrors.json({
    error: { code: error.status, message: error.message, status, details },
    provider,
  });
}

/** A provider's error body: an object, an array around one (streams without `alt=sse`), a bare string, or anything else. */
function decodeGeminiError(status: number, body: Buffer): ProviderError {
  let json: unknown;
  try {
    json = JSON.parse(asBuffer(body).toString('utf8'));
  } catch {
    return unreadableProviderError(status, body);
  }
  const error = readError(Array.isArray(json) ? json[0] : json, status);
  return error === undefined ? unreadableProviderError(status, body) : { ...error, status };
}

/** The error in an answer or event; undefined when there is none. `fallback` is the status when the error has none. */
function readError(value: unknown, fallback = 502): ProviderError | undefined {
  const json = asObject(value);
  if (json === undefined || json.error === undefined || json.error === null) return undefined;
  const plain = asText(json.error);
  if (plain !== undefined) return { status: fallback, message: asText(json.error_description) ?? plain };
  const error = asObject(json.error);
  if (error === undefined) return undefined;
  const word = asText(error.status);
  const number = asCount(error.code);
  const status =
    number !== undefined && number >= 400 && number < 600
      ? number
      : ((word === undefined ? undefined : statusOfWord(word)) ?? fallback);
  const read: { -readonly [member in keyof ProviderError]: ProviderError[member] } = {
    status,
    message: asText(error.message) ?? word ?? `The provider reported an error (${status}).`,
  };
  if (word !== undefined) read.type = word;
  readDetails(asArray(error.details), read);
  return read;
}

function readDetails(details: readonly unknown[], error: { code?: string; param?: string }): void {
  for (const value of details) {
    const detail = asObject(value);
    const reason = asText(detail?.reason);
    if (reason !== undefined) error.code ??= reason;
    const field = asText(asObject(asArray(detail?.fieldViolations)[0])?.field);
    if (field !== undefined) error.param ??= field;
  }
}

/** An error of the gateway as JSON text. */
function errorJson(error: GatewayError, requestId: string): string {
  const details: JsonObject[] = [
    { '@type': `${typePrefix}ErrorInfo`, reason: error.code },
    { '@type': `${typePrefix}RequestInfo`, requestId },
  ];
  if (error.param !== null) {
    const fieldViolations = [{ field: error.param, description: error.message }];
    details.push({ '@type': `${typePrefix}BadRequest`, fieldViolations });
  }
  const { status: code, message } = error;
  return openAiErrors.json({
    ...error.extra,
    error: { code, message, status: wordOfStatus(code), details },
  });
}
