import type { AnswerFacts } from '../dialects/dialect.ts';
import type { DialectName } from '../dialects/endpoint.ts';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type { Duplex } from 'node:stream';

/** Where streamed bytes go. */
export interface StreamTarget {
  /** Returns false to pause the source; `resume` of the source continues it. */
  data(chunk: Buffer): boolean;
  end(): void;
  /** The source broke: the client must be able to tell. `told` are the bytes that say it on the stream's wire, when the source knows how. */
  fail(error: GatewayError, told?: Buffer): void;
}

/** Bytes that are still on their way. */
export interface StreamSource {
  /** Starts the flow; called once at the most. Nothing flows before. */
  pipe(target: StreamTarget): void;
  /** Lets a paused flow go on. May be called at any time: one that is not paused goes on as it is. */
  resume(): void;
  /** Stops the flow and releases what feeds it; the target is not called any more. */
  cancel(error: GatewayError): void;
}

/** An answer on its way to the client. */
export interface Answer {
  readonly status: number;
  readonly headers: HeaderList;
  /** Null: no body at all (HEAD, 204, 304). */
  readonly body: Buffer | StreamSource | null;
  /** Who wrote it. Default `gateway`. */
  readonly source?: 'gateway' | 'provider';
  /** The body is known to be one JSON object, so that the log need not escape it. */
  readonly isJson?: boolean;
  /** What has been read from a whole body already. */
  readonly facts?: AnswerFacts;
  /** The wire format of a streamed body, when taps may read it. */
  readonly dialect?: DialectName;
  /** The provider's connection, when it switched to WebSocket (status 101, no body). */
  readonly switched?: SwitchedProvider;
}

/** A provider's connection that has left HTTP. */
export interface SwitchedProvider {
  readonly connection: Duplex;
  /** Longest time without a byte in either direction, in milliseconds; 0 for no bound. */
  readonly idleTimeoutMs: number;
}

export function isStreamSource(body: Answer['body']): body is StreamSource {
  return body !== null && !Buffer.isBuffer(body);
}
