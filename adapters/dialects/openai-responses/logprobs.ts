import type { TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';

/** The log probabilities of a list as the wire says it; undefined when there are none. */
export function decodeLogprobs(value: unknown): readonly TokenLogprob[] | undefined {
  const list = asArray(value)
    .map(asObject)
    .filter((one) => one !== undefined);
  if (list.length === 0) return undefined;
  return list.map((one) => ({
    ...decodeToken(one),
    top: asArray(one.top_logprobs)
      .map(asObject)
      .filter((other) => other !== undefined)
      .map(decodeToken),
  }));
}

/** The inverse of `decodeLogprobs`. */
export function encodeLogprobs(logprobs: readonly TokenLogprob[]): readonly JsonObject[] {
  return logprobs.map((one) => ({ ...encodeToken(one), top_logprobs: one.top.map(encodeToken) }));
}

function decodeToken(value: JsonObject): Omit<TokenLogprob, 'top'> {
  const { token, logprob, bytes } = value;
  const read = {
    token: typeof token === 'string' ? token : '',
    logprob: typeof logprob === 'number' ? logprob : 0,
  };
  if (bytes === null) return { ...read, bytes };
  return Array.isArray(bytes) ? { ...read, bytes: bytes as number[] } : read;
}

function encodeToken({ token, logprob, bytes }: Omit<TokenLogprob, 'top'>): JsonObject {
  return { token, logprob, bytes: bytes ?? [...Buffer.from(token)] };
}
