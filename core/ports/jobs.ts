/** What a job's handler is told. */
export interface JobRun<T> {
  /** The same for every attempt at the same job: handlers are run at least once, so they must not mind a second time. */
  readonly id: string;
  readonly data: T;
  /** From 1. One that the end of the gateway cut is not counted. */
  readonly attempt: number;
  /** Ends when the gateway begins to stop, and when the attempt takes too long. */
  readonly signal: AbortSignal;
}

/** A kind of work that is done beside requests. */
export interface JobDefinition<T> {
  /** `keys.expire`: lower-case words with dots between them. */
  readonly name: string;
  /** Attempts in all before a job is given up; default 5. Between them it waits 1 s, 2 s, 4 s … up to `longestWaitMs`. */
  readonly attempts?: number;
  /** The longest wait between two attempts; default 60,000 ms. */
  readonly longestWaitMs?: number;
  /** An attempt that takes longer counts as failed; default 60,000 ms. */
  readonly timeoutMs?: number;
  /**
   * An id whose job was done is remembered for so long, and adding it again does nothing meanwhile. Milliseconds; default 0.
   * Of those in a folder the last 10,000 are remembered.
   */
  readonly onceForMs?: number;
  handle(run: JobRun<T>): Promise<void>;
}

/** A job that comes again and again, once for all replicas that share the store. */
export interface RepeatedJob {
  readonly name: string;
  /** From one beginning to the next, at least 1,000 ms. A start that was missed while nobody ran is made up once. The first comes at once. */
  readonly everyMs: number;
}

/**
 * Work that is done beside requests: at least once, also when the process is killed in between. A job is known by its
 * id; adding one that waits or runs already does nothing. Data are plain JSON, 64 KiB at the most; 10,000 jobs wait at the most.
 */
export interface Jobs {
  /** Says how jobs of a name are done. Before `start`; throws `TypeError` for a second one of the same name. */
  define<T>(definition: JobDefinition<T>): void;
  /** Makes a defined job come again and again, with empty data. Before `start`. */
  repeat(job: RepeatedJob): void;
  /** Begins to run jobs. Resolves at once when the store is away: it begins when the store answers. */
  start(): Promise<void>;
  /**
   * Resolves when the job is stored. Rejects with `store_unavailable` when the store is away (after 2 s at the most; it
   * may still be stored then), `too_many_jobs` when the queue is full, `shutting_down` after `close`, and `TypeError`
   * for a name that is not defined, an id that is empty or above 255 characters, and data that cannot be stored.
   */
  add<T>(name: string, id: string, data: T, options?: { readonly delayMs?: number }): Promise<void>;
  /** What waits, runs and was given up, for metrics and `/readyz`. */
  counts(): Promise<{ readonly waiting: number; readonly running: number; readonly failed: number }>;
  /** Stops beginning jobs, waits for those that run (5 s at the most) and leaves the rest stored. */
  close(): Promise<void>;
}
