import type {
  AudioPart,
  CacheMarker,
  ChatPart,
  FilePart,
  ImagePart,
  MediaSource,
  TextPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { sourceOfUrl } from '../data-url.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';
import { given, unreadable } from '../openai-chat/member-reading.ts';

const dialect = 'openai-responses';

/** The formats that `input_audio` names otherwise than their media type does. */
const audioTypes: Readonly<Record<string, string>> = { mp3: 'audio/mpeg', m4a: 'audio/mp4' };

/** What may stand in an input message or in the output of a tool. */
export type InputPart = TextPart | ImagePart | FilePart | AudioPart;

/**
 * The parts of an input content: a string, or a list of `input_text`, `input_image`, `input_file`, `input_audio`. Throws
 * `invalid_request` naming `place` (`input[0].content`) for anything else; unknown kinds become opaque parts.
 */
export function decodeInputContent(content: unknown, place: string): readonly ChatPart[] {
  if (content === undefined || content === null || content === '') return [];
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content)) throw unreadable(place, 'be a string or an array of content parts', content);
  return content.map((value: unknown, i) => {
    const part = asObject(value);
    if (part === undefined) throw unreadable(`${place}[${i}]`, 'be a content part', value);
    return inputPart(part, `${place}[${i}]`) ?? { type: 'opaque', dialect, value: part };
  });
}

/** One part that a caller wrote; undefined when its kind is not known. */
export function inputPart(part: JsonObject, place: string): InputPart | undefined {
  const cache = cacheMarker(part);
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text':
      if (typeof part.text !== 'string') throw unreadable(`${place}.text`, 'be a string', part.text);
      return given<TextPart>({ type: 'text', text: part.text, cache });
    case 'input_image':
      return given<ImagePart>({ ...imageOf(part, place), cache });
    case 'input_file':
      return given<FilePart>({ ...fileOf(part, place), cache });
    case 'input_audio':
      return given<AudioPart>({ ...audioOf(part, place), cache });
    default:
      return undefined;
  }
}

function imageOf(part: JsonObject, place: string): ImagePart {
  const url = asText(part.image_url);
  const id = asText(part.file_id);
  const detail = asText(part.detail);
  if (url !== undefined)
    return given<ImagePart>({ type: 'image', source: sourceOfUrl(url, 'image/jpeg'), detail });
  if (id === undefined)
    throw unreadable(`${place}.image_url`, 'be a URL or a data: URL, or file_id be given', part.image_url);
  return given<ImagePart>({ type: 'image', source: uploaded(id), detail });
}

function fileOf(part: JsonObject, place: string): FilePart {
  const filename = asText(part.filename);
  const data = asText(part.file_data);
  const url = asText(part.file_url);
  const id = asText(part.file_id);
  const detail = asText(part.detail);
  const extras = detail === undefined ? undefined : { [dialect]: { detail } };
  if (data !== undefined) {
    const read = sourceOfUrl(data, typeOfName(filename));
    const source =
      read.kind === 'url' ? { kind: 'base64' as const, mediaType: typeOfName(filename), data } : read;
    return given<FilePart>({ type: 'file', source, filename, extras });
  }
  if (url !== undefined)
    return given<FilePart>({ type: 'file', source: { kind: 'url', url }, filename, extras });
  if (id === undefined)
    throw unreadable(place, 'hold file_data, file_url or file_id', part.file_data ?? part.file_url);
  return given<FilePart>({ type: 'file', source: uploaded(id), filename, extras });
}

function audioOf(part: JsonObject, place: string): AudioPart {
  const audio = asObject(part.input_audio);
  const data = asText(audio?.data);
  if (data === undefined) throw unreadable(`${place}.input_audio.data`, 'be base64', audio?.data);
  const read = sourceOfUrl(data);
  if (read.kind === 'base64') return { type: 'audio', source: read };
  const format = asText(audio?.format) ?? 'wav';
  return {
    type: 'audio',
    source: { kind: 'base64', mediaType: audioTypes[format] ?? `audio/${format}`, data },
  };
}

function uploaded(id: string): MediaSource {
  return { kind: 'file-id', id, dialect };
}

/** Documents are PDFs where nothing says otherwise. */
function typeOfName(filename: string | undefined): string {
  return filename === undefined || /\.pdf$/i.test(filename) ? 'application/pdf' : 'application/octet-stream';
}

/** An explicit end of a reusable prompt prefix. */
function cacheMarker(part: JsonObject): CacheMarker | undefined {
  return asObject(part.prompt_cache_breakpoint) === undefined ? undefined : {};
}
