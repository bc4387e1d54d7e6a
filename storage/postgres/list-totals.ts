import { and, eq, getTableName, inArray, sum, type Table } from 'drizzle-orm';
import type { Statements } from './database.ts';
import { listTotals } from './schema.ts';

/** A list whose length the database keeps. */
export interface CountedList {
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
