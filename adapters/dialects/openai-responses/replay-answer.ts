import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { StreamFrame } from '../../../core/dialects/stream-event.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { readSseFrame } from '../../../core/base/sse.ts';
import {
  asArray,
  asBuffer,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import { encodeResponsesUsage } from './answer.ts';
import { EventLines } from './output-writer.ts';

/**
 * The complete response assembled from the frames of a stream: the final one, or the last state. Throws
 * `upstream_invalid` for a frame with content that cannot be read.
 */
export function assembleResponse(
  _endpoint: EndpointId,
  frames: readonly StreamFrame[],
  usage?: Usage,
): Uint8Array {
  let response: JsonObject = {};
  let error: unknown;
  // Unfinished items are assembled from their deltas.
  const items = new Map<unknown, JsonObject>();
  for (const frame of frames) {
    const json = jsonOf(frame);
    if (json === undefined) continue;
    response = asObject(json.response) ?? response;
    const item = asObject(json.item);
    if (item !== undefined) items.set(json.output_index, item);
    else if (json.delta !== undefined) {
      const growing = items.get(json.output_index) ?? {
        type: 'message',
        role: 'assistant',
        id: json.item_id,
      };
      items.set(json.output_index, growing);
      growItem(growing, json);
    }
    if (json.type === 'error') error = asObject(json.error) ?? { code: json.code, message: json.message };
  }
  const whole: JsonObject = { object: 'response', ...response };
  if (asArray(whole.output).length === 0) whole.output = [...items.values()];
  if (usage !== undefined && asObject(whole.usage) === undefined) whole.usage = encodeResponsesUsage(usage);
  if (error !== undefined && whole.status !== 'failed') Object.assign(whole, { status: 'failed', error });
  return Buffer.from(stringifyExact(whole));
}

function jsonOf(frame: StreamFrame): JsonObject | undefined {
  const text = readSseFrame(asBuffer(frame.bytes)).data?.trim() ?? '';
  if (text === '' || text === '[DONE]') return undefined;
  const json = frame.unread === true ? undefined : parseExactObject(text);
  if (json !== undefined) return json;
  throw new GatewayError('upstream_invalid', "The provider's stream holds an event that is no JSON object.", {
    source: 'provider',
  });
}

/**
 * A complete response as the frames of a stream; the inverse of `assembleResponse`. Throws `upstream_invalid` for
 * anything but a JSON object.
 */
export function disassembleResponse(_endpoint: EndpointId, answer: Uint8Array): readonly Uint8Array[] {
  const response = parseExactObject(asBuffer(answer).toString('utf8'));
  if (response === undefined) {
    throw new GatewayError(
      'upstream_invalid',
      'The answer is no JSON object and cannot be replayed as a stream.',
      {
        source: 'provider',
      },
    );
  }
  const lines = new EventLines();
  const frames: Uint8Array[] = [];
  const cut = (): void => void frames.push(Buffer.from(lines.take()));
  const status = asText(response.status) ?? 'completed';
  const started = {
    ...response,
    status: 'in_progress',
    output: [],
    usage: null,
    error: null,
    incomplete_details: null,
  };
  lines.add('response.created', { response: started });
  cut();
  lines.add('response.in_progress', { response: started });
  cut();
  asArray(response.output).forEach((value, i) => {
    writeItem(lines, asObject(value) ?? {}, i, cut);
  });
  const ending = status === 'incomplete' || status === 'failed' ? status : 'completed';
  lines.add(`response.${ending}`, { response });
  cut();
  return frames;
}

/** Writes the events of an item; `cut` is called after each. */
export function writeItem(lines: EventLines, item: JsonObject, output_index: number, cut: () => void): void {
  const place = { item_id: item.id, output_index };
  const add = (type: string, members: JsonObject): void => {
    lines.add(type, members);
    cut();
  };
  add('response.output_item.added', { output_index, item: emptied(item) });
  if (item.type === 'function_call') {
    add('response.function_call_arguments.delta', { ...place, delta: item.arguments });
    add('response.function_call_arguments.done', { ...place, name: item.name, arguments: item.arguments });
  } else if (item.type === 'custom_tool_call') {
    add('response.custom_tool_call_input.delta', { ...place, delta: item.input });
    add('response.custom_tool_call_input.done', { ...place, input: item.input });
  } else if (item.type === 'reasoning') {
    asArray(item.summary).forEach((value, summary_index) => {
      const part = asObject(value) ?? {};
      const at = { ...place, summary_index };
      add('response.reasoning_summary_part.added', { ...at, part: { ...part, text: '' } });
      add('response.reasoning_summary_text.delta', { ...at, delta: part.text });
      add('response.reasoning_summary_text.done', { ...at, text: part.text });
      add('response.reasoning_summary_part.done', { ...at, part });
    });
  }
  if (item.type === 'message' || item.type === 'reasoning')
    asArray(item.content).forEach((value, content_index) => {
      writeContent(asObject(value) ?? {}, { ...place, content_index }, add);
    });
  add('response.output_item.done', { output_index, item });
}

function writeContent(
  part: JsonObject,
  at: JsonObject,
  add: (type: string, members: JsonObject) => void,
): void {
  const isRefusal = part.type === 'refusal';
  const member = isRefusal ? 'refusal' : 'text';
  const name = isRefusal ? 'refusal' : part.type === 'reasoning_text' ? 'reasoning_text' : 'output_text';
  const annotations = asArray(part.annotations);
  const logprobs = isRefusal || name === 'reasoning_text' ? {} : { logprobs: asArray(part.logprobs) };
  const empty = name === 'output_text' ? { annotations: [], logprobs: [] } : {};
  add('response.content_part.added', { ...at, part: { ...part, ...empty, [member]: '' } });
  add(`response.${name}.delta`, { ...at, delta: part[member], ...logprobs });
  annotations.forEach((annotation, annotation_index) => {
    add('response.output_text.annotation.added', { ...at, annotation_index, annotation });
  });
  add(`response.${name}.done`, { ...at, [member]: part[member], ...logprobs });
  add('response.content_part.done', { ...at, part });
}

/** An item in the form of its first event, without content. */
function emptied(item: JsonObject): JsonObject {
  switch (item.type) {
    case 'function_call':
      return { ...item, status: 'in_progress', arguments: '' };
    case 'custom_tool_call':
      return { ...item, status: 'in_progress', input: '' };
    case 'message':
      return { ...item, status: 'in_progress', content: [] };
    case 'reasoning':
      return { ...item, summary: [], ...(item.content !== undefined && { content: [] }) };
    default:
      return item;
  }
}

/** Adds a delta to an unfinished item, in the form of the finished one. */
function growItem(item: JsonObject, event: JsonObject): void {
  const { delta } = event;
  if (typeof delta !== 'string') return;
  switch (event.type) {
    case 'response.function_call_arguments.delta':
      return append(item, 'arguments', delta);
    case 'response.custom_tool_call_input.delta':
      return append(item, 'input', delta);
    case 'response.output_text.delta':
      return append(partAt(item, 'content', event.content_index, 'output_text'), 'text', delta);
    case 'response.refusal.delta':
      return append(partAt(item, 'content', event.content_index, 'refusal'), 'refusal', delta);
    case 'response.reasoning_text.delta':
      return append(partAt(item, 'content', event.content_index, 'reasoning_text'), 'text', delta);
    case 'response.reasoning_summary_text.delta':
      return append(partAt(item, 'summary', event.summary_index, 'summary_text'), 'text', delta);
  }
}

function append(holder: JsonObject, member: string, text: string): void {
  const before = holder[member];
  holder[member] = typeof before === 'string' ? before + text : text;
}

/**
 * The part of a list at an index, created when the list is shorter. An index beyond the next one counts as the next
 * one.
 */
function partAt(item: JsonObject, list: 'content' | 'summary', index: unknown, type: string): JsonObject {
  const parts = Array.isArray(item[list]) ? (item[list] as unknown[]) : [];
  item[list] = parts;
  const at = Math.min(typeof index === 'number' ? index : 0, parts.length);
  const found = asObject(parts[at]);
  if (found !== undefined) return found;
  const part: JsonObject = type === 'output_text' ? { type, annotations: [] } : { type };
  parts[at] = part;
  return part;
}
