import {
  and,
  asc,
  count,
  desc,
  eq,
  getTableName,
  inArray,
  type SQL,
  sum,
  type Table,
  gt,
  notExists,
  lt,
  sql,
} from 'drizzle-orm';
import type { PgColumn, PgInsertValue, PgTable, PgUpdateSetSource } from 'drizzle-orm/pg-core';
import type { Page, Paged } from '../../core/ports/page.ts';
import type { ChangeMarks } from '../../core/ports/resources.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { databaseErrors, type Statements } from './database.ts';
import { listTotals, organisationCounters, removals } from './schema.ts';

/** Rows that were removed. */
export const removedRows = { since: removedSince, remember: rememberRemovals };

/** Reads and writes rows of every table. */
export const storedRows = {
  insert: insertRow,
  replace: replaceRow,
  remove: removeRows,
  count: countRows,
  pagedList,
  total: storedTotal,
  containing,
  sizeOfData,
  marks: marksOf,
};

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
async function insertRow<Table extends PgTable>(
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
async function replaceRow<Table extends PgTable>(
  statements: Statements,
  { table, row, stored, taken }: Replacement<Table>,
): Promise<boolean> {
  const { rowCount } = await statements.update(table).set(row).where(stored).catch(throwIfTaken(taken));
  return (rowCount ?? 0) > 0;
}

/** Removes the matching rows; returns their number. */
async function removeRows(statements: Statements, table: PgTable, where: SQL | undefined): Promise<number> {
  const { rowCount } = await statements.delete(table).where(where);
  return rowCount ?? 0;
}

/** Number of matching rows. */
async function countRows(statements: Statements, table: PgTable, where: SQL | undefined): Promise<number> {
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
async function pagedList<T>(
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
    const cause = databaseErrors.ofDriver(error);
    const constraint =
      cause === undefined ? undefined : databaseErrors.violatedConstraint(databaseErrors.ofStore(cause));
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
async function storedTotal(
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
function containing(text: string): string {
  return `%${text.replace(/[\\%_]/g, '\\$&')}%`;
}

const maxBytes = 1024 * 1024;

/** Length of a record's data as JSON, in bytes. Throws `body_too_large` above 1 MiB. */
function sizeOfData(data: object): number {
  const size = Buffer.byteLength(JSON.stringify(data));
  if (size <= maxBytes) return size;
  throw new GatewayError(
    'body_too_large',
    `The record has ${size} bytes of JSON; ${maxBytes} (1 MiB) can be stored. Make it smaller, or several of it.`,
  );
}

/** The position before the first record of every chain. */
export const chainStart: ChainPlace = { number: 0, hash: '0'.repeat(64) };

/** A record's position in the chain of its organisation. */
export interface ChainPlace {
  /** From 1; 0 before the first record. */
  readonly number: number;
  /** SHA-256, hex. */
  readonly hash: string;
}

/**
 * The counter row of one organisation, locked by a transaction. This transaction is the organisation's only writer, so
 * that its changes and its audit records are numbered without gaps.
 */
export class HeldCounters {
  readonly organisationId: string;
  /** Number of this change, if anything is written. */
  readonly change: number;
  /** The end of the organisation's audit chain. */
  chain: ChainPlace;
  private readonly touched = new Set<keyof ChangeMarks>();
  private written = false;
  private released = false;

  private constructor(organisationId: string, changes: number, chain: ChainPlace) {
    this.organisationId = organisationId;
    this.change = changes + 1;
    this.chain = chain;
  }

  /** Waits until no other transaction holds the row, and locks it until this one ends. */
  static async hold(statements: Statements, organisationId: string): Promise<HeldCounters> {
    const row = (await lock(statements, organisationId)) ?? (await create(statements, organisationId));
    return new HeldCounters(organisationId, row.changes, { number: row.audits, hash: row.auditHash });
  }

  /** Refuses writes for another organisation, whose row is not held, and writes after the transaction. */
  check(organisationId: string): void {
    if (this.released)
      throw new GatewayError('internal', 'A writer was used after its transaction had ended.');
    if (organisationId === this.organisationId) return;
    throw new GatewayError(
      'internal',
      'A record of one organisation was given to the writer of another one.',
    );
  }

  /** Notes a write; `what` for parts with a change mark of their own in the directory. */
  mark(what?: keyof ChangeMarks): void {
    this.written = true;
    if (what !== undefined) this.touched.add(what);
  }

  /** Stores the counters after a write. The last statement of the transaction. */
  async release(statements: Statements): Promise<void> {
    this.released = true;
    if (!this.written) return;
    // `undefined` leaves a column as it is.
    const ifTouched = (what: keyof ChangeMarks) => (this.touched.has(what) ? this.change : undefined);
    await statements
      .update(organisationCounters)
      .set({
        changes: this.change,
        audits: this.chain.number,
        auditHash: this.chain.hash,
        workspacesChange: ifTouched('workspaces'),
        peopleChange: ifTouched('people'),
        settingsChange: ifTouched('settings'),
        recordsChange: ifTouched('records'),
      })
      .where(eq(organisationCounters.organisationId, this.organisationId));
  }
}

async function lock(statements: Statements, organisationId: string) {
  const found = await statements
    .select()
    .from(organisationCounters)
    .where(eq(organisationCounters.organisationId, organisationId))
    .for('update');
  return found[0];
}

/** The row of an organisation without writes; two concurrent first writes get the same row. */
async function create(statements: Statements, organisationId: string) {
  await statements
    .insert(organisationCounters)
    .values({ organisationId, auditHash: chainStart.hash })
    .onConflictDoNothing();
  const row = await lock(statements, organisationId);
  if (row === undefined)
    throw new GatewayError('internal', 'The counters of an organisation could not be stored.');
  return row;
}

/** The numbers of the last changes per part; 0 for an organisation without writes. */
async function marksOf(statements: Statements, organisationId: string): Promise<ChangeMarks> {
  const [found] = await statements
    .select({
      workspaces: organisationCounters.workspacesChange,
      people: organisationCounters.peopleChange,
      settings: organisationCounters.settingsChange,
      records: organisationCounters.recordsChange,
    })
    .from(organisationCounters)
    .where(eq(organisationCounters.organisationId, organisationId));
  return found ?? { workspaces: 0, people: 0, settings: 0, records: 0 };
}

/** Twice the time promised by the port. */
const keptMs = 2 * 24 * 3600 * 1000;
/** Upper bound of rows in one statement, whose parameters are limited. */
const idsPerStatement = 1000;

/** A table whose removals directories follow. */
type FollowedTable = PgTable & { readonly id: PgColumn; readonly organisationId: PgColumn };

/** Ids of the organisation's rows that were removed after this change number and do not exist again. */
async function removedSince(
  statements: Statements,
  table: FollowedTable,
  organisationId: string,
  afterChange: number,
): Promise<readonly string[]> {
  const present = statements
    .select({ id: table.id })
    .from(table)
    .where(and(eq(table.organisationId, organisationId), eq(table.id, removals.id)));
  const rows = await statements
    .select({ id: removals.id })
    .from(removals)
    .where(
      and(
        eq(removals.organisationId, organisationId),
        eq(removals.list, getTableName(table)),
        gt(removals.change, afterChange),
        notExists(present),
      ),
    )
    .orderBy(asc(removals.id));
  return rows.map(({ id }) => id);
}

/** Input of `rememberRemovals`. */
interface Removed {
  readonly table: FollowedTable;
  readonly ids: readonly string[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Records that the held change removed these rows, and deletes records older than two days. */
async function rememberRemovals(
  statements: Statements,
  { organisationId, change }: HeldCounters,
  { table, ids, now }: Removed,
): Promise<void> {
  const list = getTableName(table);
  const old = lt(removals.removedAt, now - keptMs);
  await statements.delete(removals).where(and(eq(removals.organisationId, organisationId), old));
  for (let from = 0; from < ids.length; from += idsPerStatement) {
    const part = ids.slice(from, from + idsPerStatement);
    await statements
      .insert(removals)
      .values(part.map((id) => ({ organisationId, list, id, change, removedAt: now })))
      .onConflictDoUpdate({
        target: [removals.organisationId, removals.list, removals.id],
        set: { change: sql`excluded.change`, removedAt: sql`excluded.removed_at` },
      });
  }
}
