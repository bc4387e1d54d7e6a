import { countTokens } from '../answer-text.ts';
import { member, missing, wrongType, type JsonObject } from '../json-value.ts';
import { invalid } from '../problem.ts';

/** A text, or the numbers of its tokens. */
export type Prompt = string | readonly number[];

/** A text, a list of texts, a list of token numbers or a list of such lists, always as a list; throws a 400. */
export function readPrompts(body: JsonObject, name: string, most: number): readonly Prompt[] {
  const value = member(body, name);
  if (value === undefined) throw missing(name);
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value)) throw wrongType(name, 'a string or an array', value);
  const list: readonly unknown[] = value;
  if (list.length === 0) throw invalid(name, `Invalid '${name}': empty array.`, 'empty_array');
  if (isTokens(list)) return [list];
  if (list.length > most) {
    throw invalid(name, `Invalid '${name}': at most ${most} items, but got ${list.length} instead.`);
  }
  return list.map((item, index) => {
    if (typeof item === 'string') return item;
    const tokens: readonly unknown[] = Array.isArray(item) ? item : [];
    if (tokens.length > 0 && isTokens(tokens)) return tokens;
    throw wrongType(`${name}[${index}]`, 'a string or an array of tokens', item);
  });
}

/** How many tokens the prompts have together. */
export function promptCount(prompts: readonly Prompt[]): number {
  let count = 0;
  for (const prompt of prompts) count += typeof prompt === 'string' ? countTokens(prompt) : prompt.length;
  return count;
}

function isTokens(list: readonly unknown[]): list is readonly number[] {
  return list.every((item) => typeof item === 'number' && Number.isInteger(item) && item >= 0);
}
