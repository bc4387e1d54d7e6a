import type { ChatPart, TextPart, ToolCallPart } from '../../../core/dialects/canonical/chat-part.ts';
import { parseExactObject } from '../exact-json.ts';
import type { JsonObject } from '../json-reading.ts';
import { encodeCitation } from './citations.ts';
import { addCommon, dialectName } from './own-dialect.ts';

/**
 * A part of an answer as a content block; undefined for what a Messages answer cannot hold (images, audio, files, the
 * tools of other providers).
 */
export function encodeAnswerPart(part: ChatPart): JsonObject | undefined {
  switch (part.type) {
    case 'text':
      return encodeText(part);
    case 'refusal':
      return { type: 'text', text: part.text };
    case 'reasoning':
      return part.redacted === undefined
        ? addCommon({ type: 'thinking', thinking: part.text, signature: part.signature ?? '' }, part)
        : addCommon({ type: 'redacted_thinking', data: part.redacted }, part);
    case 'tool-call':
      return { ...encodeToolUse(part, callInput(part)), ...signatureMembers(part) };
    case 'provider-tool':
    case 'opaque':
      return part.dialect === dialectName ? part.value : undefined;
    default:
      return undefined;
  }
}

/** A text block; citations that the wire cannot say are left out. */
export function encodeText(part: TextPart): JsonObject {
  const block: JsonObject = { type: 'text', text: part.text };
  const citations = (part.citations ?? []).flatMap((citation) => encodeCitation(citation) ?? []);
  if (citations.length > 0) block.citations = citations;
  return addCommon(block, part);
}

/** A `tool_use` block with this input. */
export function encodeToolUse(part: ToolCallPart, input: JsonObject): JsonObject {
  return addCommon({ type: 'tool_use', id: part.id, name: part.name, input }, part);
}

/**
 * The member in which a signature that Gemini put on a call travels through Messages clients: they send blocks back as
 * they came, and Gemini refuses a call without its signature.
 */
export function signatureMembers({ signature }: ToolCallPart): JsonObject {
  return signature === undefined ? {} : { extra_content: { google: { thought_signature: signature } } };
}

/** The arguments as an object. Free text, and what is no JSON object, becomes its `input` member. */
export function callInput({ kind, arguments: text }: ToolCallPart): JsonObject {
  const parsed = kind === 'custom' ? undefined : parseExactObject(text === '' ? '{}' : text);
  return parsed ?? { input: text };
}
