import { isCompleteData } from './complete-data.ts';
import type { PayloadReader, StreamPayload } from './payload-reader.ts';
import { readSseFrame } from './sse-frame.ts';
import { defaultMaxFrameBytes, SseSplitter } from './sse.ts';

/** Reads server-sent events. Frames without data (comments, keep-alives) give nothing. */
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

/** Whether a last frame without data ends within a line that is no comment: that line may have been the data. */
function isCutOff(rest: Buffer): boolean {
  const line = /[^\r\n]*$/.exec(rest.toString('utf8'))?.[0] ?? '';
  return line !== '' && !line.startsWith(':');
}
