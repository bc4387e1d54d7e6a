import type {
  ChatPart,
  Citation,
  FilePart,
  ProviderToolPart,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import { asArray, asObject, asText, type JsonObject, stringifyExact } from '../json-reading.ts';
import { decodeAnnotations } from './answer.ts';
import { bodyIssues, dataUrls, requestMember } from '../request-members.ts';
import { typeOfName } from '../openai-shapes.ts';

/** Content blocks of messages and of answers. */
export const contentBlock = {
  decode: decodeBlock,
  decodeContent: decodeContentBlock,
  thinkingText,
  thoughtSignature,
};

const knownPartMembers: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  Object.entries({
    text: new Set(['type', 'text', 'cache_control', 'citations', 'signature']),
    image_url: new Set(['type', 'image_url', 'cache_control']),
    input_audio: new Set(['type', 'input_audio', 'cache_control']),
    file: new Set(['type', 'file', 'cache_control']),
  }),
);

/** The media types of the formats that `input_audio` names. */
const audioTypes: ReadonlyMap<string, string> = new Map([
  ['mp3', 'audio/mpeg'],
  ['m4a', 'audio/mp4'],
]);

/**
 * The parts of a message's content: none for null, one for a string, else those of the array. Throws `invalid_request`
 * with `place` (`messages[0].content`) for anything else.
 */
function decodeContent(content: unknown, place: string): ChatPart[] {
  if (content === undefined || content === null) return [];
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  if (!Array.isArray(content))
    throw bodyIssues.unreadable(place, 'be a string or an array of content parts', content);
  return content.flatMap((item: unknown, i) => decodePart(item, `${place}[${i}]`));
}

/** One content part, of a request or of an answer. */
function decodePart(item: unknown, place: string): ChatPart | ChatPart[] {
  if (typeof item === 'string') return { type: 'text', text: item };
  const part = asObject(item);
  if (part === undefined) throw bodyIssues.unreadable(place, 'be a content part', item);
  const type = asText(part.type) ?? (typeof part.text === 'string' ? 'text' : '');
  const common = requestMember.given({
    cache: requestMember.cache(part),
    extras: extrasOf(part, knownPartMembers.get(type)),
  });
  switch (type) {
    case 'text':
    case 'input_text':
    case 'output_text':
      if (typeof part.text !== 'string')
        throw bodyIssues.unreadable(`${place}.text`, 'be a string', part.text);
      return requestMember.given<ChatPart>({
        type: 'text',
        text: part.text,
        citations: blockCitations(part.citations),
        signature: asText(part.signature),
        ...common,
      });
    case 'image_url':
      return { ...decodeImage(part.image_url, place), ...common };
    case 'input_audio':
      return { ...decodeAudio(part.input_audio, place), ...common };
    case 'file':
      return { ...decodeFile(part.file, place), ...common };
    case 'video_url': {
      const url = urlOf(part.video_url);
      if (url === undefined)
        throw bodyIssues.unreadable(`${place}.video_url.url`, 'be a URL', part.video_url);
      return { type: 'file', source: dataUrls.source(url, 'video/mp4'), mediaType: 'video/mp4', ...common };
    }
    case 'refusal':
      return { type: 'refusal', text: asText(part.refusal) ?? '' };
    default:
      return decodeBlock(part, type) ?? { type: 'opaque', dialect: 'openai-chat', value: part };
  }
}

/** Thinking and provider-run tools, in the form of `content_blocks` and of some hosts' content arrays. */
function decodeBlock(block: JsonObject, type: string): ChatPart | undefined {
  switch (type) {
    case 'thinking':
      return requestMember.given<ChatPart>({
        type: 'reasoning',
        text: thinkingText(block.thinking),
        signature: asText(block.signature),
      });
    case 'redacted_thinking':
      return requestMember.given<ChatPart>({ type: 'reasoning', text: '', redacted: asText(block.data) });
    case 'provider_tool':
      return providerTool(block);
    default:
      return anthropicTool(block, type);
  }
}

/** The text of a thinking block: a string, or Mistral's list of text parts. */
function thinkingText(value: unknown): string {
  if (typeof value === 'string') return value;
  let text = '';
  for (const item of asArray(value)) text += asText(asObject(item)?.text) ?? '';
  return text;
}

/** A provider-run tool in the form of `content_blocks` (see `contentBlock`). */
function providerTool(block: JsonObject): ProviderToolPart | undefined {
  const value = asObject(block.value);
  const dialect = asText(block.dialect);
  if (value === undefined || dialect === undefined) return undefined;
  return {
    type: 'provider-tool',
    dialect: dialect as ProviderToolPart['dialect'],
    phase: block.phase === 'result' ? 'result' : 'call',
    id: asText(block.id) ?? '',
    name: asText(block.name) ?? '',
    value,
  };
}

/** Blocks of Anthropic's server tools, which clients of `content_blocks` return unchanged. */
function anthropicTool(block: JsonObject, type: string): ProviderToolPart | undefined {
  const isCall = type === 'server_tool_use' || type === 'mcp_tool_use';
  if (!isCall && !(type.endsWith('_tool_result') && asText(block.tool_use_id) !== undefined))
    return undefined;
  return {
    type: 'provider-tool',
    dialect: 'anthropic-messages',
    phase: isCall ? 'call' : 'result',
    id: asText(block.id) ?? asText(block.tool_use_id) ?? '',
    name: asText(block.name) ?? type.replace(/_tool_(result|use)$/, ''),
    value: block,
  };
}

function decodeImage(value: unknown, place: string): ChatPart {
  const image = asObject(value);
  const url = urlOf(value);
  if (url === undefined)
    throw bodyIssues.unreadable(`${place}.image_url.url`, 'be a URL or a data: URL', image?.url ?? value);
  const source = dataUrls.source(url, 'image/jpeg');
  // Image parts may hold documents and recordings, too, when a client knows no other part.
  if (source.kind === 'base64' && !source.mediaType.startsWith('image/')) return { type: 'file', source };
  return requestMember.given<ChatPart>({ type: 'image', source, detail: asText(image?.detail) });
}

function urlOf(value: unknown): string | undefined {
  return asText(value) ?? asText(asObject(value)?.url);
}

function decodeAudio(value: unknown, place: string): ChatPart {
  const audio = asObject(value);
  const data = asText(audio?.data);
  if (data === undefined) throw bodyIssues.unreadable(`${place}.input_audio.data`, 'be base64', audio?.data);
  const format = asText(audio?.format) ?? 'wav';
  const source = dataUrls.source(data);
  if (source.kind === 'base64') return { type: 'audio', source };
  return {
    type: 'audio',
    source: { kind: 'base64', mediaType: audioTypes.get(format) ?? `audio/${format}`, data },
  };
}

function decodeFile(value: unknown, place: string): FilePart {
  const file = asObject(value) ?? {};
  const filename = asText(file.filename);
  const data = asText(file.file_data);
  const id = asText(file.file_id);
  const url = asText(file.file_url) ?? asText(file.url);
  if (data !== undefined) {
    const read = dataUrls.source(data, typeOfName(filename));
    const isBare = read.kind === 'url' && !/^https?:/i.test(data);
    const source = isBare ? { kind: 'base64' as const, mediaType: typeOfName(filename), data } : read;
    return requestMember.given<FilePart>({ type: 'file', source, filename });
  }
  if (id !== undefined) {
    return requestMember.given<FilePart>({
      type: 'file',
      source: { kind: 'file-id', id, dialect: 'openai-chat' },
      filename,
    });
  }
  if (url === undefined) {
    throw bodyIssues.unreadable(`${place}.file`, 'hold file_data or file_id', value);
  }
  const mediaType = asText(file.mime_type);
  return requestMember.given<FilePart>({ type: 'file', source: dataUrls.source(url), filename, mediaType });
}

function blockCitations(value: unknown): readonly Citation[] | undefined {
  const list = asArray(value)
    .map(asObject)
    .filter((citation) => citation !== undefined);
  if (list.length === 0) return undefined;
  return list.map((citation) => {
    const url = asText(citation.url);
    const quote = asText(citation.cited_text);
    return requestMember.given<Citation>({
      kind: url === undefined ? 'document' : 'url',
      url,
      title: asText(citation.title) ?? asText(citation.document_title),
      quote,
      document: typeof citation.document_index === 'number' ? citation.document_index : undefined,
      raw: { dialect: 'anthropic-messages', value: citation },
    });
  });
}

function extrasOf(part: JsonObject, known: ReadonlySet<string> | undefined): ChatPart['extras'] {
  const unknown = known === undefined ? undefined : requestMember.unknown(part, known);
  return unknown === undefined ? undefined : { 'openai-chat': unknown };
}

const knownMembers: ReadonlySet<string> = new Set([
  'role',
  'content',
  'name',
  'cache_control',
  'tool_calls',
  'tool_call_id',
  'function_call',
  'refusal',
  'audio',
  'annotations',
  'reasoning_content',
  'reasoning',
  'content_blocks',
  // Members of an answer that clients return unchanged; they mean nothing to a model.
  'provider_fields',
  'images',
  'executed_tools',
]);

/** Ids of unanswered calls by function name: legacy messages and some clients name the function instead of the call. */
type CallsByName = Map<string, string[]>;

/** The conversation of a chat request. Throws `invalid_request` with the name of an unreadable member. */
export function decodeMessages(value: unknown): readonly ChatMessage[] {
  if (!Array.isArray(value)) throw bodyIssues.unreadable('messages', 'be an array', value);
  const calls: CallsByName = new Map();
  return value.map((item: unknown, i) => {
    const message = asObject(item);
    const place = `messages[${i}]`;
    if (message === undefined) throw bodyIssues.unreadable(place, 'be an object', item);
    return decodeMessage(message, place, calls);
  });
}

function decodeMessage(message: JsonObject, place: string, calls: CallsByName): ChatMessage {
  const name = asText(message.name);
  const unknown = requestMember.unknown(message, knownMembers);
  const extras = unknown === undefined ? undefined : { 'openai-chat': unknown };
  const { role } = message;
  switch (role) {
    case 'system':
    case 'developer':
    case 'user': {
      const parts = decodeContent(message.content, `${place}.content`);
      return requestMember.given<ChatMessage>({ role, parts: withCacheMarker(parts, message), name, extras });
    }
    case 'assistant': {
      const parts = withCacheMarker(assistantParts(message, place), message);
      noteCalls(parts, calls);
      return requestMember.given<ChatMessage>({ role, parts, name, extras });
    }
    case 'tool':
    case 'function':
      return requestMember.given<ChatMessage>({
        role: 'tool',
        parts: withCacheMarker([toolResult(message, place, calls)], message),
        extras,
      });
    default:
      throw bodyIssues.unreadable(
        `${place}.role`,
        "be 'system', 'developer', 'user', 'assistant' or 'tool'",
        role,
      );
  }
}

/** A marker on the message itself applies to its last part. */
function withCacheMarker(parts: readonly ChatPart[], message: JsonObject): readonly ChatPart[] {
  const cache = requestMember.cache(message);
  const last = parts.at(-1);
  return cache === undefined || last === undefined ? parts : [...parts.slice(0, -1), { ...last, cache }];
}

function assistantParts(message: JsonObject, place: string): ChatPart[] {
  const parts = assistantTextParts(message, place);
  const refusal = asText(message.refusal);
  if (refusal !== undefined) parts.push({ type: 'refusal', text: refusal });
  const audio = asText(asObject(message.audio)?.id);
  if (audio !== undefined) {
    parts.push({ type: 'audio', id: audio, source: { kind: 'file-id', id: audio, dialect: 'openai-chat' } });
  }
  if (message.tool_calls !== undefined && message.tool_calls !== null && !Array.isArray(message.tool_calls)) {
    throw bodyIssues.unreadable(`${place}.tool_calls`, 'be an array', message.tool_calls);
  }
  asArray(message.tool_calls).forEach((item, i) => {
    const call = decodeToolCall(item, `call_${place.replace(/\D/g, '')}_${i}`);
    if (call === undefined)
      throw bodyIssues.unreadable(`${place}.tool_calls[${i}]`, 'name its function', item);
    parts.push(call);
  });
  const legacy = asObject(message.function_call);
  if (legacy !== undefined) {
    const call = decodeToolCall({ function: legacy }, `call_${place.replace(/\D/g, '')}`);
    if (call === undefined)
      throw bodyIssues.unreadable(`${place}.function_call.name`, 'be a string', legacy.name);
    parts.push(call);
  }
  return parts;
}

/**
 * Thinking and text: from the blocks when the client kept them (they are ordered and signed), else from the plain
 * members.
 */
function assistantTextParts(message: JsonObject, place: string): ChatPart[] {
  const blocks = asArray(message.content_blocks).map(asObject);
  const known = blocks.flatMap((block) => (block === undefined ? [] : decodeContentBlock(block)));
  // Client libraries may join deltas to invalid blocks: the plain members are then complete.
  if (known.length > 0 && blocks.every((block) => asText(block?.type) !== undefined)) {
    const saysText = known.some(({ type }) => type === 'text');
    return saysText ? known : [...known, ...decodeContent(message.content, `${place}.content`)];
  }
  const parts: ChatPart[] = [];
  const thought = asText(message.reasoning_content) ?? asText(message.reasoning);
  if (thought !== undefined) parts.push({ type: 'reasoning', text: thought });
  parts.push(...decodeContent(message.content, `${place}.content`));
  return withCitations(parts, decodeAnnotations(message.annotations));
}

/** One element of `content_blocks`. Calls are in `tool_calls`. */
function decodeContentBlock(block: JsonObject): readonly (ChatPart | ReasoningPart)[] {
  const type = asText(block.type) ?? '';
  if (type === 'tool_use') return [];
  if (type === 'text') return decodeContent([block], 'content_blocks');
  const part = decodeBlock(block, type);
  return part === undefined ? [{ type: 'opaque', dialect: 'openai-chat', value: block }] : [part];
}

/** The parts with these citations on the last text. */
function withCitations(parts: ChatPart[], citations: TextPart['citations']): ChatPart[] {
  if (citations === undefined || citations.length === 0) return parts;
  const at = parts.findLastIndex(({ type }) => type === 'text');
  const text = parts[at];
  if (text?.type === 'text') parts[at] = { ...text, citations: [...(text.citations ?? []), ...citations] };
  return parts;
}

/** A tool call of a request or a complete answer; undefined when it names no tool. `fallbackId` is for calls without an id. */
function decodeToolCall(item: unknown, fallbackId: string): ToolCallPart | undefined {
  const call = asObject(item);
  const custom = asObject(call?.custom);
  const definition = asObject(call?.function) ?? custom;
  const name = asText(definition?.name);
  if (call === undefined || definition === undefined || name === undefined) return undefined;
  const isCustom = definition === custom;
  return requestMember.given<ToolCallPart>({
    type: 'tool-call',
    id: asText(call.id) ?? fallbackId,
    name,
    kind: isCustom ? 'custom' : 'function',
    arguments: isCustom ? (asText(custom.input) ?? '') : argumentsText(definition.arguments),
    signature: thoughtSignature(call),
    cache: requestMember.cache(call),
  });
}

/** Arguments as JSON text: most hosts write text, some an object. */
function argumentsText(value: unknown): string {
  const members = asObject(value);
  if (members !== undefined) return stringifyExact(members);
  return asText(asText(value)?.trim() === '' ? '' : value) ?? '{}';
}

/** The thought signature that Google's compatibility API puts on a call. */
function thoughtSignature(call: JsonObject): string | undefined {
  return asText(asObject(asObject(call.extra_content)?.google)?.thought_signature);
}

function toolResult(message: JsonObject, place: string, calls: CallsByName): ToolResultPart {
  const name = asText(message.name);
  const waiting = name === undefined ? undefined : calls.get(name);
  const callId =
    asText(message.tool_call_id) ?? waiting?.shift() ?? (message.role === 'function' ? name : undefined);
  if (callId === undefined)
    throw bodyIssues.unreadable(`${place}.tool_call_id`, 'be a string', message.tool_call_id);
  const content = decodeContent(message.content, `${place}.content`).map((part) => {
    if (part.type === 'text' || part.type === 'image' || part.type === 'file' || part.type === 'audio')
      return part;
    throw bodyIssues.unreadable(`${place}.content`, 'hold text, images, audio or files', message.content);
  });
  return requestMember.given<ToolResultPart>({
    type: 'tool-result',
    callId,
    name,
    kind: 'function',
    content,
  });
}

function noteCalls(parts: readonly ChatPart[], calls: CallsByName): void {
  for (const part of parts) {
    if (part.type !== 'tool-call') continue;
    const waiting = calls.get(part.name);
    if (waiting === undefined) calls.set(part.name, [part.id]);
    else waiting.push(part.id);
  }
}
