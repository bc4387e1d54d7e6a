import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';
import { encodeLogprobs } from '../openai-chat/logprobs.ts';
import { decodeAnswerObject, parseAnswer } from '../openai-chat/decode-answer.ts';
import { decodeLogprobs } from './logprobs.ts';

/** A complete `text_completion`. */
export function decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  return decodeAnswerObject(asChat(parseAnswer(body)), context);
}

/**
 * A `text_completion` (or a chunk of one) in the words of a chat: the text becomes what a delta says. Changes `json`,
 * which is the decoder's own.
 */
export function asChat(json: JsonObject): JsonObject {
  for (const value of asArray(json.choices)) {
    const choice = asObject(value);
    if (choice === undefined || typeof choice.text !== 'string') continue;
    choice.delta = { content: choice.text };
    choice.logprobs = encodeLogprobs(decodeLogprobs(choice.logprobs));
  }
  return json;
}
