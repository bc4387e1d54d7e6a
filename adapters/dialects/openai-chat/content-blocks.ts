import type { ChatPart, Citation, JsonObject } from '../../../core/dialects/canonical/chat-part.ts';

/**
 * A part as an element of `content_blocks`, the form in which clients that ask for more than the OpenAI wire get thinking
 * with its signatures, cited text and provider-run tools; undefined for what has members of its own (calls, audio,
 * images). `text` stands in for the part's own in the first event of a stream.
 */
export function contentBlock(part: ChatPart): JsonObject | undefined {
  switch (part.type) {
    case 'text': {
      const block: JsonObject = { type: 'text', text: part.text };
      if (part.citations !== undefined) block.citations = part.citations.map(blockCitation);
      if (part.signature !== undefined) block.signature = part.signature;
      return block;
    }
    case 'reasoning':
      if (part.redacted !== undefined) return { type: 'redacted_thinking', data: part.redacted };
      return part.signature === undefined
        ? { type: 'thinking', thinking: part.text }
        : { type: 'thinking', thinking: part.text, signature: part.signature };
    case 'provider-tool': {
      if (part.dialect === 'anthropic-messages') return part.value;
      const { dialect, phase, id, name, value } = part;
      return { type: 'provider_tool', dialect, phase, id, name, value };
    }
    default:
      return undefined;
  }
}

/** A citation within such a block: as its own wire said it, else in plain words. */
export function blockCitation(citation: Citation): JsonObject {
  if (citation.raw?.dialect === 'anthropic-messages') return citation.raw.value;
  const { kind, url, title, quote, document } = citation;
  const block: JsonObject = { type: kind };
  if (url !== undefined) block.url = url;
  if (title !== undefined) block.title = title;
  if (quote !== undefined) block.cited_text = quote;
  if (document !== undefined) block.document_index = document;
  return block;
}
