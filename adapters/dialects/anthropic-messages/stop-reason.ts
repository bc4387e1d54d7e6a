import type { Finish, FinishReason } from '../../../core/dialects/canonical/chat-answer.ts';

const meanings: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool-calls',
  pause_turn: 'pause',
  refusal: 'content-filter',
  compaction: 'stop',
};

const words: Readonly<Record<FinishReason, string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  'tool-calls': 'tool_use',
  'content-filter': 'refusal',
  pause: 'pause_turn',
  error: 'end_turn',
  unknown: 'end_turn',
};

/** What a message holds beside its stop reason. */
export interface MessageTraits {
  /** A call that the client must answer is there. */
  readonly hasCall: boolean;
  readonly hasRefusal: boolean;
}

/** A `stop_reason` as the canonical form tells it. `tool_use` without a call for the client is an ordinary end. */
export function finishOf(raw: string, stopSequence: string | undefined, hasCall: boolean): Finish {
  const meaning = Object.hasOwn(meanings, raw) ? (meanings[raw] as FinishReason) : 'unknown';
  const reason = meaning === 'tool-calls' && !hasCall ? 'stop' : meaning;
  return stopSequence === undefined ? { reason, raw } : { reason, raw, stopSequence };
}

/** The `stop_reason` of a finish; the provider's own word where it is one of this wire and means the same. */
export function stopReasonOf(finish: Finish, { hasCall, hasRefusal }: MessageTraits): string {
  const { reason, raw, stopSequence } = finish;
  if (Object.hasOwn(meanings, raw) && meanings[raw] === reason) return raw;
  if (reason === 'stop' || reason === 'unknown') {
    if (hasCall) return 'tool_use';
    if (hasRefusal) return 'refusal';
    if (stopSequence !== undefined) return 'stop_sequence';
  }
  return words[reason];
}
