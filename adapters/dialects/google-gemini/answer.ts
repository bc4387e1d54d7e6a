import { SseSplitter, readSseFrame } from '../../../core/base/sse.ts';
import type { Finish, FinishReason, TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import type { Citation } from '../../../core/dialects/canonical/chat-part.ts';
import type { StreamScanner, AnswerFacts } from '../../../core/dialects/dialect.ts';
import { JsonArrayReader } from '../../framing/json-array.ts';
import { watch, hasMember } from '../frame-scanner.ts';
import {
  asArray,
  asCount,
  asObject,
  asText,
  type JsonObject,
  asBuffer,
  parseObject,
} from '../json-reading.ts';
import { geminiErrors } from './errors.ts';
import { geminiMembers } from './parts.ts';
import type { Usage } from '../../../core/dialects/usage.ts';

/** Usage, to and from its members. */
export const geminiUsage = { decode: decodeGeminiUsage, encode: encodeGeminiUsage };

/** Finish reasons, to and from the wire. */
export const finishReason = { decode: decodeFinishReason, encode: encodeFinishReason };

/** Finish reasons of the wire other than a normal stop. */
const meanings: Readonly<Record<string, FinishReason>> = {
  STOP: 'stop',
  MAX_TOKENS: 'length',
  SAFETY: 'content-filter',
  RECITATION: 'content-filter',
  BLOCKLIST: 'content-filter',
  PROHIBITED_CONTENT: 'content-filter',
  SPII: 'content-filter',
  MODEL_ARMOR: 'content-filter',
  IMAGE_SAFETY: 'content-filter',
  IMAGE_PROHIBITED_CONTENT: 'content-filter',
  IMAGE_RECITATION: 'content-filter',
  MALFORMED_FUNCTION_CALL: 'error',
  MALFORMED_RESPONSE: 'error',
  UNEXPECTED_TOOL_CALL: 'error',
  TOO_MANY_TOOL_CALLS: 'error',
  MISSING_THOUGHT_SIGNATURE: 'error',
  NO_IMAGE: 'error',
  LANGUAGE: 'unknown',
  OTHER: 'unknown',
  IMAGE_OTHER: 'unknown',
  FINISH_REASON_UNSPECIFIED: 'unknown',
};

const words: Readonly<Record<FinishReason, string>> = {
  stop: 'STOP',
  'tool-calls': 'STOP',
  length: 'MAX_TOKENS',
  'content-filter': 'SAFETY',
  pause: 'OTHER',
  error: 'OTHER',
  unknown: 'OTHER',
};

/** Meaning of a `finishReason`. The wire has no reason for pending tool calls: a stop with calls means it. */
function decodeFinishReason(raw: string, hasCalls: boolean): Finish {
  const reason = Object.hasOwn(meanings, raw) ? (meanings[raw] as FinishReason) : 'unknown';
  return { reason: reason === 'stop' && hasCalls ? 'tool-calls' : reason, raw };
}

/** The wire's finish reason; one of its own is kept unchanged. */
function encodeFinishReason({ reason, raw }: Finish): string {
  return Object.hasOwn(meanings, raw) ? raw : words[reason];
}

export function encodeToken({ token, logprob }: Omit<TokenLogprob, 'top'>): JsonObject {
  return { token, logProbability: logprob };
}

/**
 * Reads `usageMetadata`. Tokens that tools added to the prompt count as prompt, thoughts as completion; the wire
 * reports both beside its own counts. Undefined when it counts no tokens.
 */
function decodeGeminiUsage(value: unknown): Usage | undefined {
  const usage = asObject(value);
  if (usage === undefined) return undefined;
  const prompt = asCount(geminiMembers.of(usage, 'promptTokenCount'));
  const candidates = asCount(geminiMembers.of(usage, 'candidatesTokenCount'));
  const total = asCount(geminiMembers.of(usage, 'totalTokenCount'));
  if (prompt === undefined && candidates === undefined && total === undefined) return undefined;
  const reasoningTokens = asCount(geminiMembers.of(usage, 'thoughtsTokenCount')) ?? 0;
  const promptTokens = (prompt ?? 0) + (asCount(geminiMembers.of(usage, 'toolUsePromptTokenCount')) ?? 0);
  const completionTokens = (candidates ?? 0) + reasoningTokens;
  return {
    promptTokens,
    completionTokens,
    totalTokens: total ?? promptTokens + completionTokens,
    cachedTokens: asCount(geminiMembers.of(usage, 'cachedContentTokenCount')) ?? 0,
    cacheWriteTokens: 0,
    reasoningTokens,
    inputAudioTokens: audioTokens(geminiMembers.of(usage, 'promptTokensDetails')),
    outputAudioTokens: audioTokens(geminiMembers.of(usage, 'candidatesTokensDetails')),
  };
}

/** A usage as `usageMetadata`; zero details are left out, as on the wire. */
function encodeGeminiUsage(usage: Usage): JsonObject {
  const { promptTokens, completionTokens, reasoningTokens, cachedTokens } = usage;
  const candidates = Math.max(0, completionTokens - reasoningTokens);
  const written: JsonObject = { promptTokenCount: promptTokens };
  written.candidatesTokenCount = candidates;
  written.totalTokenCount = usage.totalTokens;
  if (cachedTokens > 0) written.cachedContentTokenCount = cachedTokens;
  if (reasoningTokens > 0) written.thoughtsTokenCount = reasoningTokens;
  if (usage.inputAudioTokens > 0)
    written.promptTokensDetails = byModality(promptTokens, usage.inputAudioTokens);
  if (usage.outputAudioTokens > 0)
    written.candidatesTokensDetails = byModality(candidates, usage.outputAudioTokens);
  return written;
}

function audioTokens(details: unknown): number {
  let tokens = 0;
  for (const value of asArray(details)) {
    const detail = asObject(value);
    if (detail !== undefined && asText(detail.modality)?.toUpperCase() === 'AUDIO')
      tokens += asCount(geminiMembers.of(detail, 'tokenCount')) ?? 0;
  }
  return tokens;
}

function byModality(all: number, audio: number): JsonObject[] {
  const details: JsonObject[] = [];
  if (all > audio) details.push({ modality: 'TEXT', tokenCount: all - audio });
  details.push({ modality: 'AUDIO', tokenCount: audio });
  return details;
}

/** A citation without a text position. */
type Source = Omit<Citation, 'start' | 'end'>;

/**
 * The citations of `groundingMetadata` for a text. A segment's indexes count UTF-8 bytes; when they do not fit the text
 * (it was streamed in several parts), the segment's words are searched for. Sources without a segment have no
 * positions.
 */
export function decodeGrounding(grounding: JsonObject, text: string): readonly Citation[] {
  const sources = asArray(geminiMembers.of(grounding, 'groundingChunks')).map(sourceOf);
  const cited = new Set<number>();
  const citations: Citation[] = [];
  const bytes = Buffer.from(text, 'utf8');
  for (const value of asArray(geminiMembers.of(grounding, 'groundingSupports'))) {
    const support = asObject(value);
    if (support === undefined) continue;
    const place = placeOf(geminiMembers.object(support, 'segment') ?? {}, text, bytes);
    for (const index of asArray(geminiMembers.of(support, 'groundingChunkIndices'))) {
      const source = typeof index === 'number' ? sources[index] : undefined;
      if (source === undefined) continue;
      cited.add(index as number);
      citations.push({ ...source, ...place });
    }
  }
  sources.forEach((source, i) => {
    if (source !== undefined && !cited.has(i)) citations.push(source);
  });
  return citations;
}

function sourceOf(value: unknown): Source | undefined {
  const chunk = asObject(value);
  if (chunk === undefined) return undefined;
  const web =
    geminiMembers.object(chunk, 'web') ??
    geminiMembers.object(chunk, 'maps') ??
    geminiMembers.object(chunk, 'image');
  const context = geminiMembers.object(chunk, 'retrievedContext');
  const named = web ?? context;
  if (named === undefined) return undefined;
  const url = asText(geminiMembers.of(named, 'uri')) ?? asText(geminiMembers.of(named, 'sourceUri'));
  const title = asText(named.title);
  const quote = asText(named.text);
  const source: { -readonly [name in keyof Source]: Source[name] } = {
    kind: web !== undefined || url?.startsWith('http') === true ? 'url' : 'document',
    raw: { dialect: 'google-gemini', value: chunk },
  };
  if (url !== undefined) source.url = url;
  if (title !== undefined) source.title = title;
  if (quote !== undefined) source.quote = quote;
  return source;
}

function placeOf(
  segment: JsonObject,
  text: string,
  bytes: Buffer,
): { start: number; end: number } | undefined {
  const words = asText(segment.text);
  const endByte = asCount(geminiMembers.of(segment, 'endIndex'));
  const startByte = asCount(geminiMembers.of(segment, 'startIndex')) ?? 0;
  if (endByte !== undefined && endByte <= bytes.length && startByte <= endByte) {
    const start = bytes.toString('utf8', 0, startByte).length;
    const end = start + bytes.toString('utf8', startByte, endByte).length;
    if (words === undefined || text.slice(start, end) === words) return { start, end };
  }
  const found = words === undefined ? -1 : text.indexOf(words);
  return found === -1 || words === undefined ? undefined : { start: found, end: found + words.length };
}

export function chunkOf({ raw, url, title, quote }: Citation): JsonObject | undefined {
  if (raw?.dialect === 'google-gemini') return raw.value;
  if (url !== undefined) return { web: title === undefined ? { uri: url } : { uri: url, title } };
  const retrievedContext: JsonObject = {};
  if (title !== undefined) retrievedContext.title = title;
  if (quote !== undefined) retrievedContext.text = quote;
  return Object.keys(retrievedContext).length === 0 ? undefined : { retrievedContext };
}

/** Members that cause an event to be parsed after the first token. */
const watched = [
  watch('finishReason', 'string'),
  watch('finish_reason', 'string'),
  watch('blockReason', 'string'),
  watch('error', 'anything but null'),
];

const markBytes: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d, 0xef, 0xbb, 0xbf]);
const brackets: ReadonlySet<number> = new Set([0x5b, 0x7b]);

/**
 * Watches a stream of either framing: events (`alt=sse`) or one JSON array. Every event carries the usage so far, so
 * that only the latest is kept and parsed on request.
 */
export class GeminiStreamScanner implements StreamScanner {
  private readonly known: AnswerFacts = {};
  private readonly reasons = new Map<number, string>();
  private readonly splitter: SseSplitter;
  private readonly elements = new JsonArrayReader();
  private framing: 'unknown' | 'events' | 'array' = 'unknown';
  private tokenSeen = false;
  private newest: Buffer | undefined;

  constructor(maxFrameBytes?: number) {
    this.splitter = new SseSplitter((frame, whole) => {
      if (whole) this.take(frame);
    }, maxFrameBytes);
  }

  scan(chunk: Uint8Array): boolean {
    if (this.framing === 'unknown') this.framing = framingOf(asBuffer(chunk));
    if (this.framing === 'array') {
      for (const { data } of this.elements.push(chunk)) this.learnFrom(parseObject(data));
    } else this.splitter.push(chunk);
    return this.tokenSeen;
  }

  get facts(): AnswerFacts {
    if (this.newest !== undefined) this.learnFromFrame(this.newest);
    this.newest = undefined;
    // The last frame may lack its blank line.
    if (this.splitter.heldBytes > 0) this.learnFromFrame(this.splitter.held);
    return this.known;
  }

  /** The wire has no end marker: a stream is complete when a finish reason has arrived. */
  get ended(): boolean {
    return this.facts.finishReason !== undefined && this.known.errorMessage === undefined;
  }

  private take(frame: Buffer): void {
    if (!this.tokenSeen || mayHoldWatchedMember(frame)) {
      this.newest = undefined;
      this.learnFromFrame(frame);
    } else this.newest = frame;
  }

  private learnFromFrame(frame: Buffer): void {
    const { data } = readSseFrame(frame);
    if (data !== undefined) this.learnFrom(parseObject(data));
  }

  private learnFrom(json: JsonObject | undefined): void {
    if (json === undefined) return;
    learn(this.known, this.reasons, json);
    if (!this.tokenSeen) this.tokenSeen = bringsToken(json);
  }
}

function framingOf(chunk: Buffer): 'unknown' | 'events' | 'array' {
  const first = chunk.find((byte) => !markBytes.has(byte));
  if (first === undefined) return 'unknown';
  return brackets.has(first) ? 'array' : 'events';
}

function mayHoldWatchedMember(frame: Buffer): boolean {
  const text = frame.toString('latin1');
  for (const candidate of watched) if (hasMember(text, candidate)) return true;
  return false;
}

function bringsToken(json: JsonObject): boolean {
  return asArray(json.candidates).some((value) => {
    const content = asObject(asObject(value)?.content);
    return asArray(content?.parts).some((one) => {
      const part = asObject(one);
      if (part === undefined) return false;
      if ('text' in part) return asText(part.text) !== undefined;
      return ['functionCall', 'inlineData', 'executableCode', 'fileData'].some(
        (name) => geminiMembers.of(part, name) !== undefined,
      );
    });
  });
}

/** Facts of a complete answer; of an array (a stream without `alt=sse`), of all its elements. */
export function answerFacts(body: Uint8Array): AnswerFacts {
  const facts: AnswerFacts = {};
  let json: unknown;
  try {
    json = JSON.parse(asBuffer(body).toString('utf8'));
  } catch {
    return facts;
  }
  const reasons = new Map<number, string>();
  for (const value of Array.isArray(json) ? json : [json]) {
    const element = asObject(value);
    if (element !== undefined) learn(facts, reasons, element);
  }
  return facts;
}

/** Adds the facts of one answer or stream event. Adding the same one twice changes nothing. */
function learn(facts: AnswerFacts, reasons: Map<number, string>, json: JsonObject): void {
  const usage = decodeGeminiUsage(geminiMembers.of(json, 'usageMetadata'));
  if (usage !== undefined) facts.usage = usage;
  const model = asText(geminiMembers.of(json, 'modelVersion'));
  if (model !== undefined) facts.model ??= model;
  asArray(json.candidates).forEach((value, position) => {
    const candidate = asObject(value);
    const reason = candidate === undefined ? undefined : asText(geminiMembers.of(candidate, 'finishReason'));
    if (reason === undefined) return;
    const index = typeof candidate?.index === 'number' ? candidate.index : position;
    reasons.set(index, reason);
  });
  const blocked = asText(geminiMembers.of(geminiMembers.object(json, 'promptFeedback') ?? {}, 'blockReason'));
  if (blocked !== undefined && reasons.size === 0) facts.finishReason = blocked;
  if (reasons.size > 0)
    facts.finishReason = [...reasons.entries()]
      .sort(([a], [b]) => a - b)
      .map(([, reason]) => reason)
      .join(',');
  const error = geminiErrors.read(json);
  if (error !== undefined) facts.errorMessage = error.message;
}
