import {
  type EncodedRequest,
  type EncodeReport,
  reportForeignExtras,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type {
  ChatMessage,
  ChatRequest,
  ReasoningSettings,
  ResponseFormat,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { asArray, type JsonObject, stringifyExact } from '../json-reading.ts';
import { applyQuirks, reasoningEffort, reportUnsayable, type Setting } from '../request-settings.ts';
import type {
  ChatPart,
  Extras,
  FilePart,
  ImagePart,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { dataUrls } from '../request-members.ts';

const readable = /^(text\/|application\/(json|xml|yaml|x-yaml)\b)/i;

/** A text document in Cohere's form; undefined for other files (a PDF, a URL, an uploaded file). */
function documentOf({ source, filename }: FilePart): JsonObject | undefined {
  const text =
    source.kind === 'text'
      ? source.text
      : source.kind === 'base64' && readable.test(source.mediaType)
        ? Buffer.from(source.data, 'base64').toString('utf8')
        : undefined;
  if (text === undefined) return undefined;
  return { data: filename === undefined ? { text } : { text, title: filename } };
}

/** Cohere's own members that clients of other wires write at the top level, too. */
const known: ReadonlySet<string> = new Set([
  'citation_options',
  'documents',
  'k',
  'p',
  'priority',
  'raw_prompting',
  'safety_mode',
  'strict_tools',
]);

/** The body of `POST /v2/chat`: https://docs.cohere.com/reference/chat */
export function encodeCohereRequest(
  request: ChatRequest,
  host: HostFacts,
  report: EncodeReport,
): EncodedRequest {
  const body: JsonObject = { model: host.model };
  const { messages, documents } = encodeMessages(request, /reason|think/i.test(host.model), report);
  body.messages = messages;
  if (request.stream) body.stream = true;
  encodeTools(body, request, report);
  encodeSampling(body, request, report);
  encodeResponseFormat(body, request.responseFormat);
  if (request.reasoning !== undefined) encodeThinking(body, request.reasoning, report);
  reportUnsayable(request, unsayable, report);
  encodeExtras(body, request, report);
  // Files come first, so that `doc:0` in a citation is the first of them.
  if (documents.length > 0) body.documents = [...documents, ...asArray(body.documents)];
  applyQuirks(body, host.quirks, report);
  return { path: host.quirks.paths?.['chat.completions'] ?? '/v2/chat', body: stringifyExact(body) };
}

function encodeSampling(body: JsonObject, request: ChatRequest, report: EncodeReport): void {
  const { frequencyPenalty, presencePenalty, topP } = request;
  if (request.maxOutputTokens !== undefined) body.max_tokens = request.maxOutputTokens;
  if (request.temperature !== undefined) body.temperature = request.temperature;
  if (topP !== undefined) body.p = clamp(topP, [0.01, 0.99], 'top_p', report);
  if (request.topK !== undefined) body.k = request.topK;
  if (frequencyPenalty !== undefined)
    body.frequency_penalty = clamp(frequencyPenalty, [0, 1], 'frequency_penalty', report);
  if (presencePenalty !== undefined)
    body.presence_penalty = clamp(presencePenalty, [0, 1], 'presence_penalty', report);
  if (request.seed !== undefined) body.seed = request.seed;
  if (request.stop !== undefined && request.stop.length > 0) body.stop_sequences = request.stop;
  if (request.logprobs !== undefined) body.logprobs = request.logprobs;
}

/** The nearest value of the documented range; Cohere refuses values outside it. */
function clamp(
  value: number,
  [least, most]: readonly [number, number],
  name: string,
  report: EncodeReport,
): number {
  const near = Math.min(most, Math.max(least, value));
  if (near !== value) report.emulate(name);
  return near;
}

function encodeResponseFormat(body: JsonObject, format: ResponseFormat | undefined): void {
  if (format === undefined) return;
  if (format.type === 'json-schema')
    body.response_format = { type: 'json_object', json_schema: format.schema };
  else body.response_format = { type: format.type === 'json' ? 'json_object' : 'text' };
}

function encodeThinking(body: JsonObject, settings: ReasoningSettings, report: EncodeReport): void {
  const { effort, budgetTokens, enabled, adaptive, summary } = settings;
  if (summary === 'none') report.drop('reasoning.summary');
  if (enabled === false || effort === 'none') {
    body.thinking = { type: 'disabled' };
    return;
  }
  const budget = budgetTokens ?? (effort === undefined ? undefined : reasoningEffort.budget(effort));
  if (effort !== undefined && budgetTokens === undefined) {
    if (budget === undefined) report.drop('reasoning_effort');
    else report.emulate('reasoning_effort');
  }
  if (budget !== undefined) body.thinking = { type: 'enabled', token_budget: budget };
  else if (enabled === true || adaptive === true) body.thinking = { type: 'enabled' };
}

const unsayable: readonly Setting[] = [
  ...(['n', 'top_logprobs', 'logit_bias', 'verbosity', 'user', 'safety_identifier'] as const),
  ...(['prompt_cache_key', 'metadata', 'service_tier', 'store', 'modalities', 'audio'] as const),
];

function encodeExtras(body: JsonObject, request: ChatRequest, report: EncodeReport): void {
  for (const [dialect, members] of Object.entries(request.extras ?? {})) {
    if (dialect === 'cohere-v2') continue;
    for (const [name, value] of Object.entries(members)) {
      if (known.has(name)) body[name] = value;
      else report.drop(name);
    }
  }
  Object.assign(body, ownExtras(request.extras));
}

/** An encoded conversation: messages, and the text files of its users as documents to cite. */
interface EncodedConversation {
  readonly messages: readonly JsonObject[];
  readonly documents: readonly JsonObject[];
}

interface Place {
  readonly name: string;
  readonly report: EncodeReport;
  readonly documents: JsonObject[];
}

/** `thinks`: the model writes thinking blocks, not a plan before its tool calls. */
function encodeMessages(request: ChatRequest, thinks: boolean, report: EncodeReport): EncodedConversation {
  const messages: JsonObject[] = [];
  const documents: JsonObject[] = [];
  for (const [index, message] of request.messages.entries()) {
    const place = { name: `messages[${index}]`, report, documents };
    if (message.name !== undefined) report.drop(`${place.name}.name`);
    reportExtras(message.extras, report, `${place.name}.`);
    for (const encoded of encodeMessage(message, thinks, place)) {
      messages.push(Object.assign(encoded, ownExtras(message.extras)));
    }
  }
  return { messages, documents };
}

function encodeMessage(message: ChatMessage, thinks: boolean, place: Place): JsonObject[] {
  switch (message.role) {
    case 'system':
    case 'developer':
      return [{ role: 'system', content: content(message.parts, place) }];
    case 'user':
      return [{ role: 'user', content: content(message.parts, place) }];
    case 'assistant':
      return [assistant(message.parts, thinks, place)];
    case 'tool':
      return message.parts.flatMap((part, index) => {
        const at = partPlace(place, index);
        reportPartRest(part, place.report, at);
        if (part.type === 'tool-result') return [toolResult(part, { ...place, name: at })];
        place.report.drop(at);
        return [];
      });
  }
}

/** A single text as a string, everything else as blocks. */
function content(parts: readonly ChatPart[], place: Place): string | JsonObject[] {
  const blocks: JsonObject[] = [];
  for (const [index, part] of parts.entries()) {
    const at = partPlace(place, index);
    reportPartRest(part, place.report, at);
    const block = contentBlock(part, at, place);
    if (block !== undefined) blocks.push(block);
  }
  return plainText(blocks) ?? blocks;
}

function contentBlock(part: ChatPart, at: string, place: Place): JsonObject | undefined {
  switch (part.type) {
    case 'text':
      if (part.citations !== undefined) place.report.drop(`${at}.citations`);
      return textBlock(part);
    case 'image':
      return imageBlock(part) ?? reportDrop(place, at);
    case 'file': {
      const document = documentOf(part);
      if (document === undefined) return reportDrop(place, at);
      place.documents.push(document);
      place.report.emulate(at);
      return undefined;
    }
    case 'refusal':
      place.report.emulate(at);
      return { type: 'text', text: part.text };
    case 'opaque':
      return part.dialect === 'cohere-v2' ? part.value : reportDrop(place, at);
    default:
      return reportDrop(place, at);
  }
}

function textBlock(part: TextPart): JsonObject {
  return { type: 'text', text: part.text, ...ownExtras(part.extras) };
}

function imageBlock({ source, detail, extras }: ImagePart): JsonObject | undefined {
  if (source.kind !== 'url' && source.kind !== 'base64') return undefined;
  const url = source.kind === 'url' ? source.url : dataUrls.encode(source);
  const image = detail === undefined ? { url } : { url, detail };
  return { type: 'image_url', image_url: image, ...ownExtras(extras) };
}

function assistant(parts: readonly ChatPart[], thinks: boolean, place: Place): JsonObject {
  const calls = parts.some(({ type }) => type === 'tool-call');
  const blocks: JsonObject[] = [];
  const toolCalls: JsonObject[] = [];
  const citations: JsonObject[] = [];
  let plan = '';
  for (const [index, part] of parts.entries()) {
    const at = partPlace(place, index);
    reportPartRest(part, place.report, at);
    if (part.type === 'tool-call') toolCalls.push(toolCall(part, at, place.report));
    else if (part.type === 'reasoning') {
      if (part.text === '') place.report.drop(at);
      else if (isPlan(part, calls, thinks)) plan += part.text;
      else blocks.push({ type: 'thinking', thinking: part.text });
    } else if (part.type === 'text') {
      citations.push(...citationsToSend(part, at, place.report));
      blocks.push(textBlock(part));
    } else {
      const block = contentBlock(part, at, place);
      if (block !== undefined) blocks.push(block);
    }
  }
  const message: JsonObject = { role: 'assistant' };
  if (plan !== '') message.tool_plan = plan;
  if (blocks.length > 0 || toolCalls.length === 0) message.content = plainText(blocks) ?? blocks;
  if (toolCalls.length > 0) message.tool_calls = toolCalls;
  if (citations.length > 0) message.citations = citations;
  return message;
}

/** A plan is thinking before tool calls; a plan that another client rewrote has lost its mark. */
function isPlan(part: ReasoningPart, calls: boolean, thinks: boolean): boolean {
  return ownExtras(part.extras).tool_plan === true || (calls && !thinks);
}

function toolCall(part: ToolCallPart, at: string, report: EncodeReport): JsonObject {
  // The wire refuses arguments that are not an object; some clients repeat a call without arguments as an empty text.
  let given = part.arguments.trim() === '' && part.kind === 'function' ? '{}' : part.arguments;
  if (part.kind === 'custom') {
    report.emulate(at);
    given = JSON.stringify({ input: given });
  }
  return { id: part.id, type: 'function', function: { name: part.name, arguments: given } };
}

function toolResult(part: ToolResultPart, place: Place): JsonObject {
  if (part.isError === true) place.report.drop(`${place.name}.is_error`);
  const blocks: JsonObject[] = [];
  for (const [index, piece] of part.content.entries()) {
    const at = partPlace(place, index);
    reportPartRest(piece, place.report, at);
    if (piece.type === 'text') blocks.push(textBlock(piece));
    else {
      const document = piece.type === 'file' ? documentOf(piece) : undefined;
      if (document === undefined) place.report.drop(at);
      else blocks.push({ type: 'document', document });
    }
  }
  return { role: 'tool', tool_call_id: part.callId, content: plainText(blocks) ?? blocks };
}

/** The text of an empty list or of a single plain text block; undefined for everything else. */
function plainText(blocks: readonly JsonObject[]): string | undefined {
  const [first, ...more] = blocks;
  if (first === undefined) return '';
  const bare = first.type === 'text' && more.length === 0 && Object.keys(first).length === 2;
  return bare && typeof first.text === 'string' ? first.text : undefined;
}

function partPlace({ name }: Place, index: number): string {
  return `${name}.content[${index}]`;
}

function reportDrop(place: Place, at: string): undefined {
  place.report.drop(at);
  return undefined;
}

/** Writes `tools`, `tool_choice` and `strict_tools`. */
function encodeTools(body: JsonObject, request: ChatRequest, report: EncodeReport): void {
  const allowed = allowedNames(request.toolChoice);
  const tools: JsonObject[] = [];
  let strict = 0;
  for (const [index, tool] of request.tools.entries()) {
    const at = `tools[${index}]`;
    if (tool.type === 'provider' && tool.dialect === 'cohere-v2') {
      tools.push(tool.value);
      continue;
    }
    if (tool.type === 'provider') {
      report.drop(at);
      continue;
    }
    if (tool.cache !== undefined) report.drop(`${at}.cache_control`);
    if (allowed !== undefined && !allowed.includes(tool.name)) continue;
    if (tool.type === 'custom') {
      report.emulate(at);
      if (tool.format !== undefined) report.drop(`${at}.custom.format`);
      tools.push(customAsFunction(tool));
      continue;
    }
    reportExtras(tool.extras, report, `${at}.`);
    if (tool.strict === true) strict++;
    const definition: JsonObject = { name: tool.name };
    if (tool.description !== undefined) definition.description = tool.description;
    definition.parameters = tool.parameters ?? { type: 'object', properties: {} };
    tools.push({ type: 'function', function: definition, ...ownExtras(tool.extras) });
  }
  if (request.parallelToolCalls === false && tools.length > 0) report.drop('parallel_tool_calls');
  if (tools.length === 0) return;
  body.tools = tools;
  // One switch applies to all tools: it is set when all of them request it.
  if (strict === tools.length) body.strict_tools = true;
  else if (strict > 0) report.drop('tools[].function.strict');
  encodeChoice(body, request.toolChoice, report);
}

function encodeChoice(body: JsonObject, choice: ToolChoice | undefined, report: EncodeReport): void {
  switch (choice?.type) {
    case undefined:
    case 'auto':
      return;
    case 'none':
      body.tool_choice = 'NONE';
      return;
    case 'required':
      body.tool_choice = 'REQUIRED';
      return;
    case 'tool':
      report.emulate('tool_choice');
      body.tool_choice = 'REQUIRED';
      return;
    case 'allowed':
      report.emulate('tool_choice');
      if (choice.mode === 'required') body.tool_choice = 'REQUIRED';
  }
}

/** Cohere cannot be forced to call one tool: the other tools are left out. */
function allowedNames(choice: ToolChoice | undefined): readonly string[] | undefined {
  if (choice?.type === 'tool') return [choice.name];
  return choice?.type === 'allowed' ? choice.names : undefined;
}

/** Members that only this dialect has. */
function ownExtras(extras: Extras | undefined): JsonObject {
  return extras?.['cohere-v2'] ?? {};
}

/** Reports the extras of other dialects; `place` is put before each name. */
function reportExtras(extras: Extras | undefined, report: EncodeReport, place: string): void {
  reportForeignExtras(extras, ['cohere-v2'], report, place);
}

/** Reports content that no part of a Cohere message can carry. */
function reportPartRest(part: ChatPart, report: EncodeReport, place: string): void {
  if (part.cache !== undefined) report.drop(`${place}.cache_control`);
  if (part.signature !== undefined) report.drop(`${place}.signature`);
  if (part.extras !== undefined) reportExtras(part.extras, report, `${place}.`);
}

/** Citations of a text that Cohere itself wrote; the others are reported as dropped. */
function citationsToSend({ citations }: TextPart, at: string, report: EncodeReport): JsonObject[] {
  const own: JsonObject[] = [];
  for (const { raw } of citations ?? []) {
    if (raw?.dialect === 'cohere-v2') own.push(raw.value);
    else report.drop(`${at}.citations`);
  }
  return own;
}

/** A tool with free input as a function with one argument: the wire has functions only. */
function customAsFunction(tool: Extract<ToolDefinition, { type: 'custom' }>): JsonObject {
  const definition: JsonObject = { name: tool.name };
  if (tool.description !== undefined) definition.description = tool.description;
  const input = { type: 'string', description: 'The whole input of the tool.' };
  definition.parameters = { type: 'object', properties: { input }, required: ['input'] };
  return { type: 'function', function: definition };
}
