import type { TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';

/** The legacy form: parallel lists. `offset` is where the first token stands in the text. */
export function encodeLogprobs(
  tokens: readonly TokenLogprob[] | undefined,
  offset: number,
): JsonObject | null {
  if (tokens === undefined) return null;
  let at = offset;
  const offsets = tokens.map(({ token }) => {
    const start = at;
    at += token.length;
    return start;
  });
  return {
    tokens: tokens.map(({ token }) => token),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    top_logprobs: tokens.map(({ top }) =>
      Object.fromEntries(top.map(({ token, logprob }) => [token, logprob])),
    ),
    text_offset: offsets,
  };
}

/** Reads it; undefined when it tells no token. */
export function decodeLogprobs(value: unknown): readonly TokenLogprob[] | undefined {
  const lists = asObject(value);
  const tokens = asArray(lists?.tokens);
  if (lists === undefined || tokens.length === 0) return undefined;
  const numbers = asArray(lists.token_logprobs);
  const alternatives = asArray(lists.top_logprobs);
  return tokens.flatMap((token, i) => {
    const logprob = numbers[i];
    // The first token of an echoed prompt has none.
    if (typeof token !== 'string' || typeof logprob !== 'number') return [];
    const top = Object.entries(asObject(alternatives[i]) ?? {}).flatMap(([name, number]) =>
      typeof number === 'number' ? [{ token: name, logprob: number }] : [],
    );
    return [{ token, logprob, top }];
  });
}
