import {
  type EncodedRequest,
  type EncodeReport,
  reportForeignExtras,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type {
  ChatMessage,
  ChatRequest,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { asObject, type JsonObject, parseExactObject, stringifyExact } from '../json-reading.ts';
import { applyQuirks, reportUnsayable, type Setting } from '../request-settings.ts';
import { answerSettings } from './generation-config.ts';
import type { ChatPart, ToolResultPart } from '../../../core/dialects/canonical/chat-part.ts';
import { nameToolResults } from '../../../core/dialects/canonical/name-tool-results.ts';
import { encodeModelPart, mediaPart, siblings } from './parts.ts';
import { schemas } from './schema.ts';
import type { TokenCounting } from '../host-endpoints.ts';
import { geminiErrors } from './errors.ts';
import { geminiPath } from './model-path.ts';

/** Tools that Google runs itself, by purpose. */
const ownTools: Readonly<Partial<Record<string, string>>> = {
  'web-search': 'googleSearch',
  'web-fetch': 'urlContext',
  'code-execution': 'codeExecution',
};

/** `tools` and `toolConfig`. */
interface EncodedTools {
  readonly tools: readonly JsonObject[];
  readonly functionCallingConfig: JsonObject | undefined;
}

/** The request's tools and tool choice. */
function encodeTools(request: ChatRequest, report: EncodeReport): EncodedTools {
  const functionDeclarations: JsonObject[] = [];
  const others: JsonObject[] = [];
  request.tools.forEach((tool, i) => {
    const place = `tools[${i}]`;
    if (tool.type === 'provider') others.push(...providerTool(tool, place, report));
    else functionDeclarations.push(declaration(tool, place, report));
  });
  const tools = functionDeclarations.length > 0 ? [{ functionDeclarations }, ...others] : others;
  if (functionDeclarations.length === 0) {
    const choice = request.toolChoice?.type;
    if (choice !== undefined && choice !== 'auto' && choice !== 'none') report.drop('tool_choice');
    return { tools, functionCallingConfig: undefined };
  }
  const strict = request.tools.some((tool) => tool.type === 'function' && tool.strict === true);
  return { tools, functionCallingConfig: callingConfig(request.toolChoice, strict) };
}

function declaration(
  tool: Exclude<ToolDefinition, { type: 'provider' }>,
  place: string,
  report: EncodeReport,
): JsonObject {
  const declared: JsonObject = { name: tool.name };
  if (tool.description !== undefined) declared.description = tool.description;
  if (tool.cache !== undefined) report.drop(`${place}.cache_control`);
  if (tool.type === 'custom') {
    report.emulate(place);
    if (tool.format !== undefined) report.drop(`${place}.custom.format`);
    declared.parameters = {
      type: 'object',
      properties: { input: { type: 'string', description: 'The input of the tool.' } },
      required: ['input'],
    };
    return declared;
  }
  reportForeignExtras(tool.extras, ['google-gemini', 'google-vertex'], report, `${place}.`);
  if (tool.strict === true) report.emulate(`${place}.function.strict`);
  const parameters =
    tool.parameters === undefined
      ? undefined
      : schemas.toGemini(tool.parameters, `${place}.function.parameters`, report);
  // An object without members is refused; absent parameters mean the same.
  if (parameters !== undefined && !isEmptyObject(parameters)) declared.parameters = parameters;
  return Object.assign(declared, tool.extras?.['google-gemini']);
}

function isEmptyObject({ type, properties, anyOf }: JsonObject): boolean {
  if (anyOf !== undefined || (type !== undefined && type !== 'object')) return false;
  return Object.keys(asObject(properties) ?? {}).length === 0;
}

function providerTool(
  tool: Extract<ToolDefinition, { type: 'provider' }>,
  place: string,
  report: EncodeReport,
): JsonObject[] {
  if (tool.dialect === 'google-gemini' || tool.dialect === 'google-vertex') return [tool.value];
  const name = ownTools[tool.purpose];
  if (name === undefined) {
    report.drop(place);
    return [];
  }
  report.emulate(place);
  return [{ [name]: {} }];
}

/** `VALIDATED` leaves the choice to the model and enforces the declared parameters, as `strict` requests. */
function callingConfig(choice: ToolChoice | undefined, strict: boolean): JsonObject | undefined {
  switch (choice?.type) {
    case undefined:
      return strict ? { mode: 'VALIDATED' } : undefined;
    case 'auto':
      return { mode: strict ? 'VALIDATED' : 'AUTO' };
    case 'none':
      return { mode: 'NONE' };
    case 'required':
      return { mode: 'ANY' };
    case 'tool':
      return { mode: 'ANY', allowedFunctionNames: [choice.name] };
    case 'allowed':
      // Names are accepted with `ANY` and `VALIDATED` alone.
      return {
        mode: choice.mode === 'required' ? 'ANY' : 'VALIDATED',
        allowedFunctionNames: [...choice.names],
      };
  }
}

/** A conversation in the two parts of this wire. */
interface EncodedContents {
  readonly contents: readonly JsonObject[];
  readonly systemInstruction: JsonObject | undefined;
}

/**
 * Replaces the signature of a call that another model made: without one Gemini 3 refuses the history
 * (ai.google.dev/gemini-api/docs/thought-signatures).
 */
const foreignSignature = 'skip_thought_signature_validator';
const ownExtras = ['google-gemini', 'google-vertex'] as const;

/**
 * The messages as `contents` of the roles `user` and `model`, adjacent ones joined, with every system and developer
 * message in `systemInstruction`.
 */
function encodeContents(
  messages: readonly ChatMessage[],
  model: string,
  report: EncodeReport,
): EncodedContents {
  const contents: { role: string; parts: JsonObject[] }[] = [];
  const system: JsonObject[] = [];
  nameToolResults(messages).forEach((message, i) => {
    const place = `messages[${i}]`;
    if (message.name !== undefined) report.drop(`${place}.name`);
    reportForeignExtras(message.extras, ownExtras, report, `${place}.`);
    const parts = encodeMessage(message, model, place, report);
    if (message.role === 'system' || message.role === 'developer') {
      // Its position in the conversation is lost.
      if (contents.length > 0) report.emulate(`${place}.role`);
      system.push(...parts);
      return;
    }
    if (parts.length === 0) return;
    const role = message.role === 'assistant' ? 'model' : 'user';
    const last = contents.at(-1);
    if (last?.role === role) last.parts.push(...parts);
    else contents.push({ role, parts });
  });
  return { contents, systemInstruction: system.length === 0 ? undefined : { parts: system } };
}

function encodeMessage(
  message: ChatMessage,
  model: string,
  place: string,
  report: EncodeReport,
): JsonObject[] {
  const parts = message.parts.flatMap((part, j) => {
    const at = message.role === 'tool' ? place : `${place}.content[${j}]`;
    reportPart(part, at, report);
    if (part.type === 'tool-result') return encodeResult(part, model, at, report);
    const encoded = message.role === 'assistant' ? encodeModelPart(part) : encodeSentPart(part);
    if (encoded === undefined && !isEmptyPart(part)) report.drop(at);
    return encoded === undefined ? [] : [encoded];
  });
  if (message.role === 'assistant' && isGemini3(model)) signCalls(parts, place, report);
  return parts;
}

/** A part of a user or system turn. */
function encodeSentPart(part: ChatPart): JsonObject | undefined {
  const media = part.type === 'image' || part.type === 'audio' || part.type === 'file';
  const encoded = media ? mediaPart.encode(part) : encodeModelPart(part);
  return encoded === undefined ? undefined : Object.assign(encoded, siblings(part));
}

/** An empty text, not one that cannot be expressed. */
function isEmptyPart(part: ChatPart): boolean {
  return (part.type === 'text' || part.type === 'reasoning') && part.text === '' && !('redacted' in part);
}

/** Reports members of a part that have no place in this wire. */
function reportPart(part: ChatPart, place: string, report: EncodeReport): void {
  reportForeignExtras(part.extras, ownExtras, report, `${place}.`);
  if (part.cache !== undefined) report.drop(`${place}.cache_control`);
  if (part.type === 'image' && part.detail !== undefined && part.detail !== 'auto')
    report.drop(`${place}.image_url.detail`);
  if (part.type === 'text' && part.citations !== undefined && part.citations.length > 0)
    report.drop(`${place}.citations`);
  if (part.type === 'file') {
    if (part.filename !== undefined) report.drop(`${place}.file.filename`);
    if (part.context !== undefined) report.drop(`${place}.context`);
    if (part.citations === true) report.drop(`${place}.citations`);
  }
  if (part.type === 'tool-call' && part.kind === 'custom') report.emulate(place);
}

/**
 * A tool result. For Gemini 3, media are inside it (documented as multimodal function responses); older models get them
 * as parts of the turn.
 */
function encodeResult(
  result: ToolResultPart,
  model: string,
  place: string,
  report: EncodeReport,
): JsonObject[] {
  const response: JsonObject = { id: result.callId };
  // The wire requires a name; a result without a call in the conversation has only its id.
  response.name = result.name ?? result.callId;
  response.response = encodeResponse(result);
  const { parts, lost } = encodeResultMedia(result);
  if (lost > 0) report.drop(`${place}.content`);
  if (result.kind === 'custom') report.emulate(place);
  if (parts.length === 0) return [{ functionResponse: response }];
  if (isGemini3(model) && parts.every((part) => 'inlineData' in part)) {
    response.parts = parts;
    return [{ functionResponse: response }];
  }
  report.emulate(`${place}.content`);
  return [{ functionResponse: response }, ...parts];
}

/** The first of parallel calls carries the signature. */
function signCalls(parts: readonly JsonObject[], place: string, report: EncodeReport): void {
  const calls = parts.filter((part) => 'functionCall' in part);
  const [first] = calls;
  if (first === undefined || calls.some((part) => part.thoughtSignature !== undefined)) return;
  first.thoughtSignature = foreignSignature;
  report.emulate(`${place}.tool_calls[0].extra_content.google.thought_signature`);
}

/** Path of a request for a model, below the host's base URL. */
export type ModelPathOf = (host: HostFacts, method: string) => string;

/** Objects of a request that are merged with the caller's members instead of being replaced by them. */
const joined = ['generationConfig', 'toolConfig'];

/** A chat request in this wire's form. The path names the model. */
export function encodeGeminiRequest(
  request: ChatRequest,
  host: HostFacts,
  report: EncodeReport,
  pathOf: ModelPathOf,
): EncodedRequest {
  const path = pathOf(host, request.stream ? 'streamGenerateContent' : 'generateContent');
  const body = stringifyExact(geminiBody(request, host, report));
  return { path: request.stream ? `${path}?alt=sse` : path, body };
}

/** The body of such a request. */
function geminiBody(request: ChatRequest, host: HostFacts, report: EncodeReport): JsonObject {
  const { contents, systemInstruction } = encodeContents(request.messages, host.model, report);
  const { tools, functionCallingConfig } = encodeTools(request, report);
  const generationConfig = answerSettings.encode(request, host.model, report);
  const body: JsonObject = { contents };
  if (systemInstruction !== undefined) body.systemInstruction = systemInstruction;
  if (tools.length > 0) body.tools = tools;
  if (functionCallingConfig !== undefined) body.toolConfig = { functionCallingConfig };
  if (Object.keys(generationConfig).length > 0) body.generationConfig = generationConfig;
  reportUnsayable(request, unsayable, report);
  reportForeignExtras(request.extras, ['google-gemini', 'google-vertex'], report);
  applyExtras(body, request);
  applyQuirks(body, host.quirks, report);
  return body;
}

/** Settings that this wire cannot express. */
const unsayable: readonly Setting[] = [
  ...(['logit_bias', 'parallel_tool_calls', 'user', 'safety_identifier', 'prompt_cache_key'] as const),
  ...(['metadata', 'service_tier', 'store', 'verbosity'] as const),
];

function applyExtras(body: JsonObject, { extras }: ChatRequest): void {
  const gemini = extras?.['google-gemini'];
  const vertex = extras?.['google-vertex'];
  const own = mergeExtras(
    gemini === undefined ? undefined : { 'google-gemini': gemini },
    vertex === undefined ? undefined : { 'google-gemini': vertex },
  )?.['google-gemini'];
  if (own === undefined) return;
  for (const [name, value] of Object.entries(own)) {
    const existing = asObject(body[name]);
    body[name] =
      existing !== undefined && joined.includes(name) ? { ...existing, ...asObject(value) } : value;
  }
}

/** Gemini's `:countTokens` for a whole request. */
export function geminiTokenCounting(pathOf: ModelPathOf): TokenCounting {
  return {
    encode(request, host, report) {
      const whole = { model: geminiPath.resource(host.model), ...geminiBody(request, host, report) };
      return { path: pathOf(host, 'countTokens'), body: stringifyExact({ generateContentRequest: whole }) };
    },
    member: 'totalTokens',
    decodeError: geminiErrors.decode,
  };
}

/** True for Gemini 3 and later. */
function isGemini3(model: string): boolean {
  return /gemini-(?:[3-9]|\d{2})/.test(model);
}

/**
 * `functionResponse.response` for a result: the object itself when the tool answered with one, else its text under
 * `output`, or under `error` when it failed, the names that Google documents.
 */
function encodeResponse(result: ToolResultPart): JsonObject {
  const text = result.content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
  if (result.isError === true) return { error: text };
  const object = text.trimStart().startsWith('{') ? parseExactObject(text) : undefined;
  return object ?? { output: text };
}

/** Content of a result other than text, as parts of this wire, and the number of parts that it cannot express. */
function encodeResultMedia(result: ToolResultPart): {
  readonly parts: readonly JsonObject[];
  readonly lost: number;
} {
  const parts: JsonObject[] = [];
  let lost = 0;
  for (const part of result.content) {
    if (part.type === 'text') continue;
    const media = mediaPart.encode(part);
    if (media === undefined) lost++;
    else parts.push(media);
  }
  return { parts, lost };
}
