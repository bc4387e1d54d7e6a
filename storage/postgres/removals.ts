import { and, asc, eq, getTableName, gt, lt, notExists, sql } from 'drizzle-orm';
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { removals } from './schema.ts';

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
