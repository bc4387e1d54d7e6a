import type { FrameReader } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { CallEvent, StreamEvent, StreamFrame, TextEvent } from '../../../core/dialects/stream-event.ts';
import { readSseFrame, writeSseFrame } from '../../../core/base/sse.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import {
  asArray,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
  asBuffer,
} from '../json-reading.ts';
import { createSseFrameReader, opaqueEvents } from '../frame-scanner.ts';
import { anthropicErrorMessage, anthropicUsage } from './answer.ts';

/** Reads what the rewriter follows in a frame. */
export const frameParts = { blockNumber, newBlock, usageHolder, textSlots };

/** One answer of the frames of a stream, and back. */
export const wholeAnswer = { assemble: assembleAnswer, disassemble: disassembleAnswer };

/** Frames that the rewriter writes. */
export const frames = {
  event: eventFrame,
  start: startFrame,
  delta: deltaFrame,
  stop: stopFrame,
  numbered,
  argumentsOnly,
};

/** A content block of the provider's stream. */
export interface Block {
  readonly type: string;
  /** Its number in the written stream; not yet assigned for a removed block. */
  index: number;
  /**
   * `closing`: the provider has ended the block, and its end waits for more text. `gone`: the block is withheld from
   * the client.
   */
  state: 'open' | 'closing' | 'closed' | 'gone';
  /** Some of its text differs from the provider's. */
  changed: boolean;
  /** Start event of a removed block; `ended` is true once the provider has ended it. */
  readonly start: JsonObject;
  ended: boolean;
}

/** Block number of an event. */
function blockNumber(json: JsonObject): number {
  return typeof json.index === 'number' ? json.index : 0;
}

/** A block that has just started. */
function newBlock(type: string, index: number, start: JsonObject): Block {
  return { type, index, start, state: 'open', changed: false, ended: false };
}

/** Events of a frame that carries nothing for a tap. */
export const opaque: readonly StreamEvent[] = Object.freeze([{ type: 'opaque' } as const]);

/** An event of this wire as a frame. */
function eventFrame(type: string, members: JsonObject, events: readonly StreamEvent[]): StreamFrame {
  return { bytes: eventBytes(type, members), events };
}

/** Start of a text, thinking or call block without content; `event` is its first content. */
function startFrame(index: number, block: JsonObject, event: TextEvent): StreamFrame {
  const isCall = event.type === 'tool-arguments-delta';
  const events = isCall ? [{ ...event, call: index, text: '' }] : opaque;
  return eventFrame('content_block_start', { index, content_block: block }, events);
}

/** A delta of a block. */
function deltaFrame(index: number, event: TextEvent): StreamFrame {
  return eventFrame('content_block_delta', { index, delta: deltaOf(event) }, [numbered(event, index)]);
}

/** The end of a block. */
function stopFrame(index: number): StreamFrame {
  return eventFrame('content_block_stop', { index }, opaque);
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

/** The event with its block number in the written stream. */
function numbered(event: TextEvent, index: number): TextEvent {
  return event.type === 'tool-arguments-delta' && event.call !== index ? { ...event, call: index } : event;
}

/** The arguments alone: id and name are in the start event of the block. */
function argumentsOnly({ choice, call, text }: CallEvent): CallEvent {
  return { type: 'tool-arguments-delta', choice, call, text };
}

const done: readonly StreamEvent[] = Object.freeze([{ type: 'done' } as const]);

/**
 * Splits a message stream into frames with their events. The `call` of tool arguments is the number of their content
 * block; usage combines `message_start` and later events. `maxFrameBytes` as for `SseSplitter`.
 */
export function createFrameReader(maxFrameBytes?: number): FrameReader {
  const state = new StreamState();
  return createSseFrameReader((bytes) => state.frame(bytes), maxFrameBytes);
}

/** State that later frames of a stream depend on. */
class StreamState {
  private readonly usage: JsonObject = {};
  frame(bytes: Buffer): StreamFrame {
    const { data, event } = readSseFrame(bytes);
    const text = data?.trim() ?? '';
    if (text === '') return { bytes, events: opaqueEvents };
    const json = parseExactObject(text);
    if (json === undefined) return { bytes, events: opaqueEvents, unread: true };
    this.learn(json);
    const events = eventsOf(json, event, this.usage);
    return { bytes, events: events.length === 0 ? opaqueEvents : events };
  }

  private learn(json: JsonObject): void {
    const usage = usageHolder(json);
    for (const [member, value] of Object.entries(usage ?? {})) {
      if (value !== null) this.usage[member] = value;
    }
  }
}

/** The object that holds the usage of an event. */
function usageHolder(json: JsonObject): JsonObject | undefined {
  return asObject(asObject(json.message)?.usage) ?? asObject(json.usage);
}

function eventsOf(json: JsonObject, name: string, usage: JsonObject): readonly StreamEvent[] {
  const type = asText(json.type) ?? name;
  if (type === 'message_stop') return done;
  const events: StreamEvent[] = [];
  const message = anthropicErrorMessage(json, name);
  if (message !== undefined) {
    events.push({ type: 'error', message, code: asText(asObject(json.error)?.type) ?? '' });
  }
  for (const slot of textSlots(json)) events.push(slot.event);
  const reason = asText(asObject(json.delta)?.stop_reason) ?? asText(asObject(json.message)?.stop_reason);
  if (reason !== undefined) events.push({ type: 'finish', choice: 0, reason });
  const counted = usageHolder(json) === undefined ? undefined : anthropicUsage.decode(usage);
  if (counted !== undefined) events.push({ type: 'usage', usage: counted });
  return events;
}

/** Position of a text in an event. */
export interface TextSlot {
  readonly event: TextEvent;
  readonly holder: JsonObject;
  readonly member: 'text' | 'thinking' | 'partial_json' | 'input';
}

/** The texts of an event: of a delta, of a block that starts with text, or of the blocks in the start of a message. */
function textSlots(json: JsonObject): readonly TextSlot[] {
  const index = typeof json.index === 'number' ? json.index : 0;
  if (json.type === 'message_start') {
    const content = asArray(asObject(json.message)?.content);
    return content.flatMap((block, i) => blockSlot(asObject(block), i) ?? []);
  }
  const holder = json.type === 'content_block_delta' ? asObject(json.delta) : asObject(json.content_block);
  const slot = blockSlot(holder, index);
  return slot === undefined ? [] : [slot];
}

/** Id and name of a call are in its start event. */
function blockSlot(holder: JsonObject | undefined, index: number): TextSlot | undefined {
  if (holder === undefined) return undefined;
  switch (holder.type) {
    case 'text':
    case 'text_delta':
      return plainSlot('text-delta', holder, 'text');
    case 'thinking':
    case 'thinking_delta':
      return plainSlot('reasoning-delta', holder, 'thinking');
    case 'input_json_delta': {
      const text = asText(holder.partial_json) ?? '';
      const event = { type: 'tool-arguments-delta', choice: 0, call: index, text } as const;
      return { event, holder, member: 'partial_json' };
    }
    case 'tool_use':
    case 'server_tool_use':
    case 'mcp_tool_use':
      return { event: callEvent(holder, index), holder, member: 'input' };
    default:
      return undefined;
  }
}

function plainSlot(
  type: 'text-delta' | 'reasoning-delta',
  holder: JsonObject,
  member: 'text' | 'thinking',
): TextSlot | undefined {
  const text = asText(holder[member]);
  return text === undefined ? undefined : { event: { type, choice: 0, text }, holder, member };
}

function callEvent(block: JsonObject, call: number): TextEvent {
  const id = asText(block.id);
  const name = asText(block.name);
  const input = asObject(block.input) ?? {};
  return {
    type: 'tool-arguments-delta',
    choice: 0,
    call,
    ...(id === undefined ? {} : { id }),
    ...(name === undefined ? {} : { name }),
    text: Object.keys(input).length === 0 ? '' : stringifyExact(input),
  };
}

/** Members of text deltas: block member and delta member share the name. */
const textMembers = ['text', 'thinking', 'signature'] as const;

/**
 * The complete message assembled from the frames of a stream. Throws `upstream_invalid` for a frame with content that
 * cannot be read. `usage` is inserted when the frames carry none.
 */
function assembleAnswer(_endpoint: EndpointId, frames: readonly StreamFrame[], usage?: Usage): Uint8Array {
  const assembly = new Assembly();
  for (const frame of frames) {
    const { data, event } = readSseFrame(asBuffer(frame.bytes));
    if (data === undefined || data.trim() === '') continue;
    const json = parseExactObject(data);
    if (json === undefined) throw unreadableFrame();
    assembly.add(asText(json.type) ?? event, json);
  }
  return Buffer.from(stringifyExact(assembly.message(usage)));
}

/** Assembles a message from its events. */
class Assembly {
  private readonly members: JsonObject = {};
  private started = false;
  private readonly content: JsonObject[] = [];
  private readonly byIndex = new Map<unknown, JsonObject>();
  private readonly inputs = new Map<JsonObject, string>();
  private readonly usage: JsonObject = {};

  add(type: string, json: JsonObject): void {
    switch (type) {
      case 'message_start':
        if (!this.started) this.start(asObject(json.message) ?? {});
        return;
      case 'content_block_start':
        this.begin(json.index, asObject(json.content_block) ?? {});
        return;
      case 'content_block_delta':
        this.delta(this.byIndex.get(json.index), asObject(json.delta) ?? {});
        return;
      case 'message_delta': {
        const { delta, usage, ...rest } = json;
        delete rest.type;
        Object.assign(this.members, rest, asObject(delta));
        this.learnUsage(asObject(usage));
        return;
      }
      case 'error':
        this.members.error = json.error ?? json.message ?? null;
    }
  }

  message(usage: Usage | undefined): JsonObject {
    for (const [block, text] of this.inputs) block.input = parseExactObject(text) ?? { input: text };
    const counted = Object.keys(this.usage).length > 0;
    return {
      ...this.members,
      content: this.content,
      usage: counted || usage === undefined ? this.usage : anthropicUsage.encode(usage),
    };
  }

  private start(message: JsonObject): void {
    this.started = true;
    const { content, usage, ...rest } = message;
    Object.assign(this.members, rest);
    this.content.push(...asArray(content).flatMap<JsonObject>((value) => asObject(value) ?? []));
    this.learnUsage(asObject(usage));
  }

  private begin(index: unknown, start: JsonObject): void {
    if (this.byIndex.has(index)) return;
    const block = { ...start };
    this.byIndex.set(index, block);
    this.content.push(block);
  }

  private delta(block: JsonObject | undefined, delta: JsonObject): void {
    if (block === undefined) return;
    if (delta.type === 'input_json_delta') {
      const text = asText(delta.partial_json);
      if (text !== undefined) this.inputs.set(block, (this.inputs.get(block) ?? '') + text);
    } else if (delta.type === 'citations_delta') {
      block.citations = [...asArray(block.citations), delta.citation];
    } else if (delta.type === 'compaction_delta') {
      Object.assign(block, delta, { type: block.type });
    } else {
      for (const member of textMembers) {
        const text = asText(delta[member]);
        if (text !== undefined) block[member] = (asText(block[member]) ?? '') + text;
      }
    }
  }

  private learnUsage(usage: JsonObject | undefined): void {
    for (const [member, value] of Object.entries(usage ?? {})) {
      if (value !== null || !(member in this.usage)) this.usage[member] = value;
    }
  }
}

/**
 * A complete message as the frames of a stream, each block with its whole text in one delta. Throws `upstream_invalid`
 * when the answer is not a JSON object.
 */
function disassembleAnswer(_endpoint: EndpointId, answer: Uint8Array): readonly Uint8Array[] {
  const message = parseExactObject(asBuffer(answer).toString('utf8'));
  if (message === undefined) {
    throw new GatewayError(
      'upstream_invalid',
      'The answer is no JSON object and cannot be replayed as a stream.',
    );
  }
  if (!Array.isArray(message.content)) return [eventBytes('error', message)];
  const { content, usage, stop_reason: reason, stop_sequence: sequence, error, ...members } = message;
  const { stop_details: details, container, ...head } = members;
  const counts = asObject(usage) ?? {};
  const started = { ...head, content: [], stop_reason: null, stop_sequence: null, usage: counts };
  const frames = [eventBytes('message_start', { message: started })];
  asArray(content).forEach((value, index) => {
    frames.push(...blockFrames(asObject(value) ?? {}, index));
  });
  const delta: JsonObject = { stop_reason: reason ?? null, stop_sequence: sequence ?? null };
  if (details !== undefined) delta.stop_details = details;
  if (container !== undefined) delta.container = container;
  if (error === undefined || asText(reason) !== undefined) {
    frames.push(eventBytes('message_delta', { delta, usage: counts }));
  }
  if (error !== undefined) frames.push(eventBytes('error', { error }));
  frames.push(eventBytes('message_stop', {}));
  return frames;
}

function blockFrames(block: JsonObject, index: number): readonly Buffer[] {
  const start: JsonObject = { ...block };
  const deltas: JsonObject[] = [];
  switch (block.type) {
    case 'text':
      start.text = '';
      if (Array.isArray(block.citations)) start.citations = [];
      for (const citation of asArray(block.citations)) deltas.push({ type: 'citations_delta', citation });
      if (asText(block.text) !== undefined) deltas.push({ type: 'text_delta', text: block.text });
      break;
    case 'thinking':
      Object.assign(start, { thinking: '', signature: '' });
      if (asText(block.thinking) !== undefined) {
        deltas.push({ type: 'thinking_delta', thinking: block.thinking });
      }
      if (asText(block.signature) !== undefined) {
        deltas.push({ type: 'signature_delta', signature: block.signature });
      }
      break;
    case 'tool_use':
    case 'server_tool_use':
    case 'mcp_tool_use':
      start.input = {};
      deltas.push({ type: 'input_json_delta', partial_json: stringifyExact(asObject(block.input) ?? {}) });
  }
  return [
    eventBytes('content_block_start', { index, content_block: start }),
    ...deltas.map((delta) => eventBytes('content_block_delta', { index, delta })),
    eventBytes('content_block_stop', { index }),
  ];
}

function eventBytes(type: string, members: JsonObject): Buffer {
  return writeSseFrame(stringifyExact({ type, ...members }), type);
}

function unreadableFrame(): GatewayError {
  return new GatewayError(
    'upstream_invalid',
    'The stream holds a frame that is torn, too long or no JSON, so the answer cannot be put together.',
  );
}
