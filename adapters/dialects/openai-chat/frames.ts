import type { FrameReader, UsageStripper } from '../../../core/dialects/dialect.ts';
import {
  channelOf,
  joinTexts,
  type StreamEvent,
  type StreamFrame,
  type TextEvent,
} from '../../../core/dialects/stream-event.ts';
import { readSseFrame, replaceSseData, SseSplitter, writeSseFrame } from '../../../core/base/sse.ts';
import {
  asArray,
  asBuffer,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  parseObject,
  stringifyExact,
} from '../json-reading.ts';
import { choiceIndex, openAiErrors, openAiUsage } from '../openai-shapes.ts';
import { createSseFrameReader, hasMember, opaqueEvents, watch } from '../frame-scanner.ts';

/** Frames of a stream that passes through. */
export const chatFrames = { createUsageStripper, rewrite: rewriteFrame, createReader: createFrameReader };

const usageObject = watch('usage', 'object');

/**
 * Removes exactly the event that `stream_options.include_usage` adds: no choices, and a usage object. Everything else
 * stays byte for byte, including other events without choices. Runs after the scanner, which reads the usage, and
 * before the client. Holds back only an unfinished frame, at most `maxFrameBytes` (default 4 MiB); a longer one is
 * forwarded as it arrives.
 */
function createUsageStripper(maxFrameBytes?: number): UsageStripper {
  let kept: Buffer[] = [];
  let removed = false;
  const splitter = new SseSplitter((frame, whole) => {
    if (whole && isUsageEvent(frame)) removed = true;
    else kept.push(frame);
  }, maxFrameBytes);

  const take = (): Buffer | undefined => {
    const frames = kept;
    kept = [];
    removed = false;
    return frames.length > 1 ? Buffer.concat(frames) : frames[0];
  };
  return {
    push(chunk) {
      const heldBefore = splitter.heldBytes;
      splitter.push(chunk);
      // Frames that start and end in this chunk are forwarded as one view of it.
      if (heldBefore === 0 && !removed && kept.length > 1) {
        kept = [chunk.subarray(0, chunk.length - splitter.heldBytes)];
      }
      return take();
    },
    finish() {
      splitter.finish();
      return take();
    },
  };
}

function isUsageEvent(frame: Buffer): boolean {
  if (!hasMember(frame.toString('latin1'), usageObject)) return false;
  const { data } = readSseFrame(frame);
  const json = data === undefined ? undefined : parseObject(data);
  if (json === undefined || asObject(json.usage) === undefined || json.error !== undefined) return false;
  return Array.isArray(json.choices) && json.choices.length === 0;
}

const doneFrame = writeSseFrame('[DONE]');

/**
 * Copies of the text that some hosts send beside it. They are removed with a change of the text: otherwise content that
 * a guardrail removed would remain readable there.
 */
const copiesInDelta = ['content_blocks', 'reasoning_details', 'annotations'] as const;

/**
 * The frame with `events` instead of its own. Depends on the bytes alone, so a rewritten frame can be rewritten again.
 */
function rewriteFrame(frame: StreamFrame, events: readonly StreamEvent[]): Uint8Array | undefined {
  const bytes = asBuffer(frame.bytes);
  const { data } = readSseFrame(bytes);
  const original = data === undefined ? undefined : parseExactObject(data);
  const json = original ?? { object: 'chat.completion.chunk' };
  writeTexts(json, events);
  writeFinishes(json, events);
  writeUsage(json, events);
  writeError(json, events);
  const end = events.some((event) => event.type === 'done') ? doneFrame : undefined;
  if (!hasContent(json, events)) return end;
  const text = stringifyExact(json);
  const rewritten = original === undefined ? writeSseFrame(text) : replaceSseData(bytes, text);
  return end === undefined ? rewritten : Buffer.concat([rewritten, end]);
}

function writeTexts(json: JsonObject, events: readonly StreamEvent[]): void {
  const wanted = joinTexts(events);
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

/** The whole text replaces its first piece. */
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

/** A tap may have renamed a call. */
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
  const present = openAiUsage.of(json);
  if (event?.type === 'usage') {
    if (JSON.stringify(event.usage) === JSON.stringify(present)) return;
    removeUsage(json);
    json.usage = openAiUsage.encode(event.usage, asObject(json.usage));
  } else if (present !== undefined) {
    removeUsage(json);
    delete json.usage;
  }
}

/** Removes usage in places other than `usage`. */
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

/** False when all texts and flags of the frame have been removed. */
function hasContent(json: JsonObject, events: readonly StreamEvent[]): boolean {
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

const done: readonly StreamEvent[] = Object.freeze([{ type: 'done' } as const]);

/** Splits a chat or completions stream into frames with their events. `maxFrameBytes` as for `SseSplitter`. */
function createFrameReader(maxFrameBytes?: number): FrameReader {
  return createSseFrameReader(readFrame, maxFrameBytes);
}

/** One frame with its events. */
function readFrame(bytes: Buffer): StreamFrame {
  const { data, event } = readSseFrame(bytes);
  const text = data?.trim() ?? '';
  if (text === '') return { bytes, events: opaqueEvents };
  if (text === '[DONE]') return { bytes, events: done };
  const json = parseObject(text);
  if (json === undefined) return { bytes, events: opaqueEvents, unread: true };
  const events = chunkEvents(json, event);
  return { bytes, events: events.length === 0 ? opaqueEvents : events };
}

function chunkEvents(json: JsonObject, eventName: string): readonly StreamEvent[] {
  const events: StreamEvent[] = [];
  const message = openAiErrors.message(json, eventName);
  if (message !== undefined) events.push({ type: 'error', message, code: errorCode(json) });
  asArray(json.choices).forEach((value, position) => {
    const choice = asObject(value);
    if (choice === undefined) return;
    const index = choiceIndex(choice, position);
    for (const slot of choiceSlots(choice, index)) events.push(slot.event);
    const reason = asText(choice.finish_reason);
    if (reason !== undefined) events.push({ type: 'finish', choice: index, reason });
  });
  const usage = openAiUsage.of(json);
  if (usage !== undefined) events.push({ type: 'usage', usage });
  return events;
}

function errorCode(json: JsonObject): string {
  const error = asObject(json.error) ?? json;
  const code = error.code ?? error.type;
  return typeof code === 'string' || typeof code === 'number' ? String(code) : '';
}

/** Position of a text in a chunk. */
interface TextSlot {
  readonly event: TextEvent;
  /** The object that holds the text; `member` is the text's name in it. */
  readonly holder: JsonObject;
  readonly member: string;
  /** Removes the text from the chunk. */
  remove(): void;
}

/** All text positions in a chunk of a chat or completions stream, in the order of the answer. */
function textSlots(json: JsonObject): readonly TextSlot[] {
  return asArray(json.choices).flatMap((value, position) => {
    const choice = asObject(value);
    return choice === undefined ? [] : choiceSlots(choice, choiceIndex(choice, position));
  });
}

/** The text positions of one choice. */
function choiceSlots(choice: JsonObject, index: number): readonly TextSlot[] {
  const slots: TextSlot[] = [];
  const delta = asObject(choice.delta);
  const add = (type: 'text-delta' | 'reasoning-delta', holder: JsonObject, member: string): void => {
    const text = asText(holder[member]);
    if (text === undefined) return;
    const remove = (): void => {
      // A delta may lack any member; a part of a content array needs its text.
      if (holder === delta) delete holder[member];
      else holder[member] = '';
    };
    slots.push({ event: { type, choice: index, text }, holder, member, remove });
  };
  add('text-delta', choice, 'text');
  if (delta === undefined) return slots;
  add('reasoning-delta', delta, 'reasoning_content');
  // Some hosts send the same text under both names.
  if (delta.reasoning !== delta.reasoning_content) add('reasoning-delta', delta, 'reasoning');
  add('text-delta', delta, 'content');
  for (const part of asArray(delta.content).map(asObject)) {
    if (part === undefined) continue;
    add('text-delta', part, 'text');
    for (const thought of asArray(part.thinking).map(asObject)) {
      if (thought !== undefined) add('reasoning-delta', thought, 'text');
    }
  }
  add('text-delta', delta, 'refusal');
  slots.push(...callSlots(delta, index));
  return slots;
}

function callSlots(delta: JsonObject, choice: number): readonly TextSlot[] {
  const slots: TextSlot[] = [];
  const calls = Array.isArray(delta.tool_calls) ? (delta.tool_calls as unknown[]) : [];
  calls.forEach((value, position) => {
    const call = asObject(value);
    const definition = asObject(call?.function) ?? asObject(call?.custom);
    if (call === undefined || definition === undefined) return;
    const member = call.function === undefined || call.function === null ? 'input' : 'arguments';
    const index = typeof call.index === 'number' ? call.index : position;
    slots.push({
      event: callEvent(choice, index, { id: call.id, name: definition.name, text: definition[member] }),
      holder: definition,
      member,
      remove: () => calls.splice(calls.indexOf(value), 1),
    });
  });
  const legacy = asObject(delta.function_call);
  if (legacy !== undefined) {
    slots.push({
      event: callEvent(choice, 0, { name: legacy.name, text: legacy.arguments }),
      holder: legacy,
      member: 'arguments',
      remove: () => delete delta.function_call,
    });
  }
  return slots;
}

function callEvent(
  choice: number,
  call: number,
  said: { id?: unknown; name?: unknown; text: unknown },
): TextEvent {
  const id = asText(said.id);
  const name = asText(said.name);
  return {
    type: 'tool-arguments-delta',
    choice,
    call,
    ...(id === undefined ? {} : { id }),
    ...(name === undefined ? {} : { name }),
    text: asText(said.text) ?? '',
  };
}
