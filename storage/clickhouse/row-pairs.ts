import type { LogCursor } from '../../core/ports/analytics.ts';

/**
 * `(created_at, id)` of rows whose place is known: a sub-select, so that the primary key finds them. Its placeholders are
 * filled by `pairsOf`.
 */
export const inPairs =
  "(created_at, id) IN (SELECT fromUnixTimestamp64Milli(pair.1, 'UTC'), pair.2 FROM (SELECT arrayJoin(arrayZip({times:Array(Int64)}, {ids:Array(UUID)})) AS pair))";

/** They travel in the query string, which a server takes up to a megabyte of. */
export const pairsAtOnce = 1000;

/** The shortest window that holds these rows, of which there is at least one, and what `inPairs` asks for. */
export function pairsOf(rows: readonly LogCursor[]) {
  const times = rows.map((row) => row.createdAt);
  return {
    window: { from: Math.min(...times), to: Math.max(...times) + 1 },
    parameters: { times, ids: rows.map((row) => row.id) },
  };
}
