import type { ClientCall } from '../../../core/dialects/canonical/chat-codec.ts';
import type {
  ChatMessage,
  ChatRequest,
  ProviderToolPurpose,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import type { DialectName, EndpointId } from '../../../core/dialects/endpoint.ts';
import type {
  ChatPart,
  Extras,
  ToolCallPart,
  ToolResultPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asObject, asText, type JsonObject, stringifyExact } from '../json-reading.ts';
import { answerSettings } from './generation-config.ts';
import {
  callArguments,
  decodeOwnPart,
  geminiMembers,
  mediaPart,
  signatures,
  type ToolNumbers,
} from './parts.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { bodyIssues, collectTexts } from '../request-members.ts';
import { schemas } from './schema.ts';
import type { Conversation, ConversationText } from '../../../core/dialects/dialect.ts';

/** Decodes a request, or only its conversation. */
export const geminiRequest = { decode: decodeGeminiRequest, decodeConversation };

/** The texts of a generateContent request with their paths: system instruction, contents and tool results. */
function decodeConversation(_endpoint: EndpointId, body: unknown): Conversation {
  const request = asObject(body);
  const texts: ConversationText[] = [];
  if (request === undefined) return { texts };
  for (const name of ['systemInstruction', 'system_instruction']) {
    const instruction = request[name];
    // A bare string is accepted, too.
    collectTexts(texts, 'system', instruction, [name]);
    const content = asObject(instruction);
    if (content !== undefined) collectParts(texts, 'system', content, [name]);
  }
  asArray(request.contents).forEach((value, i) => {
    const content = asObject(value);
    if (content !== undefined) collectParts(texts, roleOf(content), content, ['contents', i]);
  });
  return { texts };
}

function collectParts(
  texts: ConversationText[],
  role: string,
  content: JsonObject,
  path: readonly (string | number)[],
): void {
  // A single part may appear without an array.
  const parts = asObject(content.parts);
  if (parts !== undefined) collectTexts(texts, role, parts.text, [...path, 'parts', 'text']);
  collectTexts(texts, role, content.parts, [...path, 'parts']);
  asArray(content.parts).forEach((value, i) => {
    const part = asObject(value);
    for (const name of ['functionResponse', 'function_response']) {
      const answer = asObject(asObject(part?.[name])?.response);
      if (answer !== undefined)
        collectStrings(texts, answer, [...path, 'parts', i, name, 'response'], maxDepth);
    }
  });
}

/** Tools answer with objects of any depth; deeper levels are not read. */
const maxDepth = 16;

function collectStrings(
  texts: ConversationText[],
  value: unknown,
  path: readonly (string | number)[],
  depth: number,
): void {
  if (typeof value === 'string') texts.push({ role: 'tool', text: value, path });
  else if (depth > 0 && typeof value === 'object' && value !== null) {
    for (const [name, inner] of Object.entries(value)) {
      const step = Array.isArray(value) ? Number(name) : name;
      collectStrings(texts, inner, [...path, step], depth - 1);
    }
  }
}

function roleOf({ role }: JsonObject): string {
  if (role === 'model') return 'assistant';
  if (role === 'function') return 'tool';
  return typeof role === 'string' && role !== '' ? role : 'user';
}

/** Purposes of Google's own tools, by the member that names them. */
const purposes: Readonly<Record<string, ProviderToolPurpose>> = {
  googleSearch: 'web-search',
  googleSearchRetrieval: 'web-search',
  enterpriseWebSearch: 'web-search',
  codeExecution: 'code-execution',
  urlContext: 'web-fetch',
  fileSearch: 'file-search',
  retrieval: 'file-search',
  googleMaps: 'other',
  computerUse: 'computer',
  mcpServers: 'mcp',
};

const declarationLists = geminiMembers.known(['functionDeclarations']);
const callingConfigs = geminiMembers.known(['functionCallingConfig']);
const declarationMembers = geminiMembers.known(['name', 'description', 'parameters', 'parametersJsonSchema']);

/** The tools of a request. `strict` is set when the request enforces their parameters (`VALIDATED`). */
function decodeTools(body: JsonObject): ToolDefinition[] {
  const list = Array.isArray(body.tools) ? asArray(body.tools) : body.tools === undefined ? [] : [body.tools];
  const strict = callingMode(body) === 'VALIDATED';
  return list.flatMap((value) => {
    const tool = asObject(value);
    if (tool === undefined) return [];
    const declared = asArray(geminiMembers.of(tool, 'functionDeclarations')).flatMap((one) =>
      declaration(one, strict),
    );
    const others = geminiMembers.others(tool, declarationLists) ?? {};
    const own = Object.entries(others).map(([name, settings]) => providerTool(name, settings));
    return [...declared, ...own];
  });
}

function declaration(value: unknown, strict: boolean): ToolDefinition[] {
  const declared = asObject(value);
  const name = asText(declared?.name);
  if (declared === undefined || name === undefined) return [];
  const tool: {
    -readonly [key in keyof Extract<ToolDefinition, { type: 'function' }>]: Extract<
      ToolDefinition,
      { type: 'function' }
    >[key];
  } = { type: 'function', name };
  const description = asText(declared.description);
  if (description !== undefined) tool.description = description;
  const schema = geminiMembers.object(declared, 'parametersJsonSchema');
  const parameters = geminiMembers.object(declared, 'parameters');
  if (schema !== undefined) tool.parameters = schema;
  else if (parameters !== undefined) tool.parameters = schemas.toJson(parameters);
  if (strict) tool.strict = true;
  const others = geminiMembers.others(declared, declarationMembers);
  if (others !== undefined) tool.extras = { 'google-gemini': others };
  return [tool];
}

function providerTool(spelling: string, settings: unknown): ToolDefinition {
  const name = spelling.replace(/_([a-z])/g, (_whole, letter: string) => letter.toUpperCase());
  return {
    type: 'provider',
    dialect: 'google-gemini',
    purpose: purposes[name] ?? 'other',
    value: { [name]: settings },
  };
}

/** Tool choice of `toolConfig`. */
function decodeToolChoice(body: JsonObject): ChatRequest['toolChoice'] {
  const config = callingConfig(body);
  const names = asArray(
    config === undefined ? undefined : geminiMembers.of(config, 'allowedFunctionNames'),
  ).filter((name) => typeof name === 'string');
  const [only] = names;
  switch (callingMode(body)) {
    case 'ANY':
      if (only !== undefined && names.length === 1) return { type: 'tool', name: only, kind: 'function' };
      return only === undefined ? { type: 'required' } : { type: 'allowed', mode: 'required', names };
    case 'NONE':
      return { type: 'none' };
    case 'AUTO':
    case 'VALIDATED':
      return allowedOrAuto(names);
    default:
      return undefined;
  }
}

/** Members of `toolConfig` outside the tool choice (`retrievalConfig` …). */
function otherToolConfig(body: JsonObject): JsonObject | undefined {
  return geminiMembers.others(geminiMembers.object(body, 'toolConfig') ?? {}, callingConfigs);
}

function allowedOrAuto(names: readonly string[]): ToolChoice {
  return names.length === 0 ? { type: 'auto' } : { type: 'allowed', mode: 'auto', names };
}

function callingConfig(body: JsonObject): JsonObject | undefined {
  return geminiMembers.object(geminiMembers.object(body, 'toolConfig') ?? {}, 'functionCallingConfig');
}

function callingMode(body: JsonObject): string | undefined {
  const config = callingConfig(body);
  return config === undefined ? undefined : asText(config.mode)?.toUpperCase();
}

const partMembers = geminiMembers.known([
  'text',
  'thought',
  'thoughtSignature',
  'inlineData',
  'fileData',
  'functionCall',
  'functionResponse',
]);

/**
 * Assigns ids to calls and results without one, which clients of this wire may leave out: the n-th call of a function
 * is `call_<name>_<n>`, regardless of its context, and a result belongs to the first unanswered call of its function.
 */
class CallIds {
  private readonly made = new Map<string, number>();
  private readonly waiting: { readonly id: string; readonly name: string }[] = [];

  ofCall(name: string, given: string | undefined): string {
    const id = given ?? this.make(name);
    this.waiting.push({ id, name });
    return id;
  }

  ofResult(name: string, given: string | undefined): string {
    const at = this.waiting.findIndex((call) =>
      given === undefined ? call.name === name : call.id === given,
    );
    const [call] = at === -1 ? [] : this.waiting.splice(at, 1);
    return given ?? call?.id ?? this.make(name);
  }

  private make(name: string): string {
    const number = this.made.get(name) ?? 0;
    this.made.set(name, number + 1);
    return `call_${name}_${number}`;
  }
}

/** A message that still grows. */
interface OpenMessage {
  readonly role: ChatMessage['role'];
  readonly parts: ChatPart[];
}

/** The messages of `systemInstruction` and `contents`. Throws `invalid_request` naming the field that cannot be read. */
function decodeContents(body: JsonObject): readonly ChatMessage[] {
  const messages: OpenMessage[] = [];
  const reader = new ContentReader();
  const instruction = geminiMembers.of(body, 'systemInstruction');
  if (instruction !== undefined && instruction !== null) {
    const parts = reader.parts(contentOf(instruction, 'systemInstruction'), 'systemInstruction');
    if (parts.length > 0) messages.push({ role: 'system', parts });
  }
  const { contents } = body;
  const list = Array.isArray(contents) ? (contents as unknown[]) : contents === undefined ? [] : [contents];
  if (list.length === 0) throw unreadable('contents', contents, 'hold at least one content');
  list.forEach((value, i) => {
    const content = contentOf(value, `contents[${i}]`);
    const parts = reader.parts(content, `contents[${i}]`);
    const last = messages.at(-1);
    if (content.role === 'model' && last?.role === 'assistant') joinPieces(last.parts, parts);
    else messages.push(...turns(parts, content.role === 'model' ? 'assistant' : 'user'));
  });
  return messages;
}

/**
 * Google's own client keeps a streamed answer unmerged: every chunk is a model content with a piece of a text or
 * thought. Adjacent pieces are joined; a signature ends the piece that it covers.
 */
function joinPieces(said: ChatPart[], more: readonly ChatPart[]): void {
  for (const part of more) {
    const last = said.at(-1);
    if (isPlainText(last) && isPlainText(part) && last.type === part.type && last.signature === undefined) {
      said[said.length - 1] = { ...last, ...part, text: last.text + part.text };
    } else if (!isPlainText(part) || part.text !== '' || part.signature !== undefined) said.push(part);
  }
}

function isPlainText(part: ChatPart | undefined): part is Extract<ChatPart, { type: 'text' | 'reasoning' }> {
  return (part?.type === 'text' || part?.type === 'reasoning') && part.extras === undefined;
}

/** One content as messages: tool results become separate messages. */
function turns(parts: readonly ChatPart[], role: 'assistant' | 'user'): OpenMessage[] {
  const messages: OpenMessage[] = [];
  for (const part of parts) {
    const speaker = part.type === 'tool-result' ? 'tool' : role;
    const last = messages.at(-1);
    if (last?.role === speaker) last.parts.push(part);
    else messages.push({ role: speaker, parts: [part] });
  }
  return messages;
}

class ContentReader {
  private readonly ids = new CallIds();
  private numbered = 0;
  private readonly numbers: ToolNumbers = {
    lastId: '',
    newId: (prefix) => `${prefix}${this.numbered++}`,
  };

  parts(content: JsonObject, place: string): ChatPart[] {
    const { parts } = content;
    const list = Array.isArray(parts) ? (parts as unknown[]) : parts === undefined ? [] : [parts];
    return list.map((value, i) => {
      if (typeof value === 'string') return { type: 'text', text: value };
      const part = asObject(value);
      if (part === undefined) throw unreadable(`${place}.parts[${i}]`, value, 'be an object');
      return withSiblings(this.part(part), part);
    });
  }

  private part(part: JsonObject): ChatPart {
    const signature = asText(geminiMembers.of(part, 'thoughtSignature'));
    if (typeof part.text === 'string') {
      const type = part.thought === true ? 'reasoning' : 'text';
      return signatures.add({ type, text: part.text }, signature);
    }
    const call = geminiMembers.object(part, 'functionCall');
    if (call !== undefined) return signatures.add(this.call(call), signature);
    // A picture in the thoughts is a draft, not part of the answer.
    if (part.thought === true)
      return signatures.add(decodeOwnPart(signatures.remove(part), this.numbers), signature);
    const blob = geminiMembers.object(part, 'inlineData');
    if (blob !== undefined) return signatures.add(mediaPart.decodeInline(blob), signature);
    const file = geminiMembers.object(part, 'fileData');
    if (file !== undefined) return signatures.add(mediaPart.decodeFile(file), signature);
    const response = geminiMembers.object(part, 'functionResponse');
    if (response !== undefined)
      return decodeResult(response, this.ids.ofResult(asText(response.name) ?? '', asText(response.id)));
    return signatures.add(decodeOwnPart(signatures.remove(part), this.numbers), signature);
  }

  private call(call: JsonObject): ToolCallPart {
    const name = asText(call.name) ?? '';
    const id = this.ids.ofCall(name, asText(call.id));
    return {
      type: 'tool-call',
      id,
      name,
      kind: 'function',
      arguments: callArguments.decode(call.args, 'function'),
    };
  }
}

/** Keeps members beside a part's content (`videoMetadata` …); a part of Google's own holds them already. */
function withSiblings(part: ChatPart, wire: JsonObject): ChatPart {
  if (part.type === 'provider-tool' || part.type === 'opaque') return part;
  const others = geminiMembers.others(wire, partMembers);
  if (others === undefined) return part;
  return { ...part, extras: { 'google-gemini': { ...part.extras?.['google-gemini'], ...others } } };
}

/** A content, which may also be a bare text or a single part. */
function contentOf(value: unknown, place: string): JsonObject {
  if (typeof value === 'string') return { role: 'user', parts: [{ text: value }] };
  const content = asObject(value);
  if (content === undefined) throw unreadable(place, value, 'be an object with parts');
  if (content.parts === undefined && asArray(content.parts).length === 0 && content.role === undefined)
    return { role: 'user', parts: [content] };
  return content;
}

function unreadable(param: string, found: unknown, rule: string): GatewayError {
  return new GatewayError('invalid_request', `${param} must ${rule}; found ${bodyIssues.describe(found)}.`, {
    param,
  });
}

type Draft = { -readonly [name in keyof ChatRequest]: ChatRequest[name] };

const known = geminiMembers.known([
  'contents',
  'systemInstruction',
  'tools',
  'toolConfig',
  'generationConfig',
  'model',
  'stream',
  'providerOptions',
]);

const dialectNames: ReadonlySet<string> = new Set<DialectName>([
  'openai-chat',
  'openai-completions',
  'openai-responses',
  'azure-openai',
  'anthropic-messages',
  'google-gemini',
  'google-vertex',
  'bedrock-converse',
  'cohere-v2',
  'workers-ai',
]);

/**
 * A generateContent request in the canonical form. Members that only this wire has (`safetySettings`, `cachedContent`,
 * `labels` …) are kept under its name.
 */
function decodeGeminiRequest({ body, model, stream }: ClientCall): ChatRequest {
  const request: Draft = { model, stream, messages: decodeContents(body), tools: decodeTools(body) };
  const choice = decodeToolChoice(body);
  if (choice !== undefined) request.toolChoice = choice;
  const config = geminiMembers.object(body, 'generationConfig');
  const configOthers = config === undefined ? undefined : answerSettings.decode(config, request);
  const own: JsonObject = { ...geminiMembers.others(body, known) };
  if (configOthers !== undefined) own.generationConfig = configOthers;
  const toolOthers = otherToolConfig(body);
  if (toolOthers !== undefined) own.toolConfig = toolOthers;
  const extras = withOptions(own, geminiMembers.object(body, 'providerOptions'));
  if (extras !== undefined) request.extras = extras;
  return request;
}

/** The own members, and the caller's options under a dialect's name. */
function withOptions(own: JsonObject, options: JsonObject | undefined): Extras | undefined {
  const extras: { [name: string]: JsonObject } = {};
  if (Object.keys(own).length > 0) extras['google-gemini'] = own;
  for (const [dialect, value] of Object.entries(options ?? {})) {
    const members = asObject(value);
    if (members !== undefined && dialectNames.has(dialect))
      extras[dialect] = { ...extras[dialect], ...members };
  }
  return Object.keys(extras).length === 0 ? undefined : extras;
}

/** The result in a `functionResponse` part; the caller of this function supplies the call id. */
function decodeResult(response: JsonObject, callId: string): ToolResultPart {
  const name = asText(response.name);
  const answer = geminiMembers.object(response, 'response') ?? {};
  const failure = onlyText(answer, 'error');
  const text = failure ?? onlyText(answer, 'output') ?? onlyText(answer, 'result') ?? stringifyExact(answer);
  const result: { -readonly [key in keyof ToolResultPart]: ToolResultPart[key] } = {
    type: 'tool-result',
    callId,
    kind: 'function',
    content: [{ type: 'text', text }, ...asArray(response.parts).flatMap(decodeMedia)],
  };
  if (name !== undefined) result.name = name;
  if (failure !== undefined) result.isError = true;
  return result;
}

function decodeMedia(value: unknown): ToolResultPart['content'] {
  const part = asObject(value);
  if (part === undefined) return [];
  const blob = geminiMembers.object(part, 'inlineData');
  if (blob !== undefined) return [mediaPart.decodeInline(blob)];
  const file = geminiMembers.object(part, 'fileData');
  return file === undefined ? [] : [mediaPart.decodeFile(file)];
}

/** The text of an object that has only this member. */
function onlyText(answer: JsonObject, name: string): string | undefined {
  const value = answer[name];
  return typeof value === 'string' && Object.keys(answer).length === 1 ? value : undefined;
}
