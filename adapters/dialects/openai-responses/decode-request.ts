import type { ClientCall } from '../../../core/dialects/canonical/chat-codec.ts';
import type {
  AudioPart,
  CacheMarker,
  ChatPart,
  Extras,
  FilePart,
  ImagePart,
  MediaSource,
  TextPart,
  ToolResultPart,
} from '../../../core/dialects/canonical/chat-part.ts';
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
import { asArray, asObject, asText, type JsonObject, stringifyExact } from '../json-reading.ts';
import { bodyIssues, collectTexts, dataUrls, requestMember } from '../request-members.ts';
import type { Conversation, ConversationText } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { typeOfName } from '../openai-shapes.ts';
import { dialect, outputItem } from './answer.ts';

/** Decodes a request, or only its conversation. */
export const responsesRequest = { decode: decodeRequest, decodeConversation };

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
  if (!Array.isArray(value)) throw bodyIssues.unreadable('tools', 'be an array', value);
  return value.map((one: unknown, i) => {
    const tool = asObject(one);
    const type = asText(tool?.type);
    if (tool === undefined || type === undefined)
      throw bodyIssues.unreadable(`tools[${i}].type`, 'name the kind of the tool', tool?.type ?? one);
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
  if (name === undefined) throw bodyIssues.unreadable(`${place}.name`, 'be a string', tool.name);
  const description = asText(tool.description);
  if (type === 'custom')
    return requestMember.given<ToolDefinition>({ type, name, description, format: asObject(tool.format) });
  const unknown = requestMember.unknown(tool, functionMembers);
  return requestMember.given<ToolDefinition>({
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
    throw bodyIssues.unreadable('tool_choice', "be 'auto', 'none', 'required' or an object", value);
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
function decodeRequest(call: ClientCall): ChatRequest {
  const { body } = call;
  refuseStateful(body);
  const text = memberObject(body, 'text');
  const reasoning = memberObject(body, 'reasoning');
  const included = asArray(body.include);
  const topLogprobs = requestMember.number(body, 'top_logprobs');
  const wantsLogprobs = included.includes(logprobsIncluded) || (topLogprobs ?? 0) > 0;
  const choice =
    body.tool_choice === undefined || body.tool_choice === null
      ? undefined
      : decodeToolChoice(body.tool_choice);
  return requestMember.given<ChatRequest>({
    model: call.model,
    stream: call.stream,
    messages: [...instructionMessages(body), ...decodeInput(body.input)],
    tools: decodeTools(body.tools),
    toolChoice: choice,
    parallelToolCalls: requestMember.boolean(body, 'parallel_tool_calls'),
    maxOutputTokens: requestMember.number(body, 'max_output_tokens'),
    temperature: requestMember.number(body, 'temperature'),
    topP: requestMember.number(body, 'top_p'),
    logprobs: wantsLogprobs ? true : undefined,
    topLogprobs: (topLogprobs ?? 0) > 0 ? topLogprobs : undefined,
    responseFormat: text === undefined ? undefined : decodeFormat(text.format),
    verbosity: asText(text?.verbosity),
    reasoning: decodeReasoning(reasoning),
    user: requestMember.text(body, 'user'),
    safetyIdentifier: requestMember.text(body, 'safety_identifier'),
    promptCacheKey: requestMember.text(body, 'prompt_cache_key'),
    metadata: memberObject(body, 'metadata'),
    serviceTier: requestMember.text(body, 'service_tier'),
    store: requestMember.boolean(body, 'store'),
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
  if (object === undefined) throw bodyIssues.unreadable(name, 'be an object', value);
  return object;
}

function instructionMessages(body: JsonObject): readonly ChatMessage[] {
  const { instructions } = body;
  if (instructions === undefined || instructions === null || instructions === '') return [];
  if (Array.isArray(instructions)) return decodeInput(instructions);
  if (typeof instructions !== 'string')
    throw bodyIssues.unreadable('instructions', 'be a string', instructions);
  return [{ role: 'system', parts: [{ type: 'text', text: instructions }] }];
}

function decodeFormat(value: unknown): ResponseFormat | undefined {
  if (value === undefined || value === null) return undefined;
  const format = asObject(value) ?? {};
  if (format.type === 'text') return { type: 'text' };
  if (format.type === 'json_object') return { type: 'json' };
  const schema = asObject(format.schema);
  if (format.type !== 'json_schema')
    throw bodyIssues.unreadable('text.format.type', "be 'text', 'json_object' or 'json_schema'", format.type);
  if (schema === undefined) throw bodyIssues.unreadable('text.format.schema', 'be an object', format.schema);
  return requestMember.given<ResponseFormat>({
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
    : requestMember.given<ReasoningSettings>({ effort, summary });
}

const formatMembers: ReadonlySet<string> = new Set(['format', 'verbosity']);
const reasoningMembers: ReadonlySet<string> = new Set(['effort', 'summary', 'generate_summary']);

/** Members outside the canonical form, and the caller's `provider_options`. */
function requestExtras(body: JsonObject, choiceIsForeign: boolean): Extras | undefined {
  const own: JsonObject = { ...requestMember.unknown(body, knownMembers) };
  const include = asArray(body.include).filter(
    (value) => value !== logprobsIncluded && value !== encryptedReasoning,
  );
  if (include.length > 0) own.include = include;
  if (choiceIsForeign && asObject(body.tool_choice) !== undefined) own.tool_choice = body.tool_choice;
  // `disabled` is the behaviour of every provider.
  if (asText(body.truncation) !== undefined && body.truncation !== 'disabled')
    own.truncation = body.truncation;
  const text = requestMember.unknown(asObject(body.text) ?? {}, formatMembers);
  if (text !== undefined) own.text = text;
  const reasoning = requestMember.unknown(asObject(body.reasoning) ?? {}, reasoningMembers);
  if (reasoning !== undefined) own.reasoning = reasoning;
  const options = asObject(body.provider_options) as Extras | undefined;
  return mergeExtras(Object.keys(own).length === 0 ? undefined : { [dialect]: own }, options);
}

/** The texts of a Responses request with their paths: instructions, input and tool results. */
function decodeConversation(_endpoint: EndpointId, body: unknown): Conversation {
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

/** Formats of `input_audio` whose name differs from the media type. */
const audioTypes: Readonly<Record<string, string>> = { mp3: 'audio/mpeg', m4a: 'audio/mp4' };

/** Parts allowed in an input message or in the output of a tool. */
type InputPart = TextPart | ImagePart | FilePart | AudioPart;

/**
 * The parts of an input content: a string, or a list of `input_text`, `input_image`, `input_file`, `input_audio`.
 * Throws `invalid_request` with `place` (`input[0].content`) for anything else; unknown kinds become opaque parts.
 */
function decodeInputContent(content: unknown, place: string): readonly ChatPart[] {
  if (content === undefined || content === null || content === '') return [];
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content))
    throw bodyIssues.unreadable(place, 'be a string or an array of content parts', content);
  return content.map((value: unknown, i) => {
    const part = asObject(value);
    if (part === undefined) throw bodyIssues.unreadable(`${place}[${i}]`, 'be a content part', value);
    return inputPart(part, `${place}[${i}]`) ?? { type: 'opaque', dialect, value: part };
  });
}

/** One part of the caller's; undefined when its kind is unknown. */
function inputPart(part: JsonObject, place: string): InputPart | undefined {
  const cache = cacheMarker(part);
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text':
      if (typeof part.text !== 'string')
        throw bodyIssues.unreadable(`${place}.text`, 'be a string', part.text);
      return requestMember.given<TextPart>({ type: 'text', text: part.text, cache });
    case 'input_image':
      return requestMember.given<ImagePart>({ ...imageOf(part, place), cache });
    case 'input_file':
      return requestMember.given<FilePart>({ ...fileOf(part, place), cache });
    case 'input_audio':
      return requestMember.given<AudioPart>({ ...audioOf(part, place), cache });
    default:
      return undefined;
  }
}

function imageOf(part: JsonObject, place: string): ImagePart {
  const url = asText(part.image_url);
  const id = asText(part.file_id);
  const detail = asText(part.detail);
  if (url !== undefined)
    return requestMember.given<ImagePart>({
      type: 'image',
      source: dataUrls.source(url, 'image/jpeg'),
      detail,
    });
  if (id === undefined)
    throw bodyIssues.unreadable(
      `${place}.image_url`,
      'be a URL or a data: URL, or file_id be given',
      part.image_url,
    );
  return requestMember.given<ImagePart>({ type: 'image', source: uploaded(id), detail });
}

function fileOf(part: JsonObject, place: string): FilePart {
  const filename = asText(part.filename);
  const data = asText(part.file_data);
  const url = asText(part.file_url);
  const id = asText(part.file_id);
  const detail = asText(part.detail);
  const extras = detail === undefined ? undefined : { [dialect]: { detail } };
  if (data !== undefined) {
    const read = dataUrls.source(data, typeOfName(filename));
    const source =
      read.kind === 'url' ? { kind: 'base64' as const, mediaType: typeOfName(filename), data } : read;
    return requestMember.given<FilePart>({ type: 'file', source, filename, extras });
  }
  if (url !== undefined)
    return requestMember.given<FilePart>({ type: 'file', source: { kind: 'url', url }, filename, extras });
  if (id === undefined)
    throw bodyIssues.unreadable(
      place,
      'hold file_data, file_url or file_id',
      part.file_data ?? part.file_url,
    );
  return requestMember.given<FilePart>({ type: 'file', source: uploaded(id), filename, extras });
}

function audioOf(part: JsonObject, place: string): AudioPart {
  const audio = asObject(part.input_audio);
  const data = asText(audio?.data);
  if (data === undefined) throw bodyIssues.unreadable(`${place}.input_audio.data`, 'be base64', audio?.data);
  const read = dataUrls.source(data);
  if (read.kind === 'base64') return { type: 'audio', source: read };
  const format = asText(audio?.format) ?? 'wav';
  return {
    type: 'audio',
    source: { kind: 'base64', mediaType: audioTypes[format] ?? `audio/${format}`, data },
  };
}

function uploaded(id: string): MediaSource {
  return { kind: 'file-id', id, dialect };
}

/** An explicit end of a reusable prompt prefix. */
function cacheMarker(part: JsonObject): CacheMarker | undefined {
  return asObject(part.prompt_cache_breakpoint) === undefined ? undefined : {};
}

type Role = ChatMessage['role'];

interface OpenMessage {
  readonly role: Role;
  readonly parts: ChatPart[];
  readonly extras?: Extras;
}

const roles: ReadonlySet<unknown> = new Set(['system', 'developer', 'user', 'assistant']);

/** Items that a client sends in answer to a call that only this wire has. */
const clientAnswers: ReadonlySet<unknown> = new Set([
  'computer_call_output',
  'local_shell_call_output',
  'shell_call_output',
  'apply_patch_call_output',
  'mcp_approval_response',
  'tool_search_output',
]);

/**
 * The conversation of `input`. All items of the assistant in one turn (thoughts, texts, calls) become one message,
 * consecutive tool results another. Throws `invalid_request` for unreadable input, `not_supported` for references to
 * items that only their provider stores.
 */
function decodeInput(input: unknown): readonly ChatMessage[] {
  if (typeof input === 'string') return [{ role: 'user', parts: [{ type: 'text', text: input }] }];
  if (!Array.isArray(input)) throw bodyIssues.unreadable('input', 'be a string or an array of items', input);
  const messages: OpenMessage[] = [];
  input.forEach((value: unknown, i) => {
    const item = asObject(value);
    if (item === undefined) throw bodyIssues.unreadable(`input[${i}]`, 'be an item', value);
    addItem(messages, item, `input[${i}]`);
  });
  return messages;
}

function addItem(messages: OpenMessage[], item: JsonObject, place: string): void {
  const { type } = item;
  if (type === 'item_reference') throw referenceRefused(place);
  if (type === 'message' || (type === undefined && 'role' in item)) return addMessage(messages, item, place);
  if (type === 'function_call_output' || type === 'custom_tool_call_output') {
    turnOf(messages, 'tool').push(toolResult(item, place));
    return;
  }
  if (clientAnswers.has(type)) {
    messages.push({ role: 'user', parts: [outputItem.provider(item)] });
    return;
  }
  if (asText(type) === undefined)
    throw bodyIssues.unreadable(`${place}.type`, 'name the kind of the item', type);
  const isCall = type === 'function_call' || type === 'custom_tool_call';
  if (isCall && asText(item.call_id) === undefined)
    throw bodyIssues.unreadable(`${place}.call_id`, 'be a string', item.call_id);
  if (isCall && asText(item.name) === undefined)
    throw bodyIssues.unreadable(`${place}.name`, 'be a string', item.name);
  const { parts, carried } = outputItem.parts(item, (prefix) => prefix);
  const turn = turnOf(messages, 'assistant');
  turn.push(...parts);
  if (carried !== undefined) outputItem.attachSignature(turn, carried);
}

function addMessage(messages: OpenMessage[], item: JsonObject, place: string): void {
  const { role } = item;
  if (!roles.has(role))
    throw bodyIssues.unreadable(`${place}.role`, "be 'user', 'assistant', 'system' or 'developer'", role);
  if (role !== 'assistant') {
    messages.push({ role: role as Role, parts: [...decodeInputContent(item.content, `${place}.content`)] });
    return;
  }
  turnOf(messages, 'assistant').push(...assistantParts(item, `${place}.content`));
}

function assistantParts(item: JsonObject, place: string): readonly ChatPart[] {
  const { content } = item;
  if (Array.isArray(content))
    return content.map((part: unknown) => outputItem.contentPart(asObject(part) ?? {}, item.phase));
  const extras = outputItem.phaseExtras(item.phase);
  const parts = decodeInputContent(content, place);
  return extras === undefined ? parts : parts.map((part) => ({ ...part, extras }));
}

/** The parts of the last message when it has this role, else of a new one. */
function turnOf(messages: OpenMessage[], role: Role): ChatPart[] {
  const last = messages.at(-1);
  if (last?.role === role) return last.parts;
  const parts: ChatPart[] = [];
  messages.push({ role, parts });
  return parts;
}

function toolResult(item: JsonObject, place: string): ToolResultPart {
  const callId = asText(item.call_id);
  if (callId === undefined) throw bodyIssues.unreadable(`${place}.call_id`, 'be a string', item.call_id);
  const parts = decodeInputContent(item.output, `${place}.output`);
  return {
    type: 'tool-result',
    callId,
    kind: item.type === 'custom_tool_call_output' ? 'custom' : 'function',
    content: parts.map(resultPart),
  };
}

/** Content of an unknown kind is kept as its JSON text. */
function resultPart(part: ChatPart): InputPart {
  if (part.type === 'text' || part.type === 'image' || part.type === 'file' || part.type === 'audio')
    return part;
  return { type: 'text', text: stringifyExact('value' in part ? part.value : part) };
}

function referenceRefused(place: string): GatewayError {
  return new GatewayError(
    'not_supported',
    `${place} refers to an item that only the provider which made it stores, and this request goes to another one. Send the item itself: clients do so with "store": false and "include": ["reasoning.encrypted_content"]; or have the gateway keep answers (plugin "stored-responses").`,
    { param: place },
  );
}
