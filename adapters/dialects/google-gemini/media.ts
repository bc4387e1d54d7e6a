import type {
  AudioPart,
  FilePart,
  ImagePart,
  JsonObject,
  MediaSource,
} from '../../../core/dialects/canonical/chat-part.ts';
import { asText } from '../json-reading.ts';
import { member } from './member.ts';

/** Media types by the end of a URL's path, for URLs whose sender told none. */
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

/** The media type that a URL's ending stands for; undefined for endings that are not known. */
export function mediaTypeOfUrl(url: string): string | undefined {
  const ending = /\.([a-z0-9]+)$/.exec((url.split(/[?#]/, 1)[0] as string).toLowerCase())?.[1];
  return ending !== undefined && Object.hasOwn(typesByEnding, ending) ? typesByEnding[ending] : undefined;
}

/** Whether a URI names something that was uploaded to Google and that nobody else can fetch. */
function isGoogleFile(uri: string): boolean {
  return (
    uri.startsWith('gs://') || /^(?:https:\/\/generativelanguage\.googleapis\.com\/[^/]+\/)?files\//.test(uri)
  );
}

/** `inlineData` as the part that its media type makes it. */
export function decodeInlineData(blob: JsonObject): ImagePart | AudioPart | FilePart {
  const mediaType = asText(member(blob, 'mimeType')) ?? 'application/octet-stream';
  const source = { kind: 'base64', mediaType, data: asText(blob.data) ?? '' } as const;
  const filename = asText(member(blob, 'displayName'));
  if (mediaType.startsWith('image/')) return { type: 'image', source };
  if (mediaType.startsWith('audio/')) return { type: 'audio', source };
  return filename === undefined ? { type: 'file', source } : { type: 'file', source, filename };
}

/** `fileData` as an image or a file. */
export function decodeFileData(data: JsonObject): ImagePart | FilePart {
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
 * Media as `inlineData` or `fileData`; undefined when the wire cannot hold it. Public https URLs are documented as
 * `fileUri` by both hosts (ai.google.dev/gemini-api/docs/file-input-methods), as are files uploaded to Google.
 */
export function encodeMedia(part: ImagePart | AudioPart | FilePart): JsonObject | undefined {
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
