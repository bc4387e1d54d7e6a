import type { EncodedRequest } from '../../../core/dialects/canonical/chat-codec.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { stringifyExact } from '../exact-json.ts';
import { abilitiesOf, type ModelAbilities } from '../anthropic-messages/model-abilities.ts';
import { asObject } from '../json-reading.ts';
import { reportUnsayable, type Setting } from '../report-unsayable.ts';
import { applyQuirks } from '../apply-quirks.ts';
import { hasStructuredOutput, modelOfHost, modelPath, type BedrockModel } from './bedrock-model.ts';
import type { ContentContext } from './encode-content.ts';
import { encodeConversation, namesOfCalledTools } from './encode-messages.ts';
import { encodeReasoningSettings, type EncodedReasoning } from './encode-reasoning.ts';
import { encodeTools, type ToolSituation } from './encode-tools.ts';
import { DocumentNames } from './media-blocks.ts';
import { answerDefinition, outputConfig } from './structured-output.ts';

/** A chat request as `Converse` or, when it streams, `ConverseStream` wants it. */
export function encodeConverse(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest {
  return {
    path: modelPath(host.model, request.stream ? 'converse-stream' : 'converse'),
    body: stringifyExact(converseBody(request, host, report)),
  };
}

/** The body of such a request. */
export function converseBody(request: ChatRequest, host: HostFacts, report: EncodeReport): JsonObject {
  const model = modelOfHost(host);
  const context: ContentContext = { model, names: new DocumentNames(), report };
  reportUnsaid(request, model, report);
  const { system, messages } = encodeConversation(request.messages, context);
  const body: JsonObject = { messages };
  if (system.length > 0) body.system = system;
  const reasoning = encodeReasoningSettings(request, context);
  const tools = encodeTools(
    request,
    {
      called: namesOfCalledTools(messages),
      thinking: reasoning.thinking,
      ...addFormat(body, request, context),
    },
    context,
  );
  if (tools.toolConfig !== undefined) body.toolConfig = tools.toolConfig;
  addInference(body, request, reasoning, context);
  const fields = joinFields(reasoning.fields, tools.fields);
  addTopK(fields, request, reasoning, context);
  addClaudeMembers(fields, body, request, model);
  if (Object.keys(fields).length > 0) body.additionalModelRequestFields = fields;
  addTier(body, request.serviceTier, report);
  addMetadata(body, request.metadata, report);
  applyQuirks(body, host.quirks, report);
  return mergeOwnExtras(body, request);
}

const unsayable: readonly Setting[] = [
  ...([
    'frequency_penalty',
    'presence_penalty',
    'seed',
    'n',
    'logprobs',
    'top_logprobs',
    'logit_bias',
  ] as const),
  ...([
    'verbosity',
    'user',
    'safety_identifier',
    'prompt_cache_key',
    'store',
    'modalities',
    'audio',
  ] as const),
];

/** What the API has no words for, whatever the model. */
function reportUnsaid(request: ChatRequest, model: BedrockModel, report: EncodeReport): void {
  reportUnsayable(request, unsayable, report);
  if (request.responseFormat?.type === 'json') report.drop('response_format');
  const { 'anthropic-messages': claude, ...others } = request.extras ?? {};
  reportForeignExtras(others, ['bedrock-converse'], report);
  for (const name of Object.keys(claude ?? {})) {
    if (model.vendor !== 'anthropic' || !claudeMembers.has(name)) report.drop(name);
  }
}

/** Both; lists of the same name (betas) are joined, else the second wins. */
function joinFields(first: JsonObject, second: JsonObject): JsonObject {
  const both: JsonObject = { ...first, ...second };
  for (const [name, value] of Object.entries(second)) {
    const before = first[name];
    if (Array.isArray(value) && Array.isArray(before))
      both[name] = [...(before as unknown[]), ...(value as unknown[])];
  }
  return both;
}

/** Members of a Messages request that a Claude model on Bedrock takes as additional fields. */
const claudeMembers: ReadonlySet<string> = new Set(['anthropic_beta', 'context_management']);

function addClaudeMembers(
  fields: JsonObject,
  body: JsonObject,
  request: ChatRequest,
  model: BedrockModel,
): void {
  if (model.vendor !== 'anthropic') return;
  const claude = request.extras?.['anthropic-messages'] ?? {};
  for (const name of claudeMembers) {
    const value = claude[name];
    if (value !== undefined) Object.assign(fields, joinFields(fields, { [name]: value }));
  }
  // Which stop sequence was met is told only when it is asked for.
  if (request.stop !== undefined && request.stop.length > 0)
    body.additionalModelResponseFieldPaths = ['/stop_sequence', '/delta/stop_sequence'];
}

/** A schema for the answer, natively where the model has that, else as the tool that is returned. */
function addFormat(
  body: JsonObject,
  request: ChatRequest,
  { model, report }: ContentContext,
): Pick<ToolSituation, 'answer'> {
  const format = request.responseFormat;
  if (format?.type !== 'json-schema') return {};
  if (hasStructuredOutput(model)) {
    body.outputConfig = outputConfig(format);
    return {};
  }
  const answer = answerDefinition(request);
  if (answer === undefined) {
    report.drop('response_format');
    return {};
  }
  report.emulate('response_format');
  return { answer };
}

function addInference(
  body: JsonObject,
  request: ChatRequest,
  { thinking, unbounded, maxTokens }: EncodedReasoning,
  { model, report }: ContentContext,
): void {
  const inference: JsonObject = {};
  const { maxOutputTokens = maxTokens, temperature, topP, stop } = request;
  const can = samplingOf(model);
  if (maxOutputTokens !== undefined) {
    if (unbounded) report.drop('max_tokens');
    else inference.maxTokens = maxOutputTokens;
  }
  if (temperature !== undefined) {
    if (unbounded || !can.sampling || (thinking && temperature !== 1)) report.drop('temperature');
    else inference.temperature = inRange(temperature, report);
  }
  if (topP !== undefined) {
    const second = inference.temperature !== undefined && !can.bothSampling;
    if (unbounded || !can.sampling || second || (thinking && topP < 0.95)) report.drop('top_p');
    else inference.topP = topP;
  }
  if (stop !== undefined && stop.length > 0) inference.stopSequences = stop;
  if (Object.keys(inference).length > 0) body.inferenceConfig = inference;
}

/** Newer Claude models take no sampling, or one setting of it. */
function samplingOf({ vendor, name }: BedrockModel): Pick<ModelAbilities, 'sampling' | 'bothSampling'> {
  return vendor === 'anthropic' ? abilitiesOf(name) : { sampling: true, bothSampling: true };
}

/** The API takes temperatures from 0 to 1. */
function inRange(temperature: number, report: EncodeReport): number {
  if (temperature <= 1) return temperature;
  report.emulate('temperature');
  return 1;
}

/** Not a word of the API: each vendor has its own, or none. */
function addTopK(
  fields: JsonObject,
  { topK }: ChatRequest,
  { thinking, unbounded }: EncodedReasoning,
  { model, report }: ContentContext,
): void {
  if (topK === undefined) return;
  if (thinking || unbounded || !samplingOf(model).sampling) return report.drop('top_k');
  if (model.vendor === 'anthropic' || model.vendor === 'mistral') fields.top_k = topK;
  else if (model.vendor === 'cohere') fields.k = topK;
  else if (model.name.startsWith('nova')) fields.inferenceConfig = { topK };
  else report.drop('top_k');
}

const tiers: ReadonlySet<string> = new Set(['default', 'priority', 'flex', 'reserved']);

function addTier(body: JsonObject, tier: string | undefined, report: EncodeReport): void {
  if (tier === undefined || tier === 'auto') return;
  if (tiers.has(tier)) body.serviceTier = { type: tier };
  else if (tier === 'standard_only') {
    report.emulate('service_tier');
    body.serviceTier = { type: 'default' };
  } else report.drop('service_tier');
}

/** At most sixteen, of letters, digits and a few signs. */
const metadataText = /^[a-zA-Z0-9\s:_@$#=/+,.-]{0,256}$/;
const maxMetadata = 16;

function addMetadata(body: JsonObject, metadata: JsonObject | undefined, report: EncodeReport): void {
  const kept: Record<string, string> = {};
  for (const [key, value] of Object.entries(metadata ?? {})) {
    const sayable =
      typeof value === 'string' && key !== '' && metadataText.test(key) && metadataText.test(value);
    if (sayable && Object.keys(kept).length < maxMetadata) kept[key] = value;
    else report.drop(`metadata.${key}`);
  }
  if (Object.keys(kept).length > 0) body.requestMetadata = kept;
}

/** Objects whose members the caller's wish is joined with instead of replacing them. */
const joined: ReadonlySet<string> = new Set([
  'additionalModelRequestFields',
  'inferenceConfig',
  'outputConfig',
  'toolConfig',
]);

/** What the caller says in this dialect's own words wins. */
function mergeOwnExtras(body: JsonObject, request: ChatRequest): JsonObject {
  for (const [name, value] of Object.entries(request.extras?.['bedrock-converse'] ?? {})) {
    const given = asObject(value);
    const built = asObject(body[name]);
    body[name] =
      joined.has(name) && given !== undefined && built !== undefined ? { ...built, ...given } : value;
  }
  return body;
}
