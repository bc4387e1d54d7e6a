import type { Clock } from '../ports/clock.ts';
import type { MaybePromise } from '../pipeline/context.ts';

/** Runs something of a plugin's and reports, under this hook's name, what it throws or rejects with. */
export type Guard = (hook: string, run: () => MaybePromise<void>) => MaybePromise<void>;

const longestDelayMs = 2_147_483_647;

/** The timers of one plugin instance: guarded, never keeping the process alive, and stopped all at once. */
export class ScopeTimers {
  readonly #clock: Clock;
  readonly #guard: Guard;
  readonly #cancels = new Set<() => void>();
  #stopped = false;

  constructor(clock: Clock, guard: Guard) {
    this.#clock = clock;
    this.#guard = guard;
  }

  /** Timers that have not fired yet, and intervals. */
  get size(): number {
    return this.#cancels.size;
  }

  /** Runs once after `ms` (0 to 2^31-1, else RangeError). Returns the function that cancels it. */
  once(run: () => MaybePromise<void>, ms: number): () => void {
    checkDelay('setTimeout', ms, 0);
    return this.#track((done) =>
      this.#clock.after(ms, () => {
        done();
        void this.#guard('timer', run);
      }),
    );
  }

  /** Runs every `ms` (1 to 2^31-1, else RangeError); a turn is left out while the one before is still running. */
  every(run: () => MaybePromise<void>, ms: number): () => void {
    checkDelay('setInterval', ms, 1);
    return this.#track(() => {
      let running = false;
      const turn = (): void => {
        cancelNext = this.#clock.after(ms, turn);
        if (running) return;
        const result = this.#guard('timer', run);
        if (result === undefined) return;
        running = true;
        void result.finally(() => (running = false));
      };
      let cancelNext = this.#clock.after(ms, turn);
      return () => cancelNext();
    });
  }

  /** Stops every timer, and starts none from now on. */
  stop(): void {
    this.#stopped = true;
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
  }

  #track(start: (done: () => void) => () => void): () => void {
    if (this.#stopped) return () => undefined;
    const done = (): void => void this.#cancels.delete(stop);
    const stopTimer = start(done);
    const stop = (): void => {
      stopTimer();
      done();
    };
    this.#cancels.add(stop);
    return stop;
  }
}

function checkDelay(name: string, ms: number, least: number): void {
  if (Number.isFinite(ms) && ms >= least && ms <= longestDelayMs) return;
  throw new RangeError(`${name} takes ${least} to ${longestDelayMs} milliseconds, not ${ms}`);
}
