import type { ChatRequest, ToolDefinition } from '../../../core/dialects/canonical/chat-request.ts';
import { parseExactObject } from '../exact-json.ts';
import type { JsonObject } from '../json-reading.ts';

/** A tool with free input as a function with one argument: the wire has functions only. */
export function customAsFunction(tool: Extract<ToolDefinition, { type: 'custom' }>): JsonObject {
  const definition: JsonObject = { name: tool.name };
  if (tool.description !== undefined) definition.description = tool.description;
  const input = { type: 'string', description: 'The whole input of the tool.' };
  definition.parameters = { type: 'object', properties: { input }, required: ['input'] };
  return { type: 'function', function: definition };
}

/** The names of the tools whose calls are given back as free input. */
export function customNames(request: ChatRequest): ReadonlySet<string> {
  return new Set(request.tools.flatMap((tool) => (tool.type === 'custom' ? [tool.name] : [])));
}

/** The free input within a call's arguments; the arguments themselves when the model wrote something else. */
export function customInput(given: string): string {
  const members = parseExactObject(given);
  if (typeof members?.input === 'string') return members.input;
  return members !== undefined && Object.keys(members).length === 0 ? '' : given;
}
