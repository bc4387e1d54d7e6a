import type { HostFacts } from '../host-facts.ts';
import type { ChatAnswer, ProviderError } from './chat-answer.ts';
import type { ChatEvent } from './chat-event.ts';
import type { Extras, JsonObject } from './chat-part.ts';
import type { ChatRequest } from './chat-request.ts';
import type { DialectName } from '../endpoint.ts';

/**
 * Collects what a target's wire cannot say. The names are those of the client's request where that is sensible
 * (`logit_bias`, `messages[2].content[0].cache_control`), at most `maxReported` of them.
 */
export class EncodeReport {
  readonly dropped: string[] = [];
  readonly emulated: string[] = [];

  /** The target cannot be told: it is lost. */
  drop(param: string): void {
    add(this.dropped, param);
  }

  /** Said in other words that mean nearly the same. */
  emulate(param: string): void {
    add(this.emulated, param);
  }
}

const maxReported = 64;

function add(list: string[], param: string): void {
  if (list.length < maxReported && !list.includes(param)) list.push(param);
}

/** Reports every extra that belongs to another dialect than `own`; `place` is put before each name (`messages[0].`). */
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

/** A client's request as it came. */
export interface ClientCall {
  readonly body: JsonObject;
  /** From the body, or from the path where the wire has it there. */
  readonly model: string;
  readonly stream: boolean;
  /** Raw query with its `?`, or empty. */
  readonly query: string;
  readonly header: (name: string) => string | undefined;
}

/** What an error needs beside its content. */
export interface ErrorContext {
  /** Name of the provider, to mark its errors with. */
  readonly provider: string;
  readonly requestId: string;
}

/**
 * What answers are read and written with. Of a large conversation, which was read in another thread, `messages` holds
 * the instructions at its beginning alone: no wire says the rest again.
 */
export type AnsweredRequest = ChatRequest;

/** What an answer needs beside its content. Time and randomness come in from here. */
export interface AnswerContext extends ErrorContext {
  readonly request: AnsweredRequest;
  /** Raw query of the client's request (`?alt=sse`). */
  readonly query: string;
  /** Set for an answer that is kept for later requests, with the earlier one that it goes on from. */
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
  /** The bytes that say these events; undefined for none. */
  write(events: readonly ChatEvent[]): Buffer | undefined;
}

/** The client's side of a chat wire: what a caller may speak to the gateway. */
export interface ChatClientCodec {
  /** Throws GatewayError `invalid_request` with the field that cannot be read, `not_supported` for what nobody but this wire's own host can serve. */
  decodeRequest(call: ClientCall): ChatRequest;
  encodeAnswer(answer: ChatAnswer, context: AnswerContext): Buffer;
  eventWriter(context: AnswerContext): ChatEventWriter;
  /** The body of an error answer. */
  encodeProviderError(error: ProviderError, context: ErrorContext): Buffer;
}

/** A request as it goes to the provider. */
export interface EncodedRequest {
  /** Below the host's base URL, with a query where one is needed. Segments are percent-encoded. */
  readonly path: string;
  readonly body: string | Buffer;
  /** Default `application/json`. */
  readonly contentType?: string;
  /** Flat list of further headers. */
  readonly headers?: readonly string[];
}

/** What reading an answer needs. */
export interface DecodeContext {
  readonly request: AnsweredRequest;
  /** A fresh id for what the wire does not number: `newId('call_')`. */
  readonly newId: (prefix: string) => string;
}

/** Reads one streamed answer of a provider. */
export interface ChatEventReader {
  /** Never throws: what cannot be read becomes an `error` event. */
  push(chunk: Uint8Array): readonly ChatEvent[];
  /** The bytes have ended. A stream that did not say that it is complete ends in `error`, never in `end`. */
  finish(): readonly ChatEvent[];
}

/** The provider's side of a chat wire: what the gateway may speak to a host. */
export interface ChatProviderCodec {
  encodeRequest(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest;
  /** Throws GatewayError `upstream_invalid` for what is no answer of this wire. */
  decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer;
  eventReader(contentType: string, context: DecodeContext): ChatEventReader;
  decodeError(status: number, body: Buffer): ProviderError;
}
