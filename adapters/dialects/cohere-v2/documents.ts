import type { FilePart } from '../../../core/dialects/canonical/chat-part.ts';
import type { JsonObject } from '../json-reading.ts';

const readable = /^(text\/|application\/(json|xml|yaml|x-yaml)\b)/i;

/** A text document as Cohere takes it; undefined for what is no text (a PDF, a URL, an uploaded file). */
export function documentOf({ source, filename }: FilePart): JsonObject | undefined {
  const text =
    source.kind === 'text'
      ? source.text
      : source.kind === 'base64' && readable.test(source.mediaType)
        ? Buffer.from(source.data, 'base64').toString('utf8')
        : undefined;
  if (text === undefined) return undefined;
  return { data: filename === undefined ? { text } : { text, title: filename } };
}
