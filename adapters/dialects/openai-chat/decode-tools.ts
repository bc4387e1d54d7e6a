import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type {
  ProviderToolPurpose,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import { cacheMember, given, unknownMembers, unreadable } from './member-reading.ts';

const knownToolMembers: ReadonlySet<string> = new Set(['type', 'function', 'custom', 'cache_control']);

/** What the words in a tool's type say that it is for; the first that is found counts. */
const purposes: readonly (readonly [string, ProviderToolPurpose])[] = [
  ['web_search', 'web-search'],
  ['google_search', 'web-search'],
  ['browser_search', 'web-search'],
  ['web_fetch', 'web-fetch'],
  ['url_context', 'web-fetch'],
  ['code_', 'code-execution'],
  ['file_search', 'file-search'],
  ['image_generation', 'image-generation'],
  ['computer', 'computer'],
  ['mcp', 'mcp'],
];

/** The tools of a chat request, the legacy `functions`, and the search that `web_search_options` turns on. */
export function decodeTools(body: JsonObject): readonly ToolDefinition[] {
  const tools = asArray(body.tools).map((item, i) => decodeTool(item, `tools[${i}]`));
  asArray(body.functions).forEach((item, i) => tools.push(decodeFunction(item, `functions[${i}]`, {})));
  const search = asObject(body.web_search_options);
  if (search !== undefined) {
    tools.push(provider({ type: 'web_search_options', ...search }, 'web_search_options'));
  }
  return tools;
}

function decodeTool(item: unknown, place: string): ToolDefinition {
  const tool = asObject(item);
  if (tool === undefined) throw unreadable(place, 'be an object', item);
  const type = asText(tool.type) ?? (tool.function === undefined ? '' : 'function');
  if (type === 'function') return decodeFunction(tool.function, `${place}.function`, tool);
  if (type === 'custom') {
    const custom = asObject(tool.custom);
    const name = asText(custom?.name);
    if (name === undefined) throw unreadable(`${place}.custom.name`, 'be a string', custom?.name);
    return given<ToolDefinition>({
      type: 'custom',
      name,
      description: asText(custom?.description),
      format: flatFormat(asObject(custom?.format)),
      cache: cacheMember(tool),
    });
  }
  if (type === '') throw unreadable(`${place}.type`, 'be a string', tool.type);
  return provider(tool, type);
}

/** A grammar stands within an object of its own on this wire; the canonical form has its members flat. */
function flatFormat(format: JsonObject | undefined): JsonObject | undefined {
  const grammar = asObject(format?.grammar);
  return format === undefined || grammar === undefined ? format : { type: format.type, ...grammar };
}

function decodeFunction(item: unknown, place: string, tool: JsonObject): ToolDefinition {
  const definition = asObject(item);
  const name = asText(definition?.name);
  if (definition === undefined || name === undefined)
    throw unreadable(`${place}.name`, 'be a string', definition?.name);
  const unknown = unknownMembers(tool, knownToolMembers);
  return given<ToolDefinition>({
    type: 'function',
    name,
    description: asText(definition.description),
    parameters: asObject(definition.parameters),
    strict: typeof definition.strict === 'boolean' ? definition.strict : undefined,
    cache: cacheMember(tool) ?? cacheMember(definition),
    extras: unknown === undefined ? undefined : { 'openai-chat': unknown },
  });
}

function provider(value: JsonObject, type: string): ToolDefinition {
  const purpose = purposes.find(([word]) => type.includes(word))?.[1] ?? 'other';
  // Anthropic's types end in a date, and their definitions are Anthropic's own.
  const dialect = /_\d{8}$/.test(type) ? 'anthropic-messages' : 'openai-chat';
  return { type: 'provider', dialect, purpose, value };
}

/** `tool_choice`, or the legacy `function_call`; undefined for none and for choices that only their own host understands. */
export function decodeToolChoice(body: JsonObject): ToolChoice | undefined {
  const choice = body.tool_choice ?? body.function_call;
  if (choice === 'auto' || choice === 'none' || choice === 'required') return { type: choice };
  if (choice === 'any') return { type: 'required' };
  const members = asObject(choice);
  if (members === undefined) return undefined;
  const allowed = asObject(members.allowed_tools);
  if (allowed !== undefined) {
    const names = asArray(allowed.tools)
      .map(nameOf)
      .filter((name) => name !== undefined);
    return { type: 'allowed', mode: allowed.mode === 'required' ? 'required' : 'auto', names };
  }
  const name = nameOf(members);
  if (name === undefined) return undefined;
  return { type: 'tool', name, kind: asObject(members.custom) === undefined ? 'function' : 'custom' };
}

function nameOf(value: unknown): string | undefined {
  const members = asObject(value);
  return (
    asText(asObject(members?.function)?.name) ??
    asText(asObject(members?.custom)?.name) ??
    asText(members?.name)
  );
}
