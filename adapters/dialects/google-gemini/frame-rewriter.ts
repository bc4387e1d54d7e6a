import type { FrameCodec, FrameRewriter, StreamFramings } from '../../../core/dialects/dialect.ts';
import {
  channelOf,
  joinTexts,
  type CallEvent,
  type StreamEvent,
  type StreamFrame,
  type TextEvent,
} from '../../../core/dialects/stream-event.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import {
  asArray,
  asBuffer,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import { callArguments, geminiMembers } from './parts.ts';
import {
  aboutTheText,
  arrayFraming,
  CallNumbers,
  eventFraming,
  type FrameFraming,
  frameReader,
  type FrameSlot,
  frameSlots,
  opaque,
  streamContentType,
} from './frame-reader.ts';
import { streamedParts } from './join-calls.ts';
import { geminiErrors } from './errors.ts';
import { geminiUsage } from './answer.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';

/** End of the array framing, of which `disassembleAnswer` writes one element. */
const arrayEnd: Uint8Array = Buffer.from('\n]\n');

const framings: StreamFramings = {
  contentTypeFor: streamContentType,
  codecFor: (contentType) => (/^application\/json/i.test(contentType) ? geminiArrayFrames : geminiFrames),
};

/** Gemini streams as frames and events, for taps: server-sent events, and arrays through `framings`. */
export const geminiFrames: FrameCodec = {
  reader: () => frameReader.ofEvents(),
  rewriter: () => new GeminiFrameRewriter(eventFraming),
  assemble: (_endpoint, frames, usage) => assembleAnswer(eventFraming, frames, usage),
  disassemble: (_endpoint, answer) => [disassembleAnswer(eventFraming, answer)],
  framings,
};

/** Streams without `alt=sse`: one JSON array. */
export const geminiArrayFrames: FrameCodec = {
  reader: () => frameReader.ofArray(),
  rewriter: () => new GeminiFrameRewriter(arrayFraming),
  assemble: (_endpoint, frames, usage) => assembleAnswer(arrayFraming, frames, usage),
  disassemble: (_endpoint, answer) => [disassembleAnswer(arrayFraming, answer), arrayEnd],
  encodeError: (error, requestId, begun) =>
    Buffer.from(`${begun ? ',\n' : '['}${geminiErrors.json(error, requestId)}\n]\n`),
  framings,
};

/** Members of every object of a stream. */
const commonMembers = ['modelVersion', 'model_version', 'responseId', 'response_id', 'createTime'];

/**
 * Writes the frames of one stream with other events. Once a candidate's text has changed, copies of it are removed, and
 * the frame that ends the candidate waits for more text.
 */
class GeminiFrameRewriter implements FrameRewriter {
  private readonly framing: FrameFraming;
  private readonly numbers = new CallNumbers();
  private readonly written = new CallNumbers();
  /** Names of calls that were removed from their frames: they may be written later. */
  private readonly heldCalls = new Map<string, CallEvent>();
  private readonly changedChoices = new Set<number>();
  private isClean = true;
  private begun = false;
  private template: StreamFrame | undefined;
  private readonly waiting: StreamFrame[] = [];

  constructor(framing: FrameFraming) {
    this.framing = framing;
  }

  write(frame: StreamFrame, events: readonly StreamEvent[]): readonly StreamFrame[] {
    if (this.isClean && events === frame.events) {
      this.countCalls(events);
      this.template ??= frame.events === opaque ? undefined : frame;
      this.begun = true;
      return [frame];
    }
    const json = frame.unread === true ? undefined : (this.framing.read(frame.bytes) ?? undefined);
    if (json === undefined) return this.unread(frame, events);
    this.template ??= frame;
    const wanted = joinTexts(events);
    let changed = this.writeSlots(json, wanted);
    const own = this.own(events, wanted);
    if (this.add(json, [...wanted.values()], own)) changed = true;
    if (writeMembers(json, events)) changed = true;
    if (this.stripRepeats(json)) changed = true;
    if (changed) this.isClean = false;
    if (changed && !hasContent(json)) return [];
    const bytes = changed ? this.framing.replace(frame.bytes, json) : frame.bytes;
    const out: StreamFrame[] = [];
    this.put(
      { bytes, events: own.length === 0 ? opaque : own },
      !this.isClean && events.some(({ type }) => type === 'finish'),
      out,
    );
    return out;
  }

  late(events: readonly StreamEvent[]): readonly StreamFrame[] {
    const out: StreamFrame[] = [];
    const texts = [...joinTexts(events).values()];
    const [ending] = this.waiting;
    if (texts.length > 0 && ending !== undefined) this.waiting[0] = this.extended(ending, texts);
    else if (texts.length > 0) {
      const json = this.envelope();
      const own: StreamEvent[] = [];
      this.add(json, texts, own);
      if (own.length > 0) this.emit({ bytes: this.framing.write(json, this.begun), events: own }, out);
    }
    this.release(out);
    return out;
  }

  /** The frame that ends a candidate, with more text before its end. */
  private extended(frame: StreamFrame, texts: readonly TextEvent[]): StreamFrame {
    const json = this.framing.read(frame.bytes) ?? {};
    const own: StreamEvent[] = [];
    for (const event of texts) {
      const part = this.partOf(event, own);
      if (part === undefined) continue;
      const candidate = candidateOf(json, event.choice);
      candidate.content = {
        role: 'model',
        ...asObject(candidate.content),
        parts: [...streamedParts.of(candidate), part],
      };
    }
    this.stripRepeats(json);
    const said = frame.events.filter((event) => 'text' in event);
    const marks = frame.events.filter((event) => !('text' in event));
    return { bytes: this.framing.replace(frame.bytes, json), events: [...said, ...own.reverse(), ...marks] };
  }

  private countCalls(events: readonly StreamEvent[]): void {
    for (const event of events) {
      if (event.type !== 'tool-arguments-delta') continue;
      this.numbers.take(event.choice);
      this.written.take(event.choice);
    }
  }

  private unread(frame: StreamFrame, events: readonly StreamEvent[]): readonly StreamFrame[] {
    const out: StreamFrame[] = [];
    const texts = events.filter((event) => 'text' in event);
    if (texts.length > 0) for (const late of this.late(texts)) out.push(late);
    const isEnd = frame.events[0]?.type === 'done';
    if (isEnd) this.release(out);
    const own = events.filter((event) => !('text' in event));
    if (own.length > 0) this.put({ ...frame, events: own }, false, out);
    else if (events.length > 0) this.put({ ...frame, events: opaque }, false, out);
    return out;
  }

  /** Writes each text in its place; the whole text of a channel replaces its first piece. */
  private writeSlots(json: JsonObject, wanted: Map<string, TextEvent>): boolean {
    const channels = new Map<string, FrameSlot[]>();
    for (const slot of frameSlots(json, this.numbers)) {
      const key = channelOf(slot.event);
      const slots = channels.get(key);
      if (slots === undefined) channels.set(key, [slot]);
      else slots.push(slot);
    }
    let changed = false;
    for (const [key, slots] of channels) {
      const event = wanted.get(key);
      wanted.delete(key);
      const first = slots[0] as FrameSlot;
      if (first.event.type === 'tool-arguments-delta') {
        if (this.writeCall(first, first.event, event)) changed = true;
      } else if (event?.text !== slots.map((slot) => slot.event.text).join('')) {
        changed = true;
        this.changedChoices.add(first.event.choice);
        slots.forEach((slot, i) => {
          writeText(slot, i === 0 ? (event?.text ?? '') : '');
        });
      }
    }
    return changed;
  }

  private writeCall({ candidate, part }: FrameSlot, was: CallEvent, now: TextEvent | undefined): boolean {
    if (now?.type !== 'tool-arguments-delta') {
      this.heldCalls.set(channelOf(was), was);
      removePart(candidate, part);
      return true;
    }
    const call = geminiMembers.of(part, 'functionCall') as JsonObject;
    const isSame = now.text === was.text && (now.name === undefined || now.name === was.name);
    if (isSame) return false;
    if (now.name !== undefined) call.name = now.name;
    if (now.text !== was.text) call.args = callArguments.encode({ kind: 'function', arguments: now.text });
    return true;
  }

  /** Events of the frame itself, with calls numbered as in the written stream. */
  private own(events: readonly StreamEvent[], rest: ReadonlyMap<string, TextEvent>): StreamEvent[] {
    const own: StreamEvent[] = [];
    for (const event of events) {
      if (!('text' in event)) own.push(event);
      else if (rest.has(channelOf(event))) continue;
      else if (event.type !== 'tool-arguments-delta') own.push(event);
      else own.push({ ...event, call: this.written.take(event.choice) });
    }
    return own;
  }

  /** Adds texts to an object that has no place for them yet, before its own content. */
  private add(json: JsonObject, texts: readonly TextEvent[], own: StreamEvent[]): boolean {
    let added = false;
    for (const event of texts) {
      const part = this.partOf(event, own);
      if (part === undefined) continue;
      added = true;
      const candidate = candidateOf(json, event.choice);
      const content = asObject(candidate.content) ?? { role: 'model' };
      candidate.content = content;
      content.parts = [part, ...asArray(content.parts)];
    }
    return added;
  }

  private partOf(event: TextEvent, own: StreamEvent[]): JsonObject | undefined {
    if (event.type === 'tool-arguments-delta') {
      const held = this.heldCalls.get(channelOf(event));
      this.heldCalls.delete(channelOf(event));
      const name = event.name ?? held?.name ?? '';
      const id = event.id ?? held?.id;
      const call: JsonObject = id === undefined ? { name } : { id, name };
      call.args = callArguments.encode({ kind: 'function', arguments: event.text });
      own.unshift({ ...event, name, call: this.written.take(event.choice) });
      return { functionCall: call };
    }
    if (event.text === '') return undefined;
    this.changedChoices.add(event.choice);
    own.unshift(event);
    return event.type === 'text-delta' ? { text: event.text } : { text: event.text, thought: true };
  }

  private stripRepeats(json: JsonObject): boolean {
    let changed = false;
    asArray(json.candidates).forEach((value, position) => {
      const candidate = asObject(value) ?? {};
      if (!this.changedChoices.has(streamedParts.candidateIndex(candidate, position))) return;
      for (const name of aboutTheText) {
        if (!(name in candidate)) continue;
        delete candidate[name];
        changed = true;
      }
    });
    return changed;
  }

  private envelope(): JsonObject {
    const json = this.template === undefined ? undefined : this.framing.read(this.template.bytes);
    const common: JsonObject = { candidates: [] };
    for (const name of commonMembers) if (json?.[name] !== undefined) common[name] = json[name];
    return common;
  }

  private put(frame: StreamFrame, waits: boolean, out: StreamFrame[]): void {
    if (waits || this.waiting.length > 0) this.waiting.push(frame);
    else this.emit(frame, out);
  }

  private release(out: StreamFrame[]): void {
    for (const frame of this.waiting.splice(0)) this.emit(frame, out);
  }

  private emit(frame: StreamFrame, out: StreamFrame[]): void {
    const bytes = this.framing.place(frame.bytes, this.begun);
    this.begun = true;
    out.push(bytes === frame.bytes ? frame : { ...frame, bytes });
  }
}

/** The signature of a thought is invalid for any other thought. */
function writeText({ candidate, part }: FrameSlot, text: string): void {
  part.text = text;
  if (part.thought === true) {
    delete part.thoughtSignature;
    delete part.thought_signature;
  }
  if (text === '' && geminiMembers.of(part, 'thoughtSignature') === undefined) removePart(candidate, part);
}

function removePart(candidate: JsonObject, part: JsonObject): void {
  const content = asObject(candidate.content);
  if (content !== undefined) content.parts = streamedParts.of(candidate).filter((one) => one !== part);
}

/** The candidate with this number, added when the object has none. */
function candidateOf(json: JsonObject, choice: number): JsonObject {
  const candidates = asArray(json.candidates);
  for (const [position, value] of candidates.entries()) {
    const candidate = asObject(value);
    if (candidate !== undefined && streamedParts.candidateIndex(candidate, position) === choice)
      return candidate;
  }
  const added: JsonObject = { content: { parts: [], role: 'model' }, index: choice };
  json.candidates = [...candidates, added];
  return added;
}

/** False when all texts and marks of an object have been taken out. */
function hasContent(json: JsonObject): boolean {
  if (json.error !== undefined || geminiMembers.of(json, 'promptFeedback') !== undefined) return true;
  if (geminiMembers.of(json, 'usageMetadata') !== undefined) return true;
  return asArray(json.candidates).some((value) => {
    const candidate = asObject(value) ?? {};
    return (
      streamedParts.of(candidate).length > 0 ||
      asText(geminiMembers.of(candidate, 'finishReason')) !== undefined
    );
  });
}

/** Rewrites the finish reasons, usage and error of an object; true when any of them has changed. */
function writeMembers(json: JsonObject, events: readonly StreamEvent[]): boolean {
  const reasons = writeReasons(json, events);
  const usage = writeUsage(json, events);
  return writeError(json, events) || reasons || usage;
}

function writeReasons(json: JsonObject, events: readonly StreamEvent[]): boolean {
  const reasons = new Map<number, string>();
  for (const event of events) if (event.type === 'finish') reasons.set(event.choice, event.reason);
  let changed = false;
  asArray(json.candidates).forEach((value, position) => {
    const candidate = asObject(value) ?? {};
    const was = asText(geminiMembers.of(candidate, 'finishReason'));
    const now = reasons.get(streamedParts.candidateIndex(candidate, position));
    if (now === was) return;
    changed = true;
    for (const name of ['finishReason', 'finish_reason', 'finishMessage', 'finish_message'])
      delete candidate[name];
    if (now !== undefined) candidate.finishReason = now;
  });
  const feedback = geminiMembers.object(json, 'promptFeedback');
  const blocked = asText(geminiMembers.of(feedback ?? {}, 'blockReason'));
  const now = reasons.get(0);
  if (feedback === undefined || blocked === undefined || now === undefined || now === blocked) return changed;
  delete feedback.block_reason;
  feedback.blockReason = now;
  return true;
}

function writeUsage(json: JsonObject, events: readonly StreamEvent[]): boolean {
  const event = events.findLast((candidate) => candidate.type === 'usage');
  const was = geminiUsage.decode(geminiMembers.of(json, 'usageMetadata'));
  const now = event?.type === 'usage' ? event.usage : undefined;
  if (JSON.stringify(was) === JSON.stringify(now)) return false;
  delete json.usageMetadata;
  delete json.usage_metadata;
  if (now !== undefined) json.usageMetadata = geminiUsage.encode(now);
  return true;
}

function writeError(json: JsonObject, events: readonly StreamEvent[]): boolean {
  const event = events.findLast((candidate) => candidate.type === 'error');
  if (event?.type !== 'error') {
    if (json.error === undefined) return false;
    delete json.error;
    return true;
  }
  const error = asObject(json.error) ?? {};
  if (error.message === event.message) return false;
  json.error = { ...error, message: event.message };
  return true;
}

/**
 * A complete answer as one object of a stream, which this wire allows. Throws `upstream_invalid` for anything but a
 * JSON object.
 */
function disassembleAnswer(framing: FrameFraming, answer: Uint8Array): Uint8Array {
  const json = parseExactObject(asBuffer(answer).toString('utf8'));
  if (json === undefined) {
    throw new GatewayError(
      'upstream_invalid',
      'The answer is no JSON object and cannot be replayed as a stream.',
      { source: 'provider' },
    );
  }
  return framing.write(json, false);
}

/**
 * The complete answer assembled from the frames of a stream. Throws `upstream_invalid` for a frame with content that
 * cannot be read.
 */
function assembleAnswer(
  framing: FrameFraming,
  frames: readonly StreamFrame[],
  usage: Usage | undefined,
): Uint8Array {
  const objects: JsonObject[] = [];
  for (const frame of frames) {
    const json = frame.unread === true ? null : framing.read(frame.bytes);
    if (json === null) throw unreadableFrame();
    if (json !== undefined) objects.push(json);
  }
  const answer = streamedParts.joinCalls(joinedCounts(objects));
  for (const value of asArray(answer.candidates)) {
    const candidate = asObject(value) ?? {};
    const content = asObject(candidate.content) ?? {};
    content.parts = joinedTexts(streamedParts.of(candidate));
  }
  if (usage !== undefined && geminiMembers.of(answer, 'usageMetadata') === undefined)
    answer.usageMetadata = geminiUsage.encode(usage);
  return Buffer.from(stringifyExact(answer));
}

/** Later objects repeat the usage; counts that one omits keep their value. Log probabilities are appended. */
function joinedCounts(objects: readonly JsonObject[]): readonly JsonObject[] {
  let usage: JsonObject = {};
  const logprobs = new Map<unknown, JsonObject>();
  return objects.map((json) => {
    const joined = { ...json };
    const counted = asObject(geminiMembers.of(json, 'usageMetadata'));
    if (counted !== undefined) {
      usage = { ...usage, ...counted };
      delete joined.usage_metadata;
      joined.usageMetadata = usage;
    }
    joined.candidates = asArray(json.candidates).map((value) =>
      withLogprobs(asObject(value) ?? {}, logprobs),
    );
    if (json.candidates === undefined) delete joined.candidates;
    return joined;
  });
}

function withLogprobs(candidate: JsonObject, known: Map<unknown, JsonObject>): JsonObject {
  const given = asObject(geminiMembers.of(candidate, 'logprobsResult'));
  if (given === undefined) return candidate;
  const before = known.get(candidate.index) ?? {};
  const all: JsonObject = { ...before };
  for (const [name, value] of Object.entries(given))
    all[name] = Array.isArray(value) ? [...asArray(before[name]), ...asArray(value)] : value;
  known.set(candidate.index, all);
  return { ...candidate, logprobsResult: all };
}

/** Joins the pieces of one text in one part. */
function joinedTexts(parts: readonly JsonObject[]): readonly JsonObject[] {
  const joined: JsonObject[] = [];
  for (const part of parts) {
    if (typeof part.text !== 'string') {
      joined.push(part);
      continue;
    }
    const isSigned = geminiMembers.of(part, 'thoughtSignature') !== undefined;
    if (part.text === '' && !isSigned && Object.keys(part).length === 1) continue;
    const last = joined.at(-1);
    const goesOn =
      last !== undefined &&
      asText(last.text) !== undefined &&
      last.thought === part.thought &&
      geminiMembers.of(last, 'thoughtSignature') === undefined &&
      !isSigned;
    if (goesOn) joined[joined.length - 1] = { ...last, text: String(last.text) + part.text };
    else joined.push(part);
  }
  return joined;
}

function unreadableFrame(): GatewayError {
  return new GatewayError(
    'upstream_invalid',
    'The stream holds a frame that is torn, too long or no JSON, so the answer cannot be put together.',
    { source: 'provider' },
  );
}
