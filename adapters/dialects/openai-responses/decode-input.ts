import type {
  AudioPart,
  CacheMarker,
  ChatPart,
  Extras,
  FilePart,
  ImagePart,
  MediaSource,
  TextPart,
  ToolResultPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';
import { given, sourceOfUrl, unreadable } from '../request-members.ts';
import {
  attachSignature,
  contentPart,
  dialect,
  partsOfItem,
  phaseExtras,
  providerItem,
} from './output-parts.ts';

/** Formats of `input_audio` whose name differs from the media type. */
const audioTypes: Readonly<Record<string, string>> = { mp3: 'audio/mpeg', m4a: 'audio/mp4' };

/** Parts allowed in an input message or in the output of a tool. */
type InputPart = TextPart | ImagePart | FilePart | AudioPart;

/**
 * The parts of an input content: a string, or a list of `input_text`, `input_image`, `input_file`, `input_audio`.
 * Throws `invalid_request` with `place` (`input[0].content`) for anything else; unknown kinds become opaque parts.
 */
function decodeInputContent(content: unknown, place: string): readonly ChatPart[] {
  if (content === undefined || content === null || content === '') return [];
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content)) throw unreadable(place, 'be a string or an array of content parts', content);
  return content.map((value: unknown, i) => {
    const part = asObject(value);
    if (part === undefined) throw unreadable(`${place}[${i}]`, 'be a content part', value);
    return inputPart(part, `${place}[${i}]`) ?? { type: 'opaque', dialect, value: part };
  });
}

/** One part of the caller's; undefined when its kind is unknown. */
function inputPart(part: JsonObject, place: string): InputPart | undefined {
  const cache = cacheMarker(part);
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text':
      if (typeof part.text !== 'string') throw unreadable(`${place}.text`, 'be a string', part.text);
      return given<TextPart>({ type: 'text', text: part.text, cache });
    case 'input_image':
      return given<ImagePart>({ ...imageOf(part, place), cache });
    case 'input_file':
      return given<FilePart>({ ...fileOf(part, place), cache });
    case 'input_audio':
      return given<AudioPart>({ ...audioOf(part, place), cache });
    default:
      return undefined;
  }
}

function imageOf(part: JsonObject, place: string): ImagePart {
  const url = asText(part.image_url);
  const id = asText(part.file_id);
  const detail = asText(part.detail);
  if (url !== undefined)
    return given<ImagePart>({ type: 'image', source: sourceOfUrl(url, 'image/jpeg'), detail });
  if (id === undefined)
    throw unreadable(`${place}.image_url`, 'be a URL or a data: URL, or file_id be given', part.image_url);
  return given<ImagePart>({ type: 'image', source: uploaded(id), detail });
}

function fileOf(part: JsonObject, place: string): FilePart {
  const filename = asText(part.filename);
  const data = asText(part.file_data);
  const url = asText(part.file_url);
  const id = asText(part.file_id);
  const detail = asText(part.detail);
  const extras = detail === undefined ? undefined : { [dialect]: { detail } };
  if (data !== undefined) {
    const read = sourceOfUrl(data, typeOfName(filename));
    const source =
      read.kind === 'url' ? { kind: 'base64' as const, mediaType: typeOfName(filename), data } : read;
    return given<FilePart>({ type: 'file', source, filename, extras });
  }
  if (url !== undefined)
    return given<FilePart>({ type: 'file', source: { kind: 'url', url }, filename, extras });
  if (id === undefined)
    throw unreadable(place, 'hold file_data, file_url or file_id', part.file_data ?? part.file_url);
  return given<FilePart>({ type: 'file', source: uploaded(id), filename, extras });
}

function audioOf(part: JsonObject, place: string): AudioPart {
  const audio = asObject(part.input_audio);
  const data = asText(audio?.data);
  if (data === undefined) throw unreadable(`${place}.input_audio.data`, 'be base64', audio?.data);
  const read = sourceOfUrl(data);
  if (read.kind === 'base64') return { type: 'audio', source: read };
  const format = asText(audio?.format) ?? 'wav';
  return {
    type: 'audio',
    source: { kind: 'base64', mediaType: audioTypes[format] ?? `audio/${format}`, data },
  };
}

function uploaded(id: string): MediaSource {
  return { kind: 'file-id', id, dialect };
}

/** Documents without a type are PDFs. */
function typeOfName(filename: string | undefined): string {
  return filename === undefined || /\.pdf$/i.test(filename) ? 'application/pdf' : 'application/octet-stream';
}

/** An explicit end of a reusable prompt prefix. */
function cacheMarker(part: JsonObject): CacheMarker | undefined {
  return asObject(part.prompt_cache_breakpoint) === undefined ? undefined : {};
}

type Role = ChatMessage['role'];

interface OpenMessage {
  readonly role: Role;
  readonly parts: ChatPart[];
  readonly extras?: Extras;
}

const roles: ReadonlySet<unknown> = new Set(['system', 'developer', 'user', 'assistant']);

/** Items that a client sends in answer to a call that only this wire has. */
const clientAnswers: ReadonlySet<unknown> = new Set([
  'computer_call_output',
  'local_shell_call_output',
  'shell_call_output',
  'apply_patch_call_output',
  'mcp_approval_response',
  'tool_search_output',
]);

/**
 * The conversation of `input`. All items of the assistant in one turn (thoughts, texts, calls) become one message,
 * consecutive tool results another. Throws `invalid_request` for unreadable input, `not_supported` for references to
 * items that only their provider stores.
 */
export function decodeInput(input: unknown): readonly ChatMessage[] {
  if (typeof input === 'string') return [{ role: 'user', parts: [{ type: 'text', text: input }] }];
  if (!Array.isArray(input)) throw unreadable('input', 'be a string or an array of items', input);
  const messages: OpenMessage[] = [];
  input.forEach((value: unknown, i) => {
    const item = asObject(value);
    if (item === undefined) throw unreadable(`input[${i}]`, 'be an item', value);
    addItem(messages, item, `input[${i}]`);
  });
  return messages;
}

function addItem(messages: OpenMessage[], item: JsonObject, place: string): void {
  const { type } = item;
  if (type === 'item_reference') throw referenceRefused(place);
  if (type === 'message' || (type === undefined && 'role' in item)) return addMessage(messages, item, place);
  if (type === 'function_call_output' || type === 'custom_tool_call_output') {
    turnOf(messages, 'tool').push(toolResult(item, place));
    return;
  }
  if (clientAnswers.has(type)) {
    messages.push({ role: 'user', parts: [providerItem(item)] });
    return;
  }
  if (asText(type) === undefined) throw unreadable(`${place}.type`, 'name the kind of the item', type);
  const isCall = type === 'function_call' || type === 'custom_tool_call';
  if (isCall && asText(item.call_id) === undefined)
    throw unreadable(`${place}.call_id`, 'be a string', item.call_id);
  if (isCall && asText(item.name) === undefined) throw unreadable(`${place}.name`, 'be a string', item.name);
  const { parts, carried } = partsOfItem(item, (prefix) => prefix);
  const turn = turnOf(messages, 'assistant');
  turn.push(...parts);
  if (carried !== undefined) attachSignature(turn, carried);
}

function addMessage(messages: OpenMessage[], item: JsonObject, place: string): void {
  const { role } = item;
  if (!roles.has(role))
    throw unreadable(`${place}.role`, "be 'user', 'assistant', 'system' or 'developer'", role);
  if (role !== 'assistant') {
    messages.push({ role: role as Role, parts: [...decodeInputContent(item.content, `${place}.content`)] });
    return;
  }
  turnOf(messages, 'assistant').push(...assistantParts(item, `${place}.content`));
}

function assistantParts(item: JsonObject, place: string): readonly ChatPart[] {
  const { content } = item;
  if (Array.isArray(content))
    return content.map((part: unknown) => contentPart(asObject(part) ?? {}, item.phase));
  const extras = phaseExtras(item.phase);
  const parts = decodeInputContent(content, place);
  return extras === undefined ? parts : parts.map((part) => ({ ...part, extras }));
}

/** The parts of the last message when it has this role, else of a new one. */
function turnOf(messages: OpenMessage[], role: Role): ChatPart[] {
  const last = messages.at(-1);
  if (last?.role === role) return last.parts;
  const parts: ChatPart[] = [];
  messages.push({ role, parts });
  return parts;
}

function toolResult(item: JsonObject, place: string): ToolResultPart {
  const callId = asText(item.call_id);
  if (callId === undefined) throw unreadable(`${place}.call_id`, 'be a string', item.call_id);
  const parts = decodeInputContent(item.output, `${place}.output`);
  return {
    type: 'tool-result',
    callId,
    kind: item.type === 'custom_tool_call_output' ? 'custom' : 'function',
    content: parts.map(resultPart),
  };
}

/** Content of an unknown kind is kept as its JSON text. */
function resultPart(part: ChatPart): InputPart {
  if (part.type === 'text' || part.type === 'image' || part.type === 'file' || part.type === 'audio')
    return part;
  return { type: 'text', text: JSON.stringify('value' in part ? part.value : part) };
}

function referenceRefused(place: string): GatewayError {
  return new GatewayError(
    'not_supported',
    `${place} refers to an item that only the provider which made it stores, and this request goes to another one. Send the item itself: clients do so with "store": false and "include": ["reasoning.encrypted_content"]; or have the gateway keep answers (plugin "stored-responses").`,
    { param: place },
  );
}
