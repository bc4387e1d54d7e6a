import { and, asc, eq, gte, ne, or, sql } from 'drizzle-orm';
import type { AlertClaim, UsageLedger, UsageRow } from '../../core/ports/budgets.ts';
import type { Database } from './database.ts';
import { budgetUsage } from './schema.ts';

/** Rows of one page. */
const maxRows = 5000;
/** Transactions become visible after the time in their rows: this interval is read again. */
const overlap = sql`interval '30 seconds'`;

/** Use of budgets, in a table that all gateways share. */
export function createUsageLedger(database: Database): UsageLedger {
  return {
    isShared: !database.embedded,
    async exchange(deltas, after) {
      if (deltas.length > 0)
        await database.query((statements) =>
          statements
            .insert(budgetUsage)
            // In a fixed order: two gateways that store the same rows do not deadlock.
            .values(
              [...deltas]
                .sort((a, b) => (a.key < b.key ? -1 : 1))
                .map(({ key, organisationId, epoch, added, since }) => ({
                  ...{ key, organisationId, epoch, since },
                  used: added,
                  updatedAt: sql`clock_timestamp()`,
                })),
            )
            .onConflictDoUpdate({
              target: budgetUsage.key,
              set: {
                used: sql`CASE WHEN excluded.epoch > ${budgetUsage.epoch} THEN excluded.used
                  WHEN excluded.epoch = ${budgetUsage.epoch} THEN ${budgetUsage.used} + excluded.used
                  ELSE ${budgetUsage.used} END`,
                since: sql`CASE WHEN excluded.epoch > ${budgetUsage.epoch} THEN excluded.since
                  WHEN excluded.epoch = ${budgetUsage.epoch} AND ${budgetUsage.since} > excluded.since THEN excluded.since
                  ELSE ${budgetUsage.since} END`,
                epoch: sql`greatest(excluded.epoch, ${budgetUsage.epoch})`,
                updatedAt: sql`clock_timestamp()`,
              },
            }),
        );
      return readSince(database, after);
    },
    async correct(corrections) {
      const corrected = new Set<string>();
      for (const { key, epoch, added, corrections: read } of corrections) {
        const changed = await database.query((statements) =>
          statements
            .update(budgetUsage)
            .set({
              used: sql`${budgetUsage.used} + ${added}`,
              corrections: read + 1,
              updatedAt: sql`clock_timestamp()`,
            })
            .where(
              and(eq(budgetUsage.key, key), eq(budgetUsage.epoch, epoch), eq(budgetUsage.corrections, read)),
            )
            .returning({ key: budgetUsage.key }),
        );
        if (changed.length > 0) corrected.add(key);
      }
      return corrected;
    },
    async claim({ key, organisationId, kind, mark, by }: AlertClaim) {
      const column = kind === 'threshold' ? budgetUsage.thresholdMark : budgetUsage.exhaustedMark;
      const claim = `${mark}#${by}`;
      const marked = kind === 'threshold' ? { thresholdMark: claim } : { exhaustedMark: claim };
      const claimed = await database.query((statements) =>
        statements
          .insert(budgetUsage)
          // The use may be stored after the claim.
          .values({ key, organisationId, epoch: 0, used: 0, updatedAt: sql`clock_timestamp()`, ...marked })
          .onConflictDoUpdate({
            target: budgetUsage.key,
            set: marked,
            setWhere: or(ne(markOf(column), mark), eq(column, claim)),
          })
          .returning({ key: budgetUsage.key }),
      );
      return claimed.length > 0;
    },
  };
}

/** A claim is stored as its mark, followed by `#` and the gateway that claimed it. */
function markOf(column: typeof budgetUsage.thresholdMark | typeof budgetUsage.exhaustedMark) {
  return sql<string>`split_part(${column}, '#', 1)`;
}

/** Rows changed since a mark, the store's time at the last read; an empty one is the start. */
async function readSince(
  database: Database,
  after: string,
): Promise<{ readonly rows: readonly UsageRow[]; readonly mark: string }> {
  const rows: UsageRow[] = [];
  const mark = await database.query(async (statements) => {
    const now = await statements.execute(sql`SELECT clock_timestamp()::text AS now`);
    for (let afterKey = ''; ;) {
      const page = await statements
        .select({
          key: budgetUsage.key,
          organisationId: budgetUsage.organisationId,
          epoch: budgetUsage.epoch,
          used: budgetUsage.used,
          since: budgetUsage.since,
          corrections: budgetUsage.corrections,
          claimed: {
            threshold: markOf(budgetUsage.thresholdMark),
            exhausted: markOf(budgetUsage.exhaustedMark),
          },
        })
        .from(budgetUsage)
        .where(
          and(
            sql`${budgetUsage.key} > ${afterKey}`,
            after === '' ? undefined : gte(budgetUsage.updatedAt, sql`${after}::timestamptz - ${overlap}`),
          ),
        )
        .orderBy(asc(budgetUsage.key))
        .limit(maxRows);
      rows.push(...page.map((row) => ({ ...row, since: row.since ?? undefined })));
      const last = page.at(-1);
      if (last === undefined || page.length < maxRows) return String(now.rows[0]?.['now']);
      afterKey = last.key;
    }
  });
  return { rows, mark };
}
