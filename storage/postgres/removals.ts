import { and, asc, eq, getTableName, gt, lt, notExists, sql } from 'drizzle-orm';
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { removals } from './schema.ts';

/** Twice what the port promises. */
const keptMs = 2 * 24 * 3600 * 1000;
/** Rows of one statement, whose parameters are bounded. */
const mostAtOnce = 1000;

/** A table whose removals directories ask for. */
type FollowedTable = PgTable & { readonly id: PgColumn; readonly organisationId: PgColumn };

/** Ids of the organisation's rows that its changes after this number removed and that are not there again. */
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

/** What `rememberRemovals` notes. */
interface Removed {
  readonly table: FollowedTable;
  readonly ids: readonly string[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Notes that the change that is held removed these rows, and forgets what is older than two days. */
export async function rememberRemovals(
  statements: Statements,
  { organisationId, change }: HeldCounters,
  { table, ids, now }: Removed,
): Promise<void> {
  const list = getTableName(table);
  const old = lt(removals.removedAt, now - keptMs);
  await statements.delete(removals).where(and(eq(removals.organisationId, organisationId), old));
  for (let from = 0; from < ids.length; from += mostAtOnce) {
    const part = ids.slice(from, from + mostAtOnce);
    await statements
      .insert(removals)
      .values(part.map((id) => ({ organisationId, list, id, change, removedAt: now })))
      .onConflictDoUpdate({
        target: [removals.organisationId, removals.list, removals.id],
        set: { change: sql`excluded.change`, removedAt: sql`excluded.removed_at` },
      });
  }
}
