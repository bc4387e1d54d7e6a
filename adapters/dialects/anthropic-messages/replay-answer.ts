import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { StreamFrame } from '../../../core/dialects/stream-event.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { readSseFrame, writeSseFrame } from '../../../core/base/sse.ts';
import {
  asArray,
  asBuffer,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import { encodeAnthropicUsage } from './answer.ts';

/** Members of text deltas: block member and delta member share the name. */
const textMembers = ['text', 'thinking', 'signature'] as const;

/**
 * The complete message assembled from the frames of a stream. Throws `upstream_invalid` for a frame with content that
 * cannot be read. `usage` is inserted when the frames carry none.
 */
export function assembleAnswer(
  _endpoint: EndpointId,
  frames: readonly StreamFrame[],
  usage?: Usage,
): Uint8Array {
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
      usage: counted || usage === undefined ? this.usage : encodeAnthropicUsage(usage),
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
export function disassembleAnswer(_endpoint: EndpointId, answer: Uint8Array): readonly Uint8Array[] {
  const message = parseExactObject(asBuffer(answer).toString('utf8'));
  if (message === undefined) {
    throw new GatewayError(
      'upstream_invalid',
      'The answer is no JSON object and cannot be replayed as a stream.',
    );
  }
  if (!Array.isArray(message.content)) return [eventFrame('error', message)];
  const { content, usage, stop_reason: reason, stop_sequence: sequence, error, ...members } = message;
  const { stop_details: details, container, ...head } = members;
  const counts = asObject(usage) ?? {};
  const started = { ...head, content: [], stop_reason: null, stop_sequence: null, usage: counts };
  const frames = [eventFrame('message_start', { message: started })];
  asArray(content).forEach((value, index) => {
    frames.push(...blockFrames(asObject(value) ?? {}, index));
  });
  const delta: JsonObject = { stop_reason: reason ?? null, stop_sequence: sequence ?? null };
  if (details !== undefined) delta.stop_details = details;
  if (container !== undefined) delta.container = container;
  if (error === undefined || asText(reason) !== undefined) {
    frames.push(eventFrame('message_delta', { delta, usage: counts }));
  }
  if (error !== undefined) frames.push(eventFrame('error', { error }));
  frames.push(eventFrame('message_stop', {}));
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
    eventFrame('content_block_start', { index, content_block: start }),
    ...deltas.map((delta) => eventFrame('content_block_delta', { index, delta })),
    eventFrame('content_block_stop', { index }),
  ];
}

function eventFrame(type: string, members: JsonObject): Buffer {
  return writeSseFrame(stringifyExact({ type, ...members }), type);
}

function unreadableFrame(): GatewayError {
  return new GatewayError(
    'upstream_invalid',
    'The stream holds a frame that is torn, too long or no JSON, so the answer cannot be put together.',
  );
}
