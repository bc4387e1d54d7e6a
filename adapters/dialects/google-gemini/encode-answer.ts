import type { AnswerContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatAnswer, ChatChoice, Finish } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatPart, Citation, Extras, JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { stringifyExact } from '../exact-json.ts';
import { encodeModelPart } from './encode-part.ts';
import { encodeFinishReason } from './finish-reason.ts';
import { encodeGrounding } from './grounding.ts';
import { encodeLogprobs } from './logprobs.ts';
import { encodeGeminiUsage } from './usage.ts';

/** A complete answer in this wire. */
export function encodeGeminiAnswer(answer: ChatAnswer, context: AnswerContext): Buffer {
  const body: JsonObject = { candidates: answer.choices.map(encodeChoice) };
  if (answer.usage !== undefined) {
    body.usageMetadata = encodeGeminiUsage(answer.usage);
    if (answer.serviceTier !== undefined)
      Object.assign(body.usageMetadata as JsonObject, { serviceTier: answer.serviceTier });
  }
  body.modelVersion = answer.model === '' ? context.request.model : answer.model;
  if (answer.createdAt !== undefined) body.createTime = timeText(answer.createdAt);
  body.responseId = answer.id === '' ? context.requestId : answer.id;
  return Buffer.from(stringifyExact(Object.assign(body, ownExtras(answer.extras))));
}

/** Unix seconds as this wire writes a time. */
export function timeText(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

function encodeChoice(choice: ChatChoice): JsonObject {
  const parts = choice.parts.flatMap((part) => encodeModelPart(part) ?? []);
  const candidate: JsonObject = { content: { parts, role: 'model' } };
  Object.assign(candidate, finishMembers(choice.index, choice.finish));
  const grounding = groundingOf(choice.parts);
  if (grounding !== undefined) candidate.groundingMetadata = grounding;
  if (choice.logprobs !== undefined) candidate.logprobsResult = encodeLogprobs(choice.logprobs);
  return Object.assign(candidate, ownExtras(choice.extras));
}

/** What a candidate says when it ends. */
export function finishMembers(index: number, finish: Finish): JsonObject {
  return { finishReason: encodeFinishReason(finish), index };
}

/** What this wire once said of a whole answer or candidate. */
export function ownExtras(extras: Extras | undefined): JsonObject | undefined {
  return extras?.['google-gemini'];
}

/** The sources of the last text that has some: a segment of this wire names no part of its own. */
function groundingOf(parts: readonly ChatPart[]): JsonObject | undefined {
  const cited = parts.findLast(
    (part): part is Extract<ChatPart, { type: 'text' }> & { citations: readonly Citation[] } =>
      part.type === 'text' && part.citations !== undefined && part.citations.length > 0,
  );
  return cited === undefined ? undefined : encodeGrounding(cited.citations, cited.text);
}
