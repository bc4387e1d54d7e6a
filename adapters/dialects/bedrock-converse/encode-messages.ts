import type {
  ChatPart,
  FilePart,
  MediaSource,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import { type EncodeReport, reportForeignExtras } from '../../../core/dialects/canonical/chat-codec.ts';
import { asObject, type JsonObject, parseExactObject } from '../json-reading.ts';
import { isOpenAiSignature } from '../openai-shapes.ts';
import { type BedrockModel, bedrockModel } from './bedrock-model.ts';
import { createHash } from 'node:crypto';

type MediaKind = 'image' | 'document' | 'video' | 'audio';

interface MediaFormat {
  readonly kind: MediaKind;
  /** Name of the format in the API. */
  readonly format: string;
}

const formats: Readonly<Record<MediaKind, Readonly<Record<string, string>>>> = {
  image: {
    'image/png': 'png',
    'image/jpeg': 'jpeg',
    'image/jpg': 'jpeg',
    'image/gif': 'gif',
    'image/webp': 'webp',
  },
  document: {
    'application/pdf': 'pdf',
    'text/csv': 'csv',
    'application/msword': 'doc',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
    'application/vnd.ms-excel': 'xls',
    'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
    'text/html': 'html',
    'text/plain': 'txt',
    'text/markdown': 'md',
    'text/x-markdown': 'md',
  },
  video: {
    'video/x-matroska': 'mkv',
    'video/quicktime': 'mov',
    'video/mp4': 'mp4',
    'video/webm': 'webm',
    'video/x-flv': 'flv',
    'video/mpeg': 'mpeg',
    'video/mpg': 'mpg',
    'video/x-ms-wmv': 'wmv',
    'video/3gpp': 'three_gp',
  },
  audio: {
    'audio/mpeg': 'mp3',
    'audio/mp3': 'mp3',
    'audio/opus': 'opus',
    'audio/wav': 'wav',
    'audio/wave': 'wav',
    'audio/x-wav': 'wav',
    'audio/vnd.wave': 'wav',
    'audio/aac': 'aac',
    'audio/x-aac': 'x-aac',
    'audio/flac': 'flac',
    'audio/mp4': 'm4a',
    'audio/x-m4a': 'm4a',
    'audio/ogg': 'ogg',
    'audio/webm': 'webm',
    'audio/pcm': 'pcm',
  },
};

const byMediaType = new Map<string, MediaFormat>();
/** By file extension; the API has other names for `jpg`, `htm` and `3gp`. */
const byEnding = new Map<string, MediaFormat>([
  ['jpg', { kind: 'image', format: 'jpeg' }],
  ['htm', { kind: 'document', format: 'html' }],
  ['3gp', { kind: 'video', format: 'three_gp' }],
]);
for (const kind of ['image', 'document', 'video', 'audio'] as const) {
  for (const [mediaType, format] of Object.entries(formats[kind])) {
    byMediaType.set(mediaType, { kind, format });
    if (!byEnding.has(format)) byEnding.set(format, { kind, format });
  }
}

/** Format of a file by its media type, else by its extension; undefined for formats that the API does not accept. */
function formatOf(mediaType: string | undefined, name: string | undefined): MediaFormat | undefined {
  const bare = mediaType?.split(';', 1)[0]?.trim().toLowerCase();
  const known = bare === undefined ? undefined : byMediaType.get(bare);
  if (known !== undefined || name === undefined) return known;
  return byEnding.get(/\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? '');
}

/**
 * A picture, a recording or a film; undefined for sources that the API does not accept (URLs other than `s3://`, other
 * formats).
 */
function mediaBlock(kind: 'image' | 'audio', source: MediaSource): JsonObject | undefined {
  const mediaType = source.kind === 'base64' ? source.mediaType : undefined;
  const format = formatOf(mediaType, source.kind === 'url' ? source.url : undefined);
  const where = blockSource(source);
  if (format?.kind !== kind || where === undefined) return undefined;
  return { [kind]: { format: format.format, source: where } };
}

/** A file as the block of its kind; undefined for formats that the API does not accept. */
function fileBlock(part: FilePart, names: DocumentNames): JsonObject | undefined {
  const { source } = part;
  const where = blockSource(source);
  const given = source.kind === 'base64' ? source.mediaType : part.mediaType;
  const format =
    formatOf(given, part.filename ?? (source.kind === 'url' ? source.url : undefined)) ??
    (source.kind === 'text' ? { kind: 'document' as const, format: 'txt' } : undefined);
  if (where === undefined || format === undefined) return undefined;
  if (format.kind !== 'document') return { [format.kind]: { format: format.format, source: where } };
  const document: JsonObject = { format: format.format, name: names.next(part.filename), source: where };
  if (part.context !== undefined) document.context = part.context;
  if (part.citations === true) document.citations = { enabled: true };
  return { document };
}

function blockSource(source: MediaSource): JsonObject | undefined {
  switch (source.kind) {
    case 'base64':
      return { bytes: source.data };
    case 'text':
      return { bytes: Buffer.from(source.text).toString('base64') };
    case 'url':
      return source.url.startsWith('s3://') ? { s3Location: { uri: source.url } } : undefined;
    case 'file-id':
      return undefined;
  }
}

/** Longest name of a document. */
const maxNameLength = 200;

/**
 * Document names of one request, each unique: the API allows only letters, digits, hyphens, parentheses, square
 * brackets and single spaces. A document without a name becomes `document-1`.
 */
export class DocumentNames {
  readonly #used = new Set<string>();
  #unnamed = 0;

  next(filename: string | undefined): string {
    const base = allowedName(filename ?? '') || `document-${++this.#unnamed}`;
    let name = base;
    for (let count = 2; this.#used.has(name.toLowerCase()); count++) {
      const suffix = ` (${count})`;
      name = base.slice(0, maxNameLength - suffix.length).trimEnd() + suffix;
    }
    this.#used.add(name.toLowerCase());
    return name;
  }
}

function allowedName(filename: string): string {
  return filename
    .replace(/\.[a-z0-9]{1,8}$/i, '')
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^a-zA-Z0-9\s()[\]-]/g, '-')
    .replace(/^[-\s]+|[-\s]+$/g, '')
    .replace(/\s+/g, ' ')
    .slice(0, maxNameLength)
    .trim();
}

/** Form of a `toolUseId` that the API allows. */
const allowed = /^[a-zA-Z0-9_.:-]{1,64}$/;
/** Form that Mistral's models allow. */
const allowedByMistral = /^[a-zA-Z0-9]{9}$/;

/**
 * A tool call id in a form that the API accepts: unchanged where it is allowed, else a digest of it. Equal ids give
 * equal results, so that calls and results stay matched.
 */
function toolUseId(id: string, vendor: string): string {
  const mistral = vendor === 'mistral';
  if ((mistral ? allowedByMistral : allowed).test(id)) return id;
  return createHash('sha256')
    .update(id)
    .digest('hex')
    .slice(0, mistral ? 9 : 32);
}

/** State shared by the parts of one request. */
export interface ContentContext {
  readonly model: BedrockModel;
  readonly names: DocumentNames;
  readonly report: EncodeReport;
}

const dialect = 'bedrock-converse';
/** The member of a part's own extras that becomes a block around the part. */
const guardMember = 'guardContent';

/**
 * Adds the blocks of a part, and a cache point where it is marked. `place` names it in the report
 * (`messages[0].content[1]`).
 */
function addPart(blocks: JsonObject[], part: ChatPart, place: string, context: ContentContext): void {
  const { report } = context;
  reportForeignExtras(part.extras, [dialect], report, `${place}.`);
  for (const name of Object.keys(part.extras?.[dialect] ?? {})) {
    if (name !== guardMember) report.drop(`${place}.${name}`);
  }
  // Only thinking is signed here; Gemini's signatures have no place.
  if (part.signature !== undefined && part.type !== 'reasoning')
    report.drop(`${place}.extra_content.google.thought_signature`);
  const block = encodePart(part, place, context);
  if (block !== undefined) blocks.push(block);
  if (part.cache === undefined) return;
  // There is nothing to cache after an empty block or after thinking.
  if (block === undefined || part.type === 'reasoning') report.drop(`${place}.cache_control`);
  else addCachePoint(blocks, part.cache, place, context);
}

/** Adds a cache point when the model has a prompt cache; an unknown lifetime becomes the API's default. */
export function addCachePoint(
  blocks: JsonObject[],
  marker: { readonly ttl?: string },
  place: string,
  { model, report }: ContentContext,
): void {
  if (!bedrockModel.hasPromptCache(model)) return report.drop(`${place}.cache_control`);
  const cachePoint: JsonObject = { type: 'default' };
  if (marker.ttl === '5m' || marker.ttl === '1h') cachePoint.ttl = marker.ttl;
  else if (marker.ttl !== undefined) report.drop(`${place}.cache_control.ttl`);
  blocks.push({ cachePoint });
}

function encodePart(part: ChatPart, place: string, context: ContentContext): JsonObject | undefined {
  const { report } = context;
  switch (part.type) {
    case 'text':
      return encodeText(part, place, report);
    case 'refusal':
      report.emulate(`${place}.refusal`);
      return textBlock(part.text);
    case 'image': {
      if (part.detail !== undefined && part.detail !== 'auto')
        report.drop(`${place}.${part.type}_url.detail`);
      const block = mediaBlock('image', part.source);
      return asGuardContent(part, block) ?? reportDrop(report, place);
    }
    case 'audio':
      return encodeAudio(part, place, context);
    case 'file':
      return fileBlock(part, context.names) ?? reportDrop(report, place);
    case 'tool-call':
      return encodeToolCall(part, place, context);
    case 'tool-result':
      return encodeToolResult(part, place, context);
    case 'reasoning':
      return encodeReasoning(part, place, context);
    case 'provider-tool':
    case 'opaque':
      return part.dialect === dialect ? part.value : reportDrop(report, place);
  }
}

function reportDrop(report: EncodeReport, place: string): undefined {
  report.drop(place);
  return undefined;
}

/** The API refuses blank text. */
function textBlock(text: string): JsonObject | undefined {
  return text.trim() === '' ? undefined : { text };
}

function encodeText(part: TextPart, place: string, report: EncodeReport): JsonObject | undefined {
  const block = textBlock(part.text);
  if (block === undefined) return undefined;
  const { citations } = part;
  if (citations === undefined || citations.length === 0) return asGuardContent(part, block);
  const own = citations.flatMap(({ raw }) => (raw?.dialect === dialect ? [raw.value] : []));
  if (own.length === citations.length) return { citationsContent: { content: [block], citations: own } };
  report.drop(`${place}.citations`);
  return block;
}

/** A text or picture that the part's own extras mark as `guardContent` is checked by a guardrail. */
function asGuardContent(part: ChatPart, block: JsonObject | undefined): JsonObject | undefined {
  const wish = part.extras?.[dialect]?.[guardMember];
  if (block === undefined || wish === undefined || wish === false) return block;
  if (part.type !== 'text') return { guardContent: block };
  const qualifiers = asObject(wish)?.qualifiers;
  return { guardContent: { text: qualifiers === undefined ? block : { ...block, qualifiers } } };
}

function encodeAudio(
  part: Extract<ChatPart, { type: 'audio' }>,
  place: string,
  { report }: ContentContext,
): JsonObject | undefined {
  const block = mediaBlock('audio', part.source);
  if (block !== undefined) return block;
  if (part.transcript === undefined || part.transcript === '') return reportDrop(report, place);
  report.emulate(place);
  return textBlock(part.transcript);
}

function encodeToolCall(part: ToolCallPart, place: string, context: ContentContext): JsonObject {
  return {
    toolUse: {
      toolUseId: toolUseId(part.id, context.model.vendor),
      name: part.name,
      input: toolInput(part, place, context.report),
    },
  };
}

function toolInput(part: ToolCallPart, place: string, report: EncodeReport): JsonObject {
  if (part.kind === 'custom') return { input: part.arguments };
  if (part.arguments.trim() === '') return {};
  const input = parseExactObject(part.arguments);
  if (input !== undefined) return input;
  // The API accepts only an object; the model must still see the text that it wrote.
  report.emulate(`${place}.function.arguments`);
  return { arguments: part.arguments };
}

function encodeToolResult(part: ToolResultPart, place: string, context: ContentContext): JsonObject {
  const content: JsonObject[] = [];
  part.content.forEach((piece, at) => {
    const inside = `${place}.content[${at}]`;
    const block = encodePart(piece, inside, context);
    if (block !== undefined) content.push('citationsContent' in block ? { text: textOf(piece) } : block);
    if (piece.cache !== undefined) context.report.drop(`${inside}.cache_control`);
  });
  const toolResult: JsonObject = { toolUseId: toolUseId(part.callId, context.model.vendor), content };
  if (part.isError === true) {
    if (hasResultStatus(context.model)) toolResult.status = 'error';
    else context.report.drop(`${place}.is_error`);
  }
  return { toolResult };
}

function textOf(part: ChatPart): string {
  return 'text' in part ? part.text : '';
}

/**
 * "This field is only supported by Amazon Nova and Anthropic Claude models." Ids of unknown vendors count as supporting
 * it.
 */
function hasResultStatus({ vendor }: BedrockModel): boolean {
  return vendor === '' || vendor === 'anthropic' || vendor === 'amazon';
}

function encodeReasoning(
  part: ReasoningPart,
  place: string,
  { model, report }: ContentContext,
): JsonObject | undefined {
  if (part.redacted !== undefined) return { reasoningContent: { redactedContent: part.redacted } };
  // No model here can read it.
  if (part.signature !== undefined && isOpenAiSignature(part.signature)) return reportDrop(report, place);
  if (part.signature === undefined || part.signature === '') {
    // Claude refuses thinking without a signature; the other models have no signatures.
    if (model.vendor === 'anthropic' || model.vendor === '' || part.text === '')
      return reportDrop(report, place);
    return { reasoningContent: { reasoningText: { text: part.text } } };
  }
  return { reasoningContent: { reasoningText: { text: part.text, signature: part.signature } } };
}

/** A conversation in the API's form: instructions separate, user and assistant in turns, tool results in user turns. */
interface EncodedConversation {
  readonly system: JsonObject[];
  readonly messages: JsonObject[];
}

/** Joins adjacent messages of one role; reports content that a turn cannot hold. */
export function encodeConversation(
  messages: readonly ChatMessage[],
  context: ContentContext,
): EncodedConversation {
  const system: JsonObject[] = [];
  const turns: { role: string; content: JsonObject[] }[] = [];
  messages.forEach((message, at) => {
    const place = `messages[${at}]`;
    if (message.name !== undefined) context.report.drop(`${place}.name`);
    reportForeignExtras(message.extras, [], context.report, `${place}.`);
    if (message.role === 'system' || message.role === 'developer') {
      // All instructions precede the conversation.
      if (turns.length > 0) context.report.emulate(place);
      addSystem(system, message.parts, place, context);
      return;
    }
    const content: JsonObject[] = [];
    message.parts.forEach((part, index) => addPart(content, part, `${place}.content[${index}]`, context));
    if (content.length === 0) return;
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const last = turns.at(-1);
    if (last?.role === role) last.content.push(...content);
    else turns.push({ role, content });
  });
  trimPrefill(turns.at(-1));
  return { system, messages: turns };
}

function addSystem(
  system: JsonObject[],
  parts: readonly ChatPart[],
  place: string,
  context: ContentContext,
): void {
  parts.forEach((part, index) => {
    const inside = `${place}.content[${index}]`;
    if (part.type === 'text' || part.type === 'opaque') addPart(system, part, inside, context);
    else context.report.drop(inside);
  });
}

/** Models refuse a prefill that ends in white space. */
function trimPrefill(turn: { role: string; content: JsonObject[] } | undefined): void {
  if (turn?.role !== 'assistant') return;
  const last = turn.content.at(-1);
  if (typeof last?.text === 'string') last.text = last.text.trimEnd();
}
