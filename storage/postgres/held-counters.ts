import { and, asc, eq, getTableName, gt, lt, notExists, sql } from 'drizzle-orm';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { ChangeMarks } from '../../core/ports/resources.ts';
import { type ChainPlace, chainStart } from './audit-store.ts';
import type { Statements } from './database.ts';
import { organisationCounters, removals } from './schema.ts';
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core';

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
export async function marksOf(statements: Statements, organisationId: string): Promise<ChangeMarks> {
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
export async function removedSince(
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
export async function rememberRemovals(
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
