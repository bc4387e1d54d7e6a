import type { FilePart, ImagePart, MediaSource } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { addCommon, commonOf, dialectName, ownExtras } from './own-dialect.ts';

const imageMembers = new Set(['type', 'source']);
const documentMembers = new Set(['type', 'source', 'title', 'context', 'citations']);
const documentMembersButSource = new Set(['type', 'title', 'context', 'citations']);

/** An image block; undefined when its source is of a kind that is not known. */
export function decodeImage(block: JsonObject): ImagePart | undefined {
  const source = decodeSource(block.source);
  if (source === undefined || source.kind === 'text') return undefined;
  return { type: 'image', source, ...commonOf(block, imageMembers) };
}

/** A document block; undefined when nothing but this wire could say it (pages that hold images). */
export function decodeDocument(block: JsonObject): FilePart | undefined {
  const given = asObject(block.source);
  const pages = given?.type === 'content' ? textOfBlocks(given.content) : undefined;
  const source: MediaSource | undefined =
    pages === undefined ? decodeSource(given) : { kind: 'text', text: pages };
  if (source === undefined) return undefined;
  const filename = asText(block.title);
  const context = asText(block.context);
  const citations = asObject(block.citations)?.enabled;
  // The block form is kept: citations count its blocks.
  const common = commonOf(block, pages === undefined ? documentMembers : documentMembersButSource);
  return {
    type: 'file',
    source,
    ...(source.kind === 'url' ? { mediaType: 'application/pdf' } : {}),
    ...(filename === undefined ? {} : { filename }),
    ...(context === undefined ? {} : { context }),
    ...(typeof citations === 'boolean' ? { citations } : {}),
    ...common,
  };
}

/** A search result that the client found, as a text document; undefined when it holds more than text. */
export function decodeSearchResult(block: JsonObject): FilePart | undefined {
  const text = textOfBlocks(block.content);
  if (text === undefined) return undefined;
  const filename = asText(block.title);
  const context = asText(block.source);
  const own = { ...block };
  delete own.cache_control;
  return {
    type: 'file',
    source: { kind: 'text', text },
    ...(filename === undefined ? {} : { filename }),
    ...(context === undefined ? {} : { context }),
    ...commonOf({ cache_control: block.cache_control, search_result: own }, new Set()),
  };
}

/** An image as a block; undefined for a source that the wire does not take. */
export function encodeImage(part: ImagePart): JsonObject | undefined {
  const source = encodeSource(part.source);
  return source === undefined ? undefined : addCommon({ type: 'image', source }, part);
}

/** A file as a document block (or an image, when it is one); undefined for what the wire does not take. */
export function encodeFile(part: FilePart): JsonObject | undefined {
  const searchResult = asObject(ownExtras(part).search_result);
  if (searchResult !== undefined) return addCommon({ ...searchResult }, { cache: part.cache });
  const { source } = part;
  if (source.kind === 'base64' && source.mediaType.startsWith('image/')) {
    return addCommon({ type: 'image', source: encodeSource(source) }, part);
  }
  const encoded = documentSource(part);
  if (encoded === undefined) return undefined;
  const block: JsonObject = { type: 'document', source: encoded };
  if (part.filename !== undefined) block.title = part.filename;
  if (part.context !== undefined) block.context = part.context;
  if (part.citations !== undefined) block.citations = { enabled: part.citations };
  return addCommon(block, part);
}

function documentSource({ source, mediaType }: FilePart): JsonObject | undefined {
  if (source.kind === 'url') {
    return mediaType === undefined || mediaType === 'application/pdf' ? encodeSource(source) : undefined;
  }
  if (source.kind !== 'base64') return encodeSource(source);
  if (source.mediaType === 'application/pdf') return encodeSource(source);
  if (!source.mediaType.startsWith('text/') && source.mediaType !== 'application/json') return undefined;
  return {
    type: 'text',
    media_type: 'text/plain',
    data: Buffer.from(source.data, 'base64').toString('utf8'),
  };
}

function decodeSource(value: unknown): MediaSource | undefined {
  const source = asObject(value);
  if (source === undefined) return undefined;
  const { url, data, file_id: id } = source;
  const mediaType = asText(source.media_type);
  if (source.type === 'url' && typeof url === 'string') return { kind: 'url', url };
  if (source.type === 'text' && typeof data === 'string') return { kind: 'text', text: data };
  if (source.type === 'file' && typeof id === 'string') return { kind: 'file-id', id, dialect: dialectName };
  if (source.type !== 'base64' || typeof data !== 'string' || mediaType === undefined) return undefined;
  return { kind: 'base64', mediaType, data };
}

function encodeSource(source: MediaSource): JsonObject | undefined {
  switch (source.kind) {
    case 'url':
      return { type: 'url', url: source.url };
    case 'base64':
      return { type: 'base64', media_type: source.mediaType, data: source.data };
    case 'text':
      return { type: 'text', media_type: 'text/plain', data: source.text };
    case 'file-id':
      return source.dialect === dialectName ? { type: 'file', file_id: source.id } : undefined;
  }
}

/** The text of a string or of blocks that are all text; undefined when there is anything else. */
function textOfBlocks(content: unknown): string | undefined {
  if (typeof content === 'string') return content;
  const blocks = asArray(content).map(asObject);
  if (blocks.length === 0 || blocks.some((block) => typeof block?.text !== 'string')) return undefined;
  return blocks.map((block) => String(block?.text)).join('\n');
}
