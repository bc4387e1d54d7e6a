import { maxAnswerTokens } from './faults.ts';

const maxQuoteLength = 500;

/** An output text in tokens, cut as requested. */
export interface AnswerText {
  /** The tokens of the text; joined they are the text. */
  readonly tokens: readonly string[];
  readonly finish: 'stop' | 'length';
  /** The stop sequence that ended it, null when none did. */
  readonly stopSequence: string | null;
}

/** Bounds of a text. */
interface TextLimits {
  readonly stop: readonly string[];
  /** The client's limit; undefined for none. */
  readonly maxTokens: number | undefined;
  /** The fault `tokens`: exactly this length, before the client's bounds. */
  readonly tokens: number | undefined;
  /** Number of answers that share the limit of one request. */
  readonly shares: number;
}

/** Approximate token count of a text: one per four characters. */
export function countTokens(text: string): number {
  return Math.ceil(text.length / 4);
}

/** The text in tokens of four characters; surrogate pairs are never split. */
export function cutTokens(text: string): string[] {
  const tokens: string[] = [];
  for (let start = 0; start < text.length;) {
    let end = Math.min(start + 4, text.length);
    const unit = text.charCodeAt(end - 1);
    if (unit >= 0xd800 && unit <= 0xdbff && end < text.length) end += 1;
    tokens.push(text.slice(start, end));
    start = end;
  }
  return tokens;
}

/** The tokens in groups of `size`, as they are streamed. */
export function* groupTokens(tokens: readonly string[], size: number): Generator<readonly string[]> {
  for (let start = 0; start < tokens.length; start += size) yield tokens.slice(start, start + size);
}

/** Cuts a text at its stop sequences and its longest length, repeating it first when `tokens` asks for more. */
export function limitText(text: string, limits: TextLimits): AnswerText {
  const most = Math.floor(maxAnswerTokens / limits.shares);
  let whole = text;
  if (limits.tokens !== undefined) whole = stretch(text, Math.min(limits.tokens, most));
  const { kept, stopSequence } = cutAtStop(whole, limits.stop);
  const tokens = cutTokens(kept);
  const allowed = Math.min(limits.maxTokens ?? most, most);
  if (tokens.length <= allowed) return { tokens, finish: 'stop', stopSequence };
  return { tokens: tokens.slice(0, allowed), finish: 'length', stopSequence: null };
}

/** The sentence of the mock provider: it quotes the message, at most 500 characters of it. */
export function mockSentence(role: 'user' | 'tool' | 'none', said: string, choice: number): string {
  const rest = 'This answer comes from the built-in mock provider; no model was called.';
  const number = choice === 0 ? '' : ` (Choice ${choice + 1}.)`;
  if (role === 'none') return `${rest} The request holds no message of a user.${number}`;
  const lead = role === 'tool' ? 'The tool returned' : 'You said';
  return `${lead}: "${quote(said)}". ${rest}${number}`;
}

/** At most 500 characters of a text, with an ellipsis where it was cut. */
export function quote(text: string): string {
  if (text.length <= maxQuoteLength) return text;
  const unit = text.charCodeAt(maxQuoteLength - 1);
  const tearsCharacter = unit >= 0xd800 && unit <= 0xdbff;
  return `${text.slice(0, tearsCharacter ? maxQuoteLength - 1 : maxQuoteLength)}…`;
}

function stretch(text: string, tokens: number): string {
  const unit = `${text} `;
  const copies = Math.ceil((tokens * 5) / unit.length) + 1;
  return cutTokens(unit.repeat(copies)).slice(0, tokens).join('');
}

function cutAtStop(text: string, stop: readonly string[]): { kept: string; stopSequence: string | null } {
  let at = text.length;
  let stopSequence: string | null = null;
  for (const sequence of stop) {
    const found = sequence === '' ? -1 : text.indexOf(sequence);
    if (found >= 0 && found < at) {
      at = found;
      stopSequence = sequence;
    }
  }
  return { kept: text.slice(0, at), stopSequence };
}
