import { ChatEventBuilder, cutShort } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import { asArray, asCount, asObject, asText, asUnixTime, type JsonObject } from '../json-reading.ts';
import { geminiErrors } from './errors.ts';
import {
  callArguments,
  decodeOwnPart,
  geminiMembers,
  mediaPart,
  signatures,
  type ToolNumbers,
} from './parts.ts';
import { decodeGrounding, finishReason, geminiUsage } from './answer.ts';
import type { ToolCallPart } from '../../../core/dialects/canonical/chat-part.ts';
import { PartialArguments } from './join-calls.ts';
import type { TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';

const candidateMembers = geminiMembers.known(['content', 'finishReason', 'index', 'logprobsResult']);

/** Reads one candidate of a stream, event by event; a complete answer is one event. */
class CandidateReader {
  private readonly builder: ChatEventBuilder;
  private readonly choice: number;
  private readonly calls: CallReader;
  private readonly numbers: ToolNumbers;
  private extras: JsonObject | undefined;
  private reason: string | undefined;
  /** The open text part, and its text so far, in which segments of sources are located. */
  private textKey = '';
  private texts: string[] = [];
  /** The open text or thought has a signature: further text starts another part. */
  private sealed = false;
  private audio: { readonly key: string; readonly joiner: AudioJoiner } | undefined;
  private whole = 0;

  constructor(builder: ChatEventBuilder, choice: number, context: DecodeContext) {
    this.builder = builder;
    this.choice = choice;
    this.calls = new CallReader(builder, choice, context);
    this.numbers = { lastId: '', newId: context.newId };
  }

  /** A finish reason has arrived. */
  get isComplete(): boolean {
    return this.reason !== undefined;
  }

  read(candidate: JsonObject): void {
    let logprobs = decodeLogprobs(geminiMembers.of(candidate, 'logprobsResult'));
    const content = asObject(candidate.content);
    for (const value of asArray(content?.parts)) {
      const part = asObject(value);
      if (part !== undefined && this.readPart(part, logprobs)) logprobs = undefined;
    }
    // Log probabilities without text refer to nothing.
    if (logprobs !== undefined && this.textKey !== '')
      this.builder.text(this.choice, this.textKey, '', logprobs);
    this.reason = asText(geminiMembers.of(candidate, 'finishReason')) ?? this.reason;
    const others = geminiMembers.others(candidate, candidateMembers);
    if (others !== undefined)
      this.extras = this.extras === undefined ? others : Object.assign(this.extras, others);
  }

  /** Ends the open parts at the end of the stream, and the choice when it has a finish reason. */
  finish(): void {
    const { builder, choice, extras, reason } = this;
    this.calls.end();
    this.endAudio();
    const grounding = extras === undefined ? undefined : geminiMembers.object(extras, 'groundingMetadata');
    if (grounding !== undefined && builder.isOpen(choice, this.textKey))
      for (const citation of decodeGrounding(grounding, this.texts.join('')))
        builder.citation(choice, this.textKey, citation);
    if (reason === undefined) return;
    const finish = finishReason.decode(reason, this.calls.hasCalls);
    if (finish.reason === 'content-filter' && this.whole === 0 && this.textKey === '') this.refuse(reason);
    builder.finish(choice, finish, extras === undefined ? undefined : { 'google-gemini': extras });
  }

  /** Emits a sentence saying that there is no answer. */
  refuse(reason: string): void {
    const message =
      this.extras === undefined ? undefined : asText(geminiMembers.of(this.extras, 'finishMessage'));
    const key = this.builder.flow(this.choice, 'refusal');
    this.builder.text(this.choice, key, message ?? `The provider blocked the answer (${reason}).`);
  }

  /** Returns true when the log probabilities were emitted. */
  private readPart(part: JsonObject, logprobs: readonly TokenLogprob[] | undefined): boolean {
    const signature = asText(geminiMembers.of(part, 'thoughtSignature'));
    if (typeof part.text === 'string') return this.readText(part, part.text, signature, logprobs);
    const call = geminiMembers.object(part, 'functionCall');
    if (call !== undefined) {
      this.endAudio();
      this.calls.read(call, signature);
      return false;
    }
    this.calls.end();
    // A picture in the thoughts is a draft, not part of the answer.
    const blob = part.thought === true ? undefined : geminiMembers.object(part, 'inlineData');
    const media = blob === undefined ? undefined : mediaPart.decodeInline(blob);
    if (media?.type === 'audio' && media.source.kind === 'base64') {
      this.readAudio(media.source.mediaType, media.source.data);
      return false;
    }
    this.endAudio();
    const file = geminiMembers.object(part, 'fileData');
    const decoded =
      media ??
      (file === undefined
        ? decodeOwnPart(signatures.remove(part), this.numbers)
        : mediaPart.decodeFile(file));
    const key = `whole:${this.whole++}`;
    this.builder.closeFlow(this.choice);
    this.builder.open(this.choice, key, signatures.add(decoded, undefined));
    if (signature !== undefined) this.builder.signature(this.choice, key, signature);
    this.builder.close(this.choice, key);
    return false;
  }

  private readText(
    part: JsonObject,
    text: string,
    signature: string | undefined,
    logprobs: readonly TokenLogprob[] | undefined,
  ): boolean {
    if (text === '' && signature === undefined) return false;
    const { builder, choice } = this;
    this.calls.end();
    this.endAudio();
    if (this.sealed) builder.closeFlow(choice);
    this.sealed = signature !== undefined;
    const isThought = part.thought === true;
    const key = builder.flow(choice, isThought ? 'reasoning' : 'text');
    if (isThought) builder.reasoning(choice, key, text);
    else {
      if (key !== this.textKey) this.texts = [];
      this.textKey = key;
      this.texts.push(text);
      builder.text(choice, key, text, logprobs);
    }
    if (signature !== undefined) builder.signature(choice, key, signature);
    return !isThought;
  }

  private readAudio(mediaType: string, data: string): void {
    if (this.audio === undefined) {
      const key = `whole:${this.whole++}`;
      this.audio = { key, joiner: new AudioJoiner() };
      this.builder.closeFlow(this.choice);
      const source = { kind: 'base64', mediaType, data: '' } as const;
      this.builder.open(this.choice, key, { type: 'audio', source });
    }
    this.builder.audio(this.choice, this.audio.key, this.audio.joiner.push(data), '');
  }

  private endAudio(): void {
    const { audio } = this;
    if (audio === undefined) return;
    this.audio = undefined;
    this.builder.audio(this.choice, audio.key, audio.joiner.finish(), '');
    this.builder.close(this.choice, audio.key);
  }
}

/**
 * Joins base64 pieces: each piece was encoded separately, so that its bytes need not end on a group of four characters.
 * Emits complete groups and keeps up to two bytes.
 */
class AudioJoiner {
  private rest: Buffer = Buffer.alloc(0);

  /** The base64 that continues the output after this piece. */
  push(data: string): string {
    if (this.rest.length === 0 && data.length % 4 === 0 && !data.endsWith('=')) return data;
    const bytes = Buffer.concat([this.rest, Buffer.from(data, 'base64')]);
    const whole = bytes.length - (bytes.length % 3);
    this.rest = bytes.subarray(whole);
    return bytes.toString('base64', 0, whole);
  }

  /** The kept remainder. */
  finish(): string {
    const { rest } = this;
    this.rest = Buffer.alloc(0);
    return rest.toString('base64');
  }
}

interface OpenCall {
  readonly key: string;
  readonly kind: ToolCallPart['kind'];
  readonly pieces: PartialArguments;
  /** The whole arguments, when an event carries them: they override the pieces. */
  whole: unknown;
}

/**
 * Reads the function calls of one candidate. A call arrives whole, or starts with a name and `willContinue`, continues
 * in events without a name and ends with the first event that does not continue, with the next part or with the answer.
 * Its arguments are emitted at once when it ends: only then are they known to be one valid object.
 */
class CallReader {
  private readonly builder: ChatEventBuilder;
  private readonly choice: number;
  private readonly context: DecodeContext;
  private open: OpenCall | undefined;
  private count = 0;

  constructor(builder: ChatEventBuilder, choice: number, context: DecodeContext) {
    this.builder = builder;
    this.choice = choice;
    this.context = context;
  }

  /** The answer holds calls for the client. */
  get hasCalls(): boolean {
    return this.count > 0;
  }

  read(call: JsonObject, signature: string | undefined): void {
    const name = asText(call.name);
    if (name !== undefined) this.begin(name, asText(call.id));
    const { open } = this;
    if (open === undefined) return;
    if (call.args !== undefined) open.whole = call.args;
    open.pieces.add(geminiMembers.of(call, 'partialArgs'));
    if (signature !== undefined) this.builder.signature(this.choice, open.key, signature);
    if (geminiMembers.of(call, 'willContinue') !== true) this.end();
  }

  /** Ends the open call. */
  end(): void {
    const { open } = this;
    if (open === undefined) return;
    this.open = undefined;
    const { kind } = open;
    const args = open.whole === undefined ? open.pieces.text() : callArguments.decode(open.whole, kind);
    this.builder.arguments(this.choice, open.key, open.whole === undefined ? plainInput(args, kind) : args);
    this.builder.close(this.choice, open.key);
  }

  private begin(name: string, given: string | undefined): void {
    this.end();
    const id = given ?? this.context.newId('call_');
    const key = `call:${id}`;
    const isCustom = this.context.request.tools.some((tool) => tool.type === 'custom' && tool.name === name);
    const kind = isCustom ? 'custom' : 'function';
    this.builder.closeFlow(this.choice);
    this.builder.open(this.choice, key, { type: 'tool-call', id, name, kind, arguments: '' });
    this.count++;
    this.open = { key, kind, pieces: new PartialArguments(), whole: undefined };
  }
}

function plainInput(text: string, kind: ToolCallPart['kind']): string {
  return kind === 'custom'
    ? callArguments.decode(geminiMembers.object({ args: JSON.parse(text) }, 'args'), kind)
    : text;
}

const answerMembers = geminiMembers.known([
  'candidates',
  'usageMetadata',
  'modelVersion',
  'responseId',
  'createTime',
  'promptFeedback',
]);

/**
 * Converts the objects of an answer (one, or the events of a stream) into canonical events. A candidate finishes at the
 * end of the answer, not with its `finishReason`: some hosts send one with every event, and sources may follow it.
 */
export class AnswerReader {
  readonly builder = new ChatEventBuilder();
  private readonly context: DecodeContext;
  private readonly candidates = new Map<number, CandidateReader>();
  private usage: JsonObject | undefined;
  private extras: JsonObject | undefined;
  private feedback: JsonObject | undefined;

  constructor(context: DecodeContext) {
    this.context = context;
  }

  /** Every candidate has a finish reason. */
  get isComplete(): boolean {
    const begun = [...this.candidates.values()];
    return begun.length > 0 && begun.every(({ isComplete }) => isComplete);
  }

  read(json: JsonObject): void {
    const error = geminiErrors.read(json);
    if (error !== undefined) {
      this.writeUsage();
      this.builder.error(error);
      return;
    }
    this.start(json);
    const usage = geminiMembers.object(json, 'usageMetadata');
    if (usage !== undefined) this.usage = joinUsage(this.usage, usage);
    const feedback = geminiMembers.object(json, 'promptFeedback');
    if (feedback !== undefined) this.feedback = feedback;
    const candidates = asArray(json.candidates);
    for (let i = 0; i < candidates.length; i++) {
      const candidate = asObject(candidates[i]);
      if (candidate !== undefined) this.candidate(asCount(candidate.index) ?? i).read(candidate);
    }
    const others = geminiMembers.others(json, answerMembers);
    if (others !== undefined)
      this.extras = this.extras === undefined ? others : Object.assign(this.extras, others);
  }

  /** Handles the end of the answer. */
  finish(): void {
    const { builder } = this;
    if (builder.ended) return;
    const blocked = asText(geminiMembers.of(this.feedback ?? {}, 'blockReason'));
    if (this.candidates.size === 0 && blocked !== undefined) this.finishBlocked(blocked);
    for (const candidate of this.candidates.values()) candidate.finish();
    if (this.feedback !== undefined) this.keep({ promptFeedback: this.feedback });
    if (this.extras !== undefined) builder.extras({ 'google-gemini': this.extras });
    this.writeUsage();
    if (this.candidates.size === 0 && blocked === undefined)
      builder.error({ ...cutShort, message: 'The provider answered without a candidate.' });
    else builder.complete();
  }

  private start(json: JsonObject): void {
    if (this.builder.hasStarted) return;
    const { model } = this.context.request;
    const createdMs = Date.parse(asText(geminiMembers.of(json, 'createTime')) ?? '');
    const usage = geminiMembers.object(json, 'usageMetadata');
    this.builder.start({
      id: asText(geminiMembers.of(json, 'responseId')) ?? '',
      model: asText(geminiMembers.of(json, 'modelVersion')) ?? model,
      createdAt: asUnixTime(createdMs / 1000),
      serviceTier: usage === undefined ? undefined : asText(geminiMembers.of(usage, 'serviceTier')),
    });
  }

  /** The wire answers a blocked prompt without candidates; the client gets a choice that reports the block. */
  private finishBlocked(reason: string): void {
    const key = this.builder.flow(0, 'refusal');
    const message = asText(geminiMembers.of(this.feedback ?? {}, 'blockReasonMessage'));
    this.builder.text(0, key, message ?? `The provider blocked the prompt (${reason}).`);
    this.builder.finish(0, { reason: 'content-filter', raw: reason });
  }

  private keep(members: JsonObject): void {
    this.extras = Object.assign(this.extras ?? {}, members);
  }

  private writeUsage(): void {
    const usage = geminiUsage.decode(this.usage);
    if (usage !== undefined) this.builder.usage(usage);
  }

  private candidate(index: number): CandidateReader {
    let candidate = this.candidates.get(index);
    if (candidate === undefined) {
      candidate = new CandidateReader(this.builder, index, this.context);
      this.candidates.set(index, candidate);
    }
    return candidate;
  }
}

/** `logprobsResult` of a candidate; undefined when it holds no tokens. */
function decodeLogprobs(value: unknown): readonly TokenLogprob[] | undefined {
  const result = asObject(value);
  if (result === undefined) return undefined;
  const tops = asArray(geminiMembers.of(result, 'topCandidates'));
  const tokens = asArray(geminiMembers.of(result, 'chosenCandidates')).map((chosen, i) => ({
    ...decodeToken(chosen),
    top: asArray(asObject(tops[i])?.candidates).map(decodeToken),
  }));
  return tokens.length === 0 ? undefined : tokens;
}

function decodeToken(value: unknown): Omit<TokenLogprob, 'top'> {
  const token = asObject(value) ?? {};
  const probability = geminiMembers.of(token, 'logProbability');
  return {
    token: typeof token.token === 'string' ? token.token : '',
    logprob: typeof probability === 'number' ? probability : 0,
  };
}

/** Merges a later usage into an earlier one: members absent from the later one keep their value. */
function joinUsage(earlier: JsonObject | undefined, later: JsonObject): JsonObject {
  return earlier === undefined ? later : Object.assign(earlier, later);
}
