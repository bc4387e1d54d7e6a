import type { TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import { asArray, asObject } from '../json-reading.ts';

/**
 * The log probability of a piece of text. Cohere gives one number for each of its tokens but their text only
 * together: the piece counts as one token with the sum. Undefined when it says none.
 */
export function decodeLogprob(value: unknown): TokenLogprob | undefined {
  const item = asObject(value);
  if (item === undefined) return undefined;
  const numbers = asArray(item.logprobs).filter((one) => typeof one === 'number');
  if (numbers.length === 0) return undefined;
  const token = typeof item.text === 'string' ? item.text : '';
  return { token, logprob: numbers.reduce((sum, one) => sum + one, 0), top: [] };
}
