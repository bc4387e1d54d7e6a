import type { FinishReason, Finish, TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatEventReader, DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import { ChatEventBuilder, cutShort } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { Citation } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { createPayloadReader } from '../../framing/payload-reader.ts';
import type { PayloadReader, StreamPayload } from '../../framing/stream-payload.ts';
import {
  asArray,
  asCount,
  asObject,
  asText,
  type JsonObject,
  parseObject,
  stringifyExact,
  parseExactObject,
} from '../json-reading.ts';
import { cohereErrors } from './errors.ts';

/** Decodes pieces that answers and streams share. */
export const cohereAnswer = {
  isOfText,
  citations: decodeCitations,
  finish: decodeFinish,
  logprob: decodeLogprob,
  usage: decodeUsage,
  customNames,
  customInput,
};

/** Number in the id that Cohere gives a document without one: `doc:3`. */
const numberedDocument = /^doc:(\d+)$/;

/** True for a citation of the answer's text, not of its thinking or its plan. */
function isOfText(citation: JsonObject): boolean {
  return citation.type === undefined || citation.type === 'TEXT_CONTENT';
}

/**
 * One citation for each source of a span of `text`. Cohere counts code points; when those and UTF-16 units differ, the
 * position is found by the cited words.
 */
function decodeCitations(value: JsonObject, text: string): Citation[] {
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
function decodeFinish(raw: string, hasCalls: boolean): Finish {
  const reason = Object.hasOwn(reasons, raw) ? (reasons[raw] as FinishReason) : 'unknown';
  if (reason === 'tool-calls' && !hasCalls) return { reason: 'stop', raw };
  return { reason: reason === 'stop' && hasCalls ? 'tool-calls' : reason, raw };
}

/** Marks a plan, to distinguish it from other reasoning in a later history. */
export const planMark = { 'cohere-v2': { tool_plan: true } } as const;

/**
 * Log probability of a piece of text. Cohere gives one number per token, but the text of the tokens only joined: the
 * piece counts as one token with the sum. Undefined when there is none.
 */
function decodeLogprob(value: unknown): TokenLogprob | undefined {
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
function decodeUsage(value: unknown): Usage | undefined {
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
function customNames(request: ChatRequest): ReadonlySet<string> {
  return new Set(request.tools.flatMap((tool) => (tool.type === 'custom' ? [tool.name] : [])));
}

/** The free input in a call's arguments; the arguments themselves when the model wrote another shape. */
function customInput(given: string): string {
  const members = parseExactObject(given);
  if (typeof members?.input === 'string') return members.input;
  return members !== undefined && Object.keys(members).length === 0 ? '' : given;
}

interface StreamedCall {
  readonly key: string;
  readonly id: string;
  /** The input of a custom tool is emitted at the end as a whole: it is wrapped in the arguments. */
  readonly isCustom: boolean;
  /** Received text that may still turn out to be `null` or empty; undefined once that is excluded. */
  undecided: string | undefined;
}

/**
 * Streams tool calls so that their arguments are one JSON text: a tool without parameters gets `null` or nothing from
 * Cohere, which becomes `{}`.
 */
class CallArguments {
  private readonly builder: ChatEventBuilder;
  private readonly context: DecodeContext;
  private readonly customs: ReadonlySet<string>;
  private readonly byIndex = new Map<number, StreamedCall>();
  private count = 0;
  private lastIndex = -1;

  constructor(builder: ChatEventBuilder, context: DecodeContext) {
    this.builder = builder;
    this.context = context;
    this.customs = customNames(context.request);
  }

  /** At least one call was made. */
  get any(): boolean {
    return this.count > 0;
  }

  /** A second start of the same call is ignored. */
  start(index: unknown, call: JsonObject): void {
    const at = asCount(index) ?? this.lastIndex + 1;
    const given = asText(call.id);
    const running = this.byIndex.get(at);
    if (running !== undefined && (given === undefined || given === running.id)) return;
    const called = asObject(call.function) ?? {};
    const name = asText(called.name);
    if (name === undefined) return;
    if (running !== undefined) this.close(running);
    const id = given ?? this.context.newId('call_');
    const isCustom = this.customs.has(name);
    const started: StreamedCall = { key: `call:${this.count}`, id, isCustom, undecided: '' };
    this.count++;
    this.lastIndex = at;
    this.byIndex.set(at, started);
    const kind = isCustom ? 'custom' : 'function';
    this.builder.open(0, started.key, { type: 'tool-call', kind, id, name, arguments: '' });
    this.feed(started, called.arguments);
  }

  delta(index: unknown, call: JsonObject): void {
    const running = this.byIndex.get(asCount(index) ?? this.lastIndex);
    if (running !== undefined) this.feed(running, asObject(call.function)?.arguments);
  }

  end(index: unknown): void {
    const running = this.byIndex.get(asCount(index) ?? this.lastIndex);
    if (running !== undefined) this.close(running);
  }

  endAll(): void {
    for (const call of this.byIndex.values()) this.close(call);
  }

  private feed(call: StreamedCall, value: unknown): void {
    const text =
      typeof value === 'string' ? value : asObject(value) === undefined ? '' : stringifyExact(value);
    if (call.undecided === undefined) return this.builder.arguments(0, call.key, text);
    call.undecided += text;
    if (call.isCustom || 'null'.startsWith(call.undecided.trim())) return;
    this.builder.arguments(0, call.key, call.undecided);
    call.undecided = undefined;
  }

  /** Emits text that looked like the start of `null` but is not. */
  private close(call: StreamedCall): void {
    const rest = call.undecided?.trim() ?? '';
    call.undecided = undefined;
    if (rest !== '' && rest !== 'null')
      this.builder.arguments(0, call.key, call.isCustom ? customInput(rest) : rest);
    this.builder.close(0, call.key);
  }
}

const planKey = 'plan';

/** Reads the events of `POST /v2/chat` with `stream`: https://docs.cohere.com/v2/docs/streaming */
export class CohereEventReader implements ChatEventReader {
  private readonly payloads: PayloadReader;
  private readonly context: DecodeContext;
  private readonly builder = new ChatEventBuilder();
  private readonly calls: CallArguments;
  /** Key of the text that citations refer to. It stays open after its end, because they follow it. */
  private textKey = '';
  private text = '';
  private lastContent = -1;
  /** Citations outside a text (of thoughts, of a plan, of a finished text). */
  private readonly unplaced: JsonObject[] = [];

  constructor(contentType: string, context: DecodeContext) {
    this.payloads = createPayloadReader(contentType);
    this.context = context;
    this.calls = new CallArguments(this.builder, context);
  }

  push(chunk: Uint8Array): readonly ChatEvent[] {
    for (const payload of this.payloads.push(chunk)) this.read(payload);
    return this.builder.take();
  }

  finish(): readonly ChatEvent[] {
    for (const payload of this.payloads.finish()) this.read(payload);
    this.builder.error(cutShort);
    return this.builder.take();
  }

  private read({ data, event, error }: StreamPayload): void {
    if (this.builder.ended) return;
    if (error !== undefined) return this.fail(error);
    const text = data.trim();
    if (text === '' || text === '[DONE]') return;
    const json = parseObject(text);
    if (json === undefined) return this.fail('The provider sent an event that is no JSON object.');
    this.handle(asText(json.type) ?? event, json);
  }

  private handle(type: string, json: JsonObject): void {
    switch (type) {
      case 'message-start':
        this.builder.start({ id: asText(json.id) ?? '', model: this.context.request.model });
        return;
      case 'content-start':
        return this.content(json, true);
      case 'content-delta':
        return this.content(json, false);
      case 'content-end':
        return this.endContent(json);
      case 'tool-plan-delta':
        return this.plan(json);
      case 'tool-call-start':
        this.endText();
        this.builder.close(0, planKey);
        return this.calls.start(json.index, asObject(messageOf(json).tool_calls) ?? {});
      case 'tool-call-delta':
        return this.calls.delta(json.index, asObject(messageOf(json).tool_calls) ?? {});
      case 'tool-call-end':
        return this.calls.end(json.index);
      case 'citation-start':
        return this.cite(messageOf(json).citations);
      case 'message-end':
        return this.end(asObject(json.delta) ?? {});
      default:
        if (json.error !== undefined || typeof json.message === 'string') this.reportError(json);
    }
  }

  private content(json: JsonObject, starts: boolean): void {
    const block = asObject(messageOf(json).content);
    if (block === undefined) return;
    const index = asCount(json.index) ?? (starts ? this.lastContent + 1 : Math.max(this.lastContent, 0));
    const key = contentKey(index);
    const isThinking = block.type === 'thinking' || typeof block.thinking === 'string';
    const text = isThinking ? block.thinking : block.text;
    if (starts || !this.builder.isOpen(0, key)) this.open(index, block, isThinking);
    if (typeof text !== 'string') return;
    if (isThinking) return this.builder.reasoning(0, key, text);
    const logprob = decodeLogprob(json.logprobs);
    this.builder.text(0, key, text, logprob === undefined ? undefined : [logprob]);
    if (key === this.textKey) this.text += text;
  }

  private open(index: number, block: JsonObject, isThinking: boolean): void {
    const key = contentKey(index);
    if (this.builder.isOpen(0, key)) return;
    this.endText();
    this.builder.close(0, planKey);
    this.lastContent = index;
    if (isThinking) this.builder.open(0, key, { type: 'reasoning', text: '' });
    else if (block.type === undefined || block.type === 'text') {
      this.builder.open(0, key, { type: 'text', text: '' });
      this.textKey = key;
      this.text = '';
    } else this.builder.open(0, key, { type: 'opaque', dialect: 'cohere-v2', value: block });
  }

  private endContent(json: JsonObject): void {
    const key = contentKey(asCount(json.index) ?? Math.max(this.lastContent, 0));
    if (key !== this.textKey) this.builder.close(0, key);
  }

  private endText(): void {
    if (this.textKey === '') return;
    this.builder.close(0, this.textKey);
    this.textKey = '';
  }

  private plan(json: JsonObject): void {
    const text = messageOf(json).tool_plan;
    if (typeof text !== 'string' || text === '') return;
    if (!this.builder.isOpen(0, planKey))
      this.builder.open(0, planKey, { type: 'reasoning', text: '', extras: planMark });
    this.builder.reasoning(0, planKey, text);
  }

  private cite(value: unknown): void {
    const one = asObject(value);
    for (const item of one === undefined ? asArray(value) : [one]) {
      const citation = asObject(item);
      if (citation === undefined) continue;
      const index = asCount(citation.content_index);
      const isHere = this.textKey !== '' && (index === undefined || contentKey(index) === this.textKey);
      if (!isHere || !isOfText(citation)) this.unplaced.push(citation);
      else
        for (const decoded of decodeCitations(citation, this.text))
          this.builder.citation(0, this.textKey, decoded);
    }
  }

  private end(delta: JsonObject): void {
    this.calls.endAll();
    const usage = decodeUsage(delta.usage);
    if (usage !== undefined) this.builder.usage(usage);
    const extras: JsonObject = {};
    const billed = asObject(delta.usage)?.billed_units;
    if (billed !== undefined) extras.billed_units = billed;
    if (this.unplaced.length > 0) extras.citations = this.unplaced;
    if (Object.keys(extras).length > 0) this.builder.extras({ 'cohere-v2': extras });
    const raw = asText(delta.finish_reason) ?? '';
    const finish = decodeFinish(raw, this.calls.any);
    if (finish.reason === 'error') {
      const message = asText(delta.error) ?? `The provider ended its answer with ${raw}.`;
      return this.builder.error({ status: raw === 'TIMEOUT' ? 504 : 500, message, type: raw });
    }
    this.builder.finish(0, finish);
    this.builder.complete();
  }

  private reportError(json: JsonObject): void {
    const status = asCount(json.status_code) ?? asCount(json.status) ?? 0;
    const error = cohereErrors.ofObject(json, status >= 400 && status <= 599 ? status : 502);
    if (error !== undefined) this.builder.error(error);
  }

  private fail(message: string): void {
    this.builder.error({ status: 502, message, type: 'upstream_error' });
  }
}

function contentKey(index: number): string {
  return `content:${index}`;
}

function messageOf(json: JsonObject): JsonObject {
  return asObject(asObject(json.delta)?.message) ?? {};
}
