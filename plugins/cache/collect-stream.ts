import type { StreamSource } from '../../core/pipeline/answer.ts';

/** What all streams that are being collected hold together, in bytes. */
export class CollectingBudget {
  private readonly maxBytes: number;
  private held = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  take(bytes: number): boolean {
    if (this.held + bytes > this.maxBytes) return false;
    this.held += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.held -= bytes;
  }
}

/** Bounds of one collected stream, and who is told how it ended. Exactly one of the two is called, or none when it broke. */
export interface Collecting {
  readonly maxBytes: number;
  readonly budget: CollectingBudget;
  /** All of it, before the reader learns of its end. */
  whole(bytes: Buffer): void;
  /** It is longer than what may be kept; from here on it only flows by. */
  tooLong(): void;
}

/** The same stream, with a copy of it kept while it flows by. Nothing waits for the copy. */
export function collectStream(source: StreamSource, collecting: Collecting): StreamSource {
  const { budget, maxBytes } = collecting;
  let chunks: Buffer[] | undefined = [];
  let size = 0;

  const drop = (): void => {
    if (chunks === undefined) return;
    chunks = undefined;
    budget.giveBack(size);
  };
  const keep = (chunk: Buffer): void => {
    if (chunks === undefined) return;
    if (size + chunk.length > maxBytes || !budget.take(chunk.length)) {
      drop();
      collecting.tooLong();
      return;
    }
    size += chunk.length;
    chunks.push(chunk);
  };

  return {
    pipe(target) {
      source.pipe({
        data(chunk) {
          keep(chunk);
          return target.data(chunk);
        },
        end() {
          const kept = chunks;
          drop();
          if (kept !== undefined) collecting.whole(Buffer.concat(kept));
          target.end();
        },
        fail(error, told) {
          drop();
          target.fail(error, told);
        },
      });
    },
    resume: () => source.resume(),
    cancel(error) {
      drop();
      source.cancel(error);
    },
  };
}
