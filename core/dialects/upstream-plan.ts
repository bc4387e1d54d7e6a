import type { ChatProviderCodec, EncodedRequest, EncodeReport } from './canonical/chat-codec.ts';
import type { JsonObject } from './canonical/chat-part.ts';
import type { ProviderError } from './canonical/chat-answer.ts';
import type { DialectName, EndpointId } from './endpoint.ts';
import type { HostFacts } from './host-facts.ts';
import type { Usage } from './usage.ts';

/** A request before its host's plan is chosen. */
export interface UpstreamCallFacts {
  readonly endpoint: EndpointId;
  /** Dialect of the client. */
  readonly spoken: DialectName;
  readonly method: string;
  /** Raw path relative to the gateway's base path. */
  readonly path: string;
  /** Raw query with its `?`, or empty. */
  readonly query: string;
  readonly stream: boolean;
  readonly host: HostFacts;
}

/** The part of a body's interface that a plan may use. */
export interface BodyEdits {
  readonly json: unknown;
  /** Any JSON value; integers beyond 2^53 as BigInt. */
  set(path: readonly (string | number)[], value: unknown): void;
  remove(path: readonly (string | number)[]): void;
}

/**
 * How a request reaches its host:
 * - `pass`: the original bytes, at `path` below the base URL (with its query); `edit` adapts them to the host and
 *   reports dropped members.
 * - `chat`: through the canonical form.
 * - `operation`: an OpenAI-shaped JSON request (embeddings, rerank, images, speech …) in the host's own shape.
 * - `refuse`: the host has no such operation.
 */
export type UpstreamPlan =
  | {
      readonly kind: 'pass';
      readonly path: string;
      readonly edit?: (body: BodyEdits, report?: EncodeReport) => void;
    }
  | { readonly kind: 'chat'; readonly codec: ChatProviderCodec }
  | { readonly kind: 'operation'; readonly codec: OperationCodec }
  | { readonly kind: 'refuse'; readonly message: string };

/** An answer in the OpenAI shape of the operation. */
export interface OperationAnswer {
  readonly body: JsonObject | Buffer;
  /** Default `application/json`; else that of the bytes (speech). */
  readonly contentType?: string;
  readonly usage?: Usage;
  readonly model?: string;
}

/** An operation beyond chat: OpenAI's shape for clients, the host's own shape upstream. Pure. */
export interface OperationCodec {
  /** Throws GatewayError `invalid_request` for a request that the host cannot serve. */
  encodeRequest(body: JsonObject, host: HostFacts, report: EncodeReport): EncodedRequest;
  /** Throws GatewayError `upstream_invalid`. `request` is the client's body. */
  decodeAnswer(body: Buffer, contentType: string, request: JsonObject): OperationAnswer;
  decodeError(status: number, body: Buffer): ProviderError;
}
