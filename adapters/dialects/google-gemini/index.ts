import { joinChunks } from '../../../core/base/bytes.ts';
import { writeSseFrame } from '../../../core/base/sse.ts';
import type {
  TokenLogprob,
  ChatAnswer,
  ChatChoice,
  Finish,
} from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { ChatPart, Citation, Extras } from '../../../core/dialects/canonical/chat-part.ts';
import type { Dialect, RequestIssue, AnswerTextPlace } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { asObject, type JsonObject, stringifyExact, asArray } from '../json-reading.ts';
import { bodyIssues } from '../request-members.ts';
import {
  answerFacts,
  chunkOf,
  encodeToken,
  finishReason,
  GeminiStreamScanner,
  geminiUsage,
} from './answer.ts';
import { aboutTheText, streamContentType } from './frame-reader.ts';
import { geminiRequest } from './decode-request.ts';
import { geminiErrors } from './errors.ts';
import { geminiFrames } from './frame-rewriter.ts';
import { streamedParts } from './join-calls.ts';
import { geminiPath } from './model-path.ts';
import type {
  ChatClientCodec,
  ChatEventWriter,
  AnswerContext,
} from '../../../core/dialects/canonical/chat-codec.ts';
import { encodeModelPart } from './parts.ts';

/** Client codec of `generateContent` and `streamGenerateContent`. */
export const geminiClient: ChatClientCodec = {
  decodeRequest: geminiRequest.decode,
  encodeAnswer: encodeGeminiAnswer,
  eventWriter: (context) => new GeminiEventWriter(context),
  encodeProviderError: (error, context) => Buffer.from(geminiErrors.providerJson(error, context)),
};

export { geminiProvider, googleGeminiHost } from './host.ts';

/** Google's generateContent wire. The path names the model and streaming. */
export const googleGemini: Dialect = {
  name: 'google-gemini',
  validateRequest: (endpoint, body) =>
    bodyIssues.body(body) ?? (endpoint === 'generate-content' ? contentsIssue(body) : undefined),
  decodeConversation: geminiRequest.decodeConversation,
  decodeAnswerTexts,
  readCall(path) {
    const call = geminiPath.read(path);
    return { model: call?.model ?? '', stream: call?.method === 'streamGenerateContent' };
  },
  chat: geminiClient,
  scanAnswer: (_endpoint, body) => answerFacts(body),
  streamScanner: () => new GeminiStreamScanner(),
  frames: geminiFrames,
  encodeError: geminiErrors.encode,
  encodeStreamError: geminiErrors.encodeStream,
};

function contentsIssue(body: unknown): RequestIssue | undefined {
  if (asObject(body)?.contents !== undefined) return undefined;
  return { param: 'contents', message: 'contents is required and was not given.' };
}

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
class GeminiEventWriter implements ChatEventWriter {
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
        return this.writeError(geminiErrors.providerJson(event.error, this.context));
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
      const usageMetadata = geminiUsage.encode(this.usage);
      if (this.serviceTier !== undefined) usageMetadata.serviceTier = this.serviceTier;
      object.usageMetadata = usageMetadata;
    }
    this.writeObject(stringifyExact(Object.assign(object, this.common, this.last)));
    if (this.isArray) this.output.push(Buffer.from('\n]\n'));
  }

  private writeError(json: string): void {
    if (!this.isArray) {
      this.output.push(geminiErrors.streamFrame(json));
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

/** False for a part that a host has written in a way of its own. */
function isPlainText(part: JsonObject): boolean {
  for (const name in part)
    if (typeof part[name] !== (name === 'thought' ? 'boolean' : 'string')) return false;
  return 'text' in part;
}

/** A complete answer in this wire's form. */
function encodeGeminiAnswer(answer: ChatAnswer, context: AnswerContext): Buffer {
  const body: JsonObject = { candidates: answer.choices.map(encodeChoice) };
  if (answer.usage !== undefined) {
    body.usageMetadata = geminiUsage.encode(answer.usage);
    if (answer.serviceTier !== undefined)
      Object.assign(body.usageMetadata as JsonObject, { serviceTier: answer.serviceTier });
  }
  body.modelVersion = answer.model === '' ? context.request.model : answer.model;
  if (answer.createdAt !== undefined) body.createTime = timeText(answer.createdAt);
  body.responseId = answer.id === '' ? context.requestId : answer.id;
  return Buffer.from(stringifyExact(Object.assign(body, ownExtras(answer.extras))));
}

/** Unix seconds in this wire's time format. */
function timeText(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

function encodeChoice(choice: ChatChoice): JsonObject {
  const parts = choice.parts.flatMap((part) => encodeModelPart(part) ?? []);
  const candidate: JsonObject = { content: { parts, role: 'model' } };
  Object.assign(candidate, finishMembers(choice.index, choice.finish));
  const grounding = groundingOf(choice.parts);
  if (grounding !== undefined) candidate.groundingMetadata = grounding;
  if (choice.logprobs !== undefined) candidate.logprobsResult = encodeLogprobs(choice.logprobs);
  return Object.assign(candidate, ownExtras(choice.extras));
}

/** Final members of a candidate. */
function finishMembers(index: number, finish: Finish): JsonObject {
  return { finishReason: finishReason.encode(finish), index };
}

/** Extras that this wire stored for an answer or candidate. */
function ownExtras(extras: Extras | undefined): JsonObject | undefined {
  return extras?.['google-gemini'];
}

/** The sources of the last text that has some: a segment of this wire does not name its part. */
function groundingOf(parts: readonly ChatPart[]): JsonObject | undefined {
  const cited = parts.findLast(
    (part): part is Extract<ChatPart, { type: 'text' }> & { citations: readonly Citation[] } =>
      part.type === 'text' && part.citations !== undefined && part.citations.length > 0,
  );
  return cited === undefined ? undefined : encodeGrounding(cited.citations, cited.text);
}

/** Inverse of `decodeLogprobs`. The wire has no bytes of a token. */
function encodeLogprobs(tokens: readonly TokenLogprob[]): JsonObject {
  return {
    chosenCandidates: tokens.map(encodeToken),
    topCandidates: tokens.map(({ top }) => ({ candidates: top.map(encodeToken) })),
  };
}

/** `groundingMetadata` with these citations of a text; undefined when none has an address. */
function encodeGrounding(citations: readonly Citation[], text: string): JsonObject | undefined {
  const groundingChunks: JsonObject[] = [];
  const groundingSupports: JsonObject[] = [];
  const known = new Map<string, number>();
  for (const citation of citations) {
    const chunk = chunkOf(citation);
    if (chunk === undefined) continue;
    const key = stringifyExact(chunk);
    let index = known.get(key);
    if (index === undefined) {
      index = groundingChunks.push(chunk) - 1;
      known.set(key, index);
    }
    const { start, end } = citation;
    if (start === undefined || end === undefined) continue;
    const words = text.slice(start, end);
    const startIndex = Buffer.byteLength(text.slice(0, start));
    const segment = { startIndex, endIndex: startIndex + Buffer.byteLength(words), text: words };
    groundingSupports.push({ segment, groundingChunkIndices: [index] });
  }
  if (groundingChunks.length === 0) return undefined;
  return groundingSupports.length === 0 ? { groundingChunks } : { groundingChunks, groundingSupports };
}

type Path = AnswerTextPlace['path'];

/** The generated texts of a complete answer of `generateContent`. */
function decodeAnswerTexts(_endpoint: EndpointId, answer: unknown): readonly AnswerTextPlace[] {
  return asArray(asObject(answer)?.candidates).flatMap((value, position) => {
    const candidate = asObject(value) ?? {};
    const path = ['candidates', position];
    const beside = aboutTheText
      .filter((name) => candidate[name] !== undefined)
      .map((name) => ({ path: [...path, name], value: null }));
    let call = 0;
    return asArray(asObject(candidate.content)?.parts).flatMap((part, i) =>
      partTexts(asObject(part) ?? {}, {
        choice: streamedParts.candidateIndex(candidate, position),
        beside,
        path: [...path, 'content', 'parts', i],
        nextCall: () => call++,
      }),
    );
  });
}

function partTexts(
  part: JsonObject,
  of: {
    readonly choice: number;
    readonly beside: AnswerTextPlace['beside'];
    readonly path: Path;
    readonly nextCall: () => number;
  },
): readonly AnswerTextPlace[] {
  const { choice, path } = of;
  if (typeof part.text === 'string') {
    const isThought = part.thought === true;
    const proofs = ['thoughtSignature', 'thought_signature']
      .filter((name) => isThought && typeof part[name] === 'string')
      .map((name) => ({ path: [...path, name], value: '' as const }));
    const type = isThought ? 'reasoning' : 'text';
    return [{ type, choice, text: part.text, path: [...path, 'text'], beside: [...of.beside, ...proofs] }];
  }
  const holder = part.functionCall === undefined ? 'function_call' : 'functionCall';
  const call = asObject(part[holder]);
  const args = asObject(call?.args);
  if (call === undefined || args === undefined) return [];
  return [
    {
      type: 'tool-arguments',
      choice,
      call: of.nextCall(),
      text: stringifyExact(args),
      ...(typeof call.name === 'string' ? { name: call.name } : {}),
      path: [...path, holder, 'args'],
      isJson: true,
      beside: [],
    },
  ];
}
