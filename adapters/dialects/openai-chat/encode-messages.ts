import type {
  AudioPart,
  ChatPart,
  FilePart,
  ImagePart,
  MediaSource,
  ToolResultPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import { type EncodeReport, reportForeignExtras } from '../../../core/dialects/canonical/chat-codec.ts';
import type { JsonObject } from '../json-reading.ts';
import { answerPart } from './answer.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { dataUrls } from '../request-members.ts';

/** Encodes messages for a host. */
export const chatMessages = { takes, encodeCache, encode: encodeMessages };

const openAi = /^(?:[^/]+\/)*(?:o\d|gpt-|chatgpt-)/i;

const gemini = /gemini/i;

/** True when the host accepts thoughts in the history; OpenAI's own models do not. */
function takesThoughts({ model, quirks }: HostFacts): boolean {
  return !openAi.test(model) && quirks.drop?.includes('reasoning_content') !== true;
}

/** True for Google's compatibility API, which requires the thought signatures of its calls in the history. */
function takesSignatures({ model }: HostFacts): boolean {
  return gemini.test(model);
}

/**
 * True when the host accepts a member that OpenAI does not have (`top_k`, `cache_control`): its row lists the member,
 * even under the same name (`rename: { top_k: top_k }`).
 */
function takes(host: HostFacts, member: string): boolean {
  return host.quirks.rename?.[member] !== undefined;
}

/** Context of encoding a message. */
export interface EncodeContext {
  readonly host: HostFacts;
  readonly report: EncodeReport;
}

/** The content of a message with the parts that a user may send; a lone plain text is a string. */
function encodeContent(
  parts: readonly ChatPart[],
  place: string,
  context: EncodeContext,
): string | JsonObject[] {
  const content: JsonObject[] = [];
  parts.forEach((part, i) => {
    const encoded = encodePart(part, `${place}.content[${i}]`, context);
    if (encoded !== undefined) content.push(encoded);
  });
  return simplifyContent(content);
}

function simplifyContent(content: JsonObject[]): string | JsonObject[] {
  if (content.length === 0) return '';
  const [first] = content;
  const isPlain = first?.type === 'text' && Object.keys(first).length === 2;
  return content.length === 1 && isPlain ? (first.text as string) : content;
}

/** One content part; undefined, and reported, for parts that the wire cannot express. */
function encodePart(part: ChatPart, place: string, context: EncodeContext): JsonObject | undefined {
  const encoded = partMembers(part, place, context.report);
  if (encoded === undefined) return undefined;
  if (part.cache !== undefined) encodeCache(encoded, part, place, context);
  if (part.signature !== undefined) context.report.drop(`${place}.signature`);
  reportForeignExtras(part.extras, ['openai-chat'], context.report, `${place}.`);
  return Object.assign(encoded, part.extras?.['openai-chat']);
}

/** Writes a prompt cache marker when the host accepts one, else reports it. */
function encodeCache(
  holder: JsonObject,
  { cache }: Pick<ChatPart, 'cache'>,
  place: string,
  { host, report }: EncodeContext,
): void {
  if (cache === undefined) return;
  if (!takes(host, 'cache_control')) {
    report.drop(`${place}.cache_control`);
    return;
  }
  const name = host.quirks.rename?.cache_control ?? 'cache_control';
  holder[name] = cache.ttl === undefined ? { type: 'ephemeral' } : { type: 'ephemeral', ttl: cache.ttl };
}

function partMembers(part: ChatPart, place: string, report: EncodeReport): JsonObject | undefined {
  switch (part.type) {
    case 'text':
      if (part.citations !== undefined) report.drop(`${place}.citations`);
      return { type: 'text', text: part.text };
    case 'image':
      return encodeImagePart(part, place, report);
    case 'audio':
      return encodeAudioPart(part, place, report);
    case 'file':
      return encodeFilePart(part, place, report);
    case 'opaque':
      if (part.dialect === 'openai-chat') return { ...part.value };
      break;
    default:
  }
  report.drop(place);
  return undefined;
}

function encodeImagePart(
  { source, detail }: ImagePart,
  place: string,
  report: EncodeReport,
): JsonObject | undefined {
  const url = urlOf(source);
  if (url === undefined) {
    report.drop(place);
    return undefined;
  }
  return { type: 'image_url', image_url: detail === undefined ? { url } : { url, detail } };
}

function urlOf(source: MediaSource): string | undefined {
  if (source.kind === 'url') return source.url;
  return source.kind === 'base64' ? dataUrls.encode(source) : undefined;
}

/** The formats of `input_audio` by media type. */
const audioFormats: ReadonlyMap<string, string> = new Map(
  Object.entries({
    'audio/mpeg': 'mp3',
    'audio/mp3': 'mp3',
    'audio/wave': 'wav',
    'audio/x-wav': 'wav',
    'audio/vnd.wave': 'wav',
    'audio/mp4': 'm4a',
  }),
);

function encodeAudioPart({ source }: AudioPart, place: string, report: EncodeReport): JsonObject | undefined {
  if (source.kind !== 'base64') {
    report.drop(place);
    return undefined;
  }
  const { mediaType, data } = source;
  const format = audioFormats.get(mediaType) ?? mediaType.slice(mediaType.indexOf('/') + 1);
  return { type: 'input_audio', input_audio: { data, format } };
}

const ownFiles: ReadonlySet<string> = new Set(['openai-chat', 'openai-responses', 'azure-openai']);

function encodeFilePart(part: FilePart, place: string, report: EncodeReport): JsonObject | undefined {
  const { source, filename } = part;
  if (part.context !== undefined) report.drop(`${place}.context`);
  if (part.citations === true) report.drop(`${place}.citations`);
  if (source.kind === 'text') {
    report.emulate(place);
    return { type: 'text', text: filename === undefined ? source.text : `${filename}:\n${source.text}` };
  }
  if (source.kind === 'base64') {
    // The wire requires a name beside the bytes.
    const name = filename ?? `file.${source.mediaType.slice(source.mediaType.indexOf('/') + 1)}`;
    return { type: 'file', file: { filename: name, file_data: dataUrls.encode(source) } };
  }
  if (source.kind === 'file-id' && ownFiles.has(source.dialect)) {
    const file: JsonObject = { file_id: source.id };
    if (filename !== undefined) file.filename = filename;
    return { type: 'file', file };
  }
  if (source.kind === 'url' && part.mediaType?.startsWith('video/') === true) {
    return { type: 'video_url', video_url: { url: source.url } };
  }
  report.drop(place);
  return undefined;
}

/** The conversation in the host's form. Parts that this wire cannot express are reported under `messages[i]`. */
function encodeMessages(messages: readonly ChatMessage[], context: EncodeContext): JsonObject[] {
  const encoded: JsonObject[] = [];
  /** Media that tools returned: results are text on this wire, so a user message shows the media after them. */
  let shown: JsonObject[] = [];
  const show = (): void => {
    if (shown.length > 0) encoded.push({ role: roleFor('user', context), content: shown });
    shown = [];
  };
  messages.forEach((message, i) => {
    const place = `messages[${i}]`;
    if (message.role === 'tool') {
      encodeResults(message, place, context, encoded, shown);
      return;
    }
    show();
    encoded.push(encodeMessage(message, place, context));
  });
  show();
  return encoded;
}

function roleFor(role: string, { host }: EncodeContext): string {
  return host.quirks.roles?.[role] ?? role;
}

function encodeMessage(message: ChatMessage, place: string, context: EncodeContext): JsonObject {
  const encoded: JsonObject = { role: roleFor(message.role, context) };
  if (message.role === 'assistant') encodeAssistant(encoded, message.parts, place, context);
  else if (message.role === 'user') encoded.content = encodeContent(message.parts, place, context);
  else encoded.content = encodeContent(textsAlone(message.parts, place, context), place, context);
  if (message.name !== undefined) encoded.name = message.name;
  addOwnExtras(encoded, message, place, context);
  return encoded;
}

function addOwnExtras(
  encoded: JsonObject,
  message: ChatMessage,
  place: string,
  { report }: EncodeContext,
): void {
  reportForeignExtras(message.extras, ['openai-chat'], report, `${place}.`);
  Object.assign(encoded, message.extras?.['openai-chat']);
}

/** Instructions are text alone. */
function textsAlone(
  parts: readonly ChatPart[],
  place: string,
  { report }: EncodeContext,
): readonly ChatPart[] {
  return parts.filter((part, i) => {
    if (part.type === 'text' || part.type === 'opaque') return true;
    report.drop(`${place}.content[${i}]`);
    return false;
  });
}

function encodeAssistant(
  encoded: JsonObject,
  parts: readonly ChatPart[],
  place: string,
  context: EncodeContext,
): void {
  const content: JsonObject[] = [];
  const calls: JsonObject[] = [];
  parts.forEach((part, i) => {
    const where = `${place}.content[${i}]`;
    switch (part.type) {
      case 'text':
      case 'opaque': {
        const said = encodePart(part, where, context);
        if (said !== undefined) content.push(said);
        return;
      }
      case 'tool-call':
        calls.push(encodeCall(part, `${place}.tool_calls[${calls.length}]`, context));
        return;
      case 'refusal':
        encoded.refusal = ((encoded.refusal as string | undefined) ?? '') + part.text;
        return;
      case 'reasoning':
        encodeThoughts(encoded, part, where, context);
        return;
      case 'audio':
        if (part.source.kind === 'file-id' && part.source.dialect === 'openai-chat') {
          encoded.audio = { id: part.source.id };
          return;
        }
        break;
      default:
    }
    context.report.drop(where);
  });
  encoded.content = assistantContent(content, calls.length > 0 || 'refusal' in encoded || 'audio' in encoded);
  if (calls.length > 0) encoded.tool_calls = calls;
}

/** A single string where possible: many hosts accept no list of parts from an assistant. */
function assistantContent(content: readonly JsonObject[], mayBeNull: boolean): unknown {
  if (content.length === 0) return mayBeNull ? null : '';
  const isPlain = content.every((part) => part.type === 'text' && Object.keys(part).length === 2);
  return isPlain ? content.map((part) => part.text).join('') : content;
}

function encodeCall(
  part: Extract<ChatPart, { type: 'tool-call' }>,
  place: string,
  context: EncodeContext,
): JsonObject {
  const { signature, ...unsigned } = part;
  const keep = signature !== undefined && takesSignatures(context.host);
  if (signature !== undefined && !keep)
    context.report.drop(`${place}.extra_content.google.thought_signature`);
  const call = answerPart.toolCall(keep ? part : unsigned);
  encodeCache(call, part, place, context);
  reportForeignExtras(part.extras, ['openai-chat'], context.report, `${place}.`);
  return Object.assign(call, part.extras?.['openai-chat']);
}

function encodeThoughts(
  encoded: JsonObject,
  part: Extract<ChatPart, { type: 'reasoning' }>,
  place: string,
  { host, report }: EncodeContext,
): void {
  reportForeignExtras(part.extras, ['openai-chat'], report, `${place}.`);
  if (part.redacted !== undefined) report.drop(`${place}.redacted_thinking`);
  if (part.signature !== undefined) report.drop(`${place}.signature`);
  if (part.text === '') return;
  if (!takesThoughts(host)) {
    report.drop(`${place}.reasoning_content`);
    return;
  }
  const name = host.quirks.rename?.reasoning_content ?? 'reasoning_content';
  encoded[name] = ((encoded[name] as string | undefined) ?? '') + part.text;
}

function encodeResults(
  message: ChatMessage,
  place: string,
  context: EncodeContext,
  encoded: JsonObject[],
  shown: JsonObject[],
): void {
  message.parts.forEach((part, i) => {
    const where = `${place}.content[${i}]`;
    if (part.type === 'tool-result') encoded.push(encodeResult(part, where, context, shown));
    else context.report.drop(where);
  });
  const last = encoded.at(-1);
  if (last !== undefined && message.parts.length > 0) addOwnExtras(last, message, place, context);
}

function encodeResult(
  result: ToolResultPart,
  place: string,
  context: EncodeContext,
  shown: JsonObject[],
): JsonObject {
  if (result.isError === true) context.report.drop(`${place}.is_error`);
  const texts: ChatPart[] = [];
  result.content.forEach((part, i) => {
    if (part.type === 'text') texts.push(part);
    else {
      const media = encodePart(part, `${place}.content[${i}]`, context);
      if (media === undefined) return;
      shown.push(media);
      context.report.emulate(`${place}.content[${i}]`);
    }
  });
  const encoded: JsonObject = {
    role: roleFor('tool', context),
    tool_call_id: result.callId,
    content: encodeContent(texts, place, context),
  };
  encodeCache(encoded, result, place, context);
  reportForeignExtras(result.extras, ['openai-chat'], context.report, `${place}.`);
  return encoded;
}
