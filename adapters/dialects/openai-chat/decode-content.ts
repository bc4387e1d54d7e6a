import type {
  ChatPart,
  Citation,
  FilePart,
  JsonObject,
  ProviderToolPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { sourceOfUrl } from '../data-url.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import { cacheMember, given, unknownMembers, unreadable } from './member-reading.ts';

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
 * naming `place` (`messages[0].content`) for anything else.
 */
export function decodeContent(content: unknown, place: string): ChatPart[] {
  if (content === undefined || content === null) return [];
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  if (!Array.isArray(content)) throw unreadable(place, 'be a string or an array of content parts', content);
  return content.flatMap((item: unknown, i) => decodePart(item, `${place}[${i}]`));
}

/** One content part, of a request or of an answer. */
function decodePart(item: unknown, place: string): ChatPart | ChatPart[] {
  if (typeof item === 'string') return { type: 'text', text: item };
  const part = asObject(item);
  if (part === undefined) throw unreadable(place, 'be a content part', item);
  const type = asText(part.type) ?? (typeof part.text === 'string' ? 'text' : '');
  const common = given({
    cache: cacheMember(part),
    extras: extrasOf(part, knownPartMembers.get(type)),
  });
  switch (type) {
    case 'text':
    case 'input_text':
    case 'output_text':
      if (typeof part.text !== 'string') throw unreadable(`${place}.text`, 'be a string', part.text);
      return given<ChatPart>({
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
      if (url === undefined) throw unreadable(`${place}.video_url.url`, 'be a URL', part.video_url);
      return { type: 'file', source: sourceOfUrl(url, 'video/mp4'), mediaType: 'video/mp4', ...common };
    }
    case 'refusal':
      return { type: 'refusal', text: asText(part.refusal) ?? '' };
    default:
      return decodeBlock(part, type) ?? { type: 'opaque', dialect: 'openai-chat', value: part };
  }
}

/** Thinking and provider-run tools, as `content_blocks` and some hosts' content arrays hold them. */
export function decodeBlock(block: JsonObject, type: string): ChatPart | undefined {
  switch (type) {
    case 'thinking':
      return given<ChatPart>({
        type: 'reasoning',
        text: thinkingText(block.thinking),
        signature: asText(block.signature),
      });
    case 'redacted_thinking':
      return given<ChatPart>({ type: 'reasoning', text: '', redacted: asText(block.data) });
    case 'provider_tool':
      return providerTool(block);
    default:
      return anthropicTool(block, type);
  }
}

/** The text of a thinking block: a string, or Mistral's list of text parts. */
export function thinkingText(value: unknown): string {
  if (typeof value === 'string') return value;
  let text = '';
  for (const item of asArray(value)) text += asText(asObject(item)?.text) ?? '';
  return text;
}

/** A provider-run tool in the words of `content_blocks` (see `contentBlock`). */
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

/** Blocks of Anthropic's server tools, which clients of `content_blocks` send back as they got them. */
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
    throw unreadable(`${place}.image_url.url`, 'be a URL or a data: URL', image?.url ?? value);
  const source = sourceOfUrl(url, 'image/jpeg');
  // Documents and recordings come in image parts, too, where a client knows no other.
  if (source.kind === 'base64' && !source.mediaType.startsWith('image/')) return { type: 'file', source };
  return given<ChatPart>({ type: 'image', source, detail: asText(image?.detail) });
}

function urlOf(value: unknown): string | undefined {
  return asText(value) ?? asText(asObject(value)?.url);
}

function decodeAudio(value: unknown, place: string): ChatPart {
  const audio = asObject(value);
  const data = asText(audio?.data);
  if (data === undefined) throw unreadable(`${place}.input_audio.data`, 'be base64', audio?.data);
  const format = asText(audio?.format) ?? 'wav';
  const source = sourceOfUrl(data);
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
    const read = sourceOfUrl(data, typeOfName(filename));
    const isBare = read.kind === 'url' && !/^https?:/i.test(data);
    const source = isBare ? { kind: 'base64' as const, mediaType: typeOfName(filename), data } : read;
    return given<FilePart>({ type: 'file', source, filename });
  }
  if (id !== undefined) {
    return given<FilePart>({
      type: 'file',
      source: { kind: 'file-id', id, dialect: 'openai-chat' },
      filename,
    });
  }
  if (url === undefined) {
    throw unreadable(`${place}.file`, 'hold file_data or file_id', value);
  }
  const mediaType = asText(file.mime_type);
  return given<FilePart>({ type: 'file', source: sourceOfUrl(url), filename, mediaType });
}

/** OpenAI takes PDFs alone where no media type is said. */
function typeOfName(filename: string | undefined): string {
  return filename === undefined || /\.pdf$/i.test(filename) ? 'application/pdf' : 'application/octet-stream';
}

function blockCitations(value: unknown): readonly Citation[] | undefined {
  const list = asArray(value)
    .map(asObject)
    .filter((citation) => citation !== undefined);
  if (list.length === 0) return undefined;
  return list.map((citation) => {
    const url = asText(citation.url);
    const quote = asText(citation.cited_text);
    return given<Citation>({
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
  const unknown = known === undefined ? undefined : unknownMembers(part, known);
  return unknown === undefined ? undefined : { 'openai-chat': unknown };
}
