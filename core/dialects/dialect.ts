import type { ChatClientCodec } from './canonical/chat-codec.ts';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { DialectName, EndpointId } from './endpoint.ts';
import type { StreamEvent, StreamFrame } from './stream-event.ts';
import type { UpstreamCallFacts, UpstreamPlan } from './upstream-plan.ts';
import type { Usage } from './usage.ts';

/** Facts that the gateway reads from an answer without changing it. */
export interface AnswerFacts {
  usage?: Usage;
  model?: string;
  /** As the provider wrote it; several choices joined with a comma. */
  finishReason?: string;
  /** Failure that the provider reported inside a well-formed answer or stream. */
  errorMessage?: string;
}

/** Scans the bytes of a streamed answer. Never keeps more than `maxFrameBytes`; a longer frame is not scanned. */
export interface StreamScanner {
  /** Returns true from the first chunk with a token on (a role or a keep-alive is none). */
  scan(chunk: Uint8Array): boolean;
  /** Facts so far; valid at any time, complete after the last chunk. */
  readonly facts: AnswerFacts;
  /** Whether the stream's own end marker was seen (`[DONE]`, `message_stop`). */
  readonly ended: boolean;
}

/**
 * Removes from a stream the one usage event that the gateway requested on the client's behalf; every other byte passes
 * unchanged. Holds back only an incomplete frame.
 */
export interface UsageStripper {
  /** Bytes to forward now, or undefined for none. */
  push(chunk: Buffer): Buffer | undefined;
  finish(): Buffer | undefined;
}

/** Splits a byte stream into frames. Push bytes in any portions; complete frames keep their exact bytes. */
export interface FrameReader {
  push(chunk: Uint8Array): readonly StreamFrame[];
  /** The remaining bytes at the end: parsed as a frame if possible, else returned as an opaque `unread` one. */
  finish(): readonly StreamFrame[];
  /** Bytes held for an incomplete frame. */
  readonly heldBytes: number;
}

/**
 * Rewrites the frames of one stream whose frames depend on each other: they are numbered, or later ones repeat earlier
 * content. Every frame passes through it in order, changed or not.
 */
export interface FrameRewriter {
  /**
   * The frame with `events` as its content; none when nothing is left of it. Before the first change, the identical
   * frame; the identical array `frame.events` means that this one is unchanged. A frame that closes a changed text may
   * wait for more of that text and leave with a later one.
   */
  write(frame: StreamFrame, events: readonly StreamEvent[]): readonly StreamFrame[];
  /**
   * Frames for events that belong to no frame of the provider, and all waiting frames. Called before the end marker, or
   * when the stream ends without one; also without such events.
   */
  late(events: readonly StreamEvent[]): readonly StreamFrame[];
}

/** Reads and writes the frames of a streamed answer. */
export interface FrameCodec {
  reader(endpoint: EndpointId): FrameReader;
  /**
   * The frame with `events` as its content; unknown fields are kept. Undefined when nothing is left of it. Present
   * where every frame can be written independently.
   */
  rewrite?(frame: StreamFrame, events: readonly StreamEvent[]): Uint8Array | undefined;
  /** Present where frames depend on each other: one per stream and tap. */
  rewriter?(): FrameRewriter;
  /** The complete (not streamed) answer of these frames, with `usage` where they contain none. */
  assemble(endpoint: EndpointId, frames: readonly StreamFrame[], usage?: Usage): Uint8Array;
  /** A complete answer as stream frames; the inverse of `assemble`. */
  disassemble(endpoint: EndpointId, answer: Uint8Array): readonly Uint8Array[];
  /**
   * An error after the last frame, where frames depend on each other; `begun`: a frame has been sent. Default: the
   * dialect's `encodeStreamError`.
   */
  encodeError?(error: GatewayError, requestId: string, begun: boolean): Uint8Array;
  /** Present where streams of this wire have several framings. */
  readonly framings?: StreamFramings;
}

/** Framings of a wire that has several. */
export interface StreamFramings {
  /** Content type of the stream for a request with this query (`?…`, or empty). */
  contentTypeFor(query: string): string;
  /** Codec for streams of this content type. */
  codecFor(contentType: string): FrameCodec;
}

/** Codec of a wire for streams of this content type; undefined where the wire has no frames. */
export function codecFor<C extends FrameCodec | undefined>(
  frames: C,
  contentType: string | undefined,
): FrameCodec | C {
  return frames?.framings?.codecFor(contentType ?? '') ?? frames;
}

/** One text of a conversation with its place in the JSON body. */
export interface ConversationText {
  readonly role: string;
  readonly text: string;
  /** Path of the string in the request's JSON: `['messages', 3, 'content', 0, 'text']`. */
  readonly path: readonly (string | number)[];
}

/** Texts of a request for guards, independent of the dialect. */
export interface Conversation {
  readonly texts: readonly ConversationText[];
}

/** One generated text of a complete answer, independent of the wire. */
export interface AnswerText {
  /** A refusal of the model is a `text`. `tool-arguments` are JSON, in the form of the model or of the wire. */
  readonly type: 'text' | 'reasoning' | 'tool-arguments';
  /** Index of the choice. */
  readonly choice: number;
  /** For tool arguments: index of the call within the choice, from 0, and its name. */
  readonly call?: number;
  readonly name?: string;
  readonly text: string;
  /** Path in the answer's JSON. */
  readonly path: readonly (string | number)[];
}

/** The same with the fields of the wire that depend on it. */
export interface AnswerTextPlace extends AnswerText {
  /** The place holds a JSON object; `text` is its JSON. */
  readonly isJson?: true;
  /** Fields that repeat, count or prove the text, with their value once the text changes: `same` is the text itself. */
  readonly beside: readonly {
    readonly path: AnswerText['path'];
    readonly value: '' | null | 'same' | readonly never[];
  }[];
}

/** One violation in a request body. */
export interface RequestIssue {
  /** Dotted name of the field (`messages`, `tools[3].function.name`). */
  readonly param: string;
  readonly message: string;
}

/** Model and streaming of a request, wherever its wire has them. */
interface RequestedCall {
  /** Empty when absent. */
  readonly model: string;
  readonly stream: boolean;
}

/** A wire format on the client side. Pure: no network, no clock. */
export interface Dialect {
  readonly name: DialectName;
  /** First rule that the body violates, or undefined. `strict` is OpenAI compliance (default true). */
  validateRequest(endpoint: EndpointId, body: unknown, strict: boolean): RequestIssue | undefined;
  decodeConversation(endpoint: EndpointId, body: unknown): Conversation;
  /** Generated texts of a complete answer (its JSON), in their order; empty without any. */
  decodeAnswerTexts(endpoint: EndpointId, answer: unknown): readonly AnswerTextPlace[];
  /** Present where model and streaming are not in the body (`model`, `stream`): reads them from the raw path. */
  readCall?(path: string): RequestedCall;
  /** Present for chat wires that can be translated. */
  readonly chat?: ChatClientCodec;
  /** Facts of a complete (not streamed) answer. Never throws: an answer that is no JSON has no facts. */
  scanAnswer(endpoint: EndpointId, body: Uint8Array): AnswerFacts;
  streamScanner(endpoint: EndpointId): StreamScanner;
  /** Present where a stream carries usage only on request (`stream_options.include_usage`). */
  usageStripper?(): UsageStripper;
  /**
   * Streams as frames and events, for taps. Without it streams can only be forwarded and scanned; a guard that must
   * check them refuses the request instead of letting it pass unchecked.
   */
  readonly frames?: FrameCodec;
  /** Body of an error in the client's dialect; the client sees `requestId`. */
  encodeError(error: GatewayError, requestId: string): Uint8Array;
  /** An error event for a stream whose head has been sent. */
  encodeStreamError(error: GatewayError, requestId: string): Uint8Array;
}

/** A wire format on the provider side. Pure. */
export interface ProviderDialect {
  readonly name: DialectName;
  /** How a request reaches a host of this dialect. */
  plan(call: UpstreamCallFacts): UpstreamPlan;
}
