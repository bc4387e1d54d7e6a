import type { GatewayError } from '../../core/errors/gateway-error.ts';
import type { ErrorCode } from '../../core/errors/codes.ts';
import { writeSseFrame } from '../framing/sse-frame.ts';
import { asObject, asText, type JsonObject } from './json-reading.ts';

/** Existing clients know a guard's refusal by its type and expect no code in it. */
const withoutCode: ReadonlySet<ErrorCode> = new Set(['hooks_failed']);

/** The members that the OpenAI error shape has: exactly these. */
export function openAiErrorMembers(error: GatewayError): JsonObject {
  return {
    message: error.message,
    type: error.type,
    param: error.param,
    code: withoutCode.has(error.code) ? null : error.code,
  };
}

/** The body of an error as OpenAI clients read it, with the error's `extra` members beside `error`. */
export function encodeOpenAiError(error: GatewayError): Buffer {
  return Buffer.from(encodeErrorJson({ ...error.extra, error: openAiErrorMembers(error) }));
}

/** The same as an event of a chat stream. */
export function encodeOpenAiStreamError(error: GatewayError): Buffer {
  return writeSseFrame(encodeErrorJson({ ...error.extra, error: openAiErrorMembers(error) }));
}

/** JSON of an error body. An error must always be sayable: integers beyond 2^53 become text. */
export function encodeErrorJson(body: JsonObject): string {
  return JSON.stringify(body, (_name, value: unknown) =>
    typeof value === 'bigint' ? value.toString() : value,
  );
}

/** What a provider says went wrong inside an answer or an event that came with a good status; else undefined. */
export function openAiErrorMessage(json: JsonObject, event = ''): string | undefined {
  const error = asObject(json.error);
  if (error !== undefined && Object.keys(error).length > 0) {
    return asText(error.message) ?? asText(error.code) ?? asText(error.type) ?? 'unknown error';
  }
  if (asText(json.error) !== undefined) return asText(json.error);
  if (json.object === 'error' || json.type === 'error' || event === 'error') {
    return asText(json.message) ?? asText(json.detail) ?? 'unknown error';
  }
  return undefined;
}
