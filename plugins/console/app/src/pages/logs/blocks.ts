import { isObject } from '@/lib/json';
import { log } from '@/texts/log';

const { kinds } = log.messages;

/** A part of a message. */
export type Part =
  | { readonly kind: 'text' | 'thought' | 'refusal'; readonly text: string }
  | { readonly kind: 'image'; readonly url: string }
  | { readonly kind: 'call'; readonly id: string; readonly name: string; readonly text: string }
  /** `name`: that of the tool, where it is known, else the id of the call. */
  | { readonly kind: 'result'; readonly id: string; readonly name: string; readonly text: string }
  | { readonly kind: 'other'; readonly text: string };

/** One message of a conversation, of any wire. */
export interface Turn {
  /** `system`, `developer`, `user`, `assistant`, `tool`, or what the client wrote. */
  readonly role: string;
  readonly parts: readonly Part[];
}

export type Json = Readonly<Record<string, unknown>>;

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
}

export function textIn(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

export function textPart(value: string, kind: 'text' | 'thought' | 'refusal' = 'text'): Part[] {
  return value === '' ? [] : [{ kind, text: value }];
}

/** What goes to a tool or comes from it: as indented JSON where they are JSON. */
export function argumentsOf(value: unknown): string {
  if (typeof value !== 'string') return textIn(value ?? {});
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

function callPart(id: unknown, name: unknown, sent: unknown): Part[] {
  return [{ kind: 'call', id: textIn(id), name: textIn(name), text: argumentsOf(sent) }];
}

export function resultPart(id: unknown, name: unknown, content: unknown): Part[] {
  const words = plain(content);
  const text = words === '' ? '' : argumentsOf(words);
  return [{ kind: 'result', id: textIn(id), name: textIn(name) || textIn(id), text }];
}

function imagePart(type: unknown, data: unknown): Part[] {
  const media = textIn(type) || 'application/octet-stream';
  if (typeof data === 'string' && /^image\/(png|jpe?g|gif|webp)$/.test(media))
    return [{ kind: 'image', url: `data:${media.replace('jpg', 'jpeg')};base64,${data}` }];
  return file(media);
}

/** A file that is named and not shown. */
function file(...words: readonly unknown[]): Part[] {
  const told = words.map(textIn).filter((word) => word !== '');
  return [{ kind: 'other', text: `[${told.join(' ') || kinds.file}]` }];
}

/** The parts of a content of any wire: a text, or a list of blocks. */
export function partsOf(content: unknown): Part[] {
  return listOf(content).flatMap((block) => (isObject(block) ? blockParts(block) : textPart(textIn(block))));
}

/** The words of a content alone. */
export function plain(content: unknown): string {
  if (isObject(content) && content['type'] === undefined) return textIn(content);
  return partsOf(content)
    .map((part) => ('text' in part ? part.text : ''))
    .join('\n');
}

/** The parts of one block, of whichever wire it is. */
export function blockParts(block: Json): Part[] {
  const typed = typeof block['type'] === 'string' ? typedParts(block['type'], block) : undefined;
  return typed ?? geminiParts(block) ?? converseParts(block) ?? usualParts(block);
}

/** Blocks of chat completions, responses and messages, which say what they are. */
function typedParts(type: string, block: Json): Part[] | undefined {
  switch (type) {
    case 'image_url':
    case 'input_image': {
      const url = isObject(block['image_url']) ? block['image_url']['url'] : block['image_url'];
      return url === undefined ? file(block['file_id']) : [{ kind: 'image', url: textIn(url) }];
    }
    case 'image':
      return sourceParts(block['source']);
    case 'document':
      return isObject(block['source']) && block['source']['type'] === 'text'
        ? textPart(textIn(block['source']['data']))
        : file(block['title'], isObject(block['source']) ? block['source']['media_type'] : kinds.document);
    case 'file':
    case 'input_file': {
      const own = isObject(block['file']) ? block['file'] : block;
      return file(own['filename'] ?? own['file_id'] ?? own['file_url'] ?? kinds.file);
    }
    case 'input_audio':
      return file(kinds.audio, isObject(block['input_audio']) ? block['input_audio']['format'] : '');
    case 'tool_use':
    case 'server_tool_use':
    case 'mcp_tool_use':
      return callPart(block['id'], block['name'], block['input']);
    case 'function_call':
    case 'custom_tool_call':
    case 'mcp_call':
      return callPart(block['call_id'] ?? block['id'], block['name'], block['arguments'] ?? block['input']);
    case 'tool_result':
    case 'mcp_tool_result':
    case 'web_search_tool_result':
      return resultPart(block['tool_use_id'], '', block['content']);
    case 'function_call_output':
    case 'custom_tool_call_output':
      return resultPart(block['call_id'], '', block['output']);
    case 'thinking':
      return textPart(textIn(block['thinking']), 'thought');
    // Encrypted content tells a reader nothing.
    case 'redacted_thinking':
      return [];
    case 'reasoning':
      return textPart(plain(block['summary']) || plain(block['content']), 'thought');
    case 'refusal':
      return textPart(textIn(block['refusal']), 'refusal');
    default:
      return undefined;
  }
}

function sourceParts(source: unknown): Part[] {
  if (!isObject(source)) return file(kinds.image);
  const { media_type: media, data, url } = source;
  if (url !== undefined) return [{ kind: 'image', url: textIn(url) }];
  return data === undefined ? file(source['file_id'] ?? kinds.image) : imagePart(media, data);
}

/** Parts of `generateContent`, with names as JSON or as protocol buffers have them. */
function geminiParts(block: Json): Part[] | undefined {
  const inline = block['inlineData'] ?? block['inline_data'];
  if (isObject(inline)) return imagePart(inline['mimeType'] ?? inline['mime_type'], inline['data']);
  const linked = block['fileData'] ?? block['file_data'];
  if (isObject(linked))
    return file(linked['mimeType'] ?? linked['mime_type'], linked['fileUri'] ?? linked['file_uri']);
  const called = block['functionCall'] ?? block['function_call'];
  if (isObject(called)) return callPart(called['id'], called['name'], called['args']);
  const answered = block['functionResponse'] ?? block['function_response'];
  if (isObject(answered)) {
    const { id, name, response } = answered;
    // The gateway, as many clients do, puts what is no object under this name.
    const words =
      isObject(response) && typeof response['result'] === 'string' ? response['result'] : response;
    return resultPart(id, name, words);
  }
  if (isObject(block['executableCode'])) return callPart('', 'code', block['executableCode']['code']);
  if (isObject(block['codeExecutionResult']))
    return resultPart('', 'code', block['codeExecutionResult']['output']);
  return undefined;
}

/** Blocks of `Converse`. */
function converseParts(block: Json): Part[] | undefined {
  const { image, document, toolUse: use, toolResult: result, reasoningContent: thought } = block;
  if (isObject(image)) {
    const bytes = isObject(image['source']) ? image['source']['bytes'] : undefined;
    return imagePart(`image/${textIn(image['format'])}`, bytes);
  }
  if (isObject(document)) return file(document['name'], document['format']);
  if (isObject(use)) return callPart(use['toolUseId'], use['name'], use['input']);
  if (isObject(result)) return resultPart(result['toolUseId'], '', result['content']);
  if (isObject(thought))
    return isObject(thought['reasoningText'])
      ? textPart(textIn(thought['reasoningText']['text']), 'thought')
      : [];
  const { citationsContent: cited } = block;
  if (isObject(cited)) return partsOf(cited['content']);
  // A result of a tool that is JSON.
  if (Object.keys(block).length === 1 && 'json' in block) return textPart(textIn(block['json']));
  if (Object.keys(block).length === 1 && 'cachePoint' in block) return [];
  return undefined;
}

function usualParts(block: Json): Part[] {
  if (typeof block['text'] === 'string')
    return textPart(block['text'], block['thought'] === true ? 'thought' : 'text');
  return [{ kind: 'other', text: textIn(block) }];
}
