import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { AnswerContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { Extras } from '../../../core/dialects/canonical/chat-part.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { stringifyExact } from '../exact-json.ts';
import type { JsonObject } from '../json-reading.ts';
import { encodeOpenAiUsage } from '../openai-usage.ts';
import { encodeMessage, type MessageStyle } from './answer-message.ts';
import { encodeFinish } from './finish-reason.ts';
import { encodeLogprobs } from './logprobs.ts';

/** A complete answer as a `chat.completion`. */
export function encodeAnswer(answer: ChatAnswer, context: AnswerContext): Buffer {
  const { strict } = context;
  const style = messageStyle(context);
  const body: JsonObject = {
    id: answer.id === '' ? context.newId('chatcmpl-') : answer.id,
    object: 'chat.completion',
    created: answer.createdAt ?? context.now,
    model: answer.model === '' ? context.request.model : answer.model,
    choices: answer.choices.map(({ index, parts, finish, logprobs, extras }) => {
      const choice: JsonObject = {
        index,
        message: encodeMessage(parts, style),
        logprobs: encodeLogprobs(logprobs),
        finish_reason: encodeFinish(finish, strict, style.legacy),
      };
      if (!strict) {
        if (finish.stopSequence !== undefined) choice.stop_sequence = finish.stopSequence;
        addExtras(choice, extras);
      }
      return choice;
    }),
  };
  if (answer.usage !== undefined) body.usage = encodeUsage(answer.usage, strict);
  if (answer.serviceTier !== undefined) body.service_tier = answer.serviceTier;
  if (answer.systemFingerprint !== undefined) body.system_fingerprint = answer.systemFingerprint;
  if (!strict) addExtras(body, answer.extras);
  return Buffer.from(stringifyExact(body));
}

/** What messages look like in this exchange. */
export function messageStyle({ request, strict, now, newId }: AnswerContext): MessageStyle {
  return { strict, legacy: request.legacyFunctions === true, expiresAt: now, newId };
}

/** The `usage` member; beyond OpenAI's own, not strictly, what Anthropic's clients look for. */
export function encodeUsage(usage: Usage, strict: boolean): JsonObject {
  const encoded = encodeOpenAiUsage(usage);
  if (strict) return encoded;
  if (usage.cachedTokens > 0) encoded.cache_read_input_tokens = usage.cachedTokens;
  if (usage.cacheWriteTokens > 0) encoded.cache_creation_input_tokens = usage.cacheWriteTokens;
  return encoded;
}

/** What only one dialect can say: this wire's members where they were, those of others under `provider_fields`. */
export function addExtras(holder: JsonObject, extras: Extras | undefined): void {
  if (extras === undefined) return;
  const { 'openai-chat': own, ...others } = extras;
  for (const [name, value] of Object.entries(own ?? {})) {
    if (!(name in holder)) holder[name] = value;
  }
  if (Object.keys(others).length > 0) holder.provider_fields = others;
}
