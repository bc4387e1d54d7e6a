import { EngineError } from './engine-error.ts';

interface Waiting<T> {
  readonly resolve: (session: T) => void;
  readonly reject: (error: Error) => void;
}

/** Hands out sessions, each to one caller at a time, in the order of asking. The queue of callers is bounded. */
export class SessionPool<T> {
  readonly #free: T[];
  readonly #waiting: Waiting<T>[] = [];
  readonly #maxWaiting: number;
  #busy = 0;
  #closed = false;
  #whenIdle: (() => void) | undefined;

  constructor(sessions: readonly T[], maxWaiting: number) {
    this.#free = [...sessions];
    this.#maxWaiting = maxWaiting;
  }

  /** Runs `work` with a session of its own. Throws an `EngineError` 202 when too many wait, or after `close`. */
  async use<R>(work: (session: T) => Promise<R>): Promise<R> {
    const session = await this.#take();
    try {
      return await work(session);
    } finally {
      this.#give(session);
    }
  }

  /** Refuses everybody who waits and resolves when the last caller is done. */
  close(): Promise<void> {
    this.#closed = true;
    for (const { reject } of this.#waiting.splice(0)) reject(stopping());
    if (this.#busy === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenIdle = resolve;
    });
  }

  #take(): Promise<T> {
    if (this.#closed) return Promise.reject(stopping());
    const session = this.#free.pop();
    if (session !== undefined) {
      this.#busy += 1;
      return Promise.resolve(session);
    }
    if (this.#waiting.length >= this.#maxWaiting) {
      const message = `${this.#maxWaiting} statements wait already. Try again later.`;
      return Promise.reject(new EngineError(202, 'TOO_MANY_SIMULTANEOUS_QUERIES', message));
    }
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  #give(session: T): void {
    const next = this.#waiting.shift();
    if (next !== undefined) return next.resolve(session);
    this.#free.push(session);
    this.#busy -= 1;
    if (this.#busy === 0) this.#whenIdle?.();
  }
}

function stopping(): EngineError {
  return new EngineError(439, 'CANNOT_SCHEDULE_TASK', 'The embedded engine is stopping.');
}
