import type { JsonObject, ToolCallPart } from '../../../core/dialects/canonical/chat-part.ts';
import { parseExactObject, stringifyExact } from '../exact-json.ts';

/** A call's arguments as the object that this wire wants. Free text (a custom tool) and what is no object become `{ "input": … }`. */
export function encodeArguments(call: Pick<ToolCallPart, 'kind' | 'arguments'>): JsonObject {
  if (call.kind === 'custom') return { input: call.arguments };
  if (call.arguments.trim() === '') return {};
  return parseExactObject(call.arguments) ?? { input: call.arguments };
}

/** The arguments of a `functionCall` as JSON text; for a custom tool its free text. Hosts that quote the object are understood. */
export function decodeArguments(args: unknown, kind: ToolCallPart['kind']): string {
  if (typeof args === 'string') return parseExactObject(args) === undefined ? wrap(args) : args;
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return kind === 'custom' ? '' : '{}';
  const object = args as JsonObject;
  if (kind === 'custom' && typeof object.input === 'string') return object.input;
  return stringifyExact(object);
}

function wrap(text: string): string {
  return text.trim() === '' ? '{}' : stringifyExact({ input: text });
}
