import { bounded } from '../base/deadline.ts';
import type { Clock } from '../ports/clock.ts';
import type { MaybePromise } from '../pipeline/context.ts';

/** Undoes one step of a construction. */
type Undo = () => MaybePromise<void>;

/** Options of an `UndoStack`. */
interface UndoStackOptions {
  readonly clock: Clock;
  /** Longest time for one step in milliseconds. Default 10000. */
  readonly timeoutMs?: number;
  /** Called for each step that threw, rejected or took too long; the others run all the same. Must not throw. */
  readonly onError: (error: unknown) => void;
}

/**
 * Undoes the steps of a construction, last step first. Push right after each step, so that a construction that fails
 * half-way can be undone as well as a complete one.
 */
export class UndoStack {
  readonly #steps: Undo[] = [];
  readonly #options: UndoStackOptions;
  #disposal: Promise<void> | undefined;
  #ended = false;

  constructor(options: UndoStackOptions) {
    this.#options = options;
  }

  /** Steps that would run now. */
  get size(): number {
    return this.#steps.length;
  }

  /** Adds a step. After disposal it runs at once: a construction that ends late must not leave anything behind. */
  push(undo: Undo): void {
    if (this.#ended) void this.#run(undo);
    else this.#steps.push(undo);
  }

  /** Runs every step once, last first, one after the other. Never rejects; calling it again gives the same promise. */
  dispose(): Promise<void> {
    this.#disposal ??= this.#runAll();
    return this.#disposal;
  }

  async #runAll(): Promise<void> {
    for (let undo = this.#steps.pop(); undo !== undefined; undo = this.#steps.pop()) await this.#run(undo);
    this.#ended = true;
  }

  async #run(undo: Undo): Promise<void> {
    const { clock, timeoutMs: ms = 10_000, onError } = this.#options;
    const late = (): Error => new Error(`a clean-up step has not ended within ${ms} ms and is left behind`);
    try {
      await bounded(undo, { clock, ms, late });
    } catch (error) {
      onError(error);
    }
  }
}
