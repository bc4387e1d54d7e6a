import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { writeSseFrame } from '../../framing/sse-frame.ts';
import { stringifyExact } from '../exact-json.ts';
import type { JsonObject } from '../json-reading.ts';
import type { TextEvent } from './frame-events.ts';

/** What a frame says that says nothing to a tap. */
export const opaque: readonly StreamEvent[] = Object.freeze([{ type: 'opaque' } as const]);

type CallEvent = Extract<TextEvent, { type: 'tool-arguments-delta' }>;

/** An event of this wire as a frame. */
export function eventFrame(type: string, members: JsonObject, events: readonly StreamEvent[]): StreamFrame {
  return { bytes: writeSseFrame(stringifyExact({ type, ...members }), type), events };
}

/** The begin of a text, of thoughts or of a call that holds nothing yet; `event` is what will be said in it. */
export function startFrame(index: number, block: JsonObject, event: TextEvent): StreamFrame {
  const isCall = event.type === 'tool-arguments-delta';
  const events = isCall ? [{ ...event, call: index, text: '' }] : opaque;
  return eventFrame('content_block_start', { index, content_block: block }, events);
}

/** More of a block. */
export function deltaFrame(index: number, event: TextEvent): StreamFrame {
  return eventFrame('content_block_delta', { index, delta: deltaOf(event) }, [numbered(event, index)]);
}

/** The end of a block. */
export function stopFrame(index: number): StreamFrame {
  return eventFrame('content_block_stop', { index }, opaque);
}

/** A whole block that says this and nothing else. */
export function wholeBlock(index: number, event: TextEvent): readonly StreamFrame[] {
  const more = event.type === 'tool-arguments-delta' ? argumentsOnly(event) : event;
  return [startFrame(index, emptyBlock(event), event), deltaFrame(index, more), stopFrame(index)];
}

function emptyBlock(event: TextEvent): JsonObject {
  switch (event.type) {
    case 'text-delta':
      return { type: 'text', text: '' };
    case 'reasoning-delta':
      return { type: 'thinking', thinking: '', signature: '' };
    case 'tool-arguments-delta':
      return { type: 'tool_use', id: event.id ?? '', name: event.name ?? '', input: {} };
  }
}

function deltaOf(event: TextEvent): JsonObject {
  switch (event.type) {
    case 'text-delta':
      return { type: 'text_delta', text: event.text };
    case 'reasoning-delta':
      return { type: 'thinking_delta', thinking: event.text };
    case 'tool-arguments-delta':
      return { type: 'input_json_delta', partial_json: event.text };
  }
}

/** The event with the number that its block has in the stream that is written. */
export function numbered(event: TextEvent, index: number): TextEvent {
  return event.type === 'tool-arguments-delta' && event.call !== index ? { ...event, call: index } : event;
}

/** The arguments alone: id and name were said at the begin of the block. */
export function argumentsOnly({ choice, call, text }: CallEvent): CallEvent {
  return { type: 'tool-arguments-delta', choice, call, text };
}

/** An error in the stream. */
export function errorFrame(event: Extract<StreamEvent, { type: 'error' }>): StreamFrame {
  const error = { type: event.code === '' ? 'api_error' : event.code, message: event.message };
  return eventFrame('error', { error }, [event]);
}
