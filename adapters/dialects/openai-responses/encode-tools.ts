import type {
  ChatRequest,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { ownDialects } from './encode-content.ts';

const dialect = 'openai-responses';

/** The tools of a request as the wire says them; those that it does not have are reported as `tools[i]`. */
export function encodeTools(tools: readonly ToolDefinition[], report: EncodeReport): readonly JsonObject[] {
  const encoded = tools.map((tool, i) => {
    const place = `tools[${i}]`;
    if (tool.type === 'provider') return providerTool(tool, place, report);
    if (tool.cache !== undefined) report.drop(`${place}.cache_control`);
    return tool.type === 'custom' ? customTool(tool) : functionTool(tool, place, report);
  });
  return encoded.filter((tool) => tool !== undefined);
}

function customTool(tool: Extract<ToolDefinition, { type: 'custom' }>): JsonObject {
  const { name, description, format } = tool;
  return {
    type: 'custom',
    name,
    ...(description !== undefined && { description }),
    ...(format !== undefined && { format }),
  };
}

/** Here a schema is strict unless it says otherwise; everywhere else it is the other way round. */
function functionTool(
  tool: Extract<ToolDefinition, { type: 'function' }>,
  place: string,
  report: EncodeReport,
): JsonObject {
  reportForeignExtras(tool.extras, ownDialects, report, `${place}.`);
  return {
    ...tool.extras?.[dialect],
    type: 'function',
    name: tool.name,
    ...(tool.description !== undefined && { description: tool.description }),
    parameters: tool.parameters ?? null,
    strict: tool.strict ?? false,
  };
}

/** A tool that providers of both wires run. */
function providerTool(
  tool: Extract<ToolDefinition, { type: 'provider' }>,
  place: string,
  report: EncodeReport,
): JsonObject | undefined {
  if (tool.dialect === dialect) return tool.value;
  const translated = sameTool(tool.purpose, tool.value);
  if (translated === undefined) report.drop(place);
  else report.emulate(place);
  return translated;
}

function sameTool(purpose: string, value: JsonObject): JsonObject | undefined {
  switch (purpose) {
    case 'web-search':
      return webSearch(value);
    case 'code-execution':
      return { type: 'code_interpreter', container: { type: 'auto' } };
    case 'image-generation':
      return { type: 'image_generation' };
    default:
      return undefined;
  }
}

function webSearch(value: JsonObject): JsonObject {
  const tool: JsonObject = { type: 'web_search' };
  const domains = asArray(value.allowed_domains);
  if (domains.length > 0) tool.filters = { allowed_domains: domains };
  const size = asText(value.search_context_size);
  if (size !== undefined) tool.search_context_size = size;
  const location = asObject(value.user_location);
  if (location !== undefined)
    tool.user_location = { type: 'approximate', ...(asObject(location.approximate) ?? location) };
  return tool;
}

/** The choice among the tools as the wire says it. */
export function encodeToolChoice(choice: ToolChoice, tools: ChatRequest['tools']): unknown {
  switch (choice.type) {
    case 'tool':
      return { type: choice.kind, name: choice.name };
    case 'allowed': {
      const custom = new Set(tools.flatMap((tool) => (tool.type === 'custom' ? tool.name : [])));
      return {
        type: 'allowed_tools',
        mode: choice.mode,
        tools: choice.names.map((name) => ({ type: custom.has(name) ? 'custom' : 'function', name })),
      };
    }
    default:
      return choice.type;
  }
}
