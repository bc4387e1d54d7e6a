import type {
  AudioPart,
  ChatPart,
  ImagePart,
  ToolCallPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { dataUrl } from '../data-url.ts';
import type { JsonObject } from '../json-reading.ts';
import { encodeAnnotation } from './annotations.ts';
import { contentBlock } from './content-blocks.ts';

/** What the form of a message depends on beside its parts. */
export interface MessageStyle {
  /** Only documented members and the two that nearly every client knows (`reasoning_content`, thought signatures). */
  readonly strict: boolean;
  /** One `function_call` instead of `tool_calls`. */
  readonly legacy: boolean;
  /** Unix seconds until which a recording may be named, when the provider did not say. */
  readonly expiresAt: number;
  readonly newId: (prefix: string) => string;
}

/** The `message` of a choice. */
export function encodeMessage(parts: readonly ChatPart[], style: MessageStyle): JsonObject {
  const message: JsonObject = { role: 'assistant', content: null, refusal: null };
  const annotations: JsonObject[] = [];
  const calls: ToolCallPart[] = [];
  const images: JsonObject[] = [];
  for (const part of parts) {
    switch (part.type) {
      case 'text': {
        const before = (message.content as string | null) ?? '';
        message.content = before + part.text;
        for (const citation of part.citations ?? []) {
          const annotation = encodeAnnotation(citation, before.length, part.text.length);
          if (annotation !== undefined) annotations.push(annotation);
        }
        break;
      }
      case 'refusal':
        message.refusal = ((message.refusal as string | null) ?? '') + part.text;
        break;
      case 'reasoning':
        if (part.text !== '') {
          message.reasoning_content = ((message.reasoning_content as string | undefined) ?? '') + part.text;
        }
        break;
      case 'tool-call':
        calls.push(part);
        break;
      case 'audio':
        message.audio = encodeAudio(part, style);
        break;
      case 'image':
        images.push(encodeImage(part, images.length));
        break;
      default:
    }
  }
  if (annotations.length > 0) message.annotations = annotations;
  if (images.length > 0) message.images = images;
  addCalls(message, calls, style);
  if (!style.strict) {
    const blocks = parts.map(contentBlock).filter((block) => block !== undefined);
    if (blocks.length > 0) message.content_blocks = blocks;
  }
  return message;
}

function addCalls(message: JsonObject, calls: readonly ToolCallPart[], style: MessageStyle): void {
  const [first] = calls;
  if (first === undefined) return;
  if (style.legacy) message.function_call = { name: first.name, arguments: first.arguments };
  else message.tool_calls = calls.map(encodeToolCall);
}

/** An element of `tool_calls`. */
export function encodeToolCall(call: ToolCallPart): JsonObject {
  const { id, name, kind, signature } = call;
  const encoded: JsonObject =
    kind === 'custom'
      ? { id, type: 'custom', custom: { name, input: call.arguments } }
      : { id, type: 'function', function: { name, arguments: call.arguments } };
  if (signature !== undefined) encoded.extra_content = signatureContent(signature);
  return encoded;
}

/** Where Google's compatibility API, and clients that follow it, keep the proof of thinking of a call. */
export function signatureContent(signature: string): JsonObject {
  return { google: { thought_signature: signature } };
}

/** An element of `images`, as the hosts write it that let chat models draw. */
export function encodeImage(part: ImagePart, index: number): JsonObject {
  const { source } = part;
  const url = source.kind === 'url' ? source.url : source.kind === 'base64' ? dataUrl(source) : '';
  return { type: 'image_url', image_url: { url }, index };
}

/** The `audio` member of a message or the first delta. */
export function encodeAudio(part: AudioPart, style: Pick<MessageStyle, 'expiresAt' | 'newId'>): JsonObject {
  return {
    id: part.id ?? style.newId('audio_'),
    data: part.source.kind === 'base64' ? part.source.data : '',
    transcript: part.transcript ?? '',
    expires_at: part.expiresAt ?? style.expiresAt,
  };
}
