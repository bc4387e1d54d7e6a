import type { ProviderError, TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import type {
  ProviderToolPart,
  OpaquePart,
  ChatPart,
  RefusalPart,
  TextPart,
  ToolCallPart,
  ReasoningPart,
  ImagePart,
  Citation,
} from '../../../core/dialects/canonical/chat-part.ts';
import { asObject, asText, type JsonObject, asArray, stringifyExact, asCount } from '../json-reading.ts';
import { openAiErrors, openAiUsage } from '../openai-shapes.ts';
import type { AnswerFacts } from '../../../core/dialects/dialect.ts';
import type { Usage } from '../../../core/dialects/usage.ts';

/** Annotations, to and from citations. */
export const textAnnotation = { encode: encodeAnnotation, decode: decodeAnnotation };

/** Content of other dialects, carried in encrypted reasoning. */
export const carriedContent = { encode: encodeCarried, decode: decodeCarried };

/** What a response says of itself. */
export const responseParts = { facts: responseFacts, usage: encodeResponsesUsage };

/** Decodes output items, whole or streamed. */
export const outputItem = {
  provider: providerItem,
  isProviderRun,
  parts: partsOfItem,
  messageParts,
  contentPart,
  phaseExtras,
  callHead,
  callArguments,
  summaryText,
  thoughtText,
  imagePart,
  attachSignature,
  logprobs: decodeLogprobs,
};

/** Decodes errors of events and of responses. */
export const responseErrors = { ofEvent: eventError, ofResponse: responseError };

/** HTTP status by error code of a failed response that only this wire has; codes of pictures are caller errors, too. */
const statuses: Readonly<Record<string, number>> = {
  invalid_prompt: 400,
  bio_policy: 400,
  data_residency_mismatch: 400,
  server_is_overloaded: 503,
  slow_down: 503,
  vector_store_timeout: 504,
};

const unsaid: ProviderError = {
  status: 502,
  message: 'The provider reported an error without saying which.',
  type: 'upstream_error',
};

/** The error of an `error` event: `{error: {…}}`, or its members in the event itself. */
function eventError(event: JsonObject): ProviderError {
  return withStatus(openAiErrors.ofStream(event, 'error') ?? unsaid);
}

/** The error of a failed response. */
function responseError(response: JsonObject): ProviderError {
  return withStatus(openAiErrors.ofStream({ error: response.error }) ?? unsaid);
}

function withStatus(error: ProviderError): ProviderError {
  const { code = '', type, ...others } = error;
  const said = code === '' ? {} : { code };
  const kind = type === undefined || type === 'error' ? {} : { type };
  const known = code.includes('image') && code !== '' ? 400 : statuses[code];
  return {
    ...others,
    ...kind,
    ...said,
    status: error.status === 502 && known !== undefined ? known : error.status,
  };
}

export const finalEvents: ReadonlySet<unknown> = new Set([
  'response.completed',
  'response.incomplete',
  'response.failed',
]);

/** Facts of a response object, complete or from a stream event. */
function responseFacts(response: JsonObject): AnswerFacts {
  const facts: AnswerFacts = {};
  const usage = openAiUsage.decode(response.usage);
  if (usage !== undefined) facts.usage = usage;
  const model = asText(response.model);
  if (model !== undefined) facts.model = model;
  const status = asText(response.status);
  if (status !== undefined && status !== 'in_progress' && status !== 'queued') {
    facts.finishReason = asText(asObject(response.incomplete_details)?.reason) ?? status;
  }
  const errorMessage = openAiErrors.message(response);
  if (errorMessage !== undefined) facts.errorMessage = errorMessage;
  return facts;
}

/** A usage in the form of the Responses wire. */
function encodeResponsesUsage(usage: Usage): JsonObject {
  return {
    input_tokens: usage.promptTokens,
    input_tokens_details: {
      cached_tokens: usage.cachedTokens,
      cache_write_tokens: usage.cacheWriteTokens,
      ...(usage.inputAudioTokens > 0 && { audio_tokens: usage.inputAudioTokens }),
    },
    output_tokens: usage.completionTokens,
    output_tokens_details: {
      reasoning_tokens: usage.reasoningTokens,
      ...(usage.outputAudioTokens > 0 && { audio_tokens: usage.outputAudioTokens }),
    },
    total_tokens: usage.totalTokens,
  };
}

/** Items of tools whose type does not end in `_call`, with the tool's name. */
const otherTools: Readonly<Record<string, string>> = {
  mcp_list_tools: 'mcp_list_tools',
  mcp_approval_request: 'mcp_approval_request',
  mcp_approval_response: 'mcp_approval_response',
  tool_search_output: 'tool_search',
  program: 'program',
  program_output: 'program',
};

/**
 * An item other than a message, reasoning or a call for the client: a tool that the provider ran, or an item that only
 * this wire has.
 */
function providerItem(item: JsonObject): ProviderToolPart | OpaquePart {
  const type = asText(item.type) ?? '';
  const isResult = type.endsWith('_output') || type === 'mcp_approval_response';
  const stem = type.replace(/_output$/, '');
  const named = otherTools[type] ?? (stem.endsWith('_call') ? stem.slice(0, -'_call'.length) : undefined);
  if (named === undefined) return { type: 'opaque', dialect, value: item };
  return {
    type: 'provider-tool',
    dialect,
    phase: isResult ? 'result' : 'call',
    id: asText(item.id) ?? asText(item.call_id) ?? '',
    name: type === 'mcp_call' || type === 'custom_tool_call' ? (asText(item.name) ?? named) : named,
    value: item,
  };
}

/**
 * True for a custom call that the provider runs itself: some hosts write the calls of their own tools in this form. The
 * answer repeats the tools of the request; a custom call for none of them is not for the client.
 */
function isProviderRun(item: JsonObject, tools: unknown): boolean {
  if (item.type !== 'custom_tool_call' || !Array.isArray(tools) || tools.length === 0) return false;
  return !asArray(tools).some((value) => {
    const tool = asObject(value);
    return tool?.type === 'custom' || tool?.type === 'namespace';
  });
}

/**
 * Responses clients return reasoning items unchanged, and no other opaque items. Other members that wires need back
 * beside their thoughts (the signature of a call or text, redacted thinking) therefore travel as the encrypted content
 * of a reasoning item that names their target.
 */
type Carried =
  /** The signature of the call with this id. */
  | { readonly kind: 'call'; readonly callId: string; readonly signature: string }
  /** The signature of the text before it. */
  | { readonly kind: 'text'; readonly signature: string }
  | { readonly kind: 'redacted'; readonly data: string };

const callMark = 'signature-of-call:';
const textMark = 'signature-of-text:';
const redactedMark = 'redacted-thinking:';

/** Encrypted content with this value. */
function encodeCarried(carried: Carried): string {
  switch (carried.kind) {
    case 'call':
      return `${callMark}${encodeURIComponent(carried.callId)}:${carried.signature}`;
    case 'text':
      return textMark + carried.signature;
    case 'redacted':
      return redactedMark + carried.data;
  }
}

/** The value in an encrypted content; undefined for a provider's own content. */
function decodeCarried(content: string): Carried | undefined {
  if (content.startsWith(textMark)) return { kind: 'text', signature: content.slice(textMark.length) };
  if (content.startsWith(redactedMark)) return { kind: 'redacted', data: content.slice(redactedMark.length) };
  if (!content.startsWith(callMark)) return undefined;
  const end = content.indexOf(':', callMark.length);
  if (end === -1) return undefined;
  try {
    const callId = decodeURIComponent(content.slice(callMark.length, end));
    return { kind: 'call', callId, signature: content.slice(end + 1) };
  } catch {
    return undefined;
  }
}

/** The name of this wire. */
export const dialect = 'openai-responses';

/** Members of a call in the canonical form. */
const callMembers: ReadonlySet<string> = new Set([
  'type',
  'id',
  'call_id',
  'name',
  'arguments',
  'input',
  'status',
]);

/** Summaries have several parts; a blank line separates them in one text. */
export const summarySeparator = '\n\n';

/** Content of an item of an answer or of a history. */
interface ItemParts {
  readonly parts: readonly ChatPart[];
  /** A signature for another part. */
  readonly carried?: Carried;
}

/** The parts of an item. `newId` names a call that has no id. */
function partsOfItem(item: JsonObject, newId: (prefix: string) => string): ItemParts {
  switch (item.type) {
    case 'message':
      return { parts: messageParts(item) };
    case 'function_call':
    case 'custom_tool_call':
      return { parts: [callPart(item, newId)] };
    case 'reasoning':
      return reasoningParts(item);
    default:
      return { parts: [imagePart(item) ?? providerItem(item)] };
  }
}

/** The texts and refusals of a message, each with the message's `phase`. */
function messageParts(item: JsonObject): readonly ChatPart[] {
  const { content } = item;
  const values = typeof content === 'string' ? [{ type: 'output_text', text: content }] : asArray(content);
  return values.map((value) => contentPart(asObject(value) ?? {}, item.phase));
}

/** One part of a message's content. */
function contentPart(content: JsonObject, phase: unknown): ChatPart {
  const extras = phaseExtras(phase);
  if (content.type === 'refusal') {
    const part: RefusalPart = { type: 'refusal', text: stringOf(content.refusal) };
    return extras === undefined ? part : { ...part, extras };
  }
  if (typeof content.text !== 'string') return { type: 'opaque', dialect, value: content };
  const citations = asArray(content.annotations)
    .map(decodeAnnotation)
    .filter((one) => one !== undefined);
  const part: TextPart = { type: 'text', text: content.text };
  return {
    ...part,
    ...(citations.length > 0 && { citations }),
    ...(extras !== undefined && { extras }),
  };
}

/** `commentary` or `final_answer`, the purpose of the message. */
function phaseExtras(phase: unknown): TextPart['extras'] {
  return asText(phase) === undefined ? undefined : { [dialect]: { phase } };
}

/** The start of a call, with empty arguments. */
function callHead(item: JsonObject, newId: (prefix: string) => string): ToolCallPart {
  const itemId = asText(item.id);
  const others = Object.entries(item).filter(([name, value]) => !callMembers.has(name) && value !== null);
  return {
    type: 'tool-call',
    id: asText(item.call_id) ?? itemId ?? newId('call_'),
    name: stringOf(item.name),
    kind: item.type === 'custom_tool_call' ? 'custom' : 'function',
    arguments: '',
    ...(itemId !== undefined && { itemId }),
    ...(others.length > 0 && { extras: { [dialect]: Object.fromEntries(others) } }),
  };
}

/** The arguments of a call as text; empty for none. */
function callArguments(item: JsonObject): string {
  const value = item.type === 'custom_tool_call' ? item.input : item.arguments;
  if (typeof value === 'string') return value;
  const object = asObject(value);
  return object === undefined ? '' : stringifyExact(object);
}

function callPart(item: JsonObject, newId: (prefix: string) => string): ToolCallPart {
  const head = callHead(item, newId);
  const text = callArguments(item);
  return { ...head, arguments: text === '' && head.kind === 'function' ? '{}' : text };
}

/** The summary of a reasoning item as one text. */
function summaryText(item: JsonObject): string {
  return joined(item.summary, summarySeparator);
}

/** The thoughts themselves, when a model shows them. */
function thoughtText(item: JsonObject): string {
  return joined(item.content, '');
}

/**
 * A reasoning item: its thoughts, its summary, and its encrypted content as the signature of the last of them. An item
 * with none of these is meaningless outside its provider's store.
 */
function reasoningParts(item: JsonObject): ItemParts {
  const encrypted = asText(item.encrypted_content);
  const carried = encrypted === undefined ? undefined : decodeCarried(encrypted);
  if (carried?.kind === 'redacted') {
    return { parts: [{ type: 'reasoning', text: '', redacted: carried.data }] };
  }
  if (carried !== undefined) return { parts: [], carried };
  const itemId = asText(item.id);
  const common = itemId === undefined ? {} : { itemId };
  const parts: ReasoningPart[] = [];
  const thought = thoughtText(item);
  if (thought !== '') parts.push({ type: 'reasoning', text: thought, ...common });
  const summary = summaryText(item);
  if (summary !== '' || (thought === '' && encrypted !== undefined)) {
    parts.push({ type: 'reasoning', text: summary, summary: true, ...common });
  }
  const last = parts.pop();
  if (last !== undefined) parts.push(encrypted === undefined ? last : { ...last, signature: encrypted });
  return { parts };
}

/** A finished picture; undefined while there is none. */
function imagePart(item: JsonObject): ImagePart | undefined {
  const data = asText(item.result);
  if (item.type !== 'image_generation_call' || data === undefined) return undefined;
  const members = { ...item };
  delete members.result;
  delete members.type;
  const mediaType = `image/${asText(item.output_format) ?? 'png'}`;
  return { type: 'image', source: { kind: 'base64', mediaType, data }, extras: { [dialect]: members } };
}

function joined(list: unknown, separator: string): string {
  return asArray(list)
    .map((value) => stringOf(asObject(value)?.text))
    .filter((text) => text !== '')
    .join(separator);
}

function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Attaches a carried signature to the call that it names, else to the last text. Without either it is dropped. */
function attachSignature(parts: ChatPart[], carried: Carried): void {
  if (carried.kind === 'redacted') return;
  const at = parts.findLastIndex((part) =>
    carried.kind === 'call' ? part.type === 'tool-call' && part.id === carried.callId : part.type === 'text',
  );
  const part = parts[at];
  if (part !== undefined) parts[at] = { ...part, signature: carried.signature };
}

/** The log probabilities of a list in this wire's form; undefined when there are none. */
function decodeLogprobs(value: unknown): readonly TokenLogprob[] | undefined {
  const list = asArray(value)
    .map(asObject)
    .filter((one) => one !== undefined);
  if (list.length === 0) return undefined;
  return list.map((one) => ({
    ...decodeToken(one),
    top: asArray(one.top_logprobs)
      .map(asObject)
      .filter((other) => other !== undefined)
      .map(decodeToken),
  }));
}

function decodeToken(value: JsonObject): Omit<TokenLogprob, 'top'> {
  const { token, logprob, bytes } = value;
  const read = {
    token: typeof token === 'string' ? token : '',
    logprob: typeof logprob === 'number' ? logprob : 0,
  };
  if (bytes === null) return { ...read, bytes };
  return Array.isArray(bytes) ? { ...read, bytes: bytes as number[] } : read;
}

/** The citation of an annotation of an `output_text`; undefined for anything but an object. */
function decodeAnnotation(value: unknown): Citation | undefined {
  const annotation = asObject(value);
  if (annotation === undefined) return undefined;
  const url = asText(annotation.url);
  const citation: { -readonly [K in keyof Citation]: Citation[K] } = {
    kind: url === undefined ? 'file' : 'url',
    raw: { dialect, value: annotation },
  };
  if (url !== undefined) citation.url = url;
  const title = asText(annotation.title) ?? asText(annotation.filename);
  if (title !== undefined) citation.title = title;
  const start = asCount(annotation.start_index);
  if (start !== undefined) citation.start = start;
  const end = asCount(annotation.end_index);
  if (end !== undefined) citation.end = end;
  const fileId = asText(annotation.file_id);
  if (fileId !== undefined) citation.fileId = fileId;
  return citation;
}

/**
 * The citation as an annotation. `length` is that of the text so far: a citation without a position covers all of it. A
 * document without an address is cited by its title, as a file.
 */
function encodeAnnotation(citation: Citation, length: number): JsonObject {
  if (citation.raw?.dialect === dialect) return citation.raw.value;
  const { url, title } = citation;
  if (url !== undefined) {
    return {
      type: 'url_citation',
      start_index: citation.start ?? 0,
      end_index: citation.end ?? length,
      url,
      title: title ?? url,
    };
  }
  return {
    type: 'file_citation',
    index: citation.end ?? length,
    file_id: citation.fileId ?? `document_${citation.document ?? 0}`,
    filename: title ?? citation.fileId ?? `document_${citation.document ?? 0}`,
  };
}
