import type {
  ProviderToolPurpose,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { commonOf, dialectName } from './own-dialect.ts';

const toolMembers = new Set(['type', 'name', 'description', 'input_schema', 'strict']);

/** What the tools that Anthropic defines are for, by how their versioned types begin. */
const purposes: readonly (readonly [string, ProviderToolPurpose])[] = [
  ['web_search_', 'web-search'],
  ['web_fetch_', 'web-fetch'],
  ['code_execution_', 'code-execution'],
  ['computer_', 'computer'],
  ['mcp_toolset', 'mcp'],
];

/** Beginnings of the types that Anthropic defines, but whose calls (`tool_use`) the client answers. */
const clientTypes = ['bash_', 'text_editor_', 'computer_', 'memory_', 'browser_toolset_'] as const;

/** True for a tool definition of Anthropic's whose calls the client itself must carry out. */
export function isClientExecuted(definition: JsonObject): boolean {
  const type = asText(definition.type) ?? '';
  return clientTypes.some((start) => type.startsWith(start));
}

/** The tools of a request. Throws `invalid_request` for one without a name. */
export function decodeTools(value: unknown): readonly ToolDefinition[] {
  return asArray(value).map((item, i) => {
    const tool = asObject(item);
    if (tool === undefined) throw unreadable(`tools[${i}]`, 'must be an object');
    const type = asText(tool.type);
    if (type !== undefined && type !== 'custom') return providerDefinition(type, tool);
    const name = asText(tool.name);
    if (name === undefined) throw unreadable(`tools[${i}].name`, 'is required and must be a string');
    const description = asText(tool.description);
    const parameters = asObject(tool.input_schema);
    return {
      type: 'function',
      name,
      ...(description === undefined ? {} : { description }),
      ...(parameters === undefined ? {} : { parameters }),
      ...(typeof tool.strict === 'boolean' ? { strict: tool.strict } : {}),
      ...commonOf(tool, toolMembers),
    };
  });
}

function providerDefinition(type: string, value: JsonObject): ToolDefinition {
  const purpose = purposes.find(([start]) => type.startsWith(start))?.[1] ?? 'other';
  return { type: 'provider', dialect: dialectName, purpose, value };
}

/** How tools may be used. Members are absent where the request leaves them to the provider. */
export function decodeToolChoice(value: unknown): {
  readonly toolChoice?: ToolChoice;
  readonly parallelToolCalls?: boolean;
} {
  const choice = asObject(value);
  if (choice === undefined) return {};
  const disabled = choice.disable_parallel_tool_use;
  const parallel = typeof disabled === 'boolean' ? { parallelToolCalls: !disabled } : {};
  switch (choice.type) {
    case 'auto':
    case 'none':
      return { toolChoice: { type: choice.type }, ...parallel };
    case 'any':
      return { toolChoice: { type: 'required' }, ...parallel };
    case 'tool': {
      const name = asText(choice.name);
      if (name === undefined) throw unreadable('tool_choice.name', 'is required and must be a string');
      return { toolChoice: { type: 'tool', name, kind: 'function' }, ...parallel };
    }
    default:
      throw unreadable('tool_choice.type', "must be 'auto', 'any', 'tool' or 'none'");
  }
}

/** The error of a field that cannot be read. */
export function unreadable(param: string, rule: string): GatewayError {
  return new GatewayError('invalid_request', `${param} ${rule}.`, { param });
}
