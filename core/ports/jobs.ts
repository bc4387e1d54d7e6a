/** One attempt at a job, as its handler receives it. */
export interface JobRun<T> {
  /** The same for every attempt at the same job. Handlers run at least once, so they must be idempotent. */
  readonly id: string;
  readonly data: T;
  /** From 1. An attempt that a shutdown interrupted does not count. */
  readonly attempt: number;
  /** Aborts when the gateway begins to stop, and when the attempt takes too long. */
  readonly signal: AbortSignal;
}

/** A kind of background work. */
export interface JobDefinition<T> {
  /** `keys.expire`: lower-case words with dots between them. */
  readonly name: string;
  /** Upper bound of attempts at a job; default 5. The waits between them are 1 s, 2 s, 4 s … up to `longestWaitMs`. */
  readonly attempts?: number;
  /** The longest wait between two attempts; default 60,000 ms. */
  readonly longestWaitMs?: number;
  /** An attempt that takes longer counts as failed; default 60,000 ms. */
  readonly timeoutMs?: number;
  /**
   * Time in milliseconds for which the id of a completed job is remembered: adding it again does nothing. Default 0.
   * A store in a folder remembers the last 10,000.
   */
  readonly onceForMs?: number;
  handle(run: JobRun<T>): Promise<void>;
}

/** A periodic job, which runs once for all replicas that share the store. */
export interface RepeatedJob {
  readonly name: string;
  /** Interval between starts, at least 1,000 ms; the first is immediate. Starts missed while no replica ran are made up once. */
  readonly everyMs: number;
}

/** Attempts at jobs of one name that this process has made since its start. */
export interface JobRuns {
  readonly name: string;
  /** Interval of a repeated job in milliseconds; undefined for one that is added. */
  readonly everyMs: number | undefined;
  readonly attempts: number;
  /** Attempts that failed, with or without another one after them. */
  readonly failed: number;
  /** The attempt that ended last. `at` is its start, milliseconds since the epoch. */
  readonly last:
    | {
        readonly at: number;
        readonly tookMs: number;
        readonly outcome: 'done' | 'retried' | 'given_up' | 'interrupted';
      }
    | undefined;
  /** The failure that came last, which later attempts may have mended. `at` is the start of its attempt. */
  readonly error: { readonly at: number; readonly message: string } | undefined;
}

/**
 * Background work: runs at least once, even when the process is killed on the way. The id identifies a job; adding one
 * that already waits or runs does nothing. Data are plain JSON, 64 KiB at the most; at most 10,000 jobs wait.
 */
export interface Jobs {
  /** Defines the handler for jobs of a name. Before `start`; throws `TypeError` for a second one of the same name. */
  define<T>(definition: JobDefinition<T>): void;
  /** Schedules a defined job periodically, with empty data. Before `start`. */
  repeat(job: RepeatedJob): void;
  /** Begins to run jobs. Resolves at once while the store is unreachable: jobs then begin when the store answers. */
  start(): Promise<void>;
  /**
   * Resolves when the job is stored. Rejects with `store_unavailable` when the store is unreachable (after 2 s at the
   * most; the job may be stored anyway), `too_many_jobs` when the queue is full, `shutting_down` after `close`, and `TypeError`
   * for a name that is not defined, an id that is empty or above 255 characters, and data that cannot be stored.
   */
  add<T>(name: string, id: string, data: T, options?: { readonly delayMs?: number }): Promise<void>;
  /** Numbers of waiting, running and failed jobs, for metrics and `/readyz`. */
  counts(): Promise<{ readonly waiting: number; readonly running: number; readonly failed: number }>;
  /** Of each defined job, by name. */
  runs(): readonly JobRuns[];
  /** Starts no more jobs, waits for running ones (5 s at the most) and leaves the rest stored. */
  close(): Promise<void>;
}
