import { asBuffer } from '../dialects/json-reading.ts';
import { AwsEventReader } from './aws-event-stream.ts';
import { JsonArrayReader } from './json-array.ts';
import { defaultMaxFrameBytes, readSseFrame, SseSplitter } from '../../core/base/sse.ts';
import { ByteStore, type PayloadReader, type StreamPayload } from './stream-payload.ts';

const LF = 0x0a;

/** Splits newline-delimited JSON (LF or CRLF) into lines. Blank lines are ignored. */
export class NdjsonReader implements PayloadReader {
  readonly #maxLineBytes: number;
  readonly #store = new ByteStore();
  #broken = false;

  /** `maxLineBytes` bounds one line; default 4 MiB. */
  constructor(maxLineBytes: number = defaultMaxFrameBytes) {
    this.#maxLineBytes = maxLineBytes;
  }

  push(bytes: Uint8Array): readonly StreamPayload[] {
    const payloads: StreamPayload[] = [];
    const chunk = asBuffer(bytes);
    let start = 0;
    while (start < chunk.length && !this.#broken) {
      const lineEnd = chunk.indexOf(LF, start);
      const end = lineEnd === -1 ? chunk.length : lineEnd;
      if (this.#store.length + end - start > this.#maxLineBytes) {
        this.#fail(`a line is longer than ${this.#maxLineBytes} bytes`, payloads);
        break;
      }
      this.#store.append(chunk, start, end);
      if (lineEnd === -1) break;
      const data = this.#takeLine();
      if (data !== '') payloads.push({ event: '', data });
      start = lineEnd + 1;
    }
    return payloads;
  }

  finish(): readonly StreamPayload[] {
    const payloads: StreamPayload[] = [];
    const data = this.#takeLine();
    if (data === '') return payloads;
    if (isCompleteData(data)) payloads.push({ event: '', data });
    else this.#fail('truncated: the stream ended within a line', payloads);
    return payloads;
  }

  /** Trimming removes the CR of CRLF, and a byte order mark. */
  #takeLine(): string {
    return this.#store.take().toString('utf8').trim();
  }

  #fail(reason: string, payloads: StreamPayload[]): void {
    this.#broken = true;
    this.#store.take();
    payloads.push({ event: '', data: '', error: `NDJSON: ${reason}` });
  }
}

/** Reads server-sent events. Frames without data (comments, keep-alives) are ignored. */
export class SseReader implements PayloadReader {
  readonly #splitter: SseSplitter;
  readonly #maxFrameBytes: number;
  #payloads: StreamPayload[] = [];
  #ending = false;
  #broken = false;

  /** `maxFrameBytes` bounds one frame; default 4 MiB. */
  constructor(maxFrameBytes: number = defaultMaxFrameBytes) {
    this.#maxFrameBytes = maxFrameBytes;
    this.#splitter = new SseSplitter((bytes, whole) => this.#take(bytes, whole), maxFrameBytes);
  }

  push(chunk: Uint8Array): readonly StreamPayload[] {
    if (this.#broken) return [];
    this.#splitter.push(chunk);
    return this.#drain();
  }

  finish(): readonly StreamPayload[] {
    if (this.#broken) return [];
    this.#ending = true;
    this.#splitter.finish();
    return this.#drain();
  }

  #drain(): readonly StreamPayload[] {
    const payloads = this.#payloads;
    this.#payloads = [];
    return payloads;
  }

  #take(bytes: Buffer, whole: boolean): void {
    if (this.#broken) return;
    if (!whole && !this.#ending) {
      this.#fail(`a frame is longer than ${this.#maxFrameBytes} bytes`);
      return;
    }
    const { event, data } = readSseFrame(bytes);
    if (data !== undefined && (whole || isCompleteData(data))) this.#payloads.push({ event, data });
    else if (!whole && (data !== undefined || isCutOff(bytes))) {
      this.#fail('truncated: the stream ended within a frame');
    }
  }

  #fail(reason: string): void {
    this.#broken = true;
    this.#payloads.push({ event: '', data: '', error: `Server-sent events: ${reason}` });
  }
}

/** True when a last frame without data ends inside a line other than a comment: that line may have been the data. */
function isCutOff(rest: Buffer): boolean {
  const line = /[^\r\n]*$/.exec(rest.toString('utf8'))?.[0] ?? '';
  return line !== '' && !line.startsWith(':');
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
 * `text/event-stream` and for unknown or missing types; bare JSON under such a type is detected and read as JSON.
 */
export function createPayloadReader(contentType: string): PayloadReader {
  const type = (contentType.split(';')[0] as string).trim().toLowerCase();
  return Object.hasOwn(readers, type) ? (readers[type] as () => PayloadReader)() : new SniffingReader();
}

/** Inspects the first byte after white space and a byte order mark: no event starts with a bracket. */
class SniffingReader implements PayloadReader {
  #reader: PayloadReader | undefined;

  push(chunk: Uint8Array): readonly StreamPayload[] {
    if (this.#reader !== undefined) return this.#reader.push(chunk);
    const bytes = asBuffer(chunk);
    const first = bytes.findIndex((byte) => !skipped.has(byte));
    if (first === -1) return [];
    // Lines of JSON and one object over several lines start alike; the array reader accepts both.
    this.#reader = brackets.has(bytes[first] as number) ? new JsonArrayReader() : new SseReader();
    return this.#reader.push(first === 0 ? chunk : bytes.subarray(first));
  }

  finish(): readonly StreamPayload[] {
    return this.#reader?.finish() ?? [];
  }
}

const skipped: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d, 0xef, 0xbb, 0xbf]);
const brackets: ReadonlySet<number> = new Set([0x5b, 0x7b]);

/**
 * True for data of a last frame that can be complete although nothing closes it: JSON, or the `[DONE]` that ends
 * OpenAI-like streams.
 */
function isCompleteData(data: string): boolean {
  if (data === '[DONE]') return true;
  try {
    JSON.parse(data);
    return true;
  } catch {
    return false;
  }
}
