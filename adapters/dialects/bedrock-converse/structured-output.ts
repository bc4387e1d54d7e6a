import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest, ResponseFormat } from '../../../core/dialects/canonical/chat-request.ts';
import { answerTool, answerToolName } from '../anthropic-messages/answer-tool.ts';
import { stringifyExact } from '../exact-json.ts';

type SchemaFormat = Extract<ResponseFormat, { type: 'json-schema' }>;

/** `outputConfig` of a request whose model has structured output. The API wants the schema as JSON text. */
export function outputConfig(format: SchemaFormat): JsonObject {
  const jsonSchema: JsonObject = { schema: stringifyExact(format.schema) };
  if (format.name !== undefined) jsonSchema.name = format.name;
  if (format.description !== undefined) jsonSchema.description = format.description;
  return { textFormat: { type: 'json_schema', structure: { jsonSchema } } };
}

/** The tool whose input is the answer, for models without structured output; undefined for a schema that no tool can have. */
export function answerDefinition(
  request: ChatRequest,
): { readonly name: string; readonly definition: JsonObject } | undefined {
  const name = answerToolName(request);
  const tool = answerTool(request);
  if (name === undefined || tool === undefined) return undefined;
  const { description, input_schema: schema } = tool;
  return { name, definition: { toolSpec: { name, description, inputSchema: { json: schema } } } };
}
