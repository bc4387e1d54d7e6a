import type {
  ChatPart,
  JsonObject,
  OpaquePart,
  ProviderToolPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { asText } from '../json-reading.ts';
import { member, memberObject, withoutMembers } from './member.ts';

/** Gives a result the id of the call before it, and numbers what the wire does not. */
export interface ToolNumbers {
  /** Of the last call. */
  lastId: string;
  readonly newId: (prefix: string) => string;
}

/**
 * A part that a tool of Google's own wrote: code and its result, a server-side call and its response. Every other part
 * that is not known is kept as it is.
 */
export function decodeOwnPart(part: JsonObject, numbers: ToolNumbers): ProviderToolPart | OpaquePart {
  const code = memberObject(part, 'executableCode');
  if (code !== undefined) return toolPart('call', 'code_execution', code, part, numbers);
  const result = memberObject(part, 'codeExecutionResult');
  if (result !== undefined) return toolPart('result', 'code_execution', result, part, numbers);
  const call = memberObject(part, 'toolCall');
  if (call !== undefined) return toolPart('call', toolName(call), call, part, numbers);
  const response = memberObject(part, 'toolResponse');
  if (response !== undefined) return toolPart('result', toolName(response), response, part, numbers);
  return { type: 'opaque', dialect: 'google-gemini', value: part };
}

function toolPart(
  phase: ProviderToolPart['phase'],
  name: string,
  inner: JsonObject,
  value: JsonObject,
  numbers: ToolNumbers,
): ProviderToolPart {
  let id = asText(inner.id);
  if (phase === 'call') {
    id ??= numbers.newId('tool_');
    numbers.lastId = id;
  } else id ??= numbers.lastId;
  return { type: 'provider-tool', dialect: 'google-gemini', phase, id, name, value };
}

function toolName(inner: JsonObject): string {
  return (asText(member(inner, 'toolType')) ?? 'tool').toLowerCase();
}

/** The part without its signature, which stands on the canonical part. */
export function unsigned(part: JsonObject): JsonObject {
  return withoutMembers(part, ['thoughtSignature', 'thought_signature']);
}

/** A canonical part with the signature that stood on the wire's part. */
export function signed<T extends ChatPart>(part: T, signature: string | undefined): T {
  return signature === undefined ? part : { ...part, signature };
}
