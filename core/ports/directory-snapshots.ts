/** A directory as it was at one moment. */
export interface DirectorySnapshot {
  /** Wall clock: when the store held exactly this, milliseconds since the epoch. */
  readonly at: number;
  /** JSON values, in the order in which they are read again. */
  readonly rows: Iterable<unknown>;
}

/** Where a directory keeps what it knows, for a start at which its store does not answer. */
export interface DirectorySnapshots {
  /**
   * The one that was written last; its `at` is that of the last `confirm`. Undefined when there is none, or none that can
   * be used; why it cannot is in the log. Never rejects.
   */
  read(): Promise<DirectorySnapshot | undefined>;
  /** Puts it in the place of the one before, whole or not at all. Rejects when it cannot be written. */
  write(snapshot: DirectorySnapshot): Promise<void>;
  /** The store still holds at `at` exactly what was written last. */
  confirm(at: number): Promise<void>;
}
