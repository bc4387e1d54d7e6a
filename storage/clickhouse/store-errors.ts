import { ClickHouseError } from '@clickhouse/client';
import { GatewayError } from '../../core/errors/gateway-error.ts';

/**
 * The store understood the insert and will never take these rows: at least one of them does not fit the table.
 * Nothing of the batch was stored. The message names the place, never the contents.
 */
export class RowsRejected extends Error {
  readonly table: string;
  /** The store's error number (117, 376, …). */
  readonly storeCode: string;
  /** 1-based number of the row that failed, when the store says it. */
  readonly row: number | undefined;

  constructor(table: string, storeCode: string, reason: string, row: number | undefined) {
    super(`the analytics store rejected rows for ${table}: ${reason}`);
    this.name = 'RowsRejected';
    this.table = table;
    this.storeCode = storeCode;
    this.row = row;
  }
}

/**
 * Error numbers that the rows cause, whatever the state of the store: text that does not fit its column, and batches
 * that are too large or touch too many partitions (smaller ones can be stored). The rest is worth another try.
 */
const rowsAtFault = new Set(
  [
    6, 25, 26, 27, 32, 33, 38, 41, 53, 69, 70, 72, 117, 130, 131, 229, 321, 346, 349, 376, 407, 467, 563, 565,
    626, 632, 691,
  ].map(String),
);
const timeouts = new Set(['159', '160', '209', '394']);

/** What an insert throws: `RowsRejected` when the rows are at fault, else a `GatewayError` `store_unavailable`. */
export function insertError(error: unknown, table: string): GatewayError | RowsRejected {
  if (error instanceof ClickHouseError && rowsAtFault.has(error.code)) {
    const row = /\(at row (\d+)\)/.exec(error.message)?.[1];
    const key = /reading the value of key (\w+)/.exec(error.message)?.[1];
    const place = `${row === undefined ? '' : `row ${row}`}${key === undefined ? '' : `, column ${key}`}`;
    const reason = `error ${error.code} ${error.type ?? ''}${place === '' ? '' : ` at ${place}`}`;
    return new RowsRejected(table, error.code, reason, row === undefined ? undefined : Number(row));
  }
  return unavailable(error);
}

/** One query has more rows, bytes or memory than it may; the store itself could do with more (`(total)`) in another. */
const tooLarge = new Set(['158', '241', '307', '396']);

/** The memory of the store is used up, by whatever runs in it, and not what the query itself may take. */
function isOfStore({ code, message }: ClickHouseError): boolean {
  return code === '241' && !/^(Query|User) memory limit|Memory limit \(for (query|user)\)/i.test(message);
}

/** What a query throws: a `GatewayError` `query_timeout`, `query_too_large` or `store_unavailable`. */
export function queryError(error: unknown): GatewayError {
  if (GatewayError.is(error)) return error;
  if (error instanceof ClickHouseError && tooLarge.has(error.code) && !isOfStore(error)) {
    const message =
      'The analytics query needs more than one query may take. Ask for a shorter time window, or for fewer groups.';
    return new GatewayError('query_too_large', message, { cause: error });
  }
  // A store that ends a query says so; one that says nothing is not busy but away, and a shorter window helps nobody.
  if (!(error instanceof ClickHouseError && timeouts.has(error.code))) return unavailable(error);
  const message = 'The analytics query took too long and was stopped. Ask for a shorter time window.';
  return new GatewayError('query_timeout', message, { cause: error });
}

/** The store cannot be reached, or cannot do what it is asked now. */
export function unavailable(error: unknown): GatewayError {
  return new GatewayError('store_unavailable', `The analytics store is not available: ${reasonOf(error)}.`, {
    cause: error,
  });
}

/** The error's name without its text: that may quote rows and statements. */
function reasonOf(error: unknown): string {
  if (error instanceof ClickHouseError)
    return `it answered with error ${error.code} ${error.type ?? ''}`.trimEnd();
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  if (code !== undefined) return `the connection failed (${code})`;
  return error instanceof Error && /^(Timeout|The user aborted|The operation was aborted)/.test(error.message)
    ? 'it did not answer in time'
    : 'the connection failed';
}
