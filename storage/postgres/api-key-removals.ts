import { and, asc, eq, gt, lt, notExists, sql } from 'drizzle-orm';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { apiKeyRemovals, apiKeys } from './schema.ts';

/** Twice what the port promises. */
const keptMs = 2 * 24 * 3600 * 1000;
/** Rows of one statement, whose parameters are bounded. */
const mostAtOnce = 1000;

/** Ids of the organisation's keys that its changes after this number removed and that are not there again. */
export async function removedSince(
  statements: Statements,
  organisationId: string,
  afterChange: number,
): Promise<readonly string[]> {
  const present = statements
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(eq(apiKeys.organisationId, organisationId), eq(apiKeys.id, apiKeyRemovals.apiKeyId)));
  const rows = await statements
    .select({ id: apiKeyRemovals.apiKeyId })
    .from(apiKeyRemovals)
    .where(
      and(
        eq(apiKeyRemovals.organisationId, organisationId),
        gt(apiKeyRemovals.change, afterChange),
        notExists(present),
      ),
    )
    .orderBy(asc(apiKeyRemovals.apiKeyId));
  return rows.map(({ id }) => id);
}

/** Notes that the change that is held removed these keys, and forgets what is older than two days. */
export async function rememberRemovals(
  statements: Statements,
  { organisationId, change }: HeldCounters,
  ids: readonly string[],
  now: number,
): Promise<void> {
  const old = lt(apiKeyRemovals.removedAt, now - keptMs);
  await statements.delete(apiKeyRemovals).where(and(eq(apiKeyRemovals.organisationId, organisationId), old));
  for (let from = 0; from < ids.length; from += mostAtOnce) {
    const part = ids.slice(from, from + mostAtOnce);
    await statements
      .insert(apiKeyRemovals)
      .values(part.map((apiKeyId) => ({ organisationId, apiKeyId, change, removedAt: now })))
      .onConflictDoUpdate({
        target: [apiKeyRemovals.organisationId, apiKeyRemovals.apiKeyId],
        set: { change: sql`excluded.change`, removedAt: sql`excluded.removed_at` },
      });
  }
}
