import type {
  AudioPart,
  ChatPart,
  FilePart,
  ImagePart,
  MediaSource,
} from '../../../core/dialects/canonical/chat-part.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { dataUrl } from '../data-url.ts';
import type { JsonObject } from '../json-reading.ts';
import { takes } from './model-kind.ts';

/** What encoding a message needs beside it. */
export interface EncodeContext {
  readonly host: HostFacts;
  readonly report: EncodeReport;
}

/** The content of a message that holds what a user may send; a lone plain text is a string. */
export function encodeContent(
  parts: readonly ChatPart[],
  place: string,
  context: EncodeContext,
): string | JsonObject[] {
  const content: JsonObject[] = [];
  parts.forEach((part, i) => {
    const encoded = encodePart(part, `${place}.content[${i}]`, context);
    if (encoded !== undefined) content.push(encoded);
  });
  return simplified(content);
}

function simplified(content: JsonObject[]): string | JsonObject[] {
  if (content.length === 0) return '';
  const [first] = content;
  const isPlain = first?.type === 'text' && Object.keys(first).length === 2;
  return content.length === 1 && isPlain ? (first.text as string) : content;
}

/** One content part; undefined, and reported, for what the wire cannot say. */
export function encodePart(part: ChatPart, place: string, context: EncodeContext): JsonObject | undefined {
  const encoded = partMembers(part, place, context.report);
  if (encoded === undefined) return undefined;
  if (part.cache !== undefined) encodeCache(encoded, part, place, context);
  if (part.signature !== undefined) context.report.drop(`${place}.signature`);
  reportForeignExtras(part.extras, ['openai-chat'], context.report, `${place}.`);
  return Object.assign(encoded, part.extras?.['openai-chat']);
}

/** Writes a prompt cache marker where the host takes one, and reports it where it does not. */
export function encodeCache(
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
  return source.kind === 'base64' ? dataUrl(source) : undefined;
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
    return { type: 'file', file: { filename: name, file_data: dataUrl(source) } };
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
