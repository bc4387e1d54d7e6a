import type {
  ChatAnswer,
  ChatChoice,
  Finish,
  FinishReason,
  TokenLogprob,
} from '../../../core/dialects/canonical/chat-answer.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatPart, Citation } from '../../../core/dialects/canonical/chat-part.ts';
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
import type { Usage } from '../../../core/dialects/usage.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';

/** Number in the id that Cohere gives a document without one: `doc:3`. */
const numberedDocument = /^doc:(\d+)$/;

/** True for a citation of the answer's text, not of its thinking or its plan. */
export function isOfText(citation: JsonObject): boolean {
  return citation.type === undefined || citation.type === 'TEXT_CONTENT';
}

/**
 * One citation for each source of a span of `text`. Cohere counts code points; when those and UTF-16 units differ, the
 * position is found by the cited words.
 */
export function decodeCitations(value: JsonObject, text: string): Citation[] {
  const sources = asArray(value.sources);
  if (sources.length === 0) return [oneCitation(value, undefined, text)];
  return sources.map((source) => oneCitation(value, asObject(source), text));
}

function oneCitation(value: JsonObject, source: JsonObject | undefined, text: string): Citation {
  const said = source === undefined ? value : Object.assign({}, value, { sources: [source] });
  const citation: { -readonly [K in keyof Citation]: Citation[K] } = {
    kind: 'document',
    raw: { dialect: 'cohere-v2', value: said },
  };
  const document = asObject(source?.document) ?? {};
  const url = asText(document.url);
  const title = asText(document.title);
  const quote = asText(document.snippet) ?? asText(document.text);
  const number = numberedDocument.exec(asText(source?.id) ?? '')?.[1];
  if (url !== undefined) {
    citation.kind = 'url';
    citation.url = url;
  }
  if (title !== undefined) citation.title = title;
  if (quote !== undefined) citation.quote = quote;
  if (number !== undefined) citation.document = Number(number);
  const span = spanOf(value, text);
  if (span !== undefined) [citation.start, citation.end] = span;
  return citation;
}

function spanOf(value: JsonObject, text: string): readonly [number, number] | undefined {
  const start = asCount(value.start);
  const end = asCount(value.end);
  if (start === undefined || end === undefined) return undefined;
  const cited = asText(value.text);
  if (cited === undefined || text.slice(start, end) === cited) return [start, end];
  const characters = Array.from(text);
  if (characters.slice(start, end).join('') !== cited) return [start, end];
  const from = characters.slice(0, start).join('').length;
  return [from, from + cited.length];
}

const reasons: Readonly<Record<string, FinishReason>> = {
  COMPLETE: 'stop',
  STOP_SEQUENCE: 'stop',
  MAX_TOKENS: 'length',
  TOOL_CALL: 'tool-calls',
  ERROR: 'error',
  TIMEOUT: 'error',
  ERROR_LIMIT: 'length',
  ERROR_TOXIC: 'content-filter',
};

/** Finish of an answer; it waits for tools exactly when it holds calls (`hasCalls`). */
export function decodeFinish(raw: string, hasCalls: boolean): Finish {
  const reason = Object.hasOwn(reasons, raw) ? (reasons[raw] as FinishReason) : 'unknown';
  if (reason === 'tool-calls' && !hasCalls) return { reason: 'stop', raw };
  return { reason: reason === 'stop' && hasCalls ? 'tool-calls' : reason, raw };
}

const known: ReadonlySet<string> = new Set(['id', 'message', 'finish_reason', 'usage', 'logprobs']);

interface Placed {
  readonly parts: readonly ChatPart[];
  readonly unplaced: readonly JsonObject[];
}

/** Reads a complete answer. Throws GatewayError `upstream_invalid` for anything else. */
export function decodeCohereAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  const json = parseExactObject(body.toString('utf8'));
  const message = asObject(json?.message);
  if (json === undefined || message === undefined) {
    throw new GatewayError(
      'upstream_invalid',
      'The provider answered with something that is no Cohere chat answer: an object with "message" was expected.',
    );
  }
  const { parts, unplaced } = placeCitations(
    [...planPart(message), ...contentParts(message.content), ...callParts(message, context)],
    asArray(message.citations),
  );
  const hasCalls = parts.some(({ type }) => type === 'tool-call');
  const usage = decodeUsage(json.usage);
  const extras = extrasOf(json, unplaced);
  const logprobs = logprobsOf(json.logprobs);
  const choice: ChatChoice = {
    index: 0,
    parts,
    finish: decodeFinish(asText(json.finish_reason) ?? '', hasCalls),
    ...(logprobs !== undefined && { logprobs }),
  };
  return {
    id: asText(json.id) ?? '',
    model: context.request.model,
    choices: [choice],
    ...(usage !== undefined && { usage }),
    ...(extras !== undefined && { extras: { 'cohere-v2': extras } }),
  };
}

/** Marks a plan, to distinguish it from other reasoning in a later history. */
export const planMark = { 'cohere-v2': { tool_plan: true } } as const;

/** Arguments as JSON text: tools without parameters get `null`, nothing, or an object. */
function argumentsOf(value: unknown): string {
  if (typeof value === 'object' && value !== null) return stringifyExact(value);
  const text = typeof value === 'string' ? value.trim() : '';
  return text === '' || text === 'null' ? '{}' : (value as string);
}

function planPart({ tool_plan: plan }: JsonObject): ChatPart[] {
  const text = asText(plan);
  return text === undefined ? [] : [{ type: 'reasoning', text, extras: planMark }];
}

function contentParts(content: unknown): ChatPart[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  return asArray(content).flatMap((one): ChatPart[] => {
    const block = asObject(one);
    if (block === undefined) return [];
    if (block.type === 'thinking' && typeof block.thinking === 'string')
      return [{ type: 'reasoning', text: block.thinking }];
    if (typeof block.text === 'string') return [{ type: 'text', text: block.text }];
    return [{ type: 'opaque', dialect: 'cohere-v2', value: block }];
  });
}

function callParts({ tool_calls: calls }: JsonObject, context: DecodeContext): ChatPart[] {
  const customs = customNames(context.request);
  return asArray(calls).flatMap((one): ChatPart[] => {
    const call = asObject(one);
    const called = asObject(call?.function);
    const name = asText(called?.name);
    if (call === undefined || called === undefined || name === undefined) return [];
    const id = asText(call.id) ?? context.newId('call_');
    const given = argumentsOf(called.arguments);
    return [
      customs.has(name)
        ? { type: 'tool-call', kind: 'custom', id, name, arguments: customInput(given) }
        : { type: 'tool-call', kind: 'function', id, name, arguments: given },
    ];
  });
}

/** Puts citations on the texts that they refer to; `unplaced` are those of no text. */
function placeCitations(parts: readonly ChatPart[], citations: readonly unknown[]): Placed {
  const content = parts.filter(({ type, extras }) => type !== 'tool-call' && extras !== planMark);
  const firstText = content.find(({ type }) => type === 'text');
  const unplaced: JsonObject[] = [];
  const placed = new Map<ChatPart, Citation[]>();
  for (const one of citations) {
    const citation = asObject(one);
    if (citation === undefined) continue;
    const index = asCount(citation.content_index);
    const part = index === undefined ? firstText : content[index];
    if (part?.type !== 'text' || !isOfText(citation)) unplaced.push(citation);
    else placed.set(part, [...(placed.get(part) ?? []), ...decodeCitations(citation, part.text)]);
  }
  const cited = parts.map((part) => {
    const citations = placed.get(part);
    return citations === undefined || part.type !== 'text' ? part : { ...part, citations };
  });
  return { parts: cited, unplaced };
}

function logprobsOf(value: unknown): readonly TokenLogprob[] | undefined {
  const items = asArray(value).flatMap((one) => decodeLogprob(one) ?? []);
  return items.length === 0 ? undefined : items;
}

/** Members that only Cohere has: the billed units, citations of thoughts, and unknown members. */
function extrasOf(json: JsonObject, unplaced: readonly JsonObject[]): JsonObject | undefined {
  const extras = Object.fromEntries(Object.entries(json).filter(([name]) => !known.has(name)));
  const billed = asObject(json.usage)?.billed_units;
  if (billed !== undefined) extras.billed_units = billed;
  if (unplaced.length > 0) extras.citations = unplaced;
  return Object.keys(extras).length === 0 ? undefined : extras;
}

/**
 * Log probability of a piece of text. Cohere gives one number per token, but the text of the tokens only joined: the
 * piece counts as one token with the sum. Undefined when there is none.
 */
export function decodeLogprob(value: unknown): TokenLogprob | undefined {
  const item = asObject(value);
  if (item === undefined) return undefined;
  const numbers = asArray(item.logprobs).filter((one) => typeof one === 'number');
  if (numbers.length === 0) return undefined;
  const token = typeof item.text === 'string' ? item.text : '';
  return { token, logprob: numbers.reduce((sum, one) => sum + one, 0), top: [] };
}

/**
 * Reads `usage` of a chat answer or `meta` of another one. `tokens` counts all tokens that the model read and wrote,
 * cached tokens included; `billed_units` excludes tokens that Cohere adds to the prompt and is used when `tokens` is
 * missing. Undefined when no tokens are counted (a rerank billed by searches).
 */
export function decodeUsage(value: unknown): Usage | undefined {
  const usage = asObject(value);
  if (usage === undefined) return undefined;
  const tokens = asObject(usage.tokens) ?? {};
  const billed = asObject(usage.billed_units) ?? {};
  const input = asCount(tokens.input_tokens) ?? billedInput(billed.input_tokens, billed.image_tokens);
  const output = asCount(tokens.output_tokens) ?? asCount(billed.output_tokens);
  if (input === undefined && output === undefined) return undefined;
  const promptTokens = input ?? 0;
  const completionTokens = output ?? 0;
  return {
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + completionTokens,
    cachedTokens: asCount(usage.cached_tokens) ?? asCount(tokens.cached_tokens) ?? 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
  };
}

function billedInput(text: unknown, images: unknown): number | undefined {
  const words = asCount(text);
  const pictures = asCount(images);
  return words === undefined && pictures === undefined ? undefined : (words ?? 0) + (pictures ?? 0);
}

/** Names of the tools whose calls become free input. */
export function customNames(request: ChatRequest): ReadonlySet<string> {
  return new Set(request.tools.flatMap((tool) => (tool.type === 'custom' ? [tool.name] : [])));
}

/** The free input in a call's arguments; the arguments themselves when the model wrote another shape. */
export function customInput(given: string): string {
  const members = parseExactObject(given);
  if (typeof members?.input === 'string') return members.input;
  return members !== undefined && Object.keys(members).length === 0 ? '' : given;
}
