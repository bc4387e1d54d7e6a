import { Readable } from 'node:stream';

/**
 * A request body on its way upstream: passes `source` on with its back-pressure and never destroys it.
 *
 * undici destroys the stream that it sends when a call ends early; for the body of an incoming request that would
 * cut the client's connection before its answer is written. What the source still holds is left to its owner.
 */
export class RequestBody extends Readable {
  readonly #source: Readable;
  readonly #onBroken: (cause: Error | undefined) => void;
  #attached = false;
  /** More was asked of the source than it has given yet. */
  waiting = false;
  /** Bytes handed on so far. */
  passedBytes = 0;

  /** `onBroken` is called once when the source fails or closes before its end. */
  constructor(source: Readable, onBroken: (cause: Error | undefined) => void) {
    super();
    this.#source = source;
    this.#onBroken = onBroken;
  }

  override _read(): void {
    this.waiting = true;
    if (!this.#attached) this.#attach();
    this.#source.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    if (this.#attached) {
      this.#detach();
      this.#source.pause();
    }
    callback(error);
  }

  #attach(): void {
    this.#attached = true;
    if (this.#source.readableEnded) {
      this.push(null);
      return;
    }
    if (this.#source.destroyed) {
      this.#onBroken(this.#source.errored ?? undefined);
      return;
    }
    this.#source
      .on('data', this.#onData)
      .on('end', this.#onEnd)
      .on('error', this.#onError)
      .on('close', this.#onClose);
  }

  #detach(): void {
    this.#source
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('error', this.#onError)
      .off('close', this.#onClose);
  }

  readonly #onData = (chunk: Buffer): void => {
    this.waiting = false;
    this.passedBytes += chunk.length;
    if (!this.push(chunk)) this.#source.pause();
  };

  readonly #onEnd = (): void => {
    this.waiting = false;
    this.#detach();
    this.push(null);
  };

  readonly #onError = (error: Error): void => {
    this.#detach();
    this.#onBroken(error);
  };

  readonly #onClose = (): void => {
    this.#detach();
    this.#onBroken(undefined);
  };
}
