import { asBuffer } from '../dialects/json-reading.ts';
import { AwsEventReader } from './aws-event-reader.ts';
import { JsonArrayReader } from './json-array.ts';
import { NdjsonReader } from './ndjson.ts';
import { SseReader } from './sse-reader.ts';

/** What one event of a provider's stream carries, whatever the framing. */
export interface StreamPayload {
  /** The SSE `event:` name, or AWS's `:event-type`, `:exception-type` or `:error-code`; else empty. */
  readonly event: string;
  /** The text to parse, as it stood in the stream. Empty beside `error`. */
  readonly data: string;
  /** AWS's `:message-type`; absent in the other framings. Whatever is not `event` is the provider's error. */
  readonly messageType?: 'event' | 'exception' | 'error';
  /**
   * The framing itself is broken (a wrong checksum, something cut off or too long), and this says how. It is the last
   * payload of its stream: bytes that follow are ignored.
   */
  readonly error?: string;
}

/** Bytes in, payloads out. Where the chunks are cut makes no difference to what comes out. */
export interface PayloadReader {
  /** Reads the next bytes. They may be kept until their payload is complete and must not be overwritten. */
  push(chunk: Uint8Array): readonly StreamPayload[];
  /** What the end of the stream completes, or the error of what it cut off. Called once, after the last `push`. */
  finish(): readonly StreamPayload[];
}

const readers: Readonly<Record<string, () => PayloadReader>> = {
  'application/json': () => new JsonArrayReader(),
  'application/x-ndjson': () => new NdjsonReader(),
  'application/ndjson': () => new NdjsonReader(),
  'application/jsonl': () => new NdjsonReader(),
  'application/stream+json': () => new NdjsonReader(),
  'application/vnd.amazon.eventstream': () => new AwsEventReader(),
};

/**
 * The reader for a stream's `content-type` (parameters and case do not matter). Server-sent events for
 * `text/event-stream` and for anything unknown or missing; hosts that send bare JSON under such a type are read as
 * what they send.
 */
export function createPayloadReader(contentType: string): PayloadReader {
  const type = (contentType.split(';')[0] as string).trim().toLowerCase();
  return Object.hasOwn(readers, type) ? (readers[type] as () => PayloadReader)() : new SniffingReader();
}

/** Looks at the first byte that is no white space or byte order mark: no event begins with a bracket. */
class SniffingReader implements PayloadReader {
  #reader: PayloadReader | undefined;

  push(chunk: Uint8Array): readonly StreamPayload[] {
    if (this.#reader !== undefined) return this.#reader.push(chunk);
    const bytes = asBuffer(chunk);
    const first = bytes.findIndex((byte) => !skipped.has(byte));
    if (first === -1) return [];
    // Lines of JSON and one object over several lines look alike at first; the array reader takes both.
    this.#reader = brackets.has(bytes[first] as number) ? new JsonArrayReader() : new SseReader();
    return this.#reader.push(first === 0 ? chunk : bytes.subarray(first));
  }

  finish(): readonly StreamPayload[] {
    return this.#reader?.finish() ?? [];
  }
}

const skipped: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d, 0xef, 0xbb, 0xbf]);
const brackets: ReadonlySet<number> = new Set([0x5b, 0x7b]);
