import {
  type EncodedRequest,
  type EncodeReport,
  reportForeignExtras,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type {
  ChatRequest,
  ReasoningSettings,
  ResponseFormat,
} from '../../../core/dialects/canonical/chat-request.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { asArray, asObject, type JsonObject, stringifyExact } from '../json-reading.ts';
import { abilitiesOf, type ModelAbilities, planThinking } from '../anthropic-messages/model-abilities.ts';
import { applyQuirks, reasoningEffort, reportUnsayable, type Setting } from '../request-settings.ts';
import { type BedrockModel, bedrockModel } from './bedrock-model.ts';
import { type ContentContext, DocumentNames, encodeConversation } from './encode-messages.ts';
import { encodeTools, type ToolSituation } from './encode-tools.ts';
import { answerTool, answerToolName } from '../anthropic-messages/content-blocks.ts';

/** Reasoning settings in the vendor's own members. */
interface EncodedReasoning {
  /** Members of `additionalModelRequestFields`. */
  readonly fields: JsonObject;
  /** Claude thinks: some other settings are then forbidden. */
  readonly thinking: boolean;
  /** Nova thinks at its highest effort: it refuses all sampling settings and a token limit. */
  readonly unbounded: boolean;
  /** Token limit that the thinking needs when the caller names none. */
  readonly maxTokens?: number;
}

const none: EncodedReasoning = { fields: {}, thinking: false, unbounded: false };

/** Reasoning settings in the vendor's members; settings without one are reported. */
function encodeReasoningSettings(request: ChatRequest, context: ContentContext): EncodedReasoning {
  const settings = request.reasoning;
  if (settings === undefined) return none;
  const { model, report } = context;
  if (model.vendor === 'anthropic') return claudeThinking(request, context);
  const off = settings.enabled === false || settings.effort === 'none';
  if (bedrockModel.isNova2(model)) return novaReasoning(settings, off, context);
  const effort = effortOf(settings);
  if (model.vendor === 'openai' && effort !== undefined) {
    if (settings.summary !== undefined) report.drop('reasoning.summary');
    return { ...none, fields: { reasoning_effort: effort } };
  }
  // A model that cannot think satisfies a request not to.
  if (!off) report.drop(nameOf(settings));
  return none;
}

/** The setting under the caller's name. */
function nameOf({ effort }: ReasoningSettings): string {
  return effort === undefined ? 'thinking' : 'reasoning_effort';
}

function effortOf({ effort, budgetTokens, enabled }: ReasoningSettings): string | undefined {
  if (effort !== undefined) return effort;
  if (budgetTokens !== undefined) return reasoningEffort.ofBudget(budgetTokens);
  return enabled === true ? 'medium' : undefined;
}

/** Efforts of this model are a beta on Bedrock. */
const effortBeta = /^claude-opus-4-5(?!\d)/;

function claudeThinking(request: ChatRequest, { model, report }: ContentContext): EncodedReasoning {
  const { thinking, effort, thinks, maxTokens } = planThinking(request, abilitiesOf(model.name), report);
  const fields: JsonObject = {};
  if (thinking !== undefined) fields.thinking = thinking;
  if (effort !== undefined) {
    fields.output_config = { effort };
    if (effortBeta.test(model.name)) fields.anthropic_beta = ['effort-2025-11-24'];
  }
  const needed = thinking?.budget_tokens !== undefined && request.maxOutputTokens === undefined;
  return { fields, thinking: thinks, unbounded: false, ...(needed ? { maxTokens } : {}) };
}

function novaReasoning(
  settings: ReasoningSettings,
  off: boolean,
  { report }: ContentContext,
): EncodedReasoning {
  if (off) return { ...none, fields: { reasoningConfig: { type: 'disabled' } } };
  const wish = effortOf(settings) ?? 'medium';
  const effort = wish === 'low' || wish === 'medium' || wish === 'high' ? wish : novaEffort(wish);
  if (effort !== settings.effort) report.emulate(nameOf(settings));
  return {
    fields: { reasoningConfig: { type: 'enabled', maxReasoningEffort: effort } },
    thinking: false,
    unbounded: effort === 'high',
  };
}

function novaEffort(wish: string): 'low' | 'high' {
  return wish === 'minimal' ? 'low' : 'high';
}

/** A chat request for `Converse` or, when it streams, `ConverseStream`. */
export function encodeConverse(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest {
  return {
    path: bedrockModel.path(host.model, request.stream ? 'converse-stream' : 'converse'),
    body: stringifyExact(converseBody(request, host, report)),
  };
}

/** The body of such a request. */
export function converseBody(request: ChatRequest, host: HostFacts, report: EncodeReport): JsonObject {
  const model = bedrockModel.ofHost(host);
  const context: ContentContext = { model, names: new DocumentNames(), report };
  reportUnsupported(request, model, report);
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

/** Reports members that the API cannot express for any model. */
function reportUnsupported(request: ChatRequest, model: BedrockModel, report: EncodeReport): void {
  reportUnsayable(request, unsayable, report);
  if (request.responseFormat?.type === 'json') report.drop('response_format');
  const { 'anthropic-messages': claude, ...others } = request.extras ?? {};
  reportForeignExtras(others, ['bedrock-converse'], report);
  for (const name of Object.keys(claude ?? {})) {
    if (model.vendor !== 'anthropic' || !claudeMembers.has(name)) report.drop(name);
  }
}

/** Merges both; lists of the same name (betas) are joined, else the second wins. */
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
  // The matched stop sequence is returned only on request.
  if (request.stop !== undefined && request.stop.length > 0)
    body.additionalModelResponseFieldPaths = ['/stop_sequence', '/delta/stop_sequence'];
}

/** Adds a schema for the answer, natively where the model supports it, else as the answer tool. */
function addFormat(
  body: JsonObject,
  request: ChatRequest,
  { model, report }: ContentContext,
): Pick<ToolSituation, 'answer'> {
  const format = request.responseFormat;
  if (format?.type !== 'json-schema') return {};
  if (bedrockModel.hasStructuredOutput(model)) {
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
    else inference.temperature = clampTemperature(temperature, report);
  }
  if (topP !== undefined) {
    const second = inference.temperature !== undefined && !can.bothSampling;
    if (unbounded || !can.sampling || second || (thinking && topP < 0.95)) report.drop('top_p');
    else inference.topP = topP;
  }
  if (stop !== undefined && stop.length > 0) inference.stopSequences = stop;
  if (Object.keys(inference).length > 0) body.inferenceConfig = inference;
}

/** Newer Claude models accept no sampling settings, or one of them. */
function samplingOf({ vendor, name }: BedrockModel): Pick<ModelAbilities, 'sampling' | 'bothSampling'> {
  return vendor === 'anthropic' ? abilitiesOf(name) : { sampling: true, bothSampling: true };
}

/** The API accepts temperatures from 0 to 1. */
function clampTemperature(temperature: number, report: EncodeReport): number {
  if (temperature <= 1) return temperature;
  report.emulate('temperature');
  return 1;
}

/** The API has no such member: each vendor has its own, or none. */
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

/** Form of metadata: at most sixteen entries of letters, digits and a few signs. */
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

/** Objects that are merged with the caller's members instead of being replaced by them. */
const joined: ReadonlySet<string> = new Set([
  'additionalModelRequestFields',
  'inferenceConfig',
  'outputConfig',
  'toolConfig',
]);

/** The caller's members in this dialect's own terms win. */
function mergeOwnExtras(body: JsonObject, request: ChatRequest): JsonObject {
  for (const [name, value] of Object.entries(request.extras?.['bedrock-converse'] ?? {})) {
    const given = asObject(value);
    const built = asObject(body[name]);
    body[name] =
      joined.has(name) && given !== undefined && built !== undefined ? { ...built, ...given } : value;
  }
  return body;
}

type SchemaFormat = Extract<ResponseFormat, { type: 'json-schema' }>;

/** `outputConfig` of a request whose model has structured output. The API requires the schema as JSON text. */
function outputConfig(format: SchemaFormat): JsonObject {
  const jsonSchema: JsonObject = { schema: stringifyExact(format.schema) };
  if (format.name !== undefined) jsonSchema.name = format.name;
  if (format.description !== undefined) jsonSchema.description = format.description;
  return { textFormat: { type: 'json_schema', structure: { jsonSchema } } };
}

/**
 * The tool whose input is the answer, for models without structured output; undefined for a schema that no tool can
 * use.
 */
function answerDefinition(
  request: ChatRequest,
): { readonly name: string; readonly definition: JsonObject } | undefined {
  const name = answerToolName(request);
  const tool = answerTool(request);
  if (name === undefined || tool === undefined) return undefined;
  const { description, input_schema: schema } = tool;
  return { name, definition: { toolSpec: { name, description, inputSchema: { json: schema } } } };
}

/** Names of the tools called in the conversation, in order; undefined when it holds neither calls nor results. */
function namesOfCalledTools(messages: readonly JsonObject[]): readonly string[] | undefined {
  const names = new Set<string>();
  let found = false;
  for (const message of messages) {
    for (const value of asArray(message.content)) {
      const block = asObject(value);
      const name = asObject(block?.toolUse)?.name;
      if (typeof name === 'string') names.add(name);
      found ||= block?.toolUse !== undefined || block?.toolResult !== undefined;
    }
  }
  return found ? [...names] : undefined;
}
