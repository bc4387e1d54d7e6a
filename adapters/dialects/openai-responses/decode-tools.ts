import type {
  ProviderToolPurpose,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { given, unknownMembers, unreadable } from '../openai-chat/member-reading.ts';

const dialect = 'openai-responses';

const functionMembers: ReadonlySet<string> = new Set(['type', 'name', 'description', 'parameters', 'strict']);

const purposes: Readonly<Record<string, ProviderToolPurpose>> = {
  web_search: 'web-search',
  web_search_preview: 'web-search',
  file_search: 'file-search',
  code_interpreter: 'code-execution',
  image_generation: 'image-generation',
  mcp: 'mcp',
  computer: 'computer',
  computer_use_preview: 'computer',
};

/** The tools of a request. Whatever is no function and no custom tool is run by the provider. */
export function decodeTools(value: unknown): readonly ToolDefinition[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw unreadable('tools', 'be an array', value);
  return value.map((one: unknown, i) => {
    const tool = asObject(one);
    const type = asText(tool?.type);
    if (tool === undefined || type === undefined)
      throw unreadable(`tools[${i}].type`, 'name the kind of the tool', tool?.type ?? one);
    if (type === 'function' || type === 'custom') return ownTool(tool, type, `tools[${i}]`);
    return { type: 'provider', dialect, purpose: purposeOf(type), value: tool };
  });
}

/** What a tool of this type is for; dated versions (`web_search_2025_08_26`) count as what they are versions of. */
function purposeOf(type: string): ProviderToolPurpose {
  return purposes[type.replace(/_\d{4}_\d{2}_\d{2}$/, '')] ?? 'other';
}

function ownTool(tool: JsonObject, type: 'function' | 'custom', place: string): ToolDefinition {
  const name = asText(tool.name);
  if (name === undefined) throw unreadable(`${place}.name`, 'be a string', tool.name);
  const description = asText(tool.description);
  if (type === 'custom')
    return given<ToolDefinition>({ type, name, description, format: asObject(tool.format) });
  const unknown = unknownMembers(tool, functionMembers);
  return given<ToolDefinition>({
    type,
    name,
    description,
    parameters: asObject(tool.parameters),
    strict: typeof tool.strict === 'boolean' ? tool.strict : undefined,
    extras: unknown === undefined ? undefined : { [dialect]: unknown },
  });
}

/** What the request says of the choice among its tools; undefined for what only this wire can say (a tool of the provider). */
export function decodeToolChoice(value: unknown): ToolChoice | undefined {
  if (value === 'auto' || value === 'none' || value === 'required') return { type: value };
  const choice = asObject(value);
  if (choice === undefined)
    throw unreadable('tool_choice', "be 'auto', 'none', 'required' or an object", value);
  const name = asText(choice.name);
  if ((choice.type === 'function' || choice.type === 'custom') && name !== undefined)
    return { type: 'tool', name, kind: choice.type };
  return choice.type === 'allowed_tools' ? allowedTools(choice) : undefined;
}

function allowedTools(choice: JsonObject): ToolChoice | undefined {
  const names: string[] = [];
  for (const value of asArray(choice.tools)) {
    const tool = asObject(value);
    const name = asText(tool?.name);
    if (name === undefined || (tool?.type !== 'function' && tool?.type !== 'custom')) return undefined;
    names.push(name);
  }
  return { type: 'allowed', mode: choice.mode === 'required' ? 'required' : 'auto', names };
}
