import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { readSseFrame, replaceSseData, writeSseFrame } from '../../framing/sse-frame.ts';
import { parseExactObject, stringifyExact } from '../exact-json.ts';
import { asArray, asBuffer, asObject, asText, type JsonObject } from '../json-reading.ts';
import { encodeOpenAiUsage } from '../openai-usage.ts';
import { usageOf } from './answer-facts.ts';
import { choiceIndex } from './stream-reader.ts';
import { textSlots, type TextEvent, type TextSlot } from './text-slots.ts';

const doneFrame = writeSseFrame('[DONE]');

/**
 * Copies of the text that some hosts send beside it. They must not outlive a change of the text: what a guard
 * took out would still be read there.
 */
const copiesInDelta = ['content_blocks', 'reasoning_details', 'annotations'] as const;

/** The frame saying `events` instead. Works on the bytes alone, so a rewritten frame can be rewritten again. */
export function rewriteFrame(frame: StreamFrame, events: readonly StreamEvent[]): Uint8Array | undefined {
  const bytes = asBuffer(frame.bytes);
  const { data } = readSseFrame(bytes);
  const original = data === undefined ? undefined : parseExactObject(data);
  const json = original ?? { object: 'chat.completion.chunk' };
  writeTexts(json, events);
  writeFinishes(json, events);
  writeUsage(json, events);
  writeError(json, events);
  const end = events.some((event) => event.type === 'done') ? doneFrame : undefined;
  if (!saysAnything(json, events)) return end;
  const text = stringifyExact(json);
  const rewritten = original === undefined ? writeSseFrame(text) : replaceSseData(bytes, text);
  return end === undefined ? rewritten : Buffer.concat([rewritten, end]);
}

function writeTexts(json: JsonObject, events: readonly StreamEvent[]): void {
  const wanted = new Map<string, TextEvent>();
  for (const event of events) {
    if (!('text' in event)) continue;
    const before = wanted.get(channelOf(event));
    wanted.set(
      channelOf(event),
      before === undefined ? event : { ...before, text: before.text + event.text },
    );
  }
  const present = new Map<string, TextSlot[]>();
  for (const slot of textSlots(json)) {
    const channel = channelOf(slot.event);
    present.set(channel, [...(present.get(channel) ?? []), slot]);
  }
  for (const [channel, slots] of present) {
    const event = wanted.get(channel);
    if (event?.text !== slots.map((slot) => slot.event.text).join('')) replaceText(json, slots, event);
    else if (event.type === 'tool-arguments-delta') nameCall(json, event);
  }
  for (const [channel, event] of wanted) if (!present.has(channel)) addText(json, event);
}

function channelOf(event: TextEvent): string {
  return `${event.type}:${event.choice}:${event.type === 'tool-arguments-delta' ? event.call : ''}`;
}

/** The whole text goes where the first piece stood. */
function replaceText(json: JsonObject, slots: readonly TextSlot[], event: TextEvent | undefined): void {
  slots.forEach((slot, i) => {
    if (event === undefined || i > 0) slot.remove();
    else slot.holder[slot.member] = event.text;
  });
  if (event?.type === 'tool-arguments-delta') nameCall(json, event);
  const first = slots[0];
  if (first === undefined) return;
  const choice = choiceOf(json, first.event.choice);
  const delta = asObject(choice.delta);
  if ('logprobs' in choice) choice.logprobs = null;
  delete choice.message;
  if (delta === undefined) return;
  for (const member of copiesInDelta) delete delta[member];
  if (first.member === 'reasoning_content') delete delta.reasoning;
}

/** A tap may have given a call another name. */
function nameCall(json: JsonObject, event: TextEvent): void {
  if (event.type !== 'tool-arguments-delta' || event.name === undefined) return;
  for (const slot of textSlots(json)) {
    if (channelOf(slot.event) === channelOf(event)) slot.holder.name = event.name;
  }
}

function addText(json: JsonObject, event: TextEvent): void {
  if (event.text === '' && event.type !== 'tool-arguments-delta') return;
  const choice = choiceOf(json, event.choice);
  if (json.object === 'text_completion' && event.type === 'text-delta') {
    choice.text = event.text;
    return;
  }
  const delta = (choice.delta = asObject(choice.delta) ?? {});
  if (event.type === 'text-delta') delta.content = event.text;
  else if (event.type === 'reasoning-delta') delta.reasoning_content = event.text;
  else {
    const call: JsonObject = { index: event.call };
    if (event.id !== undefined) Object.assign(call, { id: event.id, type: 'function' });
    call.function = { ...(event.name === undefined ? {} : { name: event.name }), arguments: event.text };
    delta.tool_calls = [...asArray(delta.tool_calls), call];
  }
}

/** The choice with this index, added when the chunk has none. */
function choiceOf(json: JsonObject, index: number): JsonObject {
  const choices = asArray(json.choices);
  const found = choices
    .map(asObject)
    .find((choice, i) => choice !== undefined && choiceIndex(choice, i) === index);
  if (found !== undefined) return found;
  const added: JsonObject = { index, finish_reason: null };
  json.choices = [...choices, added];
  return added;
}

function writeFinishes(json: JsonObject, events: readonly StreamEvent[]): void {
  const reasons = new Map<number, string>();
  for (const event of events) if (event.type === 'finish') reasons.set(event.choice, event.reason);
  asArray(json.choices).forEach((value, position) => {
    const choice = asObject(value);
    if (choice === undefined || asText(choice.finish_reason) === undefined) return;
    if (!reasons.has(choiceIndex(choice, position))) choice.finish_reason = null;
  });
  for (const [index, reason] of reasons) choiceOf(json, index).finish_reason = reason;
}

function writeUsage(json: JsonObject, events: readonly StreamEvent[]): void {
  const event = events.findLast((candidate) => candidate.type === 'usage');
  const present = usageOf(json);
  if (event?.type === 'usage') {
    if (JSON.stringify(event.usage) === JSON.stringify(present)) return;
    removeUsage(json);
    json.usage = encodeOpenAiUsage(event.usage, asObject(json.usage));
  } else if (present !== undefined) {
    removeUsage(json);
    delete json.usage;
  }
}

/** Usage that stands elsewhere than in `usage`. */
function removeUsage(json: JsonObject): void {
  for (const value of [json.x_groq, ...asArray(json.choices)]) {
    const holder = asObject(value);
    if (holder !== undefined) delete holder.usage;
  }
}

function writeError(json: JsonObject, events: readonly StreamEvent[]): void {
  const event = events.findLast((candidate) => candidate.type === 'error');
  const present = asObject(json.error);
  if (event?.type === 'error') {
    if (present?.message !== event.message)
      json.error = { ...present, message: event.message, code: event.code === '' ? null : event.code };
  } else delete json.error;
}

/** False when every text and mark of the frame has been taken out. */
function saysAnything(json: JsonObject, events: readonly StreamEvent[]): boolean {
  if (events.some((event) => event.type !== 'done')) return true;
  return asArray(json.choices).some((value) => {
    const choice = asObject(value);
    return asText(choice?.text) !== undefined || Object.values(asObject(choice?.delta) ?? {}).some(isPresent);
  });
}

function isPresent(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  const members = asObject(value);
  return members === undefined ? value !== '' && value !== null : Object.keys(members).length > 0;
}
