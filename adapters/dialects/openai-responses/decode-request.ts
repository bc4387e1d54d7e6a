import type { ClientCall } from '../../../core/dialects/canonical/chat-codec.ts';
import type { Extras } from '../../../core/dialects/canonical/chat-part.ts';
import type {
  ChatMessage,
  ChatRequest,
  ProviderToolPurpose,
  ReasoningSettings,
  ResponseFormat,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import {
  booleanMember,
  collectTexts,
  given,
  numberMember,
  textMember,
  unknownMembers,
  unreadable,
} from '../request-members.ts';
import { decodeInput } from './decode-input.ts';
import type { Conversation, ConversationText } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { dialect } from './output-parts.ts';

const functionMembers: ReadonlySet<string> = new Set(['type', 'name', 'description', 'parameters', 'strict']);

const purposes: Readonly<Record<string, ProviderToolPurpose>> = {
  web_search: 'web-search',
  web_search_preview: 'web-search',
  file_search: 'file-search',
  code_interpreter: 'code-execution',
  image_generation: 'image-generation',
  mcp: 'mcp',
  computer: 'computer',
  computer_use_preview: 'computer',
};

/** The tools of a request. The provider runs every tool that is neither a function nor a custom tool. */
function decodeTools(value: unknown): readonly ToolDefinition[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw unreadable('tools', 'be an array', value);
  return value.map((one: unknown, i) => {
    const tool = asObject(one);
    const type = asText(tool?.type);
    if (tool === undefined || type === undefined)
      throw unreadable(`tools[${i}].type`, 'name the kind of the tool', tool?.type ?? one);
    if (type === 'function' || type === 'custom') return ownTool(tool, type, `tools[${i}]`);
    return { type: 'provider', dialect, purpose: purposeOf(type), value: tool };
  });
}

/** Purpose of a tool type; dated versions (`web_search_2025_08_26`) count as their base type. */
function purposeOf(type: string): ProviderToolPurpose {
  return purposes[type.replace(/_\d{4}_\d{2}_\d{2}$/, '')] ?? 'other';
}

function ownTool(tool: JsonObject, type: 'function' | 'custom', place: string): ToolDefinition {
  const name = asText(tool.name);
  if (name === undefined) throw unreadable(`${place}.name`, 'be a string', tool.name);
  const description = asText(tool.description);
  if (type === 'custom')
    return given<ToolDefinition>({ type, name, description, format: asObject(tool.format) });
  const unknown = unknownMembers(tool, functionMembers);
  return given<ToolDefinition>({
    type,
    name,
    description,
    parameters: asObject(tool.parameters),
    strict: typeof tool.strict === 'boolean' ? tool.strict : undefined,
    extras: unknown === undefined ? undefined : { [dialect]: unknown },
  });
}

/** Tool choice of the request; undefined for choices that only this wire has (a tool of the provider). */
function decodeToolChoice(value: unknown): ToolChoice | undefined {
  if (value === 'auto' || value === 'none' || value === 'required') return { type: value };
  const choice = asObject(value);
  if (choice === undefined)
    throw unreadable('tool_choice', "be 'auto', 'none', 'required' or an object", value);
  const name = asText(choice.name);
  if ((choice.type === 'function' || choice.type === 'custom') && name !== undefined)
    return { type: 'tool', name, kind: choice.type };
  return choice.type === 'allowed_tools' ? allowedTools(choice) : undefined;
}

function allowedTools(choice: JsonObject): ToolChoice | undefined {
  const names: string[] = [];
  for (const value of asArray(choice.tools)) {
    const tool = asObject(value);
    const name = asText(tool?.name);
    if (name === undefined || (tool?.type !== 'function' && tool?.type !== 'custom')) return undefined;
    names.push(name);
  }
  return { type: 'allowed', mode: choice.mode === 'required' ? 'required' : 'auto', names };
}

/** Requests the log probabilities of the answer's text. */
export const logprobsIncluded = 'message.output_text.logprobs';
/** Requests reasoning items that can be sent back without a store. */
export const encryptedReasoning = 'reasoning.encrypted_content';

const knownMembers: ReadonlySet<string> = new Set(
  `model input instructions stream tools tool_choice parallel_tool_calls max_output_tokens temperature top_p
  top_logprobs include text reasoning metadata store user safety_identifier prompt_cache_key service_tier truncation
  provider_options previous_response_id conversation background prompt`.split(/\s+/),
);

/** Settings that need a store, which providers of other dialects do not have, with their replacement. */
const stateful: readonly (readonly [string, string])[] = [
  [
    'previous_response_id',
    'Send the whole conversation in "input" instead, or have the gateway keep answers (plugin "stored-responses").',
  ],
  ['conversation', 'Send the whole conversation in "input" instead.'],
  ['background', 'Leave it out, and read the answer as a stream if it takes long.'],
  ['prompt', 'Send the text of the prompt in "instructions" or "input" instead.'],
];

/** The request of a `POST /responses` call. Errors as in `ChatClientCodec.decodeRequest`. */
export function decodeRequest(call: ClientCall): ChatRequest {
  const { body } = call;
  refuseStateful(body);
  const text = memberObject(body, 'text');
  const reasoning = memberObject(body, 'reasoning');
  const included = asArray(body.include);
  const topLogprobs = numberMember(body, 'top_logprobs');
  const wantsLogprobs = included.includes(logprobsIncluded) || (topLogprobs ?? 0) > 0;
  const choice =
    body.tool_choice === undefined || body.tool_choice === null
      ? undefined
      : decodeToolChoice(body.tool_choice);
  return given<ChatRequest>({
    model: call.model,
    stream: call.stream,
    messages: [...instructionMessages(body), ...decodeInput(body.input)],
    tools: decodeTools(body.tools),
    toolChoice: choice,
    parallelToolCalls: booleanMember(body, 'parallel_tool_calls'),
    maxOutputTokens: numberMember(body, 'max_output_tokens'),
    temperature: numberMember(body, 'temperature'),
    topP: numberMember(body, 'top_p'),
    logprobs: wantsLogprobs ? true : undefined,
    topLogprobs: (topLogprobs ?? 0) > 0 ? topLogprobs : undefined,
    responseFormat: text === undefined ? undefined : decodeFormat(text.format),
    verbosity: asText(text?.verbosity),
    reasoning: decodeReasoning(reasoning),
    user: textMember(body, 'user'),
    safetyIdentifier: textMember(body, 'safety_identifier'),
    promptCacheKey: textMember(body, 'prompt_cache_key'),
    metadata: memberObject(body, 'metadata'),
    serviceTier: textMember(body, 'service_tier'),
    store: booleanMember(body, 'store'),
    extras: requestExtras(body, choice === undefined),
  });
}

function refuseStateful(body: JsonObject): void {
  for (const [param, remedy] of stateful) {
    const value = body[param];
    if (value === undefined || value === null || value === false || value === '') continue;
    throw new GatewayError(
      'not_supported',
      `"${param}" needs a provider that speaks the Responses API itself: the one that this request goes to keeps nothing of earlier requests. ${remedy}`,
      { param },
    );
  }
}

function memberObject(body: JsonObject, name: string): JsonObject | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  const object = asObject(value);
  if (object === undefined) throw unreadable(name, 'be an object', value);
  return object;
}

function instructionMessages(body: JsonObject): readonly ChatMessage[] {
  const { instructions } = body;
  if (instructions === undefined || instructions === null || instructions === '') return [];
  if (Array.isArray(instructions)) return decodeInput(instructions);
  if (typeof instructions !== 'string') throw unreadable('instructions', 'be a string', instructions);
  return [{ role: 'system', parts: [{ type: 'text', text: instructions }] }];
}

function decodeFormat(value: unknown): ResponseFormat | undefined {
  if (value === undefined || value === null) return undefined;
  const format = asObject(value) ?? {};
  if (format.type === 'text') return { type: 'text' };
  if (format.type === 'json_object') return { type: 'json' };
  const schema = asObject(format.schema);
  if (format.type !== 'json_schema')
    throw unreadable('text.format.type', "be 'text', 'json_object' or 'json_schema'", format.type);
  if (schema === undefined) throw unreadable('text.format.schema', 'be an object', format.schema);
  return given<ResponseFormat>({
    type: 'json-schema',
    name: asText(format.name),
    description: asText(format.description),
    schema,
    strict: typeof format.strict === 'boolean' ? format.strict : undefined,
  });
}

function decodeReasoning(reasoning: JsonObject | undefined): ReasoningSettings | undefined {
  const effort = asText(reasoning?.effort);
  const summary = asText(reasoning?.summary) ?? asText(reasoning?.generate_summary);
  return effort === undefined && summary === undefined
    ? undefined
    : given<ReasoningSettings>({ effort, summary });
}

const formatMembers: ReadonlySet<string> = new Set(['format', 'verbosity']);
const reasoningMembers: ReadonlySet<string> = new Set(['effort', 'summary', 'generate_summary']);

/** Members outside the canonical form, and the caller's `provider_options`. */
function requestExtras(body: JsonObject, choiceIsForeign: boolean): Extras | undefined {
  const own: JsonObject = { ...unknownMembers(body, knownMembers) };
  const include = asArray(body.include).filter(
    (value) => value !== logprobsIncluded && value !== encryptedReasoning,
  );
  if (include.length > 0) own.include = include;
  if (choiceIsForeign && asObject(body.tool_choice) !== undefined) own.tool_choice = body.tool_choice;
  // `disabled` is the behaviour of every provider.
  if (asText(body.truncation) !== undefined && body.truncation !== 'disabled')
    own.truncation = body.truncation;
  const text = unknownMembers(asObject(body.text) ?? {}, formatMembers);
  if (text !== undefined) own.text = text;
  const reasoning = unknownMembers(asObject(body.reasoning) ?? {}, reasoningMembers);
  if (reasoning !== undefined) own.reasoning = reasoning;
  const options = asObject(body.provider_options) as Extras | undefined;
  return mergeExtras(Object.keys(own).length === 0 ? undefined : { [dialect]: own }, options);
}

/** The texts of a Responses request with their paths: instructions, input and tool results. */
export function decodeConversation(_endpoint: EndpointId, body: unknown): Conversation {
  const request = asObject(body);
  const texts: ConversationText[] = [];
  if (request === undefined) return { texts };
  collectTexts(texts, 'system', request.instructions, ['instructions']);
  if (typeof request.input === 'string') collectTexts(texts, 'user', request.input, ['input']);
  asArray(request.input).forEach((value, i) => {
    const item = asObject(value);
    if (item === undefined) return;
    const role = typeof item.role === 'string' ? item.role : 'user';
    collectTexts(texts, role, item.content, ['input', i, 'content']);
    collectTexts(texts, 'tool', item.output, ['input', i, 'output']);
  });
  return { texts };
}
