import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { AnswerContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import { stringifyExact } from '../exact-json.ts';
import type { JsonObject } from '../json-reading.ts';
import { encodeUsage } from '../openai-chat/encode-answer.ts';
import { encodeFinish } from '../openai-chat/finish-reason.ts';
import { encodeLogprobs } from './logprobs.ts';

/** A complete answer as a `text_completion`: the text alone. */
export function encodeAnswer(answer: ChatAnswer, context: AnswerContext): Buffer {
  const { strict } = context;
  const body: JsonObject = {
    id: answer.id === '' ? context.newId('cmpl-') : answer.id,
    object: 'text_completion',
    created: answer.createdAt ?? context.now,
    model: answer.model === '' ? context.request.model : answer.model,
    choices: answer.choices.map(({ index, parts, finish, logprobs }) => ({
      text: parts.map(textOf).join(''),
      index,
      logprobs: encodeLogprobs(logprobs, 0),
      finish_reason: encodeFinish(finish, strict, false),
    })),
  };
  if (answer.usage !== undefined) body.usage = encodeUsage(answer.usage, strict);
  if (answer.systemFingerprint !== undefined) body.system_fingerprint = answer.systemFingerprint;
  return Buffer.from(stringifyExact(body));
}

function textOf(part: ChatPart): string {
  return part.type === 'text' || part.type === 'refusal' ? part.text : '';
}
