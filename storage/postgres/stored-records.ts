import { and, asc, count, desc, eq, getTableName, inArray, type SQL, sum, type Table } from 'drizzle-orm';
import type { PgColumn, PgInsertValue, PgTable, PgUpdateSetSource } from 'drizzle-orm/pg-core';
import type { Page, Paged } from '../../core/ports/page.ts';
import type { Statements } from './database.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { driverError, storeError, violatedConstraint } from './database-errors.ts';
import { listTotals } from './schema.ts';

const largestPage = 100;

/** The page, if it is valid. Throws `invalid_request` otherwise. */
function pageBounds({ offset, limit }: Page): Page {
  const valid = Number.isInteger(limit) && limit >= 0 && limit <= largestPage;
  if (valid && Number.isSafeInteger(offset) && offset >= 0) return { offset, limit };
  const message = `A page has 0 to ${largestPage} entries behind a number of others; ${limit} behind ${offset} were asked for.`;
  throw new GatewayError('invalid_request', message, { param: valid ? 'current_page' : 'page_size' });
}

// Shared by the stores of all records.

/** By unique constraint: the sentence for a row that it refuses. */
export type Taken = Readonly<Record<string, string>>;

/** Stores a row. Rejects with `already_exists` when one of the constraints of `taken` refuses it. */
export async function insertRow<Table extends PgTable>(
  statements: Statements,
  table: Table,
  row: PgInsertValue<Table>,
  taken: Taken,
): Promise<void> {
  await statements.insert(table).values(row).catch(throwIfTaken(taken));
}

/** Content and target of `replaceRow`. */
interface Replacement<Table extends PgTable> {
  readonly table: Table;
  readonly row: PgUpdateSetSource<Table>;
  /** The row to replace, its version included. */
  readonly stored: SQL | undefined;
  readonly taken: Taken;
}

/** Replaces a row; false when it does not exist. Rejects like `insertRow`. */
export async function replaceRow<Table extends PgTable>(
  statements: Statements,
  { table, row, stored, taken }: Replacement<Table>,
): Promise<boolean> {
  const { rowCount } = await statements.update(table).set(row).where(stored).catch(throwIfTaken(taken));
  return (rowCount ?? 0) > 0;
}

/** Removes the matching rows; returns their number. */
export async function removeRows(
  statements: Statements,
  table: PgTable,
  where: SQL | undefined,
): Promise<number> {
  const { rowCount } = await statements.delete(table).where(where);
  return rowCount ?? 0;
}

/** Number of matching rows. */
export async function countRows(
  statements: Statements,
  table: PgTable,
  where: SQL | undefined,
): Promise<number> {
  const [counted] = await statements.select({ total: count() }).from(table).where(where);
  return counted?.total ?? 0;
}

/** A page read from the nearer end, since the database skips every row before it. */
export interface PageFromEnd extends Page {
  /** The order of a column for this page. */
  readonly towards: (column: PgColumn) => SQL;
}

/** The two statements of a list. */
interface ListStatements<T> {
  total(): Promise<number>;
  /** The rows of a non-empty page, in its order. */
  rows(page: PageFromEnd): Promise<readonly T[]>;
}

/**
 * A page of a list with the total length. Throws `invalid_request` for an invalid page. `order` is that of the list's
 * columns, ascending by default.
 */
export async function pagedList<T>(
  page: Page,
  { total, rows }: ListStatements<T>,
  order: 'ascending' | 'descending' = 'ascending',
): Promise<Paged<T>> {
  const [onwards, backwards] = order === 'ascending' ? [asc, desc] : [desc, asc];
  const { limit, offset } = pageBounds(page);
  const all = await total();
  const length = Math.min(limit, all - offset);
  if (length <= 0) return { total: all, data: [] };
  const behind = all - offset - length;
  if (offset <= behind) return { total: all, data: await rows({ limit, offset, towards: onwards }) };
  const reversed = await rows({ limit: length, offset: behind, towards: backwards });
  return { total: all, data: reversed.toReversed() };
}

/**
 * For `catch` of a statement: `already_exists` with the sentence in `messages` for the violated unique constraint, any
 * other error unchanged. The transaction is lost either way.
 */
function throwIfTaken(messages: Readonly<Record<string, string>>): (error: unknown) => never {
  return (error) => {
    const cause = driverError(error);
    const constraint = cause === undefined ? undefined : violatedConstraint(storeError(cause));
    const message = constraint === undefined ? undefined : messages[constraint];
    throw message === undefined ? error : new GatewayError('already_exists', message);
  };
}

/** A list whose length the database maintains. */
interface CountedList {
  readonly table: Table;
  readonly organisationId: string;
  /** Only rows of this workspace. Default: all, including those of the organisation. */
  readonly workspaceId?: string | undefined;
  /** Only rows of these kinds: the role of people, the status of workspaces and invites, the type of keys. */
  readonly kinds?: readonly string[] | undefined;
}

/** Length of the list, without counting its rows. */
export async function storedTotal(
  statements: Statements,
  { table, organisationId, workspaceId, kinds }: CountedList,
): Promise<number> {
  const [kept] = await statements
    .select({ total: sum(listTotals.total).mapWith(Number) })
    .from(listTotals)
    .where(
      and(
        eq(listTotals.organisationId, organisationId),
        eq(listTotals.list, getTableName(table)),
        workspaceId === undefined ? undefined : eq(listTotals.part, workspaceId),
        kinds === undefined ? undefined : inArray(listTotals.kind, [...kinds]),
      ),
    );
  return kept?.total ?? 0;
}

/** The LIKE pattern for texts that contain this one literally. */
export function containing(text: string): string {
  return `%${text.replace(/[\\%_]/g, '\\$&')}%`;
}

const maxBytes = 1024 * 1024;

/** Length of a record's data as JSON, in bytes. Throws `body_too_large` above 1 MiB. */
export function sizeOfData(data: object): number {
  const size = Buffer.byteLength(JSON.stringify(data));
  if (size <= maxBytes) return size;
  throw new GatewayError(
    'body_too_large',
    `The record has ${size} bytes of JSON; ${maxBytes} (1 MiB) can be stored. Make it smaller, or several of it.`,
  );
}
