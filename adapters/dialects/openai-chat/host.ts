import type {
  ChatRequest,
  ReasoningSettings,
  ToolDefinition,
  ToolChoice,
  ResponseFormat,
} from '../../../core/dialects/canonical/chat-request.ts';
import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { UpstreamCallFacts, UpstreamPlan, BodyEdits } from '../../../core/dialects/upstream-plan.ts';
import { endpointPlan } from '../host-endpoints.ts';
import { stringifyExact, type JsonObject, asObject, asArray } from '../json-reading.ts';
import { requestMember } from '../request-members.ts';
import { reasoningEffort } from '../request-settings.ts';
import { chatMessages, type EncodeContext } from './encode-messages.ts';
import {
  reportForeignExtras,
  type ChatProviderCodec,
  type EncodeReport,
  type EncodedRequest,
} from '../../../core/dialects/canonical/chat-codec.ts';
import { openAiErrors } from '../openai-shapes.ts';
import { chatAnswer } from './decode-answer.ts';

/** Members of requests that the hosts of this wire share. */
export const chatMembers = { addSampling, addGiven, applyQuirks, outputLimitName, edits: chatEdits };

/** A chat completions request in the host's form. */
export function encodeRequest(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest {
  return {
    path: host.quirks.paths?.['chat.completions'] ?? '/chat/completions',
    body: stringifyExact(encodeChatBody(request, host, report)),
  };
}

/** The body of such a request, for wires that put the same body at another path. */
function encodeChatBody(request: ChatRequest, host: HostFacts, report: EncodeReport): JsonObject {
  const context: EncodeContext = { host, report };
  const body: JsonObject = { model: host.model, messages: chatMessages.encode(request.messages, context) };
  addTools(body, request, context);
  addSettings(body, request, host, report);
  if (request.reasoning !== undefined) addReasoning(body, request.reasoning, report);
  if (request.stream) {
    body.stream = true;
    if (host.usageInStream === 'on_request') body.stream_options = { include_usage: true };
  }
  reportForeignExtras(request.extras, ['openai-chat'], report);
  const fitted = applyQuirks(body, host, report);
  return Object.assign(fitted, request.extras?.['openai-chat']);
}

function addSettings(body: JsonObject, request: ChatRequest, host: HostFacts, report: EncodeReport): void {
  addSampling(body, request, host, report);
  const { responseFormat, serviceTier } = request;
  if (responseFormat !== undefined) body.response_format = encodeResponseFormat(responseFormat);
  // Anthropic's name for the default tier of this wire.
  const tier = serviceTier === 'standard_only' ? 'default' : serviceTier;
  if (tier !== serviceTier) report.emulate('service_tier');
  addGiven(body, {
    logprobs: request.logprobs,
    top_logprobs: request.topLogprobs,
    verbosity: request.verbosity,
    user: request.user,
    safety_identifier: request.safetyIdentifier,
    prompt_cache_key: request.promptCacheKey,
    metadata: request.metadata,
    service_tier: tier,
    store: request.store,
    modalities: request.modalities,
    audio: request.audio,
  });
}

/** Settings shared by chat and text completions. */
function addSampling(body: JsonObject, request: ChatRequest, host: HostFacts, report: EncodeReport): void {
  addGiven(body, {
    [outputLimitName(host)]: request.maxOutputTokens,
    temperature: request.temperature,
    top_p: request.topP,
    frequency_penalty: request.frequencyPenalty,
    presence_penalty: request.presencePenalty,
    seed: request.seed,
    stop: request.stop,
    n: request.n,
    logit_bias: request.logitBias,
  });
  if (request.topK === undefined) return;
  if (chatMessages.takes(host, 'top_k')) body.top_k = request.topK;
  else report.drop('top_k');
}

/** Adds the members that are not undefined. */
function addGiven(body: JsonObject, members: JsonObject): void {
  for (const name in members) if (members[name] !== undefined) body[name] = members[name];
}

function addReasoning(body: JsonObject, reasoning: ReasoningSettings, report: EncodeReport): void {
  const { effort, budgetTokens, enabled, adaptive, summary } = reasoning;
  if (effort !== undefined) {
    body.reasoning_effort = effort;
    if (budgetTokens !== undefined) report.drop('thinking.budget_tokens');
  } else if (budgetTokens !== undefined) {
    body.reasoning_effort = reasoningEffort.ofBudget(budgetTokens);
    report.emulate('thinking.budget_tokens');
  } else if (enabled === false) {
    // Many models without thinking refuse the setting; their default behaviour is the nearest equivalent.
    report.drop('thinking');
  } else if (enabled === true || adaptive === true) {
    report.emulate('thinking');
  }
  if (summary !== undefined) report.drop('reasoning.summary');
}

/** Applies the host's renames, values and omissions to the canonical members. */
function applyQuirks(body: JsonObject, host: HostFacts, report: EncodeReport): JsonObject {
  const { rename, drop, values } = host.quirks;
  if (rename === undefined && drop === undefined && values === undefined) return body;
  const fitted: JsonObject = {};
  // Renamed already: that name depends on the model.
  const limit = outputLimitName(host);
  for (const name in body) {
    const value = body[name];
    if (drop?.includes(name) === true) {
      if (name !== 'stream_options') report.drop(name);
      continue;
    }
    const renamed = name === limit ? name : (rename?.[name] ?? name);
    fitted[renamed] = wordFor(values?.[name], value);
  }
  return fitted;
}

/** The host's replacement for a value, if any. */
function wordFor(words: Readonly<Record<string, string>> | undefined, value: unknown): unknown {
  if (words === undefined || typeof value !== 'string' || !Object.hasOwn(words, value)) return value;
  return words[value];
}

/** OpenAI's reasoning models: they refuse `max_tokens`. Also behind a router's prefix (`openai/gpt-5`). */
const thinking = /^(?:[^/]+\/)*(?:o\d|gpt-5)/i;

/** Name of the output limit for this host's model. */
function outputLimitName({ model, quirks }: HostFacts): string {
  const name = thinking.test(model) ? 'max_completion_tokens' : 'max_tokens';
  return quirks.rename?.[name] ?? name;
}

/** Writes `tools`, `tool_choice`, `parallel_tool_calls` and `web_search_options`. */
function addTools(body: JsonObject, request: ChatRequest, context: EncodeContext): void {
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
        function: requestMember.given<JsonObject>({ name, description, parameters, strict }),
      };
      chatMessages.encodeCache(encoded, tool, place, context);
      reportForeignExtras(tool.extras, ['openai-chat'], context.report, `${place}.`);
      return Object.assign(encoded, tool.extras?.['openai-chat']);
    }
    case 'custom': {
      const { name, description, format } = tool;
      const encoded: JsonObject = {
        type: 'custom',
        custom: requestMember.given<JsonObject>({ name, description, format: chatFormat(format) }),
      };
      chatMessages.encodeCache(encoded, tool, place, context);
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

/** This wire wraps a grammar in an object; the Responses wire has its members flat. */
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
function encodeResponseFormat(format: ResponseFormat): JsonObject {
  if (format.type !== 'json-schema') return { type: format.type === 'json' ? 'json_object' : 'text' };
  const { name, description, schema, strict } = format;
  return {
    type: 'json_schema',
    // The wire requires a name.
    json_schema: requestMember.given<JsonObject>({ name: name ?? 'response', description, schema, strict }),
  };
}

type Edit = (body: BodyEdits, report?: EncodeReport) => void;

/**
 * Edits of a passed-through chat request for this host: the row's renames, omissions, roles and values, and
 * `max_completion_tokens` for models that refuse `max_tokens`. Each applies only when its member is present. Undefined
 * when the host needs no edits.
 */
function chatEdits(host: HostFacts): Edit | undefined {
  const { rename, drop, roles, values } = host.quirks;
  const limit = outputLimitName(host);
  const plain = rename === undefined && drop === undefined && roles === undefined && values === undefined;
  if (plain && limit === 'max_tokens') return undefined;
  return (body, report) => {
    const request = asObject(body.json);
    if (request === undefined) return;
    const given = Object.keys(request);
    if (roles !== undefined) editRoles(body, request, roles);
    for (const name of given) {
      if (drop?.includes(name) === true) {
        body.remove([name]);
        report?.drop(name);
      } else editMember(body, name, request[name], host, limit);
    }
  };
}

function editMember(body: BodyEdits, name: string, value: unknown, host: HostFacts, limit: string): void {
  const { values } = host.quirks;
  const word = wordFor(values?.[name], value);
  const wanted = nameFor(name, host, limit);
  if (wanted === name) {
    if (word !== value) body.set([name], word);
    return;
  }
  if (asObject(body.json)?.[wanted] === undefined) body.set([wanted], word);
  body.remove([name]);
}

function nameFor(name: string, { quirks }: HostFacts, limit: string): string {
  if (name === 'max_tokens') return limit;
  return quirks.rename?.[name] ?? name;
}

function editRoles(body: BodyEdits, request: JsonObject, roles: Readonly<Record<string, string>>): void {
  asArray(request.messages).forEach((message, i) => {
    const role = asObject(message)?.role;
    const wanted = wordFor(roles, role);
    if (typeof wanted === 'string' && wanted !== role) body.set(['messages', i, 'role'], wanted);
  });
}

/** Chat completions on the provider side. */
export const openAiChatProvider: ChatProviderCodec = {
  encodeRequest,
  decodeAnswer: chatAnswer.decode,
  eventReader: chatAnswer.createEventReader,
  decodeError: openAiErrors.decode,
};

/** Hosts of the OpenAI wire: their own endpoints pass unchanged, conversations in another dialect are translated. */
export const openAiChatHost: ProviderDialect = {
  name: 'openai-chat',
  plan(call) {
    switch (call.endpoint) {
      case 'chat.completions':
        return passChat(call);
      case 'messages.count_tokens':
        // Counted in Anthropic's shape, or not at all: OpenAI's wire has no token count for a chat.
        return call.host.quirks.paths?.[call.endpoint] === undefined
          ? endpointPlan.refused(call, 'counting of tokens')
          : passAt(call);
      case 'completions':
        return passAt(call);
      default:
        return endpointPlan.translated(call, openAiChatProvider) ?? passAt(call);
    }
  },
};

/** Passes the bytes unchanged except for edits that the row or the model requires. */
function passChat(call: UpstreamCallFacts): UpstreamPlan {
  const plan = passAt(call);
  const edit = chatEdits(call.host);
  return edit === undefined || plan.kind !== 'pass' ? plan : { ...plan, edit };
}

/** Passes to the row's path for the operation, else to the same path. */
function passAt(call: UpstreamCallFacts): UpstreamPlan {
  const path = call.host.quirks.paths?.[call.endpoint];
  // Cohere's path is the same operation here.
  const own = call.endpoint === 'rerank' ? call.path.replace(/^\/v2(?=\/)/, '') : call.path;
  return { kind: 'pass', path: (path ?? own) + call.query };
}
