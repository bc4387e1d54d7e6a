import type { HostFacts } from '../host-facts.ts';
import type { ChatAnswer, ProviderError } from './chat-answer.ts';
import type { ChatEvent } from './chat-event.ts';
import type { Extras, JsonObject } from './chat-part.ts';
import type { ChatRequest } from './chat-request.ts';
import type { DialectName } from '../endpoint.ts';

/**
 * Collects the request members that a target's wire cannot express. Uses the names of the client's request where
 * sensible (`logit_bias`, `messages[2].content[0].cache_control`), at most `maxReported` of them.
 */
export class EncodeReport {
  readonly dropped: string[] = [];
  readonly emulated: string[] = [];

  /** The target has no equivalent: the member is lost. */
  drop(param: string): void {
    add(this.dropped, param);
  }

  /** Expressed by something nearly equivalent. */
  emulate(param: string): void {
    add(this.emulated, param);
  }
}

const maxReported = 64;

function add(list: string[], param: string): void {
  if (list.length < maxReported && !list.includes(param)) list.push(param);
}

/** Reports every extra that belongs to another dialect than `own`; `place` precedes each name (`messages[0].`). */
export function reportForeignExtras(
  extras: Extras | undefined,
  own: readonly DialectName[],
  report: EncodeReport,
  place = '',
): void {
  if (extras === undefined) return;
  for (const [dialect, members] of Object.entries(extras)) {
    if (own.includes(dialect as DialectName)) continue;
    for (const name of Object.keys(members)) report.drop(place + name);
  }
}

/** A client's request as received. */
export interface ClientCall {
  readonly body: JsonObject;
  /** From the body, or from the path where the wire has it there. */
  readonly model: string;
  readonly stream: boolean;
  /** Raw query with its `?`, or empty. */
  readonly query: string;
  readonly header: (name: string) => string | undefined;
}

/** Context of an error, in addition to its content. */
export interface ErrorContext {
  /** Name of the provider, for marking its errors. */
  readonly provider: string;
  readonly requestId: string;
}

/**
 * The request during reading and writing of its answer. For a large conversation, parsed in another thread, `messages`
 * holds only the instructions at its beginning: no wire repeats the rest.
 */
export type AnsweredRequest = ChatRequest;

/** Context of an answer, in addition to its content. Time and randomness come from here. */
export interface AnswerContext extends ErrorContext {
  readonly request: AnsweredRequest;
  /** Raw query of the client's request (`?alt=sse`). */
  readonly query: string;
  /** Set for an answer that is stored for later requests, with the earlier one that it continues. */
  readonly kept?: { readonly previousResponseId: string | null } | undefined;
  /** OpenAI compliance: only members that the client's wire documents. */
  readonly strict: boolean;
  /** Unix seconds. */
  readonly now: number;
  /** A fresh id: `newId('call_')`. */
  readonly newId: (prefix: string) => string;
}

/** Writes one streamed answer for a client. */
export interface ChatEventWriter {
  readonly contentType: string;
  /** Bytes of these events; undefined for none. */
  write(events: readonly ChatEvent[]): Buffer | undefined;
}

/** Client side of a chat wire. */
export interface ChatClientCodec {
  /**
   * Throws GatewayError `invalid_request` with the unreadable field, `not_supported` for features that only the wire's
   * own host has.
   */
  decodeRequest(call: ClientCall): ChatRequest;
  encodeAnswer(answer: ChatAnswer, context: AnswerContext): Buffer;
  eventWriter(context: AnswerContext): ChatEventWriter;
  /** The body of an error answer. */
  encodeProviderError(error: ProviderError, context: ErrorContext): Buffer;
}

/** A request in the provider's form. */
export interface EncodedRequest {
  /** Relative to the host's base URL, with a query where needed. Segments are percent-encoded. */
  readonly path: string;
  readonly body: string | Buffer;
  /** Default `application/json`. */
  readonly contentType?: string;
  /** Flat list of further headers. */
  readonly headers?: readonly string[];
}

/** Context of reading an answer. */
export interface DecodeContext {
  readonly request: AnsweredRequest;
  /** A fresh id where the wire has none: `newId('call_')`. */
  readonly newId: (prefix: string) => string;
}

/** Reads one streamed answer of a provider. */
export interface ChatEventReader {
  /** Never throws: unreadable content becomes an `error` event. */
  push(chunk: Uint8Array): readonly ChatEvent[];
  /** The bytes have ended. A stream without its own end marker ends in `error`, never in `end`. */
  finish(): readonly ChatEvent[];
}

/** Provider side of a chat wire. */
export interface ChatProviderCodec {
  encodeRequest(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest;
  /** Throws GatewayError `upstream_invalid` for an answer that does not fit this wire. */
  decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer;
  eventReader(contentType: string, context: DecodeContext): ChatEventReader;
  decodeError(status: number, body: Buffer): ProviderError;
}
