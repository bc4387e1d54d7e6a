import type {
  ChatRequest,
  ResponseFormat,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import { reportForeignExtras } from '../../../core/dialects/canonical/encode-report.ts';
import type { JsonObject } from '../json-reading.ts';
import { encodeCache, type EncodeContext } from './encode-content.ts';
import { given } from './member-reading.ts';

/** Writes `tools`, `tool_choice`, `parallel_tool_calls` and `web_search_options`. */
export function addTools(body: JsonObject, request: ChatRequest, context: EncodeContext): void {
  const tools: JsonObject[] = [];
  request.tools.forEach((tool, i) => {
    const encoded = encodeTool(tool, `tools[${i}]`, context, body);
    if (encoded !== undefined) tools.push(encoded);
  });
  if (tools.length > 0) body.tools = tools;
  const { toolChoice, parallelToolCalls } = request;
  if (toolChoice !== undefined) {
    // Hosts refuse a choice among no tools.
    if (tools.length > 0) body.tool_choice = encodeToolChoice(toolChoice, request.tools);
    else context.report.drop('tool_choice');
  }
  if (parallelToolCalls !== undefined) {
    if (tools.length > 0) body.parallel_tool_calls = parallelToolCalls;
    else context.report.drop('parallel_tool_calls');
  }
}

function encodeTool(
  tool: ToolDefinition,
  place: string,
  context: EncodeContext,
  body: JsonObject,
): JsonObject | undefined {
  switch (tool.type) {
    case 'function': {
      const { name, description, parameters, strict } = tool;
      const encoded: JsonObject = {
        type: 'function',
        function: given<JsonObject>({ name, description, parameters, strict }),
      };
      encodeCache(encoded, tool, place, context);
      reportForeignExtras(tool.extras, ['openai-chat'], context.report, `${place}.`);
      return Object.assign(encoded, tool.extras?.['openai-chat']);
    }
    case 'custom': {
      const { name, description, format } = tool;
      const encoded: JsonObject = {
        type: 'custom',
        custom: given<JsonObject>({ name, description, format: chatFormat(format) }),
      };
      encodeCache(encoded, tool, place, context);
      return encoded;
    }
    case 'provider': {
      if (tool.dialect !== 'openai-chat') {
        context.report.drop(place);
        return undefined;
      }
      if (tool.value.type !== 'web_search_options') return tool.value;
      const options = { ...tool.value };
      delete options.type;
      body.web_search_options = options;
      return undefined;
    }
  }
}

/** A grammar stands within an object of its own here; the Responses wire writes its members flat. */
function chatFormat(format: JsonObject | undefined): JsonObject | undefined {
  if (format?.type !== 'grammar' || format.grammar !== undefined) return format;
  const { type, ...grammar } = format;
  return { type, grammar };
}

function encodeToolChoice(choice: ToolChoice, tools: readonly ToolDefinition[]): unknown {
  switch (choice.type) {
    case 'tool':
      return named(choice.name, choice.kind === 'custom');
    case 'allowed': {
      const custom = new Set(tools.flatMap((tool) => (tool.type === 'custom' ? [tool.name] : [])));
      return {
        type: 'allowed_tools',
        allowed_tools: {
          mode: choice.mode,
          tools: choice.names.map((name) => named(name, custom.has(name))),
        },
      };
    }
    default:
      return choice.type;
  }
}

function named(name: string, isCustom: boolean): JsonObject {
  return isCustom ? { type: 'custom', custom: { name } } : { type: 'function', function: { name } };
}

/** The `response_format` member. */
export function encodeResponseFormat(format: ResponseFormat): JsonObject {
  if (format.type !== 'json-schema') return { type: format.type === 'json' ? 'json_object' : 'text' };
  const { name, description, schema, strict } = format;
  return {
    type: 'json_schema',
    // The wire requires a name.
    json_schema: given<JsonObject>({ name: name ?? 'response', description, schema, strict }),
  };
}
