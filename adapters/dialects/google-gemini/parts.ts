import type {
  AudioPart,
  ChatPart,
  FilePart,
  ImagePart,
  MediaSource,
  OpaquePart,
  ProviderToolPart,
  ToolCallPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { asObject, asText, type JsonObject, parseExactObject, stringifyExact } from '../json-reading.ts';

/** Media, to and from parts of the standard form. */
export const mediaPart = { decodeInline: decodeInlineData, decodeFile: decodeFileData, encode: encodeMedia };

/** Members of an object, spelled in camel case or with underscores. */
export const geminiMembers = {
  of: member,
  object: memberObject,
  known: knownMembers,
  others: otherMembers,
  without: withoutMembers,
};

/** Thought signatures of parts. */
export const signatures = { remove: unsigned, add: signed };

/** Arguments of a call, to and from their JSON text. */
export const callArguments = { encode: encodeArguments, decode: decodeArguments };

const snakeNames = new Map<string, string>();

/**
 * A member by its camel-case or snake-case name: Google's JSON readers accept both spellings, and its clients write
 * both.
 */
function member(object: JsonObject, name: string): unknown {
  const value = object[name];
  return value === undefined ? object[snakeName(name)] : value;
}

/** Same for an object. */
function memberObject(object: JsonObject, name: string): JsonObject | undefined {
  return asObject(member(object, name));
}

/** These members (camel-case names) in either spelling, for `otherMembers`. */
function knownMembers(names: readonly string[]): ReadonlySet<string> {
  return new Set(names.flatMap((name) => [name, snakeName(name)]));
}

/** The members that `known` does not list; undefined when there are none. */
function otherMembers(object: JsonObject, known: ReadonlySet<string>): JsonObject | undefined {
  let others: JsonObject | undefined;
  for (const name of Object.keys(object)) {
    if (known.has(name) || object[name] === undefined) continue;
    others ??= {};
    others[name] = object[name];
  }
  return others;
}

/** The object without these members. */
function withoutMembers(object: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}

function snakeName(name: string): string {
  let snake = snakeNames.get(name);
  if (snake === undefined) {
    snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    snakeNames.set(name, snake);
  }
  return snake;
}

/** Media types by extension of a URL's path, for URLs without a media type. */
const typesByEnding: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
  gif: 'image/gif',
  heic: 'image/heic',
  heif: 'image/heif',
  pdf: 'application/pdf',
  txt: 'text/plain',
  html: 'text/html',
  csv: 'text/csv',
  json: 'application/json',
  mp4: 'video/mp4',
  mov: 'video/quicktime',
  webm: 'video/webm',
  mp3: 'audio/mpeg',
  wav: 'audio/wav',
  flac: 'audio/flac',
  ogg: 'audio/ogg',
};

/** The media type of a URL's extension; undefined for unknown extensions. */
function mediaTypeOfUrl(url: string): string | undefined {
  const ending = /\.([a-z0-9]+)$/.exec((url.split(/[?#]/, 1)[0] as string).toLowerCase())?.[1];
  return ending !== undefined && Object.hasOwn(typesByEnding, ending) ? typesByEnding[ending] : undefined;
}

/** True for a URI of a file uploaded to Google, which only Google can fetch. */
function isGoogleFile(uri: string): boolean {
  return (
    uri.startsWith('gs://') || /^(?:https:\/\/generativelanguage\.googleapis\.com\/[^/]+\/)?files\//.test(uri)
  );
}

/** `inlineData` as a part of the kind that its media type implies. */
function decodeInlineData(blob: JsonObject): ImagePart | AudioPart | FilePart {
  const mediaType = asText(member(blob, 'mimeType')) ?? 'application/octet-stream';
  const source = { kind: 'base64', mediaType, data: asText(blob.data) ?? '' } as const;
  const filename = asText(member(blob, 'displayName'));
  if (mediaType.startsWith('image/')) return { type: 'image', source };
  if (mediaType.startsWith('audio/')) return { type: 'audio', source };
  return filename === undefined ? { type: 'file', source } : { type: 'file', source, filename };
}

/** `fileData` as an image or a file. */
function decodeFileData(data: JsonObject): ImagePart | FilePart {
  const uri = asText(member(data, 'fileUri')) ?? '';
  const mediaType = asText(member(data, 'mimeType'));
  const filename = asText(member(data, 'displayName'));
  const source: MediaSource = isGoogleFile(uri)
    ? { kind: 'file-id', id: uri, dialect: 'google-gemini' }
    : { kind: 'url', url: uri };
  if (mediaType?.startsWith('image/') === true) {
    if (mediaTypeOfUrl(uri) === mediaType) return { type: 'image', source };
    return { type: 'image', source, extras: { 'google-gemini': { mimeType: mediaType } } };
  }
  const part: { -readonly [name in keyof FilePart]: FilePart[name] } = { type: 'file', source };
  if (mediaType !== undefined) part.mediaType = mediaType;
  if (filename !== undefined) part.filename = filename;
  return part;
}

/**
 * Media as `inlineData` or `fileData`; undefined when the wire cannot hold it. Both hosts document public https URLs as
 * `fileUri` (ai.google.dev/gemini-api/docs/file-input-methods), and files uploaded to Google.
 */
function encodeMedia(part: ImagePart | AudioPart | FilePart): JsonObject | undefined {
  const { source } = part;
  switch (source.kind) {
    case 'base64':
      return { inlineData: { mimeType: source.mediaType, data: source.data } };
    case 'text':
      return {
        inlineData: { mimeType: 'text/plain', data: Buffer.from(source.text, 'utf8').toString('base64') },
      };
    case 'url': {
      if (!/^(?:https|gs):\/\//i.test(source.url)) return undefined;
      return { fileData: fileData(source.url, part) };
    }
    case 'file-id':
      if (source.dialect !== 'google-gemini' && source.dialect !== 'google-vertex') return undefined;
      return { fileData: fileData(source.id, part) };
  }
}

function fileData(fileUri: string, part: ImagePart | AudioPart | FilePart): JsonObject {
  const told = part.type === 'file' ? part.mediaType : asText(part.extras?.['google-gemini']?.mimeType);
  const mimeType = told ?? mediaTypeOfUrl(fileUri);
  return mimeType === undefined ? { fileUri } : { mimeType, fileUri };
}

/**
 * One part of a model turn, in a history or in an answer; undefined for parts that this wire cannot express (encrypted
 * thinking, tools that another provider ran) and for empty texts.
 */
export function encodeModelPart(part: ChatPart): JsonObject | undefined {
  const encoded = withoutSignature(part);
  if (encoded === undefined) return undefined;
  if (part.signature !== undefined) encoded.thoughtSignature = part.signature;
  return Object.assign(encoded, siblings(part));
}

/** Members beside a part's content: `videoMetadata`, `mediaResolution` … */
export function siblings(part: ChatPart): JsonObject {
  const own = part.extras?.['google-gemini'];
  // The media type of an address is inside its `fileData`.
  return own === undefined ? {} : withoutMembers(own, ['mimeType']);
}

function withoutSignature(part: ChatPart): JsonObject | undefined {
  switch (part.type) {
    case 'text':
    case 'refusal':
      return part.text === '' && part.signature === undefined ? undefined : { text: part.text };
    case 'reasoning':
      if (part.redacted !== undefined) return undefined;
      return part.text === '' && part.signature === undefined
        ? undefined
        : { text: part.text, thought: true };
    case 'tool-call':
      return { functionCall: { id: part.id, name: part.name, args: encodeArguments(part) } };
    case 'provider-tool':
    case 'opaque':
      return part.dialect === 'google-gemini' || part.dialect === 'google-vertex'
        ? { ...part.value }
        : undefined;
    case 'image':
    case 'audio':
    case 'file':
      return encodeMedia(part);
    case 'tool-result':
      return undefined;
  }
}

/** Gives a result the id of the preceding call, and numbers calls without an id. */
export interface ToolNumbers {
  /** Id of the last call. */
  lastId: string;
  readonly newId: (prefix: string) => string;
}

/**
 * A part written by a tool of Google's own: code and its result, a server-side call and its response. Every other
 * unknown part is kept unchanged.
 */
export function decodeOwnPart(part: JsonObject, numbers: ToolNumbers): ProviderToolPart | OpaquePart {
  const code = memberObject(part, 'executableCode');
  if (code !== undefined) return toolPart('call', 'code_execution', code, part, numbers);
  const result = memberObject(part, 'codeExecutionResult');
  if (result !== undefined) return toolPart('result', 'code_execution', result, part, numbers);
  const call = memberObject(part, 'toolCall');
  if (call !== undefined) return toolPart('call', toolName(call), call, part, numbers);
  const response = memberObject(part, 'toolResponse');
  if (response !== undefined) return toolPart('result', toolName(response), response, part, numbers);
  return { type: 'opaque', dialect: 'google-gemini', value: part };
}

function toolPart(
  phase: ProviderToolPart['phase'],
  name: string,
  inner: JsonObject,
  value: JsonObject,
  numbers: ToolNumbers,
): ProviderToolPart {
  let id = asText(inner.id);
  if (phase === 'call') {
    id ??= numbers.newId('tool_');
    numbers.lastId = id;
  } else id ??= numbers.lastId;
  return { type: 'provider-tool', dialect: 'google-gemini', phase, id, name, value };
}

function toolName(inner: JsonObject): string {
  return (asText(member(inner, 'toolType')) ?? 'tool').toLowerCase();
}

/** The part without its signature, which the canonical part holds. */
function unsigned(part: JsonObject): JsonObject {
  return withoutMembers(part, ['thoughtSignature', 'thought_signature']);
}

/** A canonical part with the signature of the wire's part. */
function signed<T extends ChatPart>(part: T, signature: string | undefined): T {
  return signature === undefined ? part : { ...part, signature };
}

/**
 * A call's arguments as an object, as this wire requires. Free text (a custom tool) and JSON that is not an object
 * become `{ "input": … }`.
 */
function encodeArguments(call: Pick<ToolCallPart, 'kind' | 'arguments'>): JsonObject {
  if (call.kind === 'custom') return { input: call.arguments };
  if (call.arguments.trim() === '') return {};
  return parseExactObject(call.arguments) ?? { input: call.arguments };
}

/**
 * The arguments of a `functionCall` as JSON text; for a custom tool its free text. Accepts an object that the host
 * sends as a string.
 */
function decodeArguments(args: unknown, kind: ToolCallPart['kind']): string {
  if (typeof args === 'string') return parseExactObject(args) === undefined ? wrap(args) : args;
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return kind === 'custom' ? '' : '{}';
  const object = args as JsonObject;
  if (kind === 'custom' && typeof object.input === 'string') return object.input;
  return stringifyExact(object);
}

function wrap(text: string): string {
  return text.trim() === '' ? '{}' : stringifyExact({ input: text });
}
