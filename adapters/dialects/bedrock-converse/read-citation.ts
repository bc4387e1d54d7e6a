import type { Citation, JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asCount, asObject, asText } from '../json-reading.ts';

/** A citation of an answer, whole or as the delta of a stream. The positions that it tells are those within the source. */
export function readCitation(value: JsonObject): Citation {
  const location = asObject(value.location);
  const source = asText(value.source);
  const url =
    asText(asObject(location?.web)?.url) ?? (source?.startsWith('http') === true ? source : undefined);
  const quote = asArray(value.sourceContent)
    .map((piece) => asText(asObject(piece)?.text) ?? '')
    .join('');
  const citation: { -readonly [K in keyof Citation]: Citation[K] } = {
    kind: url === undefined ? 'document' : 'url',
    raw: { dialect: 'bedrock-converse', value },
  };
  if (url !== undefined) citation.url = url;
  const title = asText(value.title);
  if (title !== undefined) citation.title = title;
  if (quote !== '') citation.quote = quote;
  const document = documentOf(location);
  if (document !== undefined) citation.document = document;
  return citation;
}

function documentOf(location: JsonObject | undefined): number | undefined {
  for (const kind of ['documentChar', 'documentPage', 'documentChunk']) {
    const index = asCount(asObject(location?.[kind])?.documentIndex);
    if (index !== undefined) return index;
  }
  return undefined;
}
