import type { ChatClientCodec } from './canonical/chat-codec.ts';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { DialectName, EndpointId } from './endpoint.ts';
import type { StreamEvent, StreamFrame } from './stream-event.ts';
import type { UpstreamCallFacts, UpstreamPlan } from './upstream-plan.ts';
import type { Usage } from './usage.ts';

/** What the gateway learns from an answer without changing it. */
export interface AnswerFacts {
  usage?: Usage;
  model?: string;
  /** As the provider wrote it; several choices joined with a comma. */
  finishReason?: string;
  /** The provider said, inside a well-formed answer or stream, that it failed. */
  errorMessage?: string;
}

/** Watches the bytes of a streamed answer. Never keeps more than `maxFrameBytes`; a longer frame is not scanned. */
export interface StreamScanner {
  /** Returns true from the first chunk on in which a token (not only a role or a keep-alive) was seen. */
  scan(chunk: Uint8Array): boolean;
  /** What was learned; valid at any time, complete after the last chunk. */
  readonly facts: AnswerFacts;
  /** The stream's own end marker was seen (`[DONE]`, `message_stop`). */
  readonly ended: boolean;
}

/**
 * Takes the one usage event out of a stream again for which the gateway asked on the client's behalf; every other
 * byte leaves as it came. Holds back only an incomplete frame.
 */
export interface UsageStripper {
  /** The bytes to forward now, or undefined for none. */
  push(chunk: Buffer): Buffer | undefined;
  finish(): Buffer | undefined;
}

/** Cuts a byte stream into frames. Push bytes in any portions; complete frames come out with their very bytes. */
export interface FrameReader {
  push(chunk: Uint8Array): readonly StreamFrame[];
  /** What is left when the bytes end: read like a frame when it can be, else returned as an opaque `unread` one. */
  finish(): readonly StreamFrame[];
  /** Bytes held for an incomplete frame. */
  readonly heldBytes: number;
}

/**
 * Rewrites the frames of one stream whose frames rest on each other: they are numbered, or later ones repeat what earlier
 * ones said. Every frame goes through it in order, changed or not.
 */
export interface FrameRewriter {
  /**
   * The frame saying `events`; none when nothing is left of it. As long as nothing at all was changed, the very frame;
   * the very array `frame.events` says that nothing of this one is. A frame that closes a changed text may wait for more
   * of that text and leave with a later one.
   */
  write(frame: StreamFrame, events: readonly StreamEvent[]): readonly StreamFrame[];
  /**
   * Frames for events that belong to no frame of the provider's, and whatever still waits. Called before the end marker,
   * or when the stream ends without one; also when there are no such events.
   */
  late(events: readonly StreamEvent[]): readonly StreamFrame[];
}

/** Reads and writes the frames of a streamed answer. */
export interface FrameCodec {
  reader(endpoint: EndpointId): FrameReader;
  /**
   * The frame again, saying `events` instead; unknown fields of the frame are kept. Undefined when nothing is left of it.
   * Present where every frame can be written alone.
   */
  rewrite?(frame: StreamFrame, events: readonly StreamEvent[]): Uint8Array | undefined;
  /** Present where frames rest on each other: one per stream and tap. */
  rewriter?(): FrameRewriter;
  /** The complete (not streamed) answer that these frames add up to, with `usage` where they tell none themselves. */
  assemble(endpoint: EndpointId, frames: readonly StreamFrame[], usage?: Usage): Uint8Array;
  /** A complete answer as stream frames; the inverse of `assemble`. */
  disassemble(endpoint: EndpointId, answer: Uint8Array): readonly Uint8Array[];
  /** An error after the last frame, where frames do not stand alone; `begun`: a frame has been sent. Default: the dialect's `encodeStreamError`. */
  encodeError?(error: GatewayError, requestId: string, begun: boolean): Uint8Array;
  /** Present where streams of this wire come in several framings. */
  readonly framings?: StreamFramings;
}

/** The framings of a wire that has several. */
export interface StreamFramings {
  /** Content type of the stream that a request with this query (`?…`, or empty) gets. */
  contentTypeFor(query: string): string;
  /** How streams of this content type are read and written. */
  codecFor(contentType: string): FrameCodec;
}

/** How streams of a wire are read and written that have this content type; undefined where the wire has no frames. */
export function codecFor<C extends FrameCodec | undefined>(
  frames: C,
  contentType: string | undefined,
): FrameCodec | C {
  return frames?.framings?.codecFor(contentType ?? '') ?? frames;
}

/** One text of a conversation and where it stands in the JSON body. */
export interface ConversationText {
  readonly role: string;
  readonly text: string;
  /** Path of the string in the request's JSON: `['messages', 3, 'content', 0, 'text']`. */
  readonly path: readonly (string | number)[];
}

/** What a guard needs to know of a request, whatever the dialect. */
export interface Conversation {
  readonly texts: readonly ConversationText[];
}

/** One generated text of a complete answer, whatever the wire. */
export interface AnswerText {
  /** A refusal of the model is a `text`. `tool-arguments` are JSON, as the model wrote them or as the wire keeps them. */
  readonly type: 'text' | 'reasoning' | 'tool-arguments';
  /** Index of the choice. */
  readonly choice: number;
  /** Of tool arguments: which call of the choice, from 0, and its name. */
  readonly call?: number;
  readonly name?: string;
  readonly text: string;
  /** Where it stands in the answer's JSON. */
  readonly path: readonly (string | number)[];
}

/** The same with what the wire keeps beside it. */
export interface AnswerTextPlace extends AnswerText {
  /** The place holds a JSON object, of which `text` is the JSON. */
  readonly isJson?: true;
  /**
   * What repeats, counts or proves the text, and what stands there once the text is another one: `same` is the text
   * itself.
   */
  readonly beside: readonly {
    readonly path: AnswerText['path'];
    readonly value: '' | null | 'same' | readonly never[];
  }[];
}

/** One thing wrong with a request body. */
export interface RequestIssue {
  /** Dotted name of the field (`messages`, `tools[3].function.name`). */
  readonly param: string;
  readonly message: string;
}

/** What a request asks for, wherever its wire says it. */
interface RequestedCall {
  /** Empty when it names none. */
  readonly model: string;
  readonly stream: boolean;
}

/** A wire format as clients speak it. Pure: no network, no clock. */
export interface Dialect {
  readonly name: DialectName;
  /** The first rule that the body breaks, or undefined. `strict` is OpenAI compliance (default true). */
  validateRequest(endpoint: EndpointId, body: unknown, strict: boolean): RequestIssue | undefined;
  decodeConversation(endpoint: EndpointId, body: unknown): Conversation;
  /** The generated texts of a complete answer (its JSON), in the order in which they are said; none where there are none. */
  decodeAnswerTexts(endpoint: EndpointId, answer: unknown): readonly AnswerTextPlace[];
  /** Where model and streaming do not stand in the body (`model`, `stream`): reads them from the raw path. */
  readCall?(path: string): RequestedCall;
  /** Present where the wire is for chat and can be translated. */
  readonly chat?: ChatClientCodec;
  /** Facts of a complete (not streamed) answer. Never throws: an answer that is no JSON has no facts. */
  scanAnswer(endpoint: EndpointId, body: Uint8Array): AnswerFacts;
  streamScanner(endpoint: EndpointId): StreamScanner;
  /** Present where a stream carries usage only when the request asks for it (`stream_options.include_usage`). */
  usageStripper?(): UsageStripper;
  /**
   * Streams as frames and events, for taps. A dialect without it can be passed through and scanned; a guard that
   * must judge its streams refuses the request instead of letting it pass unjudged.
   */
  readonly frames?: FrameCodec;
  /** The body of an error in the client's dialect; `requestId` is shown to the client. */
  encodeError(error: GatewayError, requestId: string): Uint8Array;
  /** An error event for a stream whose head has been sent. */
  encodeStreamError(error: GatewayError, requestId: string): Uint8Array;
}

/** A wire format as hosts speak it. Pure. */
export interface ProviderDialect {
  readonly name: DialectName;
  /** How a request reaches a host of this dialect. */
  plan(call: UpstreamCallFacts): UpstreamPlan;
}
