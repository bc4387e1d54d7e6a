import type { EncodedRequest } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { DialectName } from '../../../core/dialects/endpoint.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { stringifyExact } from '../exact-json.ts';
import { asObject, type JsonObject } from '../json-reading.ts';
import { applyQuirks } from '../apply-quirks.ts';
import { reportUnsayable, type Setting } from '../report-unsayable.ts';
import { answerTool } from './answer-tool.ts';
import { ConversationEncoder } from './encode-messages.ts';
import { planThinking, type ThinkingPlan } from './encode-thinking.ts';
import { encodeTools } from './encode-tools.ts';
import { abilitiesOf, type ModelAbilities } from './model-abilities.ts';
import { dialectName } from './own-dialect.ts';
import { structuredSchema } from './structured-schema.ts';

/** Where a host departs from Anthropic's own address and body. */
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

/** Members of the canonical form that the wire cannot say, under the names that chat clients know. */
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

/** Structured output natively where the model has it; else the tool in whose input the answer comes. */
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

/** Sequences of nothing but white space are refused. */
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

/** The caller's own members win; those of an object are joined with what stands there. */
function addMembers(body: JsonObject, members: JsonObject): void {
  for (const [name, value] of Object.entries(members)) {
    const before = asObject(body[name]);
    const wanted = asObject(value);
    body[name] = before === undefined || wanted === undefined ? value : { ...before, ...wanted };
  }
}
