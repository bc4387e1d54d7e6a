import type { ClientCall } from '../../../core/dialects/canonical/chat-codec.ts';
import type { Extras } from '../../../core/dialects/canonical/chat-part.ts';
import type {
  ChatRequest,
  ProviderToolPurpose,
  ReasoningSettings,
  ResponseFormat,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import type { DialectName, EndpointId } from '../../../core/dialects/endpoint.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { decodeMessages } from './decode-messages.ts';
import { bodyIssues, collectTexts, requestMember } from '../request-members.ts';
import type { Conversation, ConversationText } from '../../../core/dialects/dialect.ts';

/** Decodes a request, or pieces of it. */
export const chatRequest = { decode: decodeRequest, decodeConversation, decodeSampling, providerOptions };

const knownToolMembers: ReadonlySet<string> = new Set(['type', 'function', 'custom', 'cache_control']);

/** Purposes by words in a tool's type; the first match counts. */
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

/** The tools of a chat request, the legacy `functions`, and the search enabled by `web_search_options`. */
function decodeTools(body: JsonObject): readonly ToolDefinition[] {
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
  if (tool === undefined) throw bodyIssues.unreadable(place, 'be an object', item);
  const type = asText(tool.type) ?? (tool.function === undefined ? '' : 'function');
  if (type === 'function') return decodeFunction(tool.function, `${place}.function`, tool);
  if (type === 'custom') {
    const custom = asObject(tool.custom);
    const name = asText(custom?.name);
    if (name === undefined) throw bodyIssues.unreadable(`${place}.custom.name`, 'be a string', custom?.name);
    return requestMember.given<ToolDefinition>({
      type: 'custom',
      name,
      description: asText(custom?.description),
      format: flatFormat(asObject(custom?.format)),
      cache: requestMember.cache(tool),
    });
  }
  if (type === '') throw bodyIssues.unreadable(`${place}.type`, 'be a string', tool.type);
  return provider(tool, type);
}

/** This wire wraps a grammar in an object; the canonical form has its members flat. */
function flatFormat(format: JsonObject | undefined): JsonObject | undefined {
  const grammar = asObject(format?.grammar);
  return format === undefined || grammar === undefined ? format : { type: format.type, ...grammar };
}

function decodeFunction(item: unknown, place: string, tool: JsonObject): ToolDefinition {
  const definition = asObject(item);
  const name = asText(definition?.name);
  if (definition === undefined || name === undefined)
    throw bodyIssues.unreadable(`${place}.name`, 'be a string', definition?.name);
  const unknown = requestMember.unknown(tool, knownToolMembers);
  return requestMember.given<ToolDefinition>({
    type: 'function',
    name,
    description: asText(definition.description),
    parameters: asObject(definition.parameters),
    strict: typeof definition.strict === 'boolean' ? definition.strict : undefined,
    cache: requestMember.cache(tool) ?? requestMember.cache(definition),
    extras: unknown === undefined ? undefined : { 'openai-chat': unknown },
  });
}

function provider(value: JsonObject, type: string): ToolDefinition {
  const purpose = purposes.find(([word]) => type.includes(word))?.[1] ?? 'other';
  // Anthropic's types end in a date, and their definitions are Anthropic's own.
  const dialect = /_\d{8}$/.test(type) ? 'anthropic-messages' : 'openai-chat';
  return { type: 'provider', dialect, purpose, value };
}

/**
 * `tool_choice`, or the legacy `function_call`; undefined for none and for choices that only their own host supports.
 */
function decodeToolChoice(body: JsonObject): ToolChoice | undefined {
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

/** Members that have a place in the canonical form. */
const knownMembers: ReadonlySet<string> = new Set([
  ...['model', 'messages', 'stream', 'stream_options', 'tools', 'functions', 'web_search_options'],
  ...['parallel_tool_calls', 'max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'top_k'],
  ...['frequency_penalty', 'presence_penalty', 'seed', 'stop', 'n', 'logprobs', 'top_logprobs'],
  ...['logit_bias', 'reasoning_effort', 'reasoning', 'thinking', 'verbosity', 'user', 'safety_identifier'],
  ...['prompt_cache_key', 'metadata', 'service_tier', 'store', 'modalities', 'audio', 'provider_options'],
]);

/** Reads a chat completions request. Members outside the canonical form are kept as this wire's extras. */
function decodeRequest(call: ClientCall): ChatRequest {
  const { body } = call;
  const toolChoice = decodeToolChoice(body);
  const responseFormat = decodeResponseFormat(body.response_format);
  return requestMember.given<ChatRequest>({
    model: call.model,
    stream: call.stream,
    messages: decodeMessages(body.messages),
    tools: decodeTools(body),
    toolChoice,
    parallelToolCalls: requestMember.boolean(body, 'parallel_tool_calls'),
    ...decodeSampling(body),
    logprobs: requestMember.boolean(body, 'logprobs'),
    topLogprobs: requestMember.number(body, 'top_logprobs'),
    responseFormat,
    reasoning: decodeReasoning(body),
    verbosity: requestMember.text(body, 'verbosity'),
    user: requestMember.text(body, 'user'),
    safetyIdentifier: requestMember.text(body, 'safety_identifier'),
    promptCacheKey: requestMember.text(body, 'prompt_cache_key'),
    metadata: asObject(body.metadata),
    serviceTier: requestMember.text(body, 'service_tier'),
    store: requestMember.boolean(body, 'store'),
    modalities: requestMember.texts(body, 'modalities'),
    audio: asObject(body.audio),
    includeUsage: asObject(body.stream_options)?.include_usage === true ? true : undefined,
    legacyFunctions: isLegacy(body) ? true : undefined,
    extras: decodeExtras(body, toolChoice !== undefined, responseFormat !== undefined),
  });
}

/** Settings shared by chat and text completions. */
function decodeSampling(body: JsonObject): Partial<ChatRequest> {
  const seed = typeof body.seed === 'bigint' ? body.seed : requestMember.number(body, 'seed');
  return requestMember.given<Partial<ChatRequest>>({
    maxOutputTokens:
      requestMember.number(body, 'max_completion_tokens') ?? requestMember.number(body, 'max_tokens'),
    temperature: requestMember.number(body, 'temperature'),
    topP: requestMember.number(body, 'top_p'),
    topK: requestMember.number(body, 'top_k'),
    frequencyPenalty: requestMember.number(body, 'frequency_penalty'),
    presencePenalty: requestMember.number(body, 'presence_penalty'),
    seed,
    stop: requestMember.texts(body, 'stop'),
    n: requestMember.number(body, 'n'),
    logitBias: asObject(body.logit_bias),
  });
}

/** The caller's `provider_options`, by dialect. */
function providerOptions(body: JsonObject): Extras | undefined {
  const options = asObject(body.provider_options);
  if (options === undefined) return undefined;
  const extras: { [dialect in DialectName]?: JsonObject } = {};
  for (const [dialect, value] of Object.entries(options)) {
    const members = asObject(value);
    if (members === undefined)
      throw bodyIssues.unreadable(`provider_options.${dialect}`, 'be an object', value);
    extras[dialect as DialectName] = members;
  }
  return Object.keys(extras).length === 0 ? undefined : extras;
}

function decodeExtras(body: JsonObject, choiceIsKnown: boolean, formatIsKnown: boolean): Extras | undefined {
  let unknown = requestMember.unknown(body, knownMembers);
  if (unknown !== undefined) {
    const { tool_choice, function_call, response_format, ...others } = unknown;
    if (!choiceIsKnown && tool_choice !== undefined) others.tool_choice = tool_choice;
    if (!choiceIsKnown && function_call !== undefined) others.function_call = function_call;
    if (!formatIsKnown && response_format !== undefined) others.response_format = response_format;
    unknown = Object.keys(others).length === 0 ? undefined : others;
  }
  const own = unknown === undefined ? undefined : { 'openai-chat': unknown };
  return mergeExtras(own, providerOptions(body));
}

function decodeResponseFormat(value: unknown): ResponseFormat | undefined {
  const format = asObject(value);
  if (format?.type === 'text') return { type: 'text' };
  if (format?.type === 'json_object') return { type: 'json' };
  if (format?.type !== 'json_schema') return undefined;
  const members = asObject(format.json_schema) ?? format;
  const schema = asObject(members.schema);
  if (schema === undefined) {
    throw bodyIssues.unreadable('response_format.json_schema.schema', 'be a JSON Schema', members.schema);
  }
  return requestMember.given<ResponseFormat>({
    type: 'json-schema',
    name: asText(members.name),
    description: asText(members.description),
    schema,
    strict: typeof members.strict === 'boolean' ? members.strict : undefined,
  });
}

/** `reasoning_effort`, the `reasoning` object of routers, and Anthropic's `thinking`, which some hosts adopted. */
function decodeReasoning(body: JsonObject): ReasoningSettings | undefined {
  const reasoning = asObject(body.reasoning) ?? {};
  const thinking = asObject(body.thinking) ?? {};
  const settings = requestMember.given<ReasoningSettings>({
    effort: requestMember.text(body, 'reasoning_effort') ?? asText(reasoning.effort),
    budgetTokens:
      requestMember.number(reasoning, 'max_tokens') ?? requestMember.number(thinking, 'budget_tokens'),
    enabled: requestMember.boolean(reasoning, 'enabled') ?? enabledOf(thinking.type),
    adaptive: thinking.type === 'adaptive' ? true : undefined,
    summary: reasoning.exclude === true ? 'none' : asText(reasoning.summary),
  });
  return Object.keys(settings).length === 0 ? undefined : settings;
}

function enabledOf(type: unknown): boolean | undefined {
  if (type === 'enabled') return true;
  return type === 'disabled' ? false : undefined;
}

function isLegacy(body: JsonObject): boolean {
  if (asArray(body.tools).length > 0) return false;
  if (asArray(body.functions).length > 0) return true;
  return asArray(body.messages).some((message) => asObject(message)?.role === 'function');
}

/** The texts of a request of the OpenAI family, with the path of each in the body. */
function decodeConversation(endpoint: EndpointId, body: unknown): Conversation {
  const request = asObject(body);
  const texts: ConversationText[] = [];
  if (request !== undefined) collect(endpoint, request, texts);
  return { texts };
}

function collect(endpoint: EndpointId, request: JsonObject, texts: ConversationText[]): void {
  switch (endpoint) {
    case 'chat.completions':
      collectMessages(texts, request.messages, 'messages');
      return;
    case 'completions':
      collectTexts(texts, 'user', request.prompt, ['prompt']);
      return;
    case 'embeddings':
    case 'moderations':
      collectTexts(texts, 'user', request.input, ['input']);
      return;
    case 'rerank':
      collectTexts(texts, 'user', request.query, ['query']);
      collectTexts(texts, 'document', request.documents, ['documents']);
      return;
    default:
      // An unknown path may still be one of these under another name (/deployments/x/chat/completions).
      collectMessages(texts, request.messages, 'messages');
      collectTexts(texts, 'user', request.prompt, ['prompt']);
      collectTexts(texts, 'user', request.input, ['input']);
      collectMessages(texts, request.input, 'input');
  }
}

function collectMessages(texts: ConversationText[], messages: unknown, member: string): void {
  asArray(messages).forEach((value, i) => {
    const message = asObject(value);
    const role = typeof message?.role === 'string' ? message.role : '';
    collectTexts(texts, role, message?.content, [member, i, 'content']);
    // A returned answer has this member instead of the content when the answer was translated.
    collectTexts(texts, role, message?.content_blocks, [member, i, 'content_blocks']);
  });
}
