import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { JsonObject } from '../json-reading.ts';

/**
 * Models without structured outputs are given a tool whose input is the answer. Its name tells the decoder that a call
 * of it is the text that was asked for; undefined when the request asks for no schema that a tool can have.
 */
export function answerToolName({ responseFormat, tools }: ChatRequest): string | undefined {
  if (responseFormat?.type !== 'json-schema' || responseFormat.schema.type !== 'object') return undefined;
  const isTaken = tools.some((tool) => 'name' in tool && tool.name === 'json');
  return isTaken ? 'json_answer' : 'json';
}

/** The definition of that tool. */
export function answerTool(request: ChatRequest): JsonObject | undefined {
  const name = answerToolName(request);
  if (name === undefined || request.responseFormat?.type !== 'json-schema') return undefined;
  const { schema, description } = request.responseFormat;
  return { name, description: description ?? 'Give the answer as a JSON object.', input_schema: schema };
}
