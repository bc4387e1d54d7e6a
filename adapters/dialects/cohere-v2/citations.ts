import type { Citation, TextPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import { asArray, asCount, asObject, asText, type JsonObject } from '../json-reading.ts';

/** The number in the id that Cohere gives a document without one: `doc:3`. */
const numberedDocument = /^doc:(\d+)$/;

/** The citation stands on the text of the answer, not on its thinking or its plan. */
export function isOfText(citation: JsonObject): boolean {
  return citation.type === undefined || citation.type === 'TEXT_CONTENT';
}

/**
 * One citation for each source that a span of `text` rests on. Cohere counts code points; where those and UTF-16 units
 * differ, the cited words decide.
 */
export function decodeCitations(value: JsonObject, text: string): Citation[] {
  const sources = asArray(value.sources);
  if (sources.length === 0) return [oneCitation(value, undefined, text)];
  return sources.map((source) => oneCitation(value, asObject(source), text));
}

/** The citations of a text that Cohere said itself; the others are reported as dropped. */
export function citationsToSend({ citations }: TextPart, at: string, report: EncodeReport): JsonObject[] {
  const own: JsonObject[] = [];
  for (const { raw } of citations ?? []) {
    if (raw?.dialect === 'cohere-v2') own.push(raw.value);
    else report.drop(`${at}.citations`);
  }
  return own;
}

function oneCitation(value: JsonObject, source: JsonObject | undefined, text: string): Citation {
  const said = source === undefined ? value : Object.assign({}, value, { sources: [source] });
  const citation: { -readonly [K in keyof Citation]: Citation[K] } = {
    kind: 'document',
    raw: { dialect: 'cohere-v2', value: said },
  };
  const document = asObject(source?.document) ?? {};
  const url = asText(document.url);
  const title = asText(document.title);
  const quote = asText(document.snippet) ?? asText(document.text);
  const number = numberedDocument.exec(asText(source?.id) ?? '')?.[1];
  if (url !== undefined) {
    citation.kind = 'url';
    citation.url = url;
  }
  if (title !== undefined) citation.title = title;
  if (quote !== undefined) citation.quote = quote;
  if (number !== undefined) citation.document = Number(number);
  const span = spanOf(value, text);
  if (span !== undefined) [citation.start, citation.end] = span;
  return citation;
}

function spanOf(value: JsonObject, text: string): readonly [number, number] | undefined {
  const start = asCount(value.start);
  const end = asCount(value.end);
  if (start === undefined || end === undefined) return undefined;
  const cited = asText(value.text);
  if (cited === undefined || text.slice(start, end) === cited) return [start, end];
  const characters = Array.from(text);
  if (characters.slice(start, end).join('') !== cited) return [start, end];
  const from = characters.slice(0, start).join('').length;
  return [from, from + cited.length];
}
