import type {
  ChatPart,
  ImagePart,
  ReasoningPart,
  RefusalPart,
  TextPart,
  ToolCallPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { stringifyExact } from '../exact-json.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { decodeAnnotation } from './annotations.ts';
import { decodeCarried, type Carried } from './carried-signature.ts';
import { providerItem } from './provider-items.ts';

const dialect = 'openai-responses';

/** Members of a call that the canonical form has. */
const callMembers: ReadonlySet<string> = new Set([
  'type',
  'id',
  'call_id',
  'name',
  'arguments',
  'input',
  'status',
]);

/** Summaries come in several parts; in one text they stand apart by a blank line. */
export const summarySeparator = '\n\n';

/** What an item of an answer, or of a history, says. */
export interface ItemParts {
  readonly parts: readonly ChatPart[];
  /** A signature for another part. */
  readonly carried?: Carried;
}

/** The parts of an item. `newId` names a call that has no id. */
export function partsOfItem(item: JsonObject, newId: (prefix: string) => string): ItemParts {
  switch (item.type) {
    case 'message':
      return { parts: messageParts(item) };
    case 'function_call':
    case 'custom_tool_call':
      return { parts: [callPart(item, newId)] };
    case 'reasoning':
      return reasoningParts(item);
    default:
      return { parts: [imagePart(item) ?? providerItem(item)] };
  }
}

/** The texts and refusals of a message. Its `phase` stays with each. */
export function messageParts(item: JsonObject): readonly ChatPart[] {
  const { content } = item;
  const values = typeof content === 'string' ? [{ type: 'output_text', text: content }] : asArray(content);
  return values.map((value) => contentPart(asObject(value) ?? {}, item.phase));
}

/** One part of a message's content. */
export function contentPart(content: JsonObject, phase: unknown): ChatPart {
  const extras = phaseExtras(phase);
  if (content.type === 'refusal') {
    const part: RefusalPart = { type: 'refusal', text: stringOf(content.refusal) };
    return extras === undefined ? part : { ...part, extras };
  }
  if (typeof content.text !== 'string') return { type: 'opaque', dialect, value: content };
  const citations = asArray(content.annotations)
    .map(decodeAnnotation)
    .filter((one) => one !== undefined);
  const part: TextPart = { type: 'text', text: content.text };
  return {
    ...part,
    ...(citations.length > 0 && { citations }),
    ...(extras !== undefined && { extras }),
  };
}

/** `commentary` or `final_answer`: what the message is for. */
export function phaseExtras(phase: unknown): TextPart['extras'] {
  return asText(phase) === undefined ? undefined : { [dialect]: { phase } };
}

/** The head of a call, its arguments still empty. */
export function callHead(item: JsonObject, newId: (prefix: string) => string): ToolCallPart {
  const itemId = asText(item.id);
  const others = Object.entries(item).filter(([name, value]) => !callMembers.has(name) && value !== null);
  return {
    type: 'tool-call',
    id: asText(item.call_id) ?? itemId ?? newId('call_'),
    name: stringOf(item.name),
    kind: item.type === 'custom_tool_call' ? 'custom' : 'function',
    arguments: '',
    ...(itemId !== undefined && { itemId }),
    ...(others.length > 0 && { extras: { [dialect]: Object.fromEntries(others) } }),
  };
}

/** The arguments of a call as text; empty for none. */
export function callArguments(item: JsonObject): string {
  const value = item.type === 'custom_tool_call' ? item.input : item.arguments;
  if (typeof value === 'string') return value;
  const object = asObject(value);
  return object === undefined ? '' : stringifyExact(object);
}

function callPart(item: JsonObject, newId: (prefix: string) => string): ToolCallPart {
  const head = callHead(item, newId);
  const text = callArguments(item);
  return { ...head, arguments: text === '' && head.kind === 'function' ? '{}' : text };
}

/** The summary of a reasoning item as one text. */
export function summaryText(item: JsonObject): string {
  return joined(item.summary, summarySeparator);
}

/** The thoughts themselves, where a model shows them. */
export function thoughtText(item: JsonObject): string {
  return joined(item.content, '');
}

/**
 * A reasoning item: its thoughts, its summary, and its encrypted content as the signature of the last of them. An item
 * that has nothing of these says nothing without the store of its provider.
 */
export function reasoningParts(item: JsonObject): ItemParts {
  const encrypted = asText(item.encrypted_content);
  const carried = encrypted === undefined ? undefined : decodeCarried(encrypted);
  if (carried?.kind === 'redacted') {
    return { parts: [{ type: 'reasoning', text: '', redacted: carried.data }] };
  }
  if (carried !== undefined) return { parts: [], carried };
  const itemId = asText(item.id);
  const common = itemId === undefined ? {} : { itemId };
  const parts: ReasoningPart[] = [];
  const thought = thoughtText(item);
  if (thought !== '') parts.push({ type: 'reasoning', text: thought, ...common });
  const summary = summaryText(item);
  if (summary !== '' || (thought === '' && encrypted !== undefined)) {
    parts.push({ type: 'reasoning', text: summary, summary: true, ...common });
  }
  const last = parts.pop();
  if (last !== undefined) parts.push(encrypted === undefined ? last : { ...last, signature: encrypted });
  return { parts };
}

/** A finished picture; undefined while there is none. */
export function imagePart(item: JsonObject): ImagePart | undefined {
  const data = asText(item.result);
  if (item.type !== 'image_generation_call' || data === undefined) return undefined;
  const members = { ...item };
  delete members.result;
  delete members.type;
  const mediaType = `image/${asText(item.output_format) ?? 'png'}`;
  return { type: 'image', source: { kind: 'base64', mediaType, data }, extras: { [dialect]: members } };
}

function joined(list: unknown, separator: string): string {
  return asArray(list)
    .map((value) => stringOf(asObject(value)?.text))
    .filter((text) => text !== '')
    .join(separator);
}

function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
