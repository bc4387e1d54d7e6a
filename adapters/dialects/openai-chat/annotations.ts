import type { Citation, JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import { given } from './member-reading.ts';

/** The `annotations` of a message or a delta: OpenAI's form, and that of hosts that write the members flat. */
export function decodeAnnotations(value: unknown): readonly Citation[] | undefined {
  const citations: Citation[] = [];
  for (const item of asArray(value)) {
    const annotation = asObject(item);
    if (annotation === undefined) continue;
    const members = asObject(annotation.url_citation) ?? asObject(annotation.file_citation) ?? annotation;
    const url = asText(members.url);
    const fileId = asText(members.file_id);
    if (url === undefined && fileId === undefined) continue;
    citations.push(
      given<Citation>({
        kind: url === undefined ? 'file' : 'url',
        url,
        title: asText(members.title) ?? asText(members.filename),
        quote: asText(members.content),
        start: position(members.start_index),
        end: position(members.end_index),
        fileId,
        raw: { dialect: 'openai-chat', value: annotation },
      }),
    );
  }
  return citations.length === 0 ? undefined : citations;
}

/** The sources that search hosts list beside the answer: `citations` (URLs) and `search_results` (objects). */
export function listedSources(json: JsonObject): readonly Citation[] {
  const results = asArray(json.search_results);
  const list = results.length > 0 ? results : asArray(json.citations);
  const sources: Citation[] = [];
  for (const item of list) {
    const source = asObject(item);
    const url = asText(item) ?? asText(source?.url);
    if (url === undefined) continue;
    const title = asText(source?.title);
    sources.push(title === undefined ? { kind: 'url', url } : { kind: 'url', url, title });
  }
  return sources;
}

/**
 * A citation as an element of `annotations`; undefined for what has no URL, which the form requires. `offset` is where
 * the part's text begins within the message's content, `end` where it ends within the part: a citation without a place
 * stands for all of it.
 */
export function encodeAnnotation(citation: Citation, offset: number, end: number): JsonObject | undefined {
  if (citation.raw?.dialect === 'openai-chat' && offset === 0) return citation.raw.value;
  if (citation.url === undefined) return undefined;
  return {
    type: 'url_citation',
    url_citation: {
      url: citation.url,
      title: citation.title ?? '',
      start_index: offset + (citation.start ?? citation.end ?? 0),
      end_index: offset + (citation.end ?? end),
      ...(citation.quote !== undefined && { content: citation.quote }),
    },
  };
}

function position(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : undefined;
}
