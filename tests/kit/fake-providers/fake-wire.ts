import type { JsonObject } from '../../../adapters/dialects/json-reading.ts';
import type { DialectName } from '../../../core/dialects/endpoint.ts';

/** A request as a provider received it. */
export interface SeenRequest {
  readonly method: string;
  /** Raw, with its query. */
  readonly url: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly bytes: Buffer;
  /** Empty when the body is no JSON object. */
  readonly body: JsonObject;
}

/** What a request asks for, as the wire says it. */
interface Asked {
  readonly model: string;
  readonly stream: boolean;
}

/** One wire as its vendor serves it: where it listens, what it refuses, how it frames. */
export interface FakeWire {
  readonly dialect: DialectName;
  /** Undefined when the request is none of this wire's. */
  asked(request: SeenRequest): Asked | undefined;
  /** Everything for which the vendor would refuse the request with 400; empty when it is fine. */
  violations(request: SeenRequest): readonly string[];
  readonly streamType: string;
  /** The bytes of one event of a stream. */
  frame(event: JsonObject): Buffer;
  /** Whether an event of a fixture is sent at all, for wires where the request decides. */
  wanted?(event: JsonObject, request: SeenRequest): boolean;
  /** The event from which on the wire calls the answer finished. */
  isEndSign(event: JsonObject): boolean;
  /** What follows the last event (`data: [DONE]`). */
  readonly ending?: Buffer;
  errorBody(status: number, message: string): JsonObject;
  /** An error in the middle of a stream that began well. */
  errorFrame(message: string): Buffer;
}

/** Server-sent event of one line of data, with its `event:` line where the wire has one. */
export function sseFrame(data: string, event?: string): Buffer {
  return Buffer.from(`${event === undefined ? '' : `event: ${event}\n`}data: ${data}\n\n`);
}

/** The path without its query. */
export function pathOf(request: SeenRequest): string {
  return request.url.split('?', 1)[0] as string;
}
