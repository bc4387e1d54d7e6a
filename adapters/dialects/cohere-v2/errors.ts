import { unreadableProviderError, type ProviderError } from '../../../core/dialects/canonical/chat-answer.ts';
import { asArray, asObject, asText, parseObject, type JsonObject } from '../json-reading.ts';

/** Decodes errors of answers and of streams. */
export const cohereErrors = { decode: decodeCohereError, ofObject: errorOf };

/** Statuses that only Cohere uses, in its documentation's words. */
const ownTypes: Readonly<Record<number, string>> = { 498: 'invalid_token', 499: 'request_cancelled' };

/**
 * Reads the body of an error answer: `{message, id}`, and bodies of servers in front of the API (lists, `detail`,
 * `error`).
 */
function decodeCohereError(status: number, body: Buffer): ProviderError {
  const json = parseObject(body.toString('utf8'));
  const error = json === undefined ? undefined : errorOf(json, status);
  return error ?? unreadableProviderError(status, body);
}

/** The error in an object; undefined when there is none. */
function errorOf(json: JsonObject, status: number): ProviderError | undefined {
  const inner = asObject(json.error);
  const message =
    messageOf(json.message) ??
    messageOf(inner?.message) ??
    messageOf(json.error) ??
    messageOf(json.detail) ??
    messageOf(json.errors);
  if (message === undefined) return undefined;
  const type = asText(inner?.type) ?? asText(json.error_type) ?? ownTypes[status];
  const code = asText(inner?.code) ?? asText(json.code);
  return {
    status,
    message,
    ...(type !== undefined && { type }),
    ...(code !== undefined && { code }),
  };
}

/** A text, or the texts of a list of texts or of objects with a message. */
function messageOf(value: unknown): string | undefined {
  const text = asText(value);
  if (text !== undefined) return text;
  const texts = asArray(value).flatMap((one) => {
    const item = asObject(one);
    return asText(one) ?? asText(item?.message) ?? asText(item?.msg) ?? [];
  });
  return texts.length === 0 ? undefined : texts.join('; ');
}
