import { asc, count, desc, type SQL } from 'drizzle-orm';
import type { PgColumn, PgInsertValue, PgTable, PgUpdateSetSource } from 'drizzle-orm/pg-core';
import type { Page, Paged } from '../../core/ports/page.ts';
import type { Statements } from './database.ts';
import { pageBounds } from './page-bounds.ts';
import { refusedAsTaken } from './taken.ts';

// What the stores of all records have in common.

/** By unique constraint: the sentence for a row that it refuses. */
export type Taken = Readonly<Record<string, string>>;

/** Stores a row. Rejects with `already_exists` when one of the constraints of `taken` refuses it. */
export async function insertRow<Table extends PgTable>(
  statements: Statements,
  table: Table,
  row: PgInsertValue<Table>,
  taken: Taken,
): Promise<void> {
  await statements.insert(table).values(row).catch(refusedAsTaken(taken));
}

/** What `replaceRow` stores, and where. */
export interface Replacement<Table extends PgTable> {
  readonly table: Table;
  readonly row: PgUpdateSetSource<Table>;
  /** The row to replace, its version included. */
  readonly stored: SQL | undefined;
  readonly taken: Taken;
}

/** Stores a row in the place of another one; false when that one is not there. Rejects like `insertRow`. */
export async function replaceRow<Table extends PgTable>(
  statements: Statements,
  { table, row, stored, taken }: Replacement<Table>,
): Promise<boolean> {
  const { rowCount } = await statements.update(table).set(row).where(stored).catch(refusedAsTaken(taken));
  return (rowCount ?? 0) > 0;
}

/** Removes the rows that match; how many. */
export async function removeRows(
  statements: Statements,
  table: PgTable,
  where: SQL | undefined,
): Promise<number> {
  const { rowCount } = await statements.delete(table).where(where);
  return rowCount ?? 0;
}

/** How many rows match. */
export async function countRows(
  statements: Statements,
  table: PgTable,
  where: SQL | undefined,
): Promise<number> {
  const [counted] = await statements.select({ total: count() }).from(table).where(where);
  return counted?.total ?? 0;
}

/** A page as it is read: from the end that is nearer, since the database passes over every row before it. */
export interface PageFromEnd extends Page {
  /** The order of a column for this page. */
  readonly towards: (column: PgColumn) => SQL;
}

/** The two statements of a list. */
export interface ListStatements<T> {
  total(): Promise<number>;
  /** The rows of a page, which is not empty, in the order that it says. */
  rows(page: PageFromEnd): Promise<readonly T[]>;
}

/**
 * A page of a list with the length of the whole. Refuses a page that is none (`invalid_request`). `order` is that of
 * the list's columns, ascending by default.
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
