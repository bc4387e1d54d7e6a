import type { AnswerFacts } from '../../../core/dialects/dialect.ts';
import { asArray, asBuffer, asObject, asText, type JsonObject } from '../json-reading.ts';
import { readError } from './error-shape.ts';
import { member, memberObject } from './member.ts';
import { decodeGeminiUsage } from './usage.ts';

/** Facts of a complete answer; of an array (a stream without `alt=sse`), of all its elements. */
export function answerFacts(body: Uint8Array): AnswerFacts {
  const facts: AnswerFacts = {};
  let json: unknown;
  try {
    json = JSON.parse(asBuffer(body).toString('utf8'));
  } catch {
    return facts;
  }
  const reasons = new Map<number, string>();
  for (const value of Array.isArray(json) ? json : [json]) {
    const element = asObject(value);
    if (element !== undefined) learn(facts, reasons, element);
  }
  return facts;
}

/** Adds what one answer or one event of a stream says. Learning from one twice changes nothing. */
export function learn(facts: AnswerFacts, reasons: Map<number, string>, json: JsonObject): void {
  const usage = decodeGeminiUsage(member(json, 'usageMetadata'));
  if (usage !== undefined) facts.usage = usage;
  const model = asText(member(json, 'modelVersion'));
  if (model !== undefined) facts.model ??= model;
  asArray(json.candidates).forEach((value, position) => {
    const candidate = asObject(value);
    const reason = candidate === undefined ? undefined : asText(member(candidate, 'finishReason'));
    if (reason === undefined) return;
    const index = typeof candidate?.index === 'number' ? candidate.index : position;
    reasons.set(index, reason);
  });
  const blocked = asText(member(memberObject(json, 'promptFeedback') ?? {}, 'blockReason'));
  if (blocked !== undefined && reasons.size === 0) facts.finishReason = blocked;
  if (reasons.size > 0)
    facts.finishReason = [...reasons.entries()]
      .sort(([a], [b]) => a - b)
      .map(([, reason]) => reason)
      .join(',');
  const error = readError(json);
  if (error !== undefined) facts.errorMessage = error.message;
}
