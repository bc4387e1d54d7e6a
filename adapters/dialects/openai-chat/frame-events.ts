import type { FrameReader } from '../../../core/dialects/dialect.ts';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { readSseFrame } from '../../framing/sse-frame.ts';
import { asArray, asObject, asText, parseObject, type JsonObject } from '../json-reading.ts';
import { openAiErrorMessage } from '../openai-error.ts';
import { createSseFrameReader, opaqueEvents } from '../sse-frame-reader.ts';
import { usageOf } from './answer-facts.ts';
import { choiceIndex } from './stream-reader.ts';
import { choiceSlots } from './text-slots.ts';

const done: readonly StreamEvent[] = Object.freeze([{ type: 'done' } as const]);

/** Cuts a chat or completions stream into frames with their events. `maxFrameBytes` as for `SseSplitter`. */
export function createFrameReader(maxFrameBytes?: number): FrameReader {
  return createSseFrameReader(readFrame, maxFrameBytes);
}

/** One frame with what it says. */
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
  const message = openAiErrorMessage(json, eventName);
  if (message !== undefined) events.push({ type: 'error', message, code: errorCode(json) });
  asArray(json.choices).forEach((value, position) => {
    const choice = asObject(value);
    if (choice === undefined) return;
    const index = choiceIndex(choice, position);
    for (const slot of choiceSlots(choice, index)) events.push(slot.event);
    const reason = asText(choice.finish_reason);
    if (reason !== undefined) events.push({ type: 'finish', choice: index, reason });
  });
  const usage = usageOf(json);
  if (usage !== undefined) events.push({ type: 'usage', usage });
  return events;
}

function errorCode(json: JsonObject): string {
  const error = asObject(json.error) ?? json;
  const code = error.code ?? error.type;
  return typeof code === 'string' || typeof code === 'number' ? String(code) : '';
}
