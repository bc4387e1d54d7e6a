/** What a process held at one moment, in bytes. */
export interface MemoryReading {
  /**
   * Resident memory without that of V8's young generation, whose size is a setting (the gateway is started with a large
   * one) and follows what was allocated lately, not what is held.
   */
  readonly resident: number;
  /** Objects of JavaScript that are alive. */
  readonly heapUsed: number;
  /** Buffers and what else V8 knows outside its heap. */
  readonly external: number;
}

/** The question. */
export interface MemoryQuestion {
  readonly ask: 'memory';
  /** Also writes a heap snapshot there. */
  readonly snapshot?: string;
}
