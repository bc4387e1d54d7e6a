import {
  type EncodedRequest,
  type EncodeReport,
  reportForeignExtras,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type {
  ChatRequest,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import type { DialectName } from '../../../core/dialects/endpoint.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { asArray, asObject, asText, type JsonObject, stringifyExact } from '../json-reading.ts';
import { applyQuirks, reportUnsayable, type Setting } from '../request-settings.ts';
import { answerTool, contentBlock, dialectName } from './content-blocks.ts';
import { ConversationEncoder } from './encode-messages.ts';
import { abilitiesOf, type ModelAbilities, planThinking, type ThinkingPlan } from './model-abilities.ts';

/**
 * Rules that structured outputs do not support (Anthropic's documentation, "JSON Schema limitations"). They go into the
 * description instead, so that the model sees them.
 */
const untakenRules = [
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
] as const;

/** Members that hold schemas by name. */
const schemaMaps = ['properties', '$defs', 'definitions'] as const;
/** Members that hold lists of schemas. */
const schemaLists = ['anyOf', 'allOf', 'oneOf', 'prefixItems'] as const;

/** Deeper schemas stay unchanged: the provider judges them. */
const maxDepth = 64;

/**
 * The schema in the subset that structured outputs support: objects are closed, unsupported rules move to the
 * description. `changed` is true when anything differs.
 */
export function structuredSchema(schema: JsonObject): {
  readonly schema: JsonObject;
  readonly changed: boolean;
} {
  const state = { changed: false };
  return { schema: adapt(schema, state, 0), changed: state.changed };
}

function adapt(schema: JsonObject, state: { changed: boolean }, depth: number): JsonObject {
  if (depth > maxDepth) return schema;
  const adapted: JsonObject = { ...schema };
  describeRules(adapted, state);
  for (const member of schemaMaps) {
    const map = asObject(adapted[member]);
    if (map === undefined) continue;
    adapted[member] = Object.fromEntries(
      Object.entries(map).map(([name, value]) => [name, adaptAny(value, state, depth)]),
    );
  }
  for (const member of schemaLists) {
    if (Array.isArray(adapted[member])) {
      adapted[member] = asArray(adapted[member]).map((value) => adaptAny(value, state, depth));
    }
  }
  if (asObject(adapted.items) !== undefined) adapted.items = adaptAny(adapted.items, state, depth);
  if (isObjectType(adapted) && adapted.additionalProperties !== false) {
    adapted.additionalProperties = false;
    state.changed = true;
  }
  return adapted;
}

function adaptAny(value: unknown, state: { changed: boolean }, depth: number): unknown {
  const schema = asObject(value);
  return schema === undefined ? value : adapt(schema, state, depth + 1);
}

function describeRules(schema: JsonObject, state: { changed: boolean }): void {
  const told: string[] = [];
  for (const rule of untakenRules) {
    const value = schema[rule];
    // A property may have the name of a rule only inside `properties`, never here.
    if (typeof value !== 'number' && typeof value !== 'boolean' && typeof value !== 'bigint') continue;
    told.push(`${rule}: ${value}`);
    delete schema[rule];
  }
  if (typeof schema.minItems === 'number' && schema.minItems > 1) {
    told.push(`minItems: ${schema.minItems}`);
    delete schema.minItems;
  }
  if (told.length === 0) return;
  state.changed = true;
  const before = typeof schema.description === 'string' ? `${schema.description} ` : '';
  schema.description = `${before}(${told.join(', ')})`;
}

function isObjectType(schema: JsonObject): boolean {
  return schema.type === 'object' || (Array.isArray(schema.type) && schema.type.includes('object'));
}

/** Settings that the encoding of tools depends on. */
interface ToolSetting {
  readonly can: ModelAbilities;
  /** Thinking is on, so the model cannot be forced to call a tool. */
  readonly thinks: boolean;
  readonly own: readonly DialectName[];
}

/** The tools of a request and its tool choice. */
interface EncodedTools {
  readonly tools: readonly JsonObject[];
  readonly choice?: JsonObject;
}

/** Tools in the wire's form. `answerTool` is the tool whose input is the structured answer. */
function encodeTools(
  request: ChatRequest,
  setting: ToolSetting,
  report: EncodeReport,
  answerTool?: JsonObject,
): EncodedTools {
  const { toolChoice } = request;
  const allowed = toolChoice?.type === 'allowed' ? new Set(toolChoice.names) : undefined;
  const tools = request.tools.flatMap<JsonObject>((tool, i) => {
    if (allowed !== undefined && 'name' in tool && !allowed.has(tool.name)) return [];
    return encodeTool(tool, `tools[${i}]`, setting, report) ?? [];
  });
  if (answerTool !== undefined) tools.push(answerTool);
  if (tools.length === 0) {
    if (toolChoice !== undefined && toolChoice.type !== 'auto' && toolChoice.type !== 'none') {
      report.drop('tool_choice');
    }
    return { tools };
  }
  const wanted =
    answerTool === undefined ? wantedChoice(toolChoice, report) : forcedAnswer(tools, answerTool, toolChoice);
  const choice = allowedChoice(wanted, setting, report, answerTool === undefined);
  const isSingle = request.parallelToolCalls === false || (answerTool !== undefined && tools.length === 1);
  if (choice?.type !== 'none' && (isSingle || (request.parallelToolCalls === true && choice !== undefined))) {
    return { tools, choice: { type: 'auto', ...choice, disable_parallel_tool_use: isSingle } };
  }
  return choice === undefined ? { tools } : { tools, choice };
}

function encodeTool(
  tool: ToolDefinition,
  place: string,
  { can, own }: ToolSetting,
  report: EncodeReport,
): JsonObject | undefined {
  if (tool.type === 'provider') return encodeProviderTool(tool, place, report);
  const encoded: JsonObject = { name: tool.name };
  if (tool.description !== undefined) encoded.description = tool.description;
  if (tool.type === 'custom') {
    report.emulate(place);
    if (tool.format !== undefined) report.drop(`${place}.custom.format`);
    encoded.input_schema = freeTextSchema;
    return contentBlock.addCommon(encoded, { cache: tool.cache });
  }
  reportForeignExtras(tool.extras, own, report, `${place}.`);
  encoded.input_schema =
    tool.parameters === undefined ? { type: 'object', properties: {} } : objectSchema(tool.parameters);
  if (tool.strict !== undefined) {
    if (can.structuredOutput) encoded.strict = tool.strict;
    else if (tool.strict) report.drop(`${place}.function.strict`);
  }
  return contentBlock.addCommon(encoded, tool);
}

const freeTextSchema: JsonObject = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
};

/** The wire requires `type: object` at the root. */
function objectSchema(schema: JsonObject): JsonObject {
  return schema.type === undefined ? { type: 'object', ...schema } : schema;
}

function encodeProviderTool(
  tool: Extract<ToolDefinition, { type: 'provider' }>,
  place: string,
  report: EncodeReport,
): JsonObject | undefined {
  if (tool.dialect === dialectName) return tool.value;
  switch (tool.purpose) {
    case 'web-search':
      report.emulate(place);
      return { type: 'web_search_20250305', name: 'web_search', ...searchLimits(tool.value) };
    case 'web-fetch':
      report.emulate(place);
      return { type: 'web_fetch_20250910', name: 'web_fetch' };
    case 'code-execution':
      report.emulate(place);
      return { type: 'code_execution_20250825', name: 'code_execution' };
    default:
      report.drop(place);
      return undefined;
  }
}

/** Location of the user and allowed or blocked sites, in the form of OpenAI's two wires. */
function searchLimits(value: JsonObject): JsonObject {
  const limits: JsonObject = {};
  const location = asObject(value.user_location);
  const place = asObject(location?.approximate) ?? location;
  if (place !== undefined) {
    const said: JsonObject = { type: 'approximate' };
    for (const member of ['city', 'region', 'country', 'timezone']) {
      if (asText(place[member]) !== undefined) said[member] = place[member];
    }
    limits.user_location = said;
  }
  const domains = asArray(asObject(value.filters)?.allowed_domains);
  if (domains.length > 0) limits.allowed_domains = domains;
  return limits;
}

function wantedChoice(choice: ToolChoice | undefined, report: EncodeReport): JsonObject | undefined {
  if (choice === undefined) return undefined;
  switch (choice.type) {
    case 'tool':
      return { type: 'tool', name: choice.name };
    case 'allowed':
      report.emulate('tool_choice');
      return { type: choice.mode === 'required' ? 'any' : 'auto' };
    case 'required':
      return { type: 'any' };
    default:
      return { type: choice.type };
  }
}

/** Other tools may be called before the answer, unless the request forbids calls. */
function forcedAnswer(
  tools: readonly JsonObject[],
  answerTool: JsonObject,
  asked: ToolChoice | undefined,
): JsonObject {
  return tools.length === 1 || asked?.type === 'none'
    ? { type: 'tool', name: answerTool.name }
    : { type: 'any' };
}

/** A model that thinks cannot be forced to call, nor can some models that always think. */
function allowedChoice(
  choice: JsonObject | undefined,
  { can, thinks }: ToolSetting,
  report: EncodeReport,
  isOwnWish: boolean,
): JsonObject | undefined {
  const isForced = choice?.type === 'any' || choice?.type === 'tool';
  if (!isForced || (can.forcedTool && !thinks)) return choice;
  report.emulate(isOwnWish ? 'tool_choice' : 'response_format');
  return { type: 'auto' };
}

/** Differences of a host from Anthropic's own address and body. */
export interface AnthropicHostForm {
  /** Below the base URL, percent-encoded; depends on model and streaming where the host has them in the path. */
  readonly path: string | ((host: HostFacts, stream: boolean) => string);
  /** Members that every body gets (`anthropic_version` on Vertex). */
  readonly extraBody?: JsonObject;
  /** The path names the model, and the body must not. Default false. */
  readonly modelInPath?: boolean;
  /** Dialects beside `anthropic-messages` whose `provider_options` are meant for this host. */
  readonly alsoOwn?: readonly DialectName[];
}

const serviceTiers: Readonly<Record<string, string>> = { auto: 'auto', default: 'standard_only' };

/** Members of the canonical form that the wire cannot express, under their names in chat clients. */
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
  ...(['verbosity', 'prompt_cache_key', 'metadata', 'store', 'modalities', 'audio'] as const),
];

/** A request as Anthropic, or a host of its wire, takes it. Throws `invalid_request`. */
export function encodeRequest(
  request: ChatRequest,
  host: HostFacts,
  report: EncodeReport,
  form: AnthropicHostForm,
): EncodedRequest {
  const own: readonly DialectName[] = [dialectName, ...(form.alsoOwn ?? [])];
  const can = abilitiesOf(host.model);
  const plan = planThinking(request, can, report);
  const body: JsonObject = form.modelInPath === true ? {} : { model: host.model };
  body.max_tokens = plan.maxTokens;
  const { system, messages } = new ConversationEncoder(report, own).encode(request.messages);
  if (system.length > 0) body.system = system;
  body.messages = messages;
  if (request.stream) body.stream = true;
  const tool = encodeFormat(body, request, can, report);
  const { tools, choice } = encodeTools(request, { can, thinks: plan.thinks, own }, report, tool);
  if (tools.length > 0) body.tools = tools;
  if (choice !== undefined) body.tool_choice = choice;
  if (plan.thinking !== undefined) body.thinking = plan.thinking;
  if (plan.effort !== undefined)
    body.output_config = { ...asObject(body.output_config), effort: plan.effort };
  encodeSampling(body, request, can, plan, report);
  encodeStop(body, request, report);
  encodeUser(body, request, report);
  encodeTier(body, request, report);
  reportUnsayable(request, unsayable, report);
  reportForeignExtras(request.extras, own, report);
  for (const dialect of own) addMembers(body, request.extras?.[dialect] ?? {});
  applyQuirks(body, host.quirks, report);
  Object.assign(body, form.extraBody);
  const path = typeof form.path === 'string' ? form.path : form.path(host, request.stream);
  return { path, body: stringifyExact(body) };
}

/** Structured output natively where the model supports it; else through the tool whose input is the answer. */
function encodeFormat(
  body: JsonObject,
  request: ChatRequest,
  can: ModelAbilities,
  report: EncodeReport,
): JsonObject | undefined {
  const { responseFormat } = request;
  if (responseFormat?.type === 'json') report.drop('response_format');
  if (responseFormat?.type !== 'json-schema') return undefined;
  if (!can.structuredOutput) {
    const tool = answerTool(request);
    if (tool === undefined) report.drop('response_format');
    else report.emulate('response_format');
    return tool;
  }
  const { schema, changed } = structuredSchema(responseFormat.schema);
  if (changed) report.emulate('response_format.json_schema.schema');
  if (responseFormat.description !== undefined) schema.description ??= responseFormat.description;
  body.output_config = { format: { type: 'json_schema', schema } };
  return undefined;
}

function encodeSampling(
  body: JsonObject,
  request: ChatRequest,
  can: ModelAbilities,
  plan: ThinkingPlan,
  report: EncodeReport,
): void {
  const { temperature, topP, topK } = request;
  if (temperature !== undefined) {
    const clamped = Math.min(1, Math.max(0, temperature));
    if (!can.sampling || (plan.thinks && clamped !== 1)) report.drop('temperature');
    else {
      if (clamped !== temperature) report.emulate('temperature');
      body.temperature = clamped;
    }
  }
  if (topP !== undefined) {
    const isTaken =
      can.sampling && (!plan.thinks || topP >= 0.95) && (can.bothSampling || temperature === undefined);
    if (isTaken) body.top_p = topP;
    else report.drop('top_p');
  }
  if (topK !== undefined) {
    if (can.sampling && !plan.thinks) body.top_k = topK;
    else report.drop('top_k');
  }
}

/** Anthropic refuses stop sequences of white space alone. */
function encodeStop(body: JsonObject, { stop }: ChatRequest, report: EncodeReport): void {
  if (stop === undefined) return;
  const taken = stop.filter((sequence) => sequence.trim() !== '');
  if (taken.length < stop.length) report.drop('stop');
  if (taken.length > 0) body.stop_sequences = taken;
}

function encodeUser(body: JsonObject, request: ChatRequest, report: EncodeReport): void {
  const { user, safetyIdentifier } = request;
  const id = user ?? safetyIdentifier;
  if (id !== undefined) body.metadata = { user_id: id };
  if (safetyIdentifier === undefined || safetyIdentifier === user) return;
  if (user === undefined) report.emulate('safety_identifier');
  else report.drop('safety_identifier');
}

function encodeTier(body: JsonObject, { serviceTier }: ChatRequest, report: EncodeReport): void {
  if (serviceTier === undefined) return;
  if (Object.hasOwn(serviceTiers, serviceTier)) body.service_tier = serviceTiers[serviceTier];
  else if (serviceTier === 'priority') {
    body.service_tier = 'auto';
    report.emulate('service_tier');
  } else report.drop('service_tier');
}

/** The caller's own members win; objects are merged with the present ones. */
function addMembers(body: JsonObject, members: JsonObject): void {
  for (const [name, value] of Object.entries(members)) {
    const before = asObject(body[name]);
    const wanted = asObject(value);
    body[name] = before === undefined || wanted === undefined ? value : { ...before, ...wanted };
  }
}
