import { and, asc, count, desc, eq, getTableName, inArray, type SQL, sum, type Table } from 'drizzle-orm';
import type { PgColumn, PgInsertValue, PgTable, PgUpdateSetSource } from 'drizzle-orm/pg-core';
import type { Page, Paged } from '../../core/ports/page.ts';
import type { Statements } from './database.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { driverError, storeError, violatedConstraint } from './database-errors.ts';
import { listTotals } from './schema.ts';

const largestPage = 100;

/** The page as it is, when it is one. Refuses what is none (`invalid_request`). */
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
  await statements.insert(table).values(row).catch(refusedAsTaken(taken));
}

/** What `replaceRow` stores, and where. */
interface Replacement<Table extends PgTable> {
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
interface ListStatements<T> {
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

/**
 * For `catch` of a statement: `already_exists` with the sentence that `messages` has for the unique constraint that
 * refused the row, any other error as it is. The transaction is lost either way.
 */
function refusedAsTaken(messages: Readonly<Record<string, string>>): (error: unknown) => never {
  return (error) => {
    const cause = driverError(error);
    const constraint = cause === undefined ? undefined : violatedConstraint(storeError(cause));
    const message = constraint === undefined ? undefined : messages[constraint];
    throw message === undefined ? error : new GatewayError('already_exists', message);
  };
}

/** A list whose length the database keeps. */
interface CountedList {
  readonly table: Table;
  readonly organisationId: string;
  /** Only rows of this workspace. Default: all, those of the organisation included. */
  readonly workspaceId?: string | undefined;
  /** Only rows with one of these: the role of people, the status of workspaces and invites, the type of keys. */
  readonly kinds?: readonly string[] | undefined;
}

/** How many rows the list has, without counting them. */
export async function keptTotal(
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

/** The pattern of LIKE for everything that contains this text, taken literally. */
export function containing(text: string): string {
  return `%${text.replace(/[\\%_]/g, '\\$&')}%`;
}

const mostBytes = 1024 * 1024;

/** Length of a record's data as JSON, in bytes. Refuses what is longer than 1 MiB (`body_too_large`). */
export function sizeOfData(data: object): number {
  const size = Buffer.byteLength(JSON.stringify(data));
  if (size <= mostBytes) return size;
  throw new GatewayError(
    'body_too_large',
    `The record has ${size} bytes of JSON; ${mostBytes} (1 MiB) can be stored. Make it smaller, or several of it.`,
  );
}
