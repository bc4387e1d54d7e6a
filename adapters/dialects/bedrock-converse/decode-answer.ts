import type { ChatAnswer, Finish, FinishReason } from '../../../core/dialects/canonical/chat-answer.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type {
  ChatPart,
  Citation,
  Extras,
  ProviderToolPart,
  TextPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import {
  asArray,
  asCount,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { answerToolName } from '../anthropic-messages/content-blocks.ts';

/** Reads uses of tools. */
export const usedTool = { name: toolUseName, id: toolUseIdOf, inputText, provider: providerTool };

/** Decodes an answer, or the pieces that a stream shares with it. */
export const converseAnswer = {
  decode: decodeConverse,
  usage: decodeConverseUsage,
  finish: readFinish,
  fieldExtras,
  extras: answerExtras,
  imagePart,
  citation: readCitation,
};

/** Meaning of a `toolUse` block in an answer. */
export type ToolUseKind =
  /** The client must answer it. */
  | 'function'
  | 'custom'
  /** Its input is the answer. */
  | 'answer'
  /** Run by the provider. */
  | 'provider';

/** Classifies the tool calls of an answer by the tools of its request. */
export class AnswerTools {
  /** The tool whose input is the answer, when the request has a schema. */
  readonly answerName: string | undefined;
  readonly #custom: ReadonlySet<string>;

  constructor(request: ChatRequest) {
    this.answerName = answerToolName(request);
    this.#custom = new Set(request.tools.flatMap((tool) => (tool.type === 'custom' ? [tool.name] : [])));
  }

  kindOf(toolUse: JsonObject, name: string): ToolUseKind {
    if (toolUse.type === 'server_tool_use') return 'provider';
    if (name === this.answerName) return 'answer';
    return this.#custom.has(name) ? 'custom' : 'function';
  }
}

/**
 * Name of the called tool. OpenAI's models may append a mark of their own format to it (`json<|channel|>commentary`).
 */
function toolUseName(toolUse: JsonObject): string {
  return (asText(toolUse.name) ?? '').replace(/<\|.*$/s, '');
}

/** The id of the call, or a new one. */
function toolUseIdOf(toolUse: JsonObject, { newId }: DecodeContext): string {
  return asText(toolUse.toolUseId) ?? newId('call_');
}

/** The input of a call as JSON text; of a custom tool, its free text. */
function inputText(input: unknown, kind: ToolUseKind): string {
  if (kind === 'custom') {
    const text = asObject(input)?.input;
    if (typeof text === 'string') return text;
  }
  if (typeof input === 'string') return input;
  return input === undefined || input === null ? '{}' : stringifyExact(input);
}

/**
 * Reads a `usage` object. Its `inputTokens` exclude tokens read from and written to the cache; `totalTokens` include
 * them. Undefined when it counts no tokens.
 */
function decodeConverseUsage(value: unknown): Usage | undefined {
  const usage = asObject(value);
  const input = asCount(usage?.inputTokens);
  const output = asCount(usage?.outputTokens);
  if (usage === undefined || (input === undefined && output === undefined)) return undefined;
  const cachedTokens = asCount(usage.cacheReadInputTokens) ?? asCount(usage.cacheReadInputTokenCount) ?? 0;
  const cacheWriteTokens =
    asCount(usage.cacheWriteInputTokens) ?? asCount(usage.cacheWriteInputTokenCount) ?? 0;
  const promptTokens = (input ?? 0) + cachedTokens + cacheWriteTokens;
  const completionTokens = output ?? 0;
  return {
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + completionTokens,
    cachedTokens,
    cacheWriteTokens,
    reasoningTokens: 0,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
  };
}

const reasons: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  stop: 'stop',
  stop_sequence: 'stop',
  tool_use: 'stop',
  max_tokens: 'length',
  length: 'length',
  model_context_window_exceeded: 'length',
  guardrail_intervened: 'content-filter',
  content_filtered: 'content-filter',
  malformed_model_output: 'error',
  malformed_tool_use: 'error',
};

/**
 * Finish of an answer. `called`: it holds a call that the client must answer, which some models report as an end of the
 * turn. `fields` are its `additionalModelResponseFields`.
 */
function readFinish(stopReason: unknown, called: boolean, fields: unknown): Finish {
  const raw = asText(stopReason) ?? '';
  const reason = Object.hasOwn(reasons, raw) ? (reasons[raw] as FinishReason) : 'unknown';
  const more = asObject(fields);
  const stopSequence = asText(more?.stop_sequence) ?? asText(asObject(more?.delta)?.stop_sequence);
  return {
    reason: called && reason === 'stop' ? 'tool-calls' : reason,
    raw,
    ...(stopSequence === undefined ? {} : { stopSequence }),
  };
}

/** The model's own members, when the caller asked for some: otherwise they hold the stop sequence alone. */
function fieldExtras(fields: unknown, request: ChatRequest): Extras | undefined {
  const asked = request.extras?.['bedrock-converse']?.additionalModelResponseFieldPaths;
  return asked === undefined || asObject(fields) === undefined
    ? undefined
    : { 'bedrock-converse': { additionalModelResponseFields: fields } };
}

/**
 * Members of an answer that only this dialect has: the guardrail's trace, performance, tier, cache details, and the
 * text that preceded an answer given through a tool.
 */
function answerExtras(told: JsonObject, preamble = ''): JsonObject | undefined {
  const extras: JsonObject = {};
  if (preamble !== '') extras.preamble = preamble;
  for (const name of ['trace', 'performanceConfig', 'serviceTier', 'metrics']) {
    if (told[name] !== undefined && told[name] !== null) extras[name] = told[name];
  }
  const usage = asObject(told.usage);
  if (usage?.cacheDetails !== undefined) extras.cacheDetails = usage.cacheDetails;
  const server = asObject(usage?.serverToolUsage);
  if (server !== undefined && Object.keys(server).length > 0) extras.serverToolUsage = server;
  return Object.keys(extras).length > 0 ? extras : undefined;
}

/** A complete answer of `Converse`. The wire has no id of its own; the model is the requested one. */
function decodeConverse(body: Buffer, context: DecodeContext): ChatAnswer {
  const answer = parseExactObject(body.toString('utf8'));
  const message = asObject(asObject(answer?.output)?.message);
  if (answer === undefined || message === undefined) {
    throw new GatewayError(
      'upstream_invalid',
      'The provider\'s answer is none of Bedrock Converse: it has no "output.message". Check the base URL of the provider.',
    );
  }
  const { parts, called, preamble } = readContent(asArray(message.content), context);
  const extras = answerExtras(answer, preamble);
  const more = fieldExtras(answer.additionalModelResponseFields, context.request);
  const tier = asText(asObject(answer.serviceTier)?.type);
  const usage = decodeConverseUsage(answer.usage);
  return {
    id: '',
    model: context.request.model,
    choices: [
      {
        index: 0,
        parts,
        finish: readFinish(answer.stopReason, called, answer.additionalModelResponseFields),
        ...(more === undefined ? {} : { extras: more }),
      },
    ],
    ...(usage === undefined ? {} : { usage }),
    ...(tier === undefined ? {} : { serviceTier: tier }),
    ...(extras === undefined ? {} : { extras: { 'bedrock-converse': extras } }),
  };
}

interface Content {
  readonly parts: ChatPart[];
  /** The answer holds a call that the client must answer. */
  readonly called: boolean;
  /** Text before an answer given through the tool: not part of the requested JSON. */
  readonly preamble: string;
}

function readContent(blocks: readonly unknown[], context: DecodeContext): Content {
  const tools = new AnswerTools(context.request);
  const parts: ChatPart[] = [];
  const said = new Set<ChatPart>();
  let answered = false;
  for (const value of blocks) {
    const block = asObject(value);
    if (block === undefined) continue;
    const toolUse = asObject(block.toolUse);
    if (toolUse !== undefined && tools.kindOf(toolUse, toolUseName(toolUse)) === 'answer') {
      answered = true;
      parts.push({ type: 'text', text: inputText(toolUse.input, 'answer') });
      continue;
    }
    const part = readBlock(block, tools, context);
    if (part === undefined) continue;
    parts.push(part);
    if (part.type === 'text') said.add(part);
  }
  const called = parts.some(({ type }) => type === 'tool-call');
  if (!answered) return { parts, called, preamble: '' };
  const preamble = [...said].map((part) => ('text' in part ? part.text : '')).join('');
  return { parts: parts.filter((part) => !said.has(part)), called, preamble };
}

function readBlock(block: JsonObject, tools: AnswerTools, context: DecodeContext): ChatPart | undefined {
  const text = block.text;
  if (typeof text === 'string') return text === '' ? undefined : { type: 'text', text };
  const reasoning = asObject(block.reasoningContent);
  if (reasoning !== undefined) return readReasoning(reasoning);
  const toolUse = asObject(block.toolUse);
  if (toolUse !== undefined) return readToolUse(toolUse, tools, context);
  const toolResult = asObject(block.toolResult);
  if (toolResult !== undefined) return readToolResult(toolResult, context);
  const cited = asObject(block.citationsContent);
  if (cited !== undefined) return readCited(cited);
  const image = asObject(block.image);
  const bytes = asText(asObject(image?.source)?.bytes);
  if (image !== undefined && bytes !== undefined) return imagePart(asText(image.format), bytes);
  return { type: 'opaque', dialect: 'bedrock-converse', value: block };
}

/** A picture that the model made. */
function imagePart(format: string | undefined, data: string): ChatPart {
  return { type: 'image', source: { kind: 'base64', mediaType: `image/${format ?? 'png'}`, data } };
}

function readReasoning(reasoning: JsonObject): ChatPart | undefined {
  const redacted = asText(reasoning.redactedContent) ?? asText(asObject(reasoning.redactedReasoning)?.data);
  if (redacted !== undefined) return { type: 'reasoning', text: '', redacted };
  const thought = asObject(reasoning.reasoningText);
  const text = asText(thought?.text) ?? '';
  const signature = asText(thought?.signature);
  if (signature !== undefined) return { type: 'reasoning', text, signature };
  return text === '' ? undefined : { type: 'reasoning', text };
}

function readToolUse(toolUse: JsonObject, tools: AnswerTools, context: DecodeContext): ChatPart {
  const name = toolUseName(toolUse);
  const kind = tools.kindOf(toolUse, name);
  const id = toolUseIdOf(toolUse, context);
  if (kind === 'provider') return providerTool('call', id, name, { toolUse });
  return {
    type: 'tool-call',
    id,
    name,
    kind: kind === 'custom' ? 'custom' : 'function',
    arguments: inputText(toolUse.input, kind),
  };
}

/** A result in an answer belongs to a tool that the provider ran. */
function readToolResult(toolResult: JsonObject, context: DecodeContext): ProviderToolPart {
  const name = (asText(toolResult.type) ?? '').replace(/_result$/, '');
  return providerTool('result', toolUseIdOf(toolResult, context), name, { toolResult });
}

/** A call or a result of a tool that the provider runs; `value` is the whole block. */
function providerTool(
  phase: 'call' | 'result',
  id: string,
  name: string,
  value: JsonObject,
): ProviderToolPart {
  return { type: 'provider-tool', dialect: 'bedrock-converse', phase, id, name, value };
}

function readCited(cited: JsonObject): TextPart {
  const text = asArray(cited.content)
    .map((piece) => asText(asObject(piece)?.text) ?? '')
    .join('');
  const citations = asArray(cited.citations).flatMap((value) => {
    const citation = asObject(value);
    return citation === undefined ? [] : [readCitation(citation)];
  });
  return { type: 'text', text, ...(citations.length === 0 ? {} : { citations }) };
}

/** A citation of an answer, whole or as a stream delta. Its positions refer to the source. */
function readCitation(value: JsonObject): Citation {
  const location = asObject(value.location);
  const source = asText(value.source);
  const url =
    asText(asObject(location?.web)?.url) ?? (source?.startsWith('http') === true ? source : undefined);
  const quote = asArray(value.sourceContent)
    .map((piece) => asText(asObject(piece)?.text) ?? '')
    .join('');
  const citation: { -readonly [K in keyof Citation]: Citation[K] } = {
    kind: url === undefined ? 'document' : 'url',
    raw: { dialect: 'bedrock-converse', value },
  };
  if (url !== undefined) citation.url = url;
  const title = asText(value.title);
  if (title !== undefined) citation.title = title;
  if (quote !== '') citation.quote = quote;
  const document = documentOf(location);
  if (document !== undefined) citation.document = document;
  return citation;
}

function documentOf(location: JsonObject | undefined): number | undefined {
  for (const kind of ['documentChar', 'documentPage', 'documentChunk']) {
    const index = asCount(asObject(location?.[kind])?.documentIndex);
    if (index !== undefined) return index;
  }
  return undefined;
}
