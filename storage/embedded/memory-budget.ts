/** How the memory of the embedded engine's process is shared out, bytes. */
interface MemoryBudget {
  /** What the engine may allocate, for everything. */
  readonly engine: number;
  /** What one query may. */
  readonly query: number;
  /** What one insert may, with what it makes for roll-ups. */
  readonly insert: number;
  readonly caches: {
    readonly marks: number;
    readonly primaryIndex: number;
    readonly indexMarks: number;
    readonly indexUncompressed: number;
    readonly queryCondition: number;
    readonly compiledExpressions: number;
    readonly textTokens: number;
    readonly textHeaders: number;
    readonly textPostings: number;
  };
}

const mebibyte = 1024 * 1024;
/** The runtime, the engine's code and its threads, before it has allocated anything for a statement. */
const processBytes = 300 * mebibyte;
/** Pages that were freed and have not gone back to the system yet. */
const slackShare = 0.1;
const cacheShare = 0.15;
/** A batch that waited in the journal for an hour is large, and one that finds no room never gets into the store. */
const insertShare = 0.5;
const queriesShare = 0.35;

/** Shares out what the process may take as resident memory: caches, the largest insert and all queries fit together. */
export function memoryBudget(processMemory: number, queries: number): MemoryBudget {
  const engine = Math.floor((processMemory - processBytes) * (1 - slackShare));
  const caches = Math.floor(engine * cacheShare);
  return {
    engine,
    query: Math.floor((engine * queriesShare) / queries),
    insert: Math.floor(engine * insertShare),
    caches: {
      marks: Math.floor(caches * 0.3),
      primaryIndex: Math.floor(caches * 0.2),
      indexMarks: Math.floor(caches * 0.1),
      indexUncompressed: Math.floor(caches * 0.05),
      queryCondition: Math.floor(caches * 0.1),
      compiledExpressions: Math.floor(caches * 0.05),
      textTokens: Math.floor(caches * 0.05),
      textHeaders: Math.floor(caches * 0.05),
      textPostings: Math.floor(caches * 0.1),
    },
  };
}
