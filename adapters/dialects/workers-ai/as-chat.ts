import { stringifyExact } from '../exact-json.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';

/**
 * What a model said (`{ response, tool_calls, usage }`, whole or an event of a stream) in the words of a chat
 * completions chunk; newer models speak those words themselves, with or without the `result` around them.
 */
export function asChat(json: JsonObject): JsonObject {
  const result = asObject(json.result) ?? json;
  if (Array.isArray(result.choices)) return result;
  const delta: JsonObject = {};
  const chunk: JsonObject = {};
  for (const name in result) if (!apart.has(name)) chunk[name] = result[name];
  const text = textOf(result.response);
  if (text !== undefined) delta.content = text;
  if (asArray(result.tool_calls).length > 0) delta.tool_calls = result.tool_calls;
  if (text !== undefined || delta.tool_calls !== undefined) chunk.choices = [{ index: 0, delta }];
  return chunk;
}

/** What is said in a delta, and what is around a result and says nothing of an answer that came well. */
const apart: ReadonlySet<string> = new Set([
  ...['response', 'tool_calls'],
  ...['success', 'errors', 'messages', 'result', 'p'],
]);

/** Text; JSON mode answers with the object itself, and tokens that are numbers arrive as numbers. */
function textOf(response: unknown): string | undefined {
  if (typeof response === 'string') return response;
  if (typeof response === 'number' || typeof response === 'bigint') return response.toString();
  if (Array.isArray(response)) return JSON.stringify(response);
  const members = asObject(response);
  return members === undefined ? undefined : stringifyExact(members);
}
