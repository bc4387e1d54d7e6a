/** A job as it is stored. Times are milliseconds since the epoch. */
export interface StoredJob {
  /** What it is known by: `job:` and its id, or `repeat:` and its name. */
  readonly key: string;
  readonly name: string;
  /** For `JobRun.id`. */
  readonly id: string;
  /** JSON. */
  readonly data: string;
  /** When it begins at the earliest. */
  readonly due: number;
  /** Attempts that have failed. */
  readonly failed: number;
  /** For a repeated job: its period, and when this one was to begin. */
  readonly every?: { readonly ms: number; readonly slot: number };
}

/**
 * One line of the file: a job as it is now, or that there is none any more; `givenUp` when it failed for good, `done` when
 * its key is remembered until then (milliseconds since the epoch).
 */
export type JobRecord =
  | { readonly put: StoredJob }
  | { readonly done: string; readonly until: number }
  | { readonly drop: string }
  | { readonly givenUp: string; readonly name: string };

/** The record that a line holds; undefined for a line that is damaged. */
export function readJobRecord(line: string): JobRecord | undefined {
  const value = parse(line);
  if (!isObject(value)) return undefined;
  const { put, drop, givenUp, name, done, until } = value;
  if (typeof drop === 'string') return { drop };
  if (typeof done === 'string' && typeof until === 'number') return { done, until };
  if (typeof givenUp === 'string' && typeof name === 'string') return { givenUp, name };
  return isStoredJob(put) && parse(put.data) !== undefined ? { put } : undefined;
}

/** Undefined for what is no JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isStoredJob(value: unknown): value is StoredJob {
  if (!isObject(value)) return false;
  const { key, name, id, data, due, failed, every } = value;
  const texts = [key, name, id, data].every((text) => typeof text === 'string');
  const repeats = isObject(every) && Number.isFinite(every['ms']) && Number.isFinite(every['slot']);
  return texts && Number.isFinite(due) && Number.isInteger(failed) && (every === undefined || repeats);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
