import type { EncodedRequest } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest, ReasoningSettings } from '../../../core/dialects/canonical/chat-request.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { stringifyExact } from '../exact-json.ts';
import type { JsonObject } from '../json-reading.ts';
import { effortOfBudget } from '../reasoning-effort.ts';
import type { EncodeContext } from './encode-content.ts';
import { encodeMessages } from './encode-messages.ts';
import { addTools, encodeResponseFormat } from './encode-tools.ts';
import { outputLimitName, takes } from './model-kind.ts';

/** A chat completions request as the host wants it. */
export function encodeRequest(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest {
  return {
    path: host.quirks.paths?.['chat.completions'] ?? '/chat/completions',
    body: stringifyExact(encodeChatBody(request, host, report)),
  };
}

/** The body of such a request, for wires that put the same body at another path. */
export function encodeChatBody(request: ChatRequest, host: HostFacts, report: EncodeReport): JsonObject {
  const context: EncodeContext = { host, report };
  const body: JsonObject = { model: host.model, messages: encodeMessages(request.messages, context) };
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
  // Anthropic's word for what is the default here.
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

/** The settings that chat and text completions have in common. */
export function addSampling(
  body: JsonObject,
  request: ChatRequest,
  host: HostFacts,
  report: EncodeReport,
): void {
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
  if (takes(host, 'top_k')) body.top_k = request.topK;
  else report.drop('top_k');
}

/** Adds the members that are not undefined. */
export function addGiven(body: JsonObject, members: JsonObject): void {
  for (const name in members) if (members[name] !== undefined) body[name] = members[name];
}

function addReasoning(body: JsonObject, reasoning: ReasoningSettings, report: EncodeReport): void {
  const { effort, budgetTokens, enabled, adaptive, summary } = reasoning;
  if (effort !== undefined) {
    body.reasoning_effort = effort;
    if (budgetTokens !== undefined) report.drop('thinking.budget_tokens');
  } else if (budgetTokens !== undefined) {
    body.reasoning_effort = effortOfBudget(budgetTokens);
    report.emulate('thinking.budget_tokens');
  } else if (enabled === false) {
    // Many models that do not think refuse to be told so; what they do by themselves is the nearest.
    report.drop('thinking');
  } else if (enabled === true || adaptive === true) {
    report.emulate('thinking');
  }
  if (summary !== undefined) report.drop('reasoning.summary');
}

/** Renames, words and omissions of the host, on the members that the canonical form wrote. */
export function applyQuirks(body: JsonObject, host: HostFacts, report: EncodeReport): JsonObject {
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

/** The host's word for a value that is one. */
export function wordFor(words: Readonly<Record<string, string>> | undefined, value: unknown): unknown {
  if (words === undefined || typeof value !== 'string' || !Object.hasOwn(words, value)) return value;
  return words[value];
}
