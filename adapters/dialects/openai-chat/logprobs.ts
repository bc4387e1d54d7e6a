import type { TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';

/** The tokens of a choice's `logprobs`; undefined when it tells none. */
export function decodeLogprobs(value: unknown): readonly TokenLogprob[] | undefined {
  const content = asArray(asObject(value)?.content);
  if (content.length === 0) return undefined;
  const tokens: TokenLogprob[] = [];
  for (const item of content) {
    const token = readToken(item);
    if (token === undefined) continue;
    const top = asArray(asObject(item)?.top_logprobs)
      .map(readToken)
      .filter((one) => one !== undefined);
    tokens.push({ ...token, top });
  }
  return tokens;
}

/** The same again, as a choice says it. */
export function encodeLogprobs(tokens: readonly TokenLogprob[] | undefined): JsonObject | null {
  if (tokens === undefined) return null;
  return {
    content: tokens.map(({ top, ...token }) => ({ ...plain(token), top_logprobs: top.map(plain) })),
    refusal: null,
  };
}

function plain({ token, logprob, bytes }: Omit<TokenLogprob, 'top'>): JsonObject {
  return { token, logprob, bytes: bytes ?? null };
}

function readToken(value: unknown): Omit<TokenLogprob, 'top'> | undefined {
  const item = asObject(value);
  if (typeof item?.token !== 'string' || typeof item.logprob !== 'number') return undefined;
  const { token, logprob } = item;
  const bytes = Array.isArray(item.bytes)
    ? item.bytes.filter((byte): byte is number => typeof byte === 'number')
    : undefined;
  return bytes === undefined ? { token, logprob } : { token, logprob, bytes };
}
