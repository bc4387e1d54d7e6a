import type { Finish, FinishReason } from '../../../core/dialects/canonical/chat-answer.ts';
import { asText, type JsonObject } from '../json-reading.ts';

/** What the hosts of the family write, in lower case. */
const reasons: ReadonlyMap<string, FinishReason> = new Map(
  Object.entries({
    stop: 'stop',
    eos: 'stop',
    eos_token: 'stop',
    end_turn: 'stop',
    end: 'stop',
    complete: 'stop',
    completed: 'stop',
    stop_sequence: 'stop',
    length: 'length',
    max_tokens: 'length',
    max_output_tokens: 'length',
    model_length: 'length',
    max_length: 'length',
    error_limit: 'length',
    tool_calls: 'tool-calls',
    tool_call: 'tool-calls',
    tool_use: 'tool-calls',
    function_call: 'tool-calls',
    content_filter: 'content-filter',
    safety: 'content-filter',
    sensitive: 'content-filter',
    recitation: 'content-filter',
    pause_turn: 'pause',
    error: 'error',
    error_toxic: 'content-filter',
    network_error: 'error',
    abort: 'error',
    aborted: 'error',
    malformed_function_call: 'error',
    insufficient_system_resource: 'error',
  } satisfies Record<string, FinishReason>),
);

/**
 * The finish of a choice. Whether the client must answer calls is told by the calls, not by the word: hosts write `stop`
 * beside calls, and `tool_calls` for tools that they ran themselves. `choice` may name the stop sequence that was met.
 */
export function decodeFinish(raw: string, hasCalls: boolean, choice: JsonObject): Finish {
  const word = reasons.get(raw.toLowerCase()) ?? 'unknown';
  let reason = word;
  if (hasCalls && (word === 'stop' || word === 'unknown')) reason = 'tool-calls';
  else if (!hasCalls && word === 'tool-calls') reason = 'stop';
  const stopSequence = asText(choice.stop_sequence) ?? asText(choice.stop_reason);
  return stopSequence === undefined ? { reason, raw } : { reason, raw, stopSequence };
}

/**
 * The words that OpenAI documents, and the status of a response that is whole, which tells no reason: where a host writes
 * one of them, what it means is said and not what it wrote.
 */
const documented: ReadonlySet<string> = new Set([
  'stop',
  'length',
  'tool_calls',
  'function_call',
  'content_filter',
  'completed',
]);

/**
 * The word for `finish_reason`. `strict`: one that OpenAI documents; an answer that failed or was broken off is
 * `length`, the documented word for one that is incomplete. Else the provider's own word, where it wrote one of its
 * own.
 */
export function encodeFinish(finish: Finish, strict: boolean, legacy: boolean): string {
  if (!strict && finish.raw !== '' && !documented.has(finish.raw)) return finish.raw;
  switch (finish.reason) {
    case 'tool-calls':
      return legacy ? 'function_call' : 'tool_calls';
    case 'content-filter':
      return 'content_filter';
    case 'length':
    case 'error':
      return 'length';
    default:
      return 'stop';
  }
}
