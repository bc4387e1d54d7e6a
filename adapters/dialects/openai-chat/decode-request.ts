import type { ClientCall } from '../../../core/dialects/canonical/chat-codec.ts';
import type { Extras, JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type {
  ChatRequest,
  ReasoningSettings,
  ResponseFormat,
} from '../../../core/dialects/canonical/chat-request.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import type { DialectName } from '../../../core/dialects/endpoint.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import { decodeMessages } from './decode-messages.ts';
import { decodeTools, decodeToolChoice } from './decode-tools.ts';
import {
  booleanMember,
  given,
  numberMember,
  textMember,
  textsMember,
  unknownMembers,
  unreadable,
} from './member-reading.ts';

/** Members that have a place in the canonical form. */
const knownMembers: ReadonlySet<string> = new Set([
  ...['model', 'messages', 'stream', 'stream_options', 'tools', 'functions', 'web_search_options'],
  ...['parallel_tool_calls', 'max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'top_k'],
  ...['frequency_penalty', 'presence_penalty', 'seed', 'stop', 'n', 'logprobs', 'top_logprobs'],
  ...['logit_bias', 'reasoning_effort', 'reasoning', 'thinking', 'verbosity', 'user', 'safety_identifier'],
  ...['prompt_cache_key', 'metadata', 'service_tier', 'store', 'modalities', 'audio', 'provider_options'],
]);

/** Reads a chat completions request. Members that the canonical form has no place for are kept as this wire's extras. */
export function decodeRequest(call: ClientCall): ChatRequest {
  const { body } = call;
  const toolChoice = decodeToolChoice(body);
  const responseFormat = decodeResponseFormat(body.response_format);
  return given<ChatRequest>({
    model: call.model,
    stream: call.stream,
    messages: decodeMessages(body.messages),
    tools: decodeTools(body),
    toolChoice,
    parallelToolCalls: booleanMember(body, 'parallel_tool_calls'),
    ...decodeSampling(body),
    logprobs: booleanMember(body, 'logprobs'),
    topLogprobs: numberMember(body, 'top_logprobs'),
    responseFormat,
    reasoning: decodeReasoning(body),
    verbosity: textMember(body, 'verbosity'),
    user: textMember(body, 'user'),
    safetyIdentifier: textMember(body, 'safety_identifier'),
    promptCacheKey: textMember(body, 'prompt_cache_key'),
    metadata: asObject(body.metadata),
    serviceTier: textMember(body, 'service_tier'),
    store: booleanMember(body, 'store'),
    modalities: textsMember(body, 'modalities'),
    audio: asObject(body.audio),
    includeUsage: asObject(body.stream_options)?.include_usage === true ? true : undefined,
    legacyFunctions: isLegacy(body) ? true : undefined,
    extras: decodeExtras(body, toolChoice !== undefined, responseFormat !== undefined),
  });
}

/** The settings that chat and text completions have in common. */
export function decodeSampling(body: JsonObject): Partial<ChatRequest> {
  const seed = typeof body.seed === 'bigint' ? body.seed : numberMember(body, 'seed');
  return given<Partial<ChatRequest>>({
    maxOutputTokens: numberMember(body, 'max_completion_tokens') ?? numberMember(body, 'max_tokens'),
    temperature: numberMember(body, 'temperature'),
    topP: numberMember(body, 'top_p'),
    topK: numberMember(body, 'top_k'),
    frequencyPenalty: numberMember(body, 'frequency_penalty'),
    presencePenalty: numberMember(body, 'presence_penalty'),
    seed,
    stop: textsMember(body, 'stop'),
    n: numberMember(body, 'n'),
    logitBias: asObject(body.logit_bias),
  });
}

/** What the caller put under `provider_options`, by dialect. */
export function providerOptions(body: JsonObject): Extras | undefined {
  const options = asObject(body.provider_options);
  if (options === undefined) return undefined;
  const extras: { [dialect in DialectName]?: JsonObject } = {};
  for (const [dialect, value] of Object.entries(options)) {
    const members = asObject(value);
    if (members === undefined) throw unreadable(`provider_options.${dialect}`, 'be an object', value);
    extras[dialect as DialectName] = members;
  }
  return Object.keys(extras).length === 0 ? undefined : extras;
}

function decodeExtras(body: JsonObject, choiceIsKnown: boolean, formatIsKnown: boolean): Extras | undefined {
  let unknown = unknownMembers(body, knownMembers);
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
    throw unreadable('response_format.json_schema.schema', 'be a JSON Schema', members.schema);
  }
  return given<ResponseFormat>({
    type: 'json-schema',
    name: asText(members.name),
    description: asText(members.description),
    schema,
    strict: typeof members.strict === 'boolean' ? members.strict : undefined,
  });
}

/** `reasoning_effort`, the `reasoning` object of routers, and Anthropic's `thinking`, which hosts took over. */
function decodeReasoning(body: JsonObject): ReasoningSettings | undefined {
  const reasoning = asObject(body.reasoning) ?? {};
  const thinking = asObject(body.thinking) ?? {};
  const settings = given<ReasoningSettings>({
    effort: textMember(body, 'reasoning_effort') ?? asText(reasoning.effort),
    budgetTokens: numberMember(reasoning, 'max_tokens') ?? numberMember(thinking, 'budget_tokens'),
    enabled: booleanMember(reasoning, 'enabled') ?? enabledOf(thinking.type),
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
