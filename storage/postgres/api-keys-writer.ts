import { and, eq, inArray, lte, not, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { ApiKeyRecord, ApiKeysWriter } from '../../core/ports/resources.ts';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { rememberRemovals } from './removals.ts';
import { apiKeys } from './schema.ts';
import { insertRow, replaceRow, type Taken } from './stored-records.ts';

const mostExpired = 1000;

/** Writes service keys of the organisation whose counters are held; `clock` dates removals. */
export function apiKeysWriter(statements: Statements, held: HeldCounters, clock: Clock): ApiKeysWriter {
  async function remove(where: SQL | undefined): Promise<number> {
    const removed = await statements.delete(apiKeys).where(where).returning({ id: apiKeys.id });
    if (removed.length === 0) return 0;
    const ids = removed.map(({ id }) => id);
    await rememberRemovals(statements, held, { table: apiKeys, ids, now: clock.now() });
    held.mark();
    return ids.length;
  }

  return {
    async insert(record) {
      held.check(record.organisationId);
      await insertRow(statements, apiKeys, rowOf(record, held), taken(record));
      held.mark();
    },
    async replace(record) {
      const { organisationId, id, version } = record;
      held.check(organisationId);
      const stored = and(identified(organisationId, id), eq(apiKeys.version, version - 1));
      const row = rowOf(record, held);
      const replaced = await replaceRow(statements, { table: apiKeys, row, stored, taken: taken(record) });
      if (replaced) held.mark();
      return replaced;
    },
    async remove(organisationId, id) {
      held.check(organisationId);
      return (await remove(identified(organisationId, id))) > 0;
    },
    async removeOfUser(organisationId, userId, workspaceId) {
      held.check(organisationId);
      // Every service key is nobody's.
      if (userId === '') return 0;
      return remove(
        and(
          eq(apiKeys.organisationId, organisationId),
          eq(apiKeys.userId, userId),
          workspaceId === undefined ? undefined : eq(apiKeys.workspaceId, workspaceId),
        ),
      );
    },
    async expireDue(organisationId, now) {
      held.check(organisationId);
      const ids = await dueAt(statements, organisationId, now);
      if (ids.length === 0) return ids;
      await expire(statements, held, ids, now);
      held.mark();
      return ids;
    },
  };
}

/** Ids of keys that have ended, or the secret before a rotation of which has, and that are not marked as such. */
async function dueAt(statements: Statements, organisationId: string, now: number): Promise<string[]> {
  const ofOrganisation = eq(apiKeys.organisationId, organisationId);
  const isMarked = eq(apiKeys.status, 'expired');
  // Two statements in one: each has an index of what ends.
  const ended = statements
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(ofOrganisation, not(isMarked), lte(apiKeys.expiresAt, now)));
  const replaced = statements
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(ofOrganisation, lte(apiKeys.replacedEndsAt, now)));
  const rows = await ended.union(replaced).limit(mostExpired);
  return rows.map(({ id }) => id);
}

async function expire(
  statements: Statements,
  { organisationId, change }: HeldCounters,
  ids: string[],
  now: number,
): Promise<void> {
  const ifEnded = (column: PgColumn, then: SQL, end: PgColumn): SQL =>
    sql`CASE WHEN ${lte(end, now)} THEN ${then} ELSE ${column} END`;
  const { status, version, expiresAt, replacedHash, replacedEndsAt } = apiKeys;
  await statements
    .update(apiKeys)
    .set({
      status: ifEnded(status, sql`'expired'`, expiresAt),
      replacedHash: ifEnded(replacedHash, sql`NULL`, replacedEndsAt),
      replacedEndsAt: ifEnded(replacedEndsAt, sql`NULL`, replacedEndsAt),
      ...{ updatedAt: now, version: sql`${version} + 1`, change },
    })
    .where(and(eq(apiKeys.organisationId, organisationId), inArray(apiKeys.id, ids)));
}

function identified(organisationId: string, id: string): SQL | undefined {
  return and(eq(apiKeys.organisationId, organisationId), eq(apiKeys.id, id));
}

function rowOf({ secrets, ...record }: ApiKeyRecord, { change }: HeldCounters): typeof apiKeys.$inferInsert {
  const [present, replaced, ...more] = secrets;
  if (more.length > 0) throw new GatewayError('internal', 'A key has two secrets at the most.');
  return {
    ...record,
    // `undefined` would leave the column as it is.
    workspaceId: record.workspaceId ?? null,
    usageLimits: record.usageLimits ?? null,
    expiresAt: record.expiresAt ?? null,
    scopes: [...record.scopes],
    alertEmails: [...record.alertEmails],
    secretHash: present?.hash ?? null,
    secretEndsAt: present?.expiresAt ?? null,
    replacedHash: replaced?.hash ?? null,
    replacedEndsAt: replaced?.expiresAt ?? null,
    change,
  };
}

function taken({ id, name, type, workspaceId }: ApiKeyRecord): Taken {
  const secretTaken = `The secret of key "${id}" is that of another key already; make a new one.`;
  const place = workspaceId === undefined ? 'The organisation' : 'The workspace';
  return {
    api_keys_name_taken: `${place} has a key of type ${type} named "${name}" already; choose another name.`,
    api_keys_pkey: `A key with the id "${id}" exists already.`,
    api_keys_secret_taken: secretTaken,
    api_keys_replaced_secret_taken: secretTaken,
  };
}
