import type { Finish, ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { Extras, ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest, ReasoningSettings } from '../../../core/dialects/canonical/chat-request.ts';
import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { anthropicClient } from '../anthropic-messages/index.ts';
import { countTokensOperation, endpointPlan, type TokenCounting } from '../host-endpoints.ts';
import { requestMember } from '../request-members.ts';
import { applyQuirks, reasoningEffort } from '../request-settings.ts';
import { logprobsIncluded, encryptedReasoning } from './decode-request.ts';
import { InputEncoder, ownDialects, requestTools } from './encode-request.ts';
import {
  reportForeignExtras,
  type ChatEventReader,
  type ChatProviderCodec,
  type DecodeContext,
  type EncodeReport,
  type EncodedRequest,
} from '../../../core/dialects/canonical/chat-codec.ts';
import { openAiErrors, openAiUsage } from '../openai-shapes.ts';
import { dialect, outputItem, responseErrors } from './answer.ts';
import { ChatEventBuilder, cutShort } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { createPayloadReader } from '../../framing/payload-reader.ts';
import type { StreamPayload } from '../../framing/stream-payload.ts';
import {
  asObject,
  asText,
  asUnixTime,
  type JsonObject,
  parseExactObject,
  asArray,
  stringifyExact,
} from '../json-reading.ts';
import { ItemEvents } from './item-events.ts';

/** Reads the stream of a Responses host. */
function createEventReader(contentType: string, context: DecodeContext): ChatEventReader {
  return new ResponsesEventReader(contentType, context);
}

class ResponsesEventReader implements ChatEventReader {
  private readonly payloads: ReturnType<typeof createPayloadReader>;
  private readonly builder = new ChatEventBuilder();
  private readonly items: ItemEvents;
  private startTier: string | undefined;

  constructor(contentType: string, context: DecodeContext) {
    this.payloads = createPayloadReader(contentType);
    this.items = new ItemEvents(this.builder, context.newId);
  }

  push(chunk: Uint8Array): readonly ChatEvent[] {
    for (const payload of this.payloads.push(chunk)) this.payload(payload);
    return this.builder.take();
  }

  finish(): readonly ChatEvent[] {
    for (const payload of this.payloads.finish()) this.payload(payload);
    // Only the final response marks the stream as complete.
    this.builder.error(cutShort);
    return this.builder.take();
  }

  private payload({ data, event, error }: StreamPayload): void {
    if (error !== undefined) {
      this.builder.error({
        status: 502,
        message: `The provider's stream is broken: ${error}`,
        type: 'upstream_error',
      });
      return;
    }
    const text = data.trim();
    if (text === '' || text === '[DONE]' || this.builder.ended) return;
    const json = parseExactObject(text);
    if (json === undefined) {
      this.builder.error({
        status: 502,
        message: "The provider's stream holds an event that is no JSON object.",
        type: 'upstream_error',
      });
      return;
    }
    this.event(json, asText(json.type) ?? event);
  }

  private event(json: JsonObject, type: string): void {
    if (type.endsWith('.delta')) return this.delta(json, type);
    switch (type) {
      case 'response.created':
      case 'response.queued':
      case 'response.in_progress':
        return this.start(asObject(json.response) ?? {});
      case 'response.output_item.added':
        return this.items.added(json);
      case 'response.output_item.done':
        return this.items.done(json);
      case 'response.content_part.done':
        return this.items.partDone(json);
      case 'response.output_text.done':
        return this.items.textDone(json, 'text', json.text);
      case 'response.refusal.done':
        return this.items.textDone(json, 'refusal', json.refusal);
      case 'response.output_text.annotation.added':
        return this.items.annotation(json);
      case 'response.reasoning_summary_text.done':
        return this.items.summaryDone(json, json.text);
      case 'response.function_call_arguments.done':
        return this.items.argumentsDone(json, json.arguments);
      case 'response.custom_tool_call_input.done':
        return this.items.argumentsDone(json, json.input);
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled':
        return this.final(asObject(json.response) ?? {}, type.slice('response.'.length));
      case 'error':
        return this.builder.error(responseErrors.ofEvent(json));
      default:
        this.untyped(json);
    }
  }

  private delta(json: JsonObject, type: string): void {
    switch (type) {
      case 'response.output_text.delta':
        return this.items.textDelta(json, 'text');
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        return this.items.argumentsDelta(json);
      case 'response.reasoning_summary_text.delta':
        return this.items.reasoning(json, 'summary', json.delta);
      case 'response.reasoning_text.delta':
        return this.items.reasoning(json, 'thought', json.delta);
      case 'response.refusal.delta':
        return this.items.textDelta(json, 'refusal');
    }
  }

  /** Handles an error or a whole response in place of a stream, which some hosts and proxies send. */
  private untyped(json: JsonObject): void {
    if (json.object === 'response' && Array.isArray(json.output))
      return this.final(json, asText(json.status) ?? 'completed');
    if (json.type === undefined && (asObject(json.error) ?? asText(json.error)) !== undefined)
      this.builder.error(responseErrors.ofEvent(json));
  }

  private start(response: JsonObject): void {
    if (Array.isArray(response.tools)) this.items.tools = response.tools;
    if (!this.builder.hasStarted) this.startTier = serviceTier(response);
    this.builder.start({
      id: asText(response.id) ?? '',
      model: asText(response.model) ?? '',
      createdAt: asUnixTime(response.created_at),
      serviceTier: serviceTier(response),
    });
  }

  private final(response: JsonObject, status: string): void {
    this.start(response);
    if (status === 'failed' || status === 'cancelled' || response.status === 'failed') {
      this.builder.error(responseErrors.ofResponse(response));
      return;
    }
    this.items.reconcile(response);
    const said = response.status === undefined ? { ...response, status } : response;
    this.builder.finish(0, finishOf(said, this.items.hasCalls));
    const extras = responseExtras(response);
    if (extras !== undefined) this.builder.extras(extras);
    const tier = serviceTier(response);
    if (tier !== undefined && tier !== this.startTier)
      this.builder.extras({ 'openai-responses': { service_tier: tier } });
    const usage = openAiUsage.decode(response.usage);
    if (usage !== undefined) this.builder.usage(usage);
    this.builder.complete();
  }
}

/** The Responses API on the provider side. */
export const openAiResponsesProvider: ChatProviderCodec = {
  encodeRequest,
  decodeAnswer,
  eventReader: createEventReader,
  decodeError: openAiErrors.decode,
};

/** OpenAI's count of the input of a Responses request. */
const responsesTokenCounting: TokenCounting = {
  encode(request, host, report) {
    const whole = responsesBody(request, host, report);
    const body: JsonObject = {};
    for (const name of counted.split(' ')) if (whole[name] !== undefined) body[name] = whole[name];
    return { path: '/responses/input_tokens', body: stringifyExact(body) };
  },
  member: 'input_tokens',
  decodeError: openAiErrors.decode,
};

const tokenCount = countTokensOperation(anthropicClient, responsesTokenCounting);

/** A host whose chat is the Responses API; its other endpoints are those of OpenAI. */
export const openAiResponsesHost: ProviderDialect = {
  name: 'openai-responses',
  plan(call) {
    if (call.endpoint === 'messages.count_tokens') return { kind: 'operation', codec: tokenCount };
    if (call.endpoint === 'responses') return endpointPlan.passOn(call);
    return endpointPlan.translated(call, openAiResponsesProvider) ?? endpointPlan.passOn(call);
  },
};

/** Members of a response that the canonical answer has, or that only repeat the request. */
const knownMembers: ReadonlySet<string> = new Set(
  `id object created_at completed_at status error incomplete_details model output output_text usage background conversation
  instructions max_output_tokens max_tool_calls parallel_tool_calls previous_response_id prompt prompt_cache_key
  prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store temperature text tool_choice
  tools top_logprobs top_p truncation user metadata frequency_penalty presence_penalty`.split(/\s+/),
);

/** Finish of a response. `calls`: it holds a call for the client. */
function finishOf(response: JsonObject, calls: boolean): Finish {
  const status = asText(response.status) ?? 'completed';
  const reason = asText(asObject(response.incomplete_details)?.reason);
  const raw = reason ?? status;
  switch (reason ?? status) {
    case 'completed':
      return { reason: calls ? 'tool-calls' : 'stop', raw };
    case 'max_output_tokens':
    case 'max_tokens':
      return { reason: 'length', raw };
    case 'content_filter':
      return { reason: 'content-filter', raw };
    case 'pause_turn':
      return { reason: 'pause', raw };
    case 'failed':
    case 'cancelled':
      return { reason: 'error', raw };
    default:
      return { reason: 'unknown', raw };
  }
}

/** Other members of a response (filter results, billing …). */
function responseExtras(response: JsonObject): Extras | undefined {
  const unknown = requestMember.unknown(response, knownMembers);
  return unknown === undefined ? undefined : { 'openai-responses': unknown };
}

/** The tier that served the request; `auto` only repeats the request. */
function serviceTier(response: JsonObject): string | undefined {
  const tier = asText(response.service_tier);
  return tier === 'auto' ? undefined : tier;
}

/** A complete response. Throws `upstream_invalid` for anything else, and for a failed response. */
function decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  const response = parseExactObject(body.toString('utf8'));
  if (response === undefined || !Array.isArray(response.output)) throw noResponseError(response);
  if (response.status === 'failed') {
    throw new GatewayError(
      'upstream_invalid',
      `The provider failed: ${responseErrors.ofResponse(response).message}`,
      {
        source: 'provider',
      },
    );
  }
  const parts: ChatPart[] = [];
  for (const value of response.output) addItem(parts, asObject(value) ?? {}, response, context);
  const calls = parts.some(({ type }) => type === 'tool-call');
  return requestMember.given<ChatAnswer>({
    id: asText(response.id) ?? '',
    model: asText(response.model) ?? '',
    createdAt: asUnixTime(response.created_at),
    choices: [
      requestMember.given<ChatAnswer['choices'][number]>({
        index: 0,
        parts,
        finish: finishOf(response, calls),
        logprobs: logprobsOf(response),
      }),
    ],
    usage: openAiUsage.decode(response.usage),
    serviceTier: serviceTier(response),
    extras: responseExtras(response),
  });
}

function addItem(parts: ChatPart[], item: JsonObject, response: JsonObject, context: DecodeContext): void {
  if (outputItem.isProviderRun(item, response.tools)) {
    parts.push(outputItem.provider(item));
    return;
  }
  const found = outputItem.parts(item, context.newId);
  parts.push(...found.parts);
  if (found.carried !== undefined) outputItem.attachSignature(parts, found.carried);
}

function logprobsOf(response: JsonObject): ReturnType<typeof outputItem.logprobs> {
  const all = asArray(response.output)
    .flatMap((item) => asArray(asObject(item)?.content))
    .flatMap((content) => outputItem.logprobs(asObject(content)?.logprobs) ?? []);
  return all.length === 0 ? undefined : all;
}

function noResponseError(body: JsonObject | undefined): GatewayError {
  const error =
    body?.error === undefined || body.error === null ? undefined : responseErrors.ofResponse(body).message;
  return new GatewayError(
    'upstream_invalid',
    error === undefined
      ? 'The provider answered with something that is no response object: its "output" is missing.'
      : `The provider failed: ${error}`,
    { source: 'provider' },
  );
}

/** Members of a Responses request that count: https://platform.openai.com/docs/api-reference/responses/input-tokens */
const counted = 'model input instructions tools tool_choice parallel_tool_calls reasoning text truncation';

/** The body of `POST /responses`. The provider stores nothing unless the caller sets `store`. */
function encodeRequest(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest {
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
    const tools = requestTools.list(request.tools, report);
    if (tools.length > 0) body.tools = tools;
  }
  if (request.toolChoice !== undefined)
    body.tool_choice = requestTools.choice(request.toolChoice, request.tools);
  if (request.parallelToolCalls !== undefined) body.parallel_tool_calls = request.parallelToolCalls;
  const text: JsonObject = {};
  if (request.responseFormat !== undefined) text.format = requestTools.format(request.responseFormat);
  if (request.verbosity !== undefined) text.verbosity = request.verbosity;
  if (Object.keys(text).length > 0) body.text = text;
  const reasoning = request.reasoning === undefined ? {} : encodeReasoning(request.reasoning, report);
  if (Object.keys(reasoning).length > 0) body.reasoning = reasoning;
}

/** Effort and summary; a budget becomes the nearest effort. */
function encodeReasoning(settings: ReasoningSettings, report: EncodeReport): JsonObject {
  const reasoning: JsonObject = {};
  const { effort, budgetTokens, enabled, summary } = settings;
  if (effort !== undefined) reasoning.effort = effort;
  else if (enabled === false) reasoning.effort = 'none';
  else if (budgetTokens !== undefined) {
    reasoning.effort = reasoningEffort.ofBudget(budgetTokens);
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
