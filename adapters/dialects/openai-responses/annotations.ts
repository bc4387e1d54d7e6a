import type { Citation } from '../../../core/dialects/canonical/chat-part.ts';
import { asCount, asObject, asText, type JsonObject } from '../json-reading.ts';

const dialect = 'openai-responses';

/** What an annotation of an `output_text` cites; undefined for what is no object. */
export function decodeAnnotation(value: unknown): Citation | undefined {
  const annotation = asObject(value);
  if (annotation === undefined) return undefined;
  const url = asText(annotation.url);
  const citation: { -readonly [K in keyof Citation]: Citation[K] } = {
    kind: url === undefined ? 'file' : 'url',
    raw: { dialect, value: annotation },
  };
  if (url !== undefined) citation.url = url;
  const title = asText(annotation.title) ?? asText(annotation.filename);
  if (title !== undefined) citation.title = title;
  const start = asCount(annotation.start_index);
  if (start !== undefined) citation.start = start;
  const end = asCount(annotation.end_index);
  if (end !== undefined) citation.end = end;
  const fileId = asText(annotation.file_id);
  if (fileId !== undefined) citation.fileId = fileId;
  return citation;
}

/**
 * The citation as an annotation. `length` is that of the text up to here: where a citation does not say its place, it
 * stands for all of it. A document without an address is cited by its title, as a file.
 */
export function encodeAnnotation(citation: Citation, length: number): JsonObject {
  if (citation.raw?.dialect === dialect) return citation.raw.value;
  const { url, title } = citation;
  if (url !== undefined) {
    return {
      type: 'url_citation',
      start_index: citation.start ?? 0,
      end_index: citation.end ?? length,
      url,
      title: title ?? url,
    };
  }
  return {
    type: 'file_citation',
    index: citation.end ?? length,
    file_id: citation.fileId ?? `document_${citation.document ?? 0}`,
    filename: title ?? citation.fileId ?? `document_${citation.document ?? 0}`,
  };
}
