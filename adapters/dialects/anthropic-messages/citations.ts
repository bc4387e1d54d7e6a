import type { Citation } from '../../../core/dialects/canonical/chat-part.ts';
import { asCount, asText, type JsonObject } from '../json-reading.ts';
import { dialectName } from './own-dialect.ts';

/** A citation of a text block; its own form travels beside what every wire understands. */
export function decodeCitation(value: JsonObject): Citation {
  const citation: { -readonly [member in keyof Citation]: Citation[member] } = {
    kind: value.type === 'web_search_result_location' ? 'url' : 'document',
    raw: { dialect: dialectName, value },
  };
  const url = asText(value.url) ?? asText(value.source);
  const title = asText(value.title) ?? asText(value.document_title);
  const quote = asText(value.cited_text);
  const document = asCount(value.document_index) ?? asCount(value.search_result_index);
  const fileId = asText(value.file_id);
  if (url !== undefined) citation.url = url;
  if (title !== undefined) citation.title = title;
  if (quote !== undefined) citation.quote = quote;
  if (document !== undefined) citation.document = document;
  if (fileId !== undefined) citation.fileId = fileId;
  return citation;
}

/** The citation as this wire says it; undefined for one of a document whose place in it is not known. */
export function encodeCitation(citation: Citation): JsonObject | undefined {
  if (citation.raw?.dialect === dialectName) return citation.raw.value;
  if (citation.url === undefined) return undefined;
  return {
    type: 'web_search_result_location',
    url: citation.url,
    title: citation.title ?? null,
    cited_text: citation.quote ?? '',
    encrypted_index: '',
  };
}
