/** Content of one event of a provider's stream, in any framing. */
export interface StreamPayload {
  /** The SSE `event:` name, or AWS's `:event-type`, `:exception-type` or `:error-code`; else empty. */
  readonly event: string;
  /** The text to parse, unchanged from the stream. Empty beside `error`. */
  readonly data: string;
  /** AWS's `:message-type`; absent in the other framings. Every value except `event` is a provider error. */
  readonly messageType?: 'event' | 'exception' | 'error';
  /**
   * Error of the framing itself (a wrong checksum, truncated or oversized data). It is the last payload of its stream:
   * later bytes are ignored.
   */
  readonly error?: string;
}

/** Bytes in, payloads out. The chunk boundaries do not affect the output. */
export interface PayloadReader {
  /** Reads the next bytes. They may be kept until their payload is complete and must not be overwritten. */
  push(chunk: Uint8Array): readonly StreamPayload[];
  /**
   * Payloads completed by the end of the stream, or the error of truncated data. Called once, after the last `push`.
   */
  finish(): readonly StreamPayload[];
}

/**
 * Collects the bytes of one unfinished piece over several chunks. The first chunk is kept as a view; later ones are
 * copied into a buffer that doubles, so that many small chunks cost linear time.
 */
export class ByteStore {
  #store: Buffer | undefined;
  #isOwn = false;
  #length = 0;

  /** Bytes held. */
  get length(): number {
    return this.#length;
  }

  /** The bytes held; valid until the next call. */
  get bytes(): Buffer {
    return this.#store === undefined ? Buffer.alloc(0) : this.#store.subarray(0, this.#length);
  }

  /** Adds `chunk[start, end)`. The chunk must not be overwritten while it is held. */
  append(chunk: Buffer, start: number, end: number): void {
    if (end <= start) return;
    if (this.#length === 0) {
      this.#store = chunk.subarray(start, end);
      this.#isOwn = false;
      this.#length = end - start;
      return;
    }
    const needed = this.#length + end - start;
    if (!this.#isOwn || needed > (this.#store?.length ?? 0)) {
      const grown = Buffer.allocUnsafeSlow(Math.max(512, needed * 2));
      this.#store?.copy(grown, 0, 0, this.#length);
      this.#store = grown;
      this.#isOwn = true;
    }
    this.#length += chunk.copy(this.#store as Buffer, this.#length, start, end);
  }

  /** Returns all held bytes and empties the store. */
  take(): Buffer {
    const { bytes } = this;
    this.#store = undefined;
    this.#isOwn = false;
    this.#length = 0;
    return bytes;
  }
}
