import type { ClientCall } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatPart, Extras } from '../../../core/dialects/canonical/chat-part.ts';
import type {
  ChatMessage,
  ChatRequest,
  ProviderToolPurpose,
  ReasoningSettings,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { contentBlock, dialectName } from './content-blocks.ts';
import { refuseThread } from './errors.ts';
import type { Conversation, ConversationText } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { collectTexts } from '../request-members.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';

/** Decodes a request, or only its conversation. */
export const messagesRequest = { decode: decodeRequest, decodeConversation };

const toolMembers = new Set(['type', 'name', 'description', 'input_schema', 'strict']);

/** Purposes of the tools that Anthropic defines, by the prefix of their versioned types. */
const purposes: readonly (readonly [string, ProviderToolPurpose])[] = [
  ['web_search_', 'web-search'],
  ['web_fetch_', 'web-fetch'],
  ['code_execution_', 'code-execution'],
  ['computer_', 'computer'],
  ['mcp_toolset', 'mcp'],
];

/** The tools of a request. Throws `invalid_request` for one without a name. */
function decodeTools(value: unknown): readonly ToolDefinition[] {
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
      ...contentBlock.common(tool, toolMembers),
    };
  });
}

function providerDefinition(type: string, value: JsonObject): ToolDefinition {
  const purpose = purposes.find(([start]) => type.startsWith(start))?.[1] ?? 'other';
  return { type: 'provider', dialect: dialectName, purpose, value };
}

/** The tool choice. Members are absent where the request leaves them to the provider. */
function decodeToolChoice(value: unknown): {
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
function unreadable(param: string, rule: string): GatewayError {
  return new GatewayError('invalid_request', `${param} ${rule}.`, { param });
}

type Growing<T> = { -readonly [member in keyof T]: T[member] };

const serviceTiers: Readonly<Record<string, string>> = { auto: 'auto', standard_only: 'default' };

/**
 * A Messages request in the canonical form. Throws `invalid_request` with the field that cannot be read, and
 * `not_supported` for message threads.
 */
function decodeRequest({ body, model, stream }: ClientCall): ChatRequest {
  refuseThread(body);
  const rest: JsonObject = { ...body };
  for (const name of ['model', 'stream', 'provider_options']) delete rest[name];
  const take = (name: string): unknown => {
    const value = rest[name];
    delete rest[name];
    return value ?? undefined;
  };
  const request: Growing<ChatRequest> = {
    model,
    stream,
    messages: [...decodeSystem(take('system')), ...decodeMessages(take('messages'))],
    tools: decodeTools(take('tools')),
    ...decodeToolChoice(take('tool_choice')),
  };
  const maxTokens = takeNumber(take, 'max_tokens');
  if (maxTokens !== undefined) request.maxOutputTokens = maxTokens;
  const temperature = takeNumber(take, 'temperature');
  if (temperature !== undefined) request.temperature = temperature;
  const topP = takeNumber(take, 'top_p');
  if (topP !== undefined) request.topP = topP;
  const topK = takeNumber(take, 'top_k');
  if (topK !== undefined) request.topK = topK;
  const stop = asArray(take('stop_sequences')).filter((value) => typeof value === 'string');
  if (stop.length > 0) request.stop = stop;
  decodeMetadata(request, rest);
  decodeTier(request, rest);
  decodeOutput(request, rest);
  const extras = allExtras(rest, asObject(body.provider_options));
  if (extras !== undefined) request.extras = extras;
  return request;
}

function takeNumber(take: (name: string) => unknown, name: string): number | undefined {
  const value = take(name);
  if (value === undefined) return undefined;
  if (typeof value !== 'number') throw unreadable(name, 'must be a number');
  return value;
}

function decodeSystem(value: unknown): readonly ChatMessage[] {
  const parts = contentBlock.list(value).map(contentBlock.decode);
  return parts.length === 0 ? [] : [{ role: 'system', parts }];
}

function decodeMessages(value: unknown): readonly ChatMessage[] {
  if (!Array.isArray(value)) throw unreadable('messages', 'is required and must be an array');
  return value.flatMap((item: unknown, i) => {
    const message = asObject(item);
    if (message === undefined) throw unreadable(`messages[${i}]`, 'must be an object');
    const { role, content, ...rest } = message;
    if (role !== 'user' && role !== 'assistant' && role !== 'system') {
      throw unreadable(`messages[${i}].role`, "must be 'user', 'assistant' or 'system'");
    }
    if (typeof content !== 'string' && !Array.isArray(content)) {
      throw unreadable(`messages[${i}].content`, 'is required and must be a string or an array');
    }
    const parts = contentBlock.list(content).map(contentBlock.decode);
    const extras = Object.keys(rest).length === 0 ? {} : { extras: { [dialectName]: rest } };
    if (role === 'user') return splitTurn(parts, extras);
    // An entry of its own, though empty, records for the encoder that the client used the system role between turns.
    if (role === 'system') return { role, parts, extras: { [dialectName]: rest } };
    return { role, parts, ...extras };
  });
}

/** A user turn, with tool results in separate messages; the order is kept. */
function splitTurn(parts: readonly ChatPart[], extras: { readonly extras?: Extras }): readonly ChatMessage[] {
  const messages: { role: 'user' | 'tool'; parts: ChatPart[]; extras?: Extras }[] = [];
  for (const part of parts) {
    const role = part.type === 'tool-result' ? 'tool' : 'user';
    const last = messages.at(-1);
    if (last?.role === role) last.parts.push(part);
    else messages.push({ role, parts: [part], ...(last === undefined ? extras : {}) });
  }
  return messages.length === 0 ? [{ role: 'user', parts: [], ...extras }] : messages;
}

function decodeMetadata(request: Growing<ChatRequest>, rest: JsonObject): void {
  const metadata = asObject(rest.metadata);
  const user = asText(metadata?.user_id);
  if (metadata === undefined || user === undefined) return;
  request.user = user;
  const others = { ...metadata };
  delete others.user_id;
  setIfNotEmpty(rest, 'metadata', others);
}

function decodeTier(request: Growing<ChatRequest>, rest: JsonObject): void {
  const tier = asText(rest.service_tier);
  if (tier === undefined || !Object.hasOwn(serviceTiers, tier)) return;
  request.serviceTier = serviceTiers[tier] ?? tier;
  delete rest.service_tier;
}

/** Thinking, effort and structured output: `output_config`, and `output_format` , its name in beta. */
function decodeOutput(request: Growing<ChatRequest>, rest: JsonObject): void {
  const { effort, format: configured, ...others } = asObject(rest.output_config) ?? {};
  const format = asObject(configured) ?? asObject(rest.output_format);
  const schema = asObject(format?.schema);
  if (format?.type === 'json_schema' && schema !== undefined) {
    request.responseFormat = { type: 'json-schema', schema, strict: true };
    delete rest.output_format;
  } else if (configured !== undefined && configured !== null) others.format = configured;
  setIfNotEmpty(rest, 'output_config', others);
  const reasoning = decodeThinking(rest, asText(effort));
  if (reasoning !== undefined) request.reasoning = reasoning;
}

function decodeThinking(rest: JsonObject, effort: string | undefined): ReasoningSettings | undefined {
  const settings: Growing<ReasoningSettings> = {};
  if (effort !== undefined) settings.effort = effort;
  const { type, budget_tokens: budget, display, ...others } = asObject(rest.thinking) ?? {};
  if (type === 'enabled' && typeof budget === 'number') settings.budgetTokens = budget;
  else if (type === 'disabled') settings.enabled = false;
  else if (type === 'adaptive') settings.adaptive = true;
  else if (type !== undefined) return effort === undefined ? undefined : { effort, adaptive: false };
  // Effort alone does not request thinking.
  else if (effort !== undefined) settings.adaptive = false;
  if (display === 'omitted') settings.summary = 'none';
  else if (display === 'summarized') settings.summary = 'auto';
  setIfNotEmpty(rest, 'thinking', others);
  return Object.keys(settings).length === 0 ? undefined : settings;
}

/** Stores the remainder of a member in the extras; nothing when it is empty. */
function setIfNotEmpty(rest: JsonObject, name: string, members: JsonObject): void {
  if (Object.keys(members).length === 0) delete rest[name];
  else rest[name] = members;
}

/** Members that only this wire has, and the caller's options for other dialects. */
function allExtras(rest: JsonObject, options: JsonObject | undefined): Extras | undefined {
  const extras: Record<string, JsonObject> = {};
  const own: JsonObject = {};
  for (const [name, value] of Object.entries(rest)) if (value !== null) own[name] = value;
  if (Object.keys(own).length > 0) extras[dialectName] = own;
  for (const [dialect, value] of Object.entries(options ?? {})) {
    const members = asObject(value);
    if (members !== undefined) extras[dialect] = { ...extras[dialect], ...members };
  }
  return Object.keys(extras).length === 0 ? undefined : extras;
}

/** The texts of a Messages request with their paths: system, messages and tool results. */
function decodeConversation(_endpoint: EndpointId, body: unknown): Conversation {
  const request = asObject(body);
  const texts: ConversationText[] = [];
  if (request === undefined) return { texts };
  collectTexts(texts, 'system', request.system, ['system']);
  asArray(request.messages).forEach((value, i) => {
    const message = asObject(value);
    if (message === undefined) return;
    const role = typeof message.role === 'string' ? message.role : '';
    collectTexts(texts, role, message.content, ['messages', i, 'content']);
    asArray(message.content).forEach((value, j) => {
      const part = asObject(value);
      if (part === undefined) return;
      const path = ['messages', i, 'content', j];
      // Tool results and documents hold content of their own.
      collectTexts(texts, part.type === 'tool_result' ? 'tool' : role, part.content, [...path, 'content']);
      const source = asObject(part.source);
      if (source?.type === 'text') collectTexts(texts, role, source.data, [...path, 'source', 'data']);
    });
  });
  return { texts };
}
