/** What one event of a provider's stream carries, whatever the framing. */
export interface StreamPayload {
  /** The SSE `event:` name, or AWS's `:event-type`, `:exception-type` or `:error-code`; else empty. */
  readonly event: string;
  /** The text to parse, as it stood in the stream. Empty beside `error`. */
  readonly data: string;
  /** AWS's `:message-type`; absent in the other framings. Every other value than `event` is the provider's error. */
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

/**
 * Collects the bytes of one unfinished piece over several chunks. The first chunk is kept as a view; from the second
 * on everything is copied into a buffer that doubles, so that many small chunks cost linear time.
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

  /** Everything held, and holds nothing from now on. */
  take(): Buffer {
    const { bytes } = this;
    this.#store = undefined;
    this.#isOwn = false;
    this.#length = 0;
    return bytes;
  }
}
