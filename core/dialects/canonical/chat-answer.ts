import type { Usage } from '../usage.ts';
import type { ChatPart, Extras } from './chat-part.ts';

/** Why a choice ended: `tool-calls` waits for results, `pause` wants the same request again (Anthropic `pause_turn`). */
export type FinishReason =
  'stop' | 'length' | 'tool-calls' | 'content-filter' | 'pause' | 'error' | 'unknown';

export interface Finish {
  readonly reason: FinishReason;
  /** As the provider wrote it; empty when it wrote none. */
  readonly raw: string;
  /** The stop sequence that was met, when the wire tells it. */
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

/** A complete answer, whatever the wire. */
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
