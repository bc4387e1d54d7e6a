/** Memory shares of the embedded engine's process, bytes. */
interface MemoryBudget {
  /** Limit of the engine's allocations, in total. */
  readonly engine: number;
  /** Limit of one query. */
  readonly query: number;
  /** Limit of one insert, with its rows for roll-ups. */
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
/** The runtime, the engine's code and its threads, before any allocation for a statement. */
const processBytes = 300 * mebibyte;
/** Freed pages that have not been returned to the system yet. */
const slackShare = 0.1;
const cacheShare = 0.15;
/** A batch that waited in the journal for an hour is large, and one without memory never gets into the store. */
const insertShare = 0.5;
const queriesShare = 0.35;

/** Divides the process's resident memory so that caches, the largest insert and all queries fit together. */
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
