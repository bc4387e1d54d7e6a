import type { Usage } from '../usage.ts';
import type { ChatPart, Extras } from './chat-part.ts';

/** An error that a provider reported, parsed from its own shape. */
export interface ProviderError {
  /** As the provider answered; for an error inside a stream its own number, or the one of its type, else 502. */
  readonly status: number;
  /** Never empty. */
  readonly message: string;
  /** The provider's own name of the kind (`overloaded_error`, `ThrottlingException`, `RESOURCE_EXHAUSTED`). */
  readonly type?: string;
  readonly code?: string;
  readonly param?: string;
}

/** Longest quoted text of a body that is no error object. */
const maxShown = 500;

/**
 * Error of a body that its dialect could not parse: HTML, plain text, an empty body, truncated JSON. Quotes the body
 * and keeps the status.
 */
export function unreadableProviderError(status: number, body: Uint8Array): ProviderError {
  const text = Buffer.from(body.buffer, body.byteOffset, Math.min(body.length, 64 * 1024))
    .toString('utf8')
    .trim();
  if (text === '') return { status, message: `The provider answered ${status} without a body.` };
  const plain = /^\s*</.test(text) ? htmlText(text) : text;
  const shown = plain.length > maxShown ? `${plain.slice(0, maxShown)}…` : plain;
  return { status, message: `The provider answered ${status}: ${shown}` };
}

function htmlText(html: string): string {
  const text = html
    .replace(/<(script|style)\b[\s\S]*?<\/\1>/gi, ' ')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
  return text === '' ? 'an HTML page' : text;
}

/**
 * Reason for the end of a choice: `tool-calls` waits for results, `pause` asks to repeat the request (Anthropic
 * `pause_turn`).
 */
export type FinishReason =
  'stop' | 'length' | 'tool-calls' | 'content-filter' | 'pause' | 'error' | 'unknown';

export interface Finish {
  readonly reason: FinishReason;
  /** As the provider wrote it; empty when absent. */
  readonly raw: string;
  /** The stop sequence that matched, when the wire reports it. */
  readonly stopSequence?: string;
}

export interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes?: readonly number[] | null;
  readonly top: readonly Omit<TokenLogprob, 'top'>[];
}

export interface ChatChoice {
  readonly index: number;
  readonly parts: readonly ChatPart[];
  readonly finish: Finish;
  readonly logprobs?: readonly TokenLogprob[];
  readonly extras?: Extras;
}

/** A complete answer, independent of the wire. */
export interface ChatAnswer {
  /** The provider's id, or empty when its wire has none. */
  readonly id: string;
  readonly model: string;
  /** Unix seconds. */
  readonly createdAt?: number;
  readonly choices: readonly ChatChoice[];
  readonly usage?: Usage;
  readonly serviceTier?: string;
  readonly systemFingerprint?: string;
  readonly extras?: Extras;
}
