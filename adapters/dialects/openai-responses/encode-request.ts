import {
  type EncodedRequest,
  type EncodeReport,
  reportForeignExtras,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type {
  ChatRequest,
  ReasoningSettings,
  ResponseFormat,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { asArray, asObject, asText, type JsonObject, stringifyExact } from '../json-reading.ts';
import { applyQuirks, effortOfBudget } from '../request-settings.ts';
import { encryptedReasoning, logprobsIncluded } from './decode-request.ts';
import { InputEncoder, ownDialects } from './encode-input.ts';
import type { TokenCounting } from '../host-endpoints.ts';
import { decodeOpenAiError } from '../openai-shapes.ts';
import { dialect } from './output-parts.ts';

/** Members of a Responses request that count: https://platform.openai.com/docs/api-reference/responses/input-tokens */
const counted = 'model input instructions tools tool_choice parallel_tool_calls reasoning text truncation';

/** OpenAI's count of the input of a Responses request. */
export const responsesTokenCounting: TokenCounting = {
  encode(request, host, report) {
    const whole = responsesBody(request, host, report);
    const body: JsonObject = {};
    for (const name of counted.split(' ')) if (whole[name] !== undefined) body[name] = whole[name];
    return { path: '/responses/input_tokens', body: stringifyExact(body) };
  },
  member: 'input_tokens',
  decodeError: decodeOpenAiError,
};

/** The body of `POST /responses`. The provider stores nothing unless the caller sets `store`. */
export function encodeRequest(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest {
  const body = stringifyExact(responsesBody(request, host, report));
  return { path: host.quirks.paths?.responses ?? '/responses', body };
}

/** The body of such a request. */
function responsesBody(request: ChatRequest, host: HostFacts, report: EncodeReport): JsonObject {
  const body: JsonObject = { model: host.model };
  encodeMessages(body, request, host, report);
  encodeSettings(body, request, report);
  encodeSampling(body, request);
  body.store = request.store ?? false;
  const include = includedMembers(request);
  if (include.length > 0) body.include = include;
  if (request.stream) body.stream = true;
  addExtras(body, request, report);
  reportUnsayable(request, report);
  applyQuirks(body, host.quirks, report);
  return body;
}

/** The first message becomes the instructions when it is one system text; everything else becomes items. */
function encodeMessages(body: JsonObject, request: ChatRequest, host: HostFacts, report: EncodeReport): void {
  const { messages } = request;
  const encoder = new InputEncoder({
    report,
    cacheMarkers: takesCacheMarkers(host.model),
    stored: request.store === true,
  });
  const [first] = messages;
  const [text, ...others] = first?.role === 'system' ? first.parts : [];
  const isPlain =
    text?.type === 'text' && others.length === 0 && text.cache === undefined && first?.name === undefined;
  if (isPlain) {
    body.instructions = text.text;
    reportForeignExtras(text.extras, ownDialects, report, 'messages[0].content[0].');
    reportForeignExtras(first?.extras, ownDialects, report, 'messages[0].');
  }
  const { roles } = host.quirks;
  messages.forEach((message, i) => {
    if (i > 0 || !isPlain) encoder.add(message, i, roles?.[message.role] ?? message.role);
  });
  body.input = encoder.items;
}

/** Explicit ends of reusable prefixes are documented for gpt-5.6 and later; earlier models refuse them. */
function takesCacheMarkers(model: string): boolean {
  const version = /(?:^|\/)gpt-(\d+)(?:\.(\d+))?/.exec(model);
  if (version === null) return false;
  const major = Number(version[1]);
  return major > 5 || (major === 5 && Number(version[2] ?? 0) >= 6);
}

function encodeSettings(body: JsonObject, request: ChatRequest, report: EncodeReport): void {
  if (request.tools.length > 0) {
    const tools = encodeTools(request.tools, report);
    if (tools.length > 0) body.tools = tools;
  }
  if (request.toolChoice !== undefined)
    body.tool_choice = encodeToolChoice(request.toolChoice, request.tools);
  if (request.parallelToolCalls !== undefined) body.parallel_tool_calls = request.parallelToolCalls;
  const text: JsonObject = {};
  if (request.responseFormat !== undefined) text.format = encodeFormat(request.responseFormat);
  if (request.verbosity !== undefined) text.verbosity = request.verbosity;
  if (Object.keys(text).length > 0) body.text = text;
  const reasoning = request.reasoning === undefined ? {} : encodeReasoning(request.reasoning, report);
  if (Object.keys(reasoning).length > 0) body.reasoning = reasoning;
}

/** A response format as `text.format`. The wire requires a name for a schema; the default is `response`. */
export function encodeFormat(format: ResponseFormat): JsonObject {
  if (format.type !== 'json-schema') return { type: format.type === 'json' ? 'json_object' : 'text' };
  return {
    type: 'json_schema',
    name: format.name ?? 'response',
    ...(format.description !== undefined && { description: format.description }),
    schema: format.schema,
    ...(format.strict !== undefined && { strict: format.strict }),
  };
}

/** Effort and summary; a budget becomes the nearest effort. */
function encodeReasoning(settings: ReasoningSettings, report: EncodeReport): JsonObject {
  const reasoning: JsonObject = {};
  const { effort, budgetTokens, enabled, summary } = settings;
  if (effort !== undefined) reasoning.effort = effort;
  else if (enabled === false) reasoning.effort = 'none';
  else if (budgetTokens !== undefined) {
    reasoning.effort = effortOfBudget(budgetTokens);
    report.emulate('thinking.budget_tokens');
  }
  if (effort !== undefined && budgetTokens !== undefined) report.drop('thinking.budget_tokens');
  if (summary !== undefined && summary !== 'none') reasoning.summary = summary;
  return reasoning;
}

function encodeSampling(body: JsonObject, request: ChatRequest): void {
  const members: JsonObject = {
    max_output_tokens: request.maxOutputTokens,
    temperature: request.temperature,
    top_p: request.topP,
    top_logprobs: request.topLogprobs,
    user: request.user,
    safety_identifier: request.safetyIdentifier,
    prompt_cache_key: request.promptCacheKey,
    metadata: request.metadata,
    service_tier: request.serviceTier,
  };
  for (const [name, value] of Object.entries(members)) if (value !== undefined) body[name] = value;
}

/**
 * Encrypted content of thoughts is documented for requests that are not stored; models without thinking refuse to
 * include it.
 */
function includedMembers(request: ChatRequest): string[] {
  const include: string[] = [];
  if (request.logprobs === true) include.push(logprobsIncluded);
  const { reasoning } = request;
  const thinks = reasoning !== undefined && reasoning.enabled !== false && reasoning.effort !== 'none';
  if (request.store !== true && (thinks || hasThoughts(request))) include.push(encryptedReasoning);
  return include;
}

/** A model that has thought in this conversation continues to think. */
function hasThoughts({ messages }: ChatRequest): boolean {
  return messages.some(({ parts }) =>
    parts.some((part) => part.type === 'reasoning' && part.signature !== undefined),
  );
}

/** The caller's own members for this wire win. */
function addExtras(body: JsonObject, request: ChatRequest, report: EncodeReport): void {
  reportForeignExtras(request.extras, ownDialects, report);
  for (const [name, value] of Object.entries(request.extras?.[dialect] ?? {})) {
    const present = body[name];
    if (name === 'include') body[name] = [...new Set([...asArray(present), ...asArray(value)])];
    else if (asObject(present) !== undefined && asObject(value) !== undefined)
      body[name] = { ...asObject(present), ...asObject(value) };
    else body[name] = value;
  }
}

/** Reports settings that the wire has no member for, under their names in chat completions. */
function reportUnsayable(request: ChatRequest, report: EncodeReport): void {
  if (request.topK !== undefined) report.drop('top_k');
  if (request.frequencyPenalty !== undefined) report.drop('frequency_penalty');
  if (request.presencePenalty !== undefined) report.drop('presence_penalty');
  if (request.seed !== undefined) report.drop('seed');
  if (request.stop !== undefined && request.stop.length > 0) report.drop('stop');
  if (request.n !== undefined && request.n > 1) report.drop('n');
  if (request.logitBias !== undefined) report.drop('logit_bias');
  if (request.modalities?.some((modality) => modality !== 'text') === true) report.drop('modalities');
  if (request.audio !== undefined) report.drop('audio');
}

/** The tools of a request in this wire's form; unsupported ones are reported as `tools[i]`. */
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

/** On this wire a schema is strict by default; on all others it is not. */
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
  const translated = equivalentTool(tool.purpose, tool.value);
  if (translated === undefined) report.drop(place);
  else report.emulate(place);
  return translated;
}

function equivalentTool(purpose: string, value: JsonObject): JsonObject | undefined {
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

/** The tool choice in this wire's form. */
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
