import type { AnswerContext, ChatEventWriter } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { ChatPart, Citation } from '../../../core/dialects/canonical/chat-part.ts';
import type { TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { joinChunks } from '../../../core/base/bytes.ts';
import { writeSseFrame } from '../../../core/base/sse.ts';
import { type JsonObject, stringifyExact } from '../json-reading.ts';
import {
  encodeGeminiUsage,
  encodeGrounding,
  encodeLogprobs,
  finishMembers,
  ownExtras,
  timeText,
} from './answer.ts';
import { encodeModelPart } from './parts.ts';
import { providerErrorJson, streamErrorFrame } from './errors.ts';

/** An open part. Calls and recordings are whole in this wire and are collected; texts are written as they arrive. */
interface OpenPart {
  readonly head: ChatPart;
  /** Kept for a text, too: the positions of its sources refer to it. */
  readonly pieces: string[];
  readonly citations: Citation[];
  signature: string;
}

interface Choice {
  readonly parts: (OpenPart | undefined)[];
  /** The sources of the last text that has some. */
  grounding: JsonObject | undefined;
}

/**
 * Writes one object of this wire for every piece of an answer, as server-sent events when the request has `alt=sse`,
 * else as the elements of one JSON array. The last object holds the finish of every candidate and the usage.
 */
export class GeminiEventWriter implements ChatEventWriter {
  readonly contentType: string;
  private readonly context: AnswerContext;
  private readonly isArray: boolean;
  private readonly choices = new Map<number, Choice>();
  private readonly ends: JsonObject[] = [];
  private readonly last: JsonObject = {};
  private common: JsonObject = {};
  private usage: Usage | undefined;
  private serviceTier: string | undefined;
  private begun = false;
  private output: Buffer[] = [];

  constructor(context: AnswerContext) {
    this.context = context;
    this.contentType = streamContentType(context.query);
    this.isArray = this.contentType === 'application/json';
  }

  write(events: readonly ChatEvent[]): Buffer | undefined {
    for (const event of events) this.take(event);
    const { output } = this;
    if (output.length === 0) return undefined;
    this.output = [];
    return joinChunks(output);
  }

  private take(event: ChatEvent): void {
    switch (event.type) {
      case 'start':
        return this.start(event);
      case 'part-start':
        this.choice(event.choice).parts[event.part] = {
          head: event.head,
          pieces: [],
          citations: [],
          signature: '',
        };
        return;
      case 'text-delta':
        this.part(event)?.pieces.push(event.text);
        return this.writeText(event.choice, event.text, event.logprobs);
      case 'reasoning-delta':
        return this.writePart(event.choice, { text: event.text, thought: true });
      case 'arguments-delta':
        this.part(event)?.pieces.push(event.text);
        return;
      case 'audio-delta':
        this.part(event)?.pieces.push(event.data);
        return;
      case 'signature':
        return this.addSignature(event);
      case 'citation':
        this.part(event)?.citations.push(event.citation);
        return;
      case 'part-end':
        return this.endPart(event);
      case 'finish':
        return this.finish(event);
      case 'usage':
        this.usage = event.usage;
        return;
      case 'extras':
        Object.assign(this.last, ownExtras(event.extras));
        return;
      case 'error':
        return this.writeError(providerErrorJson(event.error, this.context));
      case 'end':
        return this.writeEnd();
    }
  }

  private start(event: Extract<ChatEvent, { type: 'start' }>): void {
    const { model, id, createdAt } = event;
    this.common = { modelVersion: model === '' ? this.context.request.model : model };
    if (createdAt !== undefined) this.common.createTime = timeText(createdAt);
    this.common.responseId = id === '' ? this.context.requestId : id;
    this.usage = event.usage;
    this.serviceTier = event.serviceTier;
  }

  private writeText(choice: number, text: string, logprobs: readonly TokenLogprob[] | undefined): void {
    const candidate: JsonObject = { content: { parts: [{ text }], role: 'model' }, index: choice };
    if (logprobs !== undefined) candidate.logprobsResult = encodeLogprobs(logprobs);
    this.writeCandidate(candidate, true);
  }

  private addSignature(event: Extract<ChatEvent, { type: 'signature' }>): void {
    const part = this.part(event);
    if (part !== undefined) part.signature += event.signature;
  }

  /** A text is already written; its signature follows on an empty one, as on the wire itself. */
  private endPart(event: Extract<ChatEvent, { type: 'part-end' }>): void {
    const part = this.part(event);
    if (part === undefined) return;
    const state = this.choice(event.choice);
    state.parts[event.part] = undefined;
    const { head, signature, citations } = part;
    if (citations.length > 0)
      state.grounding = encodeGrounding(citations, part.pieces.join('')) ?? state.grounding;
    let whole: ChatPart = head;
    if (head.type === 'tool-call') whole = { ...head, arguments: head.arguments + part.pieces.join('') };
    else if (head.type === 'audio' && head.source.kind === 'base64')
      whole = { ...head, source: { ...head.source, data: head.source.data + part.pieces.join('') } };
    const given = signature === '' ? head.signature : signature;
    const encoded = encodeModelPart(given === undefined ? whole : { ...whole, signature: given });
    if (encoded !== undefined) this.writePart(event.choice, encoded);
  }

  private finish(event: Extract<ChatEvent, { type: 'finish' }>): void {
    const { grounding } = this.choice(event.choice);
    const end: JsonObject = { content: { parts: [{ text: '' }], role: 'model' } };
    Object.assign(end, finishMembers(event.choice, event.finish));
    if (grounding !== undefined) end.groundingMetadata = grounding;
    this.ends.push(Object.assign(end, ownExtras(event.extras)));
  }

  private writePart(choice: number, part: JsonObject): void {
    this.writeCandidate({ content: { parts: [part], role: 'model' }, index: choice }, isPlainText(part));
  }

  /** A text holds no long integers, and the exact writer is several times slower. */
  private writeCandidate(candidate: JsonObject, isText: boolean): void {
    const object = Object.assign({ candidates: [candidate] }, this.common);
    this.writeObject(isText ? JSON.stringify(object) : stringifyExact(object));
  }

  private writeEnd(): void {
    const object: JsonObject = { candidates: this.ends };
    if (this.usage !== undefined) {
      const usageMetadata = encodeGeminiUsage(this.usage);
      if (this.serviceTier !== undefined) usageMetadata.serviceTier = this.serviceTier;
      object.usageMetadata = usageMetadata;
    }
    this.writeObject(stringifyExact(Object.assign(object, this.common, this.last)));
    if (this.isArray) this.output.push(Buffer.from('\n]\n'));
  }

  private writeError(json: string): void {
    if (!this.isArray) {
      this.output.push(streamErrorFrame(json));
      return;
    }
    this.writeObject(json);
    this.output.push(Buffer.from('\n]\n'));
  }

  private writeObject(json: string): void {
    if (this.isArray) this.output.push(Buffer.from(`${this.begun ? ',\n' : '['}${json}`));
    else this.output.push(writeSseFrame(json));
    this.begun = true;
  }

  private choice(index: number): Choice {
    let choice = this.choices.get(index);
    if (choice === undefined) {
      choice = { parts: [], grounding: undefined };
      this.choices.set(index, choice);
    }
    return choice;
  }

  private part(event: { readonly choice: number; readonly part: number }): OpenPart | undefined {
    return this.choice(event.choice).parts[event.part];
  }
}

/** Content type of the stream that a request with this query gets: events for `alt=sse`, else one JSON array. */
export function streamContentType(query: string): 'text/event-stream' | 'application/json' {
  return /[?&]alt=sse(?:&|$)/.test(query) ? 'text/event-stream' : 'application/json';
}

/** False for a part that a host has written in a way of its own. */
function isPlainText(part: JsonObject): boolean {
  for (const name in part)
    if (typeof part[name] !== (name === 'thought' ? 'boolean' : 'string')) return false;
  return 'text' in part;
}
