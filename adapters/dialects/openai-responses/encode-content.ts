import type { ChatPart, FilePart, MediaSource } from '../../../core/dialects/canonical/chat-part.ts';
import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import { reportForeignExtras } from '../../../core/dialects/canonical/encode-report.ts';
import type { DialectName } from '../../../core/dialects/endpoint.ts';
import { dataUrl } from '../data-url.ts';
import type { JsonObject } from '../json-reading.ts';

const dialect = 'openai-responses';

/** The dialects whose extras mean something here. */
export const ownDialects: readonly DialectName[] = [dialect];

/** The dialects of hosts that share OpenAI's store of files. */
const sharingFiles: ReadonlySet<DialectName> = new Set([dialect, 'openai-chat', 'azure-openai']);

const audioFormats: Readonly<Record<string, string>> = {
  'audio/mpeg': 'mp3',
  'audio/mp3': 'mp3',
  'audio/wav': 'wav',
  'audio/x-wav': 'wav',
  'audio/wave': 'wav',
  'audio/mp4': 'm4a',
};

/** What encoding a part needs beside it. */
export interface PartContext {
  readonly report: EncodeReport;
  /** Whether the model takes explicit ends of reusable prefixes. */
  readonly cacheMarkers: boolean;
  /** The provider keeps what it answers, and knows it by its id. */
  readonly stored: boolean;
}

/** The part of an input message that says this one; undefined when the wire cannot, which is reported as `place`. */
export function encodeInputPart(part: ChatPart, place: string, context: PartContext): JsonObject | undefined {
  const encoded = withoutCache(part, place, context.report);
  if (encoded === undefined) return undefined;
  reportForeignExtras(part.extras, ownDialects, context.report, `${place}.`);
  if (part.signature !== undefined) context.report.drop(`${place}.signature`);
  if (part.cache === undefined) return encoded;
  if (context.cacheMarkers) encoded.prompt_cache_breakpoint = { mode: 'explicit' };
  if (!context.cacheMarkers || part.cache.ttl !== undefined) context.report.drop(`${place}.cache_control`);
  return encoded;
}

function withoutCache(part: ChatPart, place: string, report: EncodeReport): JsonObject | undefined {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text };
    case 'image':
      return dropUnless(encodeImage(part.source, part.detail), place, report);
    case 'file':
      return encodeFile(part, place, report);
    case 'audio':
      return dropUnless(encodeAudio(part.source), place, report);
    case 'opaque':
      return dropUnless(part.dialect === dialect ? { ...part.value } : undefined, place, report);
    default:
      report.drop(place);
      return undefined;
  }
}

function dropUnless(
  encoded: JsonObject | undefined,
  place: string,
  report: EncodeReport,
): JsonObject | undefined {
  if (encoded === undefined) report.drop(place);
  return encoded;
}

function encodeImage(source: MediaSource, detail: string | undefined): JsonObject | undefined {
  const image: JsonObject = { type: 'input_image' };
  if (source.kind === 'url') image.image_url = source.url;
  else if (source.kind === 'base64') image.image_url = dataUrl(source);
  else if (source.kind === 'file-id' && sharingFiles.has(source.dialect)) image.file_id = source.id;
  else return undefined;
  if (detail !== undefined) image.detail = detail;
  return image;
}

function encodeFile(part: FilePart, place: string, report: EncodeReport): JsonObject | undefined {
  const { source, filename } = part;
  if (part.context !== undefined) report.drop(`${place}.context`);
  if (part.citations === true) report.drop(`${place}.citations`);
  if (source.kind === 'text') {
    report.emulate(place);
    return {
      type: 'input_text',
      text: filename === undefined ? source.text : `${filename}\n\n${source.text}`,
    };
  }
  const file: JsonObject = { type: 'input_file', ...part.extras?.[dialect] };
  if (source.kind === 'url') file.file_url = source.url;
  else if (source.kind === 'file-id') {
    if (!sharingFiles.has(source.dialect)) return dropUnless(undefined, place, report);
    file.file_id = source.id;
  } else {
    // The wire takes no bytes without a name.
    file.filename = filename ?? nameOfType(source.mediaType);
    file.file_data = dataUrl(source);
  }
  if (filename !== undefined && source.kind === 'url') report.drop(`${place}.filename`);
  return file;
}

function nameOfType(mediaType: string): string {
  const kind = mediaType.split('/')[1] ?? '';
  return /^[a-z0-9]+$/.test(kind) ? `file.${kind}` : 'file';
}

function encodeAudio(source: MediaSource): JsonObject | undefined {
  if (source.kind !== 'base64') return undefined;
  const format = audioFormats[source.mediaType] ?? source.mediaType.replace(/^audio\//, '');
  return { type: 'input_audio', input_audio: { data: source.data, format } };
}
