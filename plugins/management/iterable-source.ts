import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { StreamSource, StreamTarget } from '../../core/pipeline/answer.ts';

/** Streams what is iterated over, as fast as the client takes it: nothing is read ahead. */
export class IterableSource implements StreamSource {
  readonly #content: AsyncIterable<Buffer>;
  #isCancelled = false;
  #wake: () => void = () => undefined;

  constructor(content: AsyncIterable<Buffer>) {
    this.#content = content;
  }

  pipe(target: StreamTarget): void {
    void this.#flow(target);
  }

  resume(): void {
    this.#wake();
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#wake();
  }

  async #flow(target: StreamTarget): Promise<void> {
    try {
      for await (const chunk of this.#content) {
        if (this.#isCancelled) return;
        const room = new Promise<void>((resolve) => (this.#wake = resolve));
        if (!target.data(chunk)) await room;
        if (this.#isCancelled) return;
      }
      target.end();
    } catch (cause) {
      if (this.#isCancelled) return;
      const message = 'The file could not be read to its end. Try again.';
      target.fail(GatewayError.is(cause) ? cause : new GatewayError('internal', message, { cause }));
    }
  }
}
