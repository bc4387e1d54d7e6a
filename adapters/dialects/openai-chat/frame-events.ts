import type { FrameReader } from '../../../core/dialects/dialect.ts';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { readSseFrame } from '../../framing/sse-frame.ts';
import { SseSplitter } from '../../framing/sse.ts';
import { asArray, asObject, asText, parseObject, type JsonObject } from '../json-reading.ts';
import { openAiErrorMessage } from '../openai-error.ts';
import { usageOf } from './answer-facts.ts';
import { choiceIndex } from './stream-reader.ts';
import { choiceSlots } from './text-slots.ts';

const opaque: readonly StreamEvent[] = Object.freeze([{ type: 'opaque' } as const]);
const done: readonly StreamEvent[] = Object.freeze([{ type: 'done' } as const]);

/** Cuts a chat or completions stream into frames with their events. `maxFrameBytes` as for `SseSplitter`. */
export function createFrameReader(maxFrameBytes?: number): FrameReader {
  let frames: StreamFrame[] = [];
  const splitter = new SseSplitter((bytes, whole) => {
    frames.push({ bytes, events: whole ? frameEvents(bytes) : opaque });
  }, maxFrameBytes);
  const take = (): readonly StreamFrame[] => {
    const taken = frames;
    frames = [];
    return taken;
  };
  return {
    push(chunk) {
      splitter.push(chunk);
      return take();
    },
    finish() {
      splitter.finish();
      return take();
    },
    get heldBytes() {
      return splitter.heldBytes;
    },
  };
}

/** What one whole frame says. */
function frameEvents(bytes: Buffer): readonly StreamEvent[] {
  const { data, event } = readSseFrame(bytes);
  if (data === undefined) return opaque;
  if (data.trimEnd() === '[DONE]') return done;
  const json = parseObject(data);
  if (json === undefined) return opaque;
  const events = chunkEvents(json, event);
  return events.length === 0 ? opaque : events;
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
