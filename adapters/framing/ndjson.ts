import { asBuffer } from '../dialects/json-reading.ts';
import { ByteStore } from './byte-store.ts';
import { isCompleteData } from './complete-data.ts';
import type { PayloadReader, StreamPayload } from './payload-reader.ts';
import { defaultMaxFrameBytes } from './sse.ts';

const LF = 0x0a;

/** Cuts newline-delimited JSON (LF or CRLF) into its lines. Blank lines give nothing. */
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

  /** Trimming takes the CR of CRLF away, and a byte order mark. */
  #takeLine(): string {
    return this.#store.take().toString('utf8').trim();
  }

  #fail(reason: string, payloads: StreamPayload[]): void {
    this.#broken = true;
    this.#store.take();
    payloads.push({ event: '', data: '', error: `NDJSON: ${reason}` });
  }
}
