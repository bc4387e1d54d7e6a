import type { ChatPart, JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { encodeArguments } from './call-arguments.ts';
import { encodeMedia } from './media.ts';
import { withoutMembers } from './member.ts';

/**
 * One part of a model's turn, in a history or in an answer; undefined for what this wire cannot say (encrypted thinking,
 * tools that another provider ran) and for texts that say nothing.
 */
export function encodeModelPart(part: ChatPart): JsonObject | undefined {
  const encoded = withoutSignature(part);
  if (encoded === undefined) return undefined;
  if (part.signature !== undefined) encoded.thoughtSignature = part.signature;
  return Object.assign(encoded, siblings(part));
}

/** What stands beside a part's content: `videoMetadata`, `mediaResolution` … */
export function siblings(part: ChatPart): JsonObject {
  const own = part.extras?.['google-gemini'];
  // The media type of an address stands within its `fileData`.
  return own === undefined ? {} : withoutMembers(own, ['mimeType']);
}

function withoutSignature(part: ChatPart): JsonObject | undefined {
  switch (part.type) {
    case 'text':
    case 'refusal':
      return part.text === '' && part.signature === undefined ? undefined : { text: part.text };
    case 'reasoning':
      if (part.redacted !== undefined) return undefined;
      return part.text === '' && part.signature === undefined
        ? undefined
        : { text: part.text, thought: true };
    case 'tool-call':
      return { functionCall: { id: part.id, name: part.name, args: encodeArguments(part) } };
    case 'provider-tool':
    case 'opaque':
      return part.dialect === 'google-gemini' || part.dialect === 'google-vertex'
        ? { ...part.value }
        : undefined;
    case 'image':
    case 'audio':
    case 'file':
      return encodeMedia(part);
    case 'tool-result':
      return undefined;
  }
}
