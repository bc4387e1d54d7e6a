import type { Usage } from '../usage.ts';
import type { Finish, ProviderError, TokenLogprob } from './chat-answer.ts';
import type { ChatPart, Citation, Extras } from './chat-part.ts';

/**
 * An event of a streamed answer, independent of the wire, in this order: `start` once; for every part `part-start`, its
 * deltas and `part-end`; `finish` once for each choice; `end` once. `usage` (the last one counts) and `extras` come any
 * number of times, also before `start`, where a broken stream lacks its beginning.
 * Parts of a choice are numbered from 0 in the order of their start. Several may be open at once (interleaved tool
 * calls); no delta follows the end of its part. `error` may come anywhere and is the last event.
 *
 * `ChatEventBuilder` builds such streams for decoders.
 */
export type ChatEvent =
  | {
      readonly type: 'start';
      readonly id: string;
      readonly model: string;
      /** Unix seconds. */
      readonly createdAt?: number | undefined;
      readonly serviceTier?: string | undefined;
      readonly systemFingerprint?: string | undefined;
      /** Usage known at the start (Anthropic reports that of the prompt). */
      readonly usage?: Usage | undefined;
    }
  | {
      readonly type: 'part-start';
      readonly choice: number;
      readonly part: number;
      /** The part with empty text or arguments; parts that arrive whole (images, provider tools) are complete. */
      readonly head: ChatPart;
    }
  | {
      readonly type: 'text-delta';
      readonly choice: number;
      readonly part: number;
      /** Text of a `text` or `refusal` part. */
      readonly text: string;
      readonly logprobs?: readonly TokenLogprob[] | undefined;
    }
  | {
      readonly type: 'reasoning-delta';
      readonly choice: number;
      readonly part: number;
      readonly text: string;
    }
  | {
      readonly type: 'arguments-delta';
      readonly choice: number;
      readonly part: number;
      readonly text: string;
    }
  /** Base64 of an audio part, and its transcript. */
  | {
      readonly type: 'audio-delta';
      readonly choice: number;
      readonly part: number;
      readonly data: string;
      readonly transcript: string;
    }
  | { readonly type: 'signature'; readonly choice: number; readonly part: number; readonly signature: string }
  | { readonly type: 'citation'; readonly choice: number; readonly part: number; readonly citation: Citation }
  | { readonly type: 'part-end'; readonly choice: number; readonly part: number }
  | {
      readonly type: 'finish';
      readonly choice: number;
      readonly finish: Finish;
      readonly extras?: Extras | undefined;
    }
  | { readonly type: 'usage'; readonly usage: Usage }
  /** Members of one dialect only, for the whole answer. */
  | { readonly type: 'extras'; readonly extras: Extras }
  | { readonly type: 'error'; readonly error: ProviderError }
  | { readonly type: 'end' };
