import type { TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asObject } from '../json-reading.ts';
import { member } from './member.ts';

/** `logprobsResult` of a candidate; undefined when it holds no tokens. */
export function decodeLogprobs(value: unknown): readonly TokenLogprob[] | undefined {
  const result = asObject(value);
  if (result === undefined) return undefined;
  const tops = asArray(member(result, 'topCandidates'));
  const tokens = asArray(member(result, 'chosenCandidates')).map((chosen, i) => ({
    ...decodeToken(chosen),
    top: asArray(asObject(tops[i])?.candidates).map(decodeToken),
  }));
  return tokens.length === 0 ? undefined : tokens;
}

/** The inverse. The wire has no bytes of a token. */
export function encodeLogprobs(tokens: readonly TokenLogprob[]): JsonObject {
  return {
    chosenCandidates: tokens.map(encodeToken),
    topCandidates: tokens.map(({ top }) => ({ candidates: top.map(encodeToken) })),
  };
}

function decodeToken(value: unknown): Omit<TokenLogprob, 'top'> {
  const token = asObject(value) ?? {};
  const probability = member(token, 'logProbability');
  return {
    token: typeof token.token === 'string' ? token.token : '',
    logprob: typeof probability === 'number' ? probability : 0,
  };
}

function encodeToken({ token, logprob }: Omit<TokenLogprob, 'top'>): JsonObject {
  return { token, logProbability: logprob };
}
