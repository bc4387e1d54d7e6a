import type { StreamEvent } from '../../../core/dialects/stream-event.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { candidateIndex } from './join-calls.ts';
import { member, memberObject } from './member.ts';
import { decodeGeminiUsage, encodeGeminiUsage } from './usage.ts';

/** Writes the reasons, the usage and the error of an object anew; true when any of them has become another. */
export function writeMembers(json: JsonObject, events: readonly StreamEvent[]): boolean {
  const reasons = writeReasons(json, events);
  const usage = writeUsage(json, events);
  return writeError(json, events) || reasons || usage;
}

function writeReasons(json: JsonObject, events: readonly StreamEvent[]): boolean {
  const reasons = new Map<number, string>();
  for (const event of events) if (event.type === 'finish') reasons.set(event.choice, event.reason);
  let changed = false;
  asArray(json.candidates).forEach((value, position) => {
    const candidate = asObject(value) ?? {};
    const was = asText(member(candidate, 'finishReason'));
    const now = reasons.get(candidateIndex(candidate, position));
    if (now === was) return;
    changed = true;
    for (const name of ['finishReason', 'finish_reason', 'finishMessage', 'finish_message'])
      delete candidate[name];
    if (now !== undefined) candidate.finishReason = now;
  });
  const feedback = memberObject(json, 'promptFeedback');
  const blocked = asText(member(feedback ?? {}, 'blockReason'));
  const now = reasons.get(0);
  if (feedback === undefined || blocked === undefined || now === undefined || now === blocked) return changed;
  delete feedback.block_reason;
  feedback.blockReason = now;
  return true;
}

function writeUsage(json: JsonObject, events: readonly StreamEvent[]): boolean {
  const event = events.findLast((candidate) => candidate.type === 'usage');
  const was = decodeGeminiUsage(member(json, 'usageMetadata'));
  const now = event?.type === 'usage' ? event.usage : undefined;
  if (JSON.stringify(was) === JSON.stringify(now)) return false;
  delete json.usageMetadata;
  delete json.usage_metadata;
  if (now !== undefined) json.usageMetadata = encodeGeminiUsage(now);
  return true;
}

function writeError(json: JsonObject, events: readonly StreamEvent[]): boolean {
  const event = events.findLast((candidate) => candidate.type === 'error');
  if (event?.type !== 'error') {
    if (json.error === undefined) return false;
    delete json.error;
    return true;
  }
  const error = asObject(json.error) ?? {};
  if (error.message === event.message) return false;
  json.error = { ...error, message: event.message };
  return true;
}
