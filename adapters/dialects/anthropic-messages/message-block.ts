import type { StreamEvent } from '../../../core/dialects/stream-event.ts';
import { readSseFrame } from '../../framing/sse-frame.ts';
import { parseExactObject } from '../exact-json.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';
import { textSlots } from './frame-events.ts';

/** A content block of the provider's, by its number there. */
export interface Block {
  readonly type: string;
  /** Its number in the stream that is written; of a block that is gone, none yet. */
  index: number;
  /** `closing`: the provider has ended it, and its end waits for more text. `gone`: nobody may be told of it. */
  state: 'open' | 'closing' | 'closed' | 'gone';
  /** Something of its text is another than the provider's. */
  changed: boolean;
  /** Of a block that is gone: how it began, and that the provider has ended it. */
  readonly start: JsonObject;
  ended: boolean;
}

const impliedTypes: Readonly<Record<string, string>> = {
  'reasoning-delta': 'thinking',
  'tool-arguments-delta': 'tool_use',
};

/** The open block, when text of this kind can go on in it. */
export function ofType(block: Block | undefined, type: 'text-delta' | 'reasoning-delta'): Block | undefined {
  return block?.type === (type === 'text-delta' ? 'text' : 'thinking') ? block : undefined;
}

/** It is a delta of a block, and not its begin; found without reading it. */
export function isPlainDelta(bytes: Buffer, events: readonly StreamEvent[]): boolean {
  return events.length === 1 && 'text' in (events[0] as StreamEvent) && !bytes.includes('_start"');
}

/** The event that a frame says, with its type; undefined for a comment and for what is no JSON. */
export function frameJson(bytes: Buffer): JsonObject | undefined {
  const { data, event } = readSseFrame(bytes);
  const json = data === undefined ? undefined : parseExactObject(data);
  if (json !== undefined && asText(json.type) === undefined && event !== '') json.type = event;
  return json;
}

/** The number of the block of which an event tells. */
export function blockNumber(json: JsonObject): number {
  return typeof json.index === 'number' ? json.index : 0;
}

/** How many blocks stand in the event that begins a message. */
export function contentLength(json: JsonObject): number {
  const content = asObject(json.message)?.content;
  return Array.isArray(content) ? content.length : 0;
}

/** A block of which the first thing known is this event. */
export function impliedBlock(json: JsonObject): Block {
  const type = impliedTypes[textSlots(json)[0]?.event.type ?? ''] ?? 'text';
  return newBlock(type, blockNumber(json), {});
}

/** A block that has just begun. */
export function newBlock(type: string, index: number, start: JsonObject): Block {
  return { type, index, start, state: 'open', changed: false, ended: false };
}
