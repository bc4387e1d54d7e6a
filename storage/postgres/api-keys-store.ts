import {
  and,
  asc,
  eq,
  getTableColumns,
  gt,
  inArray,
  isNull,
  lte,
  ne,
  not,
  or,
  type SQL,
  sql,
} from 'drizzle-orm';
import type {
  ApiKeyDefaults,
  ApiKeyFilter,
  ApiKeyRecord,
  ApiKeySecret,
  ApiKeysReader,
  ApiKeysWriter,
  DirectoryKey,
  KeyMoments,
} from '../../core/ports/resources.ts';
import type { Statements } from './database.ts';
import { type HeldCounters, removedRows, storedRows, type Taken } from './stored-records.ts';
import { apiKeys } from './schema.ts';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';

/** Reads and writes keys. */
export const apiKeysStore = { reader: apiKeysReader, writer: apiKeysWriter };

const maxExpired = 1000;
const maxDue = 200;

/** Writes service keys of the organisation whose counters are held; `clock` dates removals. */
function apiKeysWriter(statements: Statements, held: HeldCounters, clock: Clock): ApiKeysWriter {
  async function remove(where: SQL | undefined): Promise<number> {
    const removed = await statements.delete(apiKeys).where(where).returning({ id: apiKeys.id });
    if (removed.length === 0) return 0;
    const ids = removed.map(({ id }) => id);
    await removedRows.remember(statements, held, { table: apiKeys, ids, now: clock.now() });
    held.mark();
    return ids.length;
  }

  return {
    async insert(record) {
      held.check(record.organisationId);
      await storedRows.insert(statements, apiKeys, rowOf(record, held), taken(record));
      held.mark();
    },
    async replace(record) {
      const { organisationId, id, version } = record;
      held.check(organisationId);
      const stored = and(whereKey(organisationId, id), eq(apiKeys.version, version - 1));
      const row = rowOf(record, held);
      const replaced = await storedRows.replace(statements, {
        table: apiKeys,
        row,
        stored,
        taken: taken(record),
      });
      if (replaced) held.mark();
      return replaced;
    },
    async remove(organisationId, id) {
      held.check(organisationId);
      return (await remove(whereKey(organisationId, id))) > 0;
    },
    async removeOfUser(organisationId, userId, workspaceId) {
      held.check(organisationId);
      // Service keys have no user.
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
    async noteTold(organisationId, id, told) {
      held.check(organisationId);
      await statements.update(apiKeys).set({ told }).where(whereKey(organisationId, id));
    },
  };
}

/** Ids of keys that have ended, or whose secret before a rotation has, and that are not marked so. */
async function dueAt(statements: Statements, organisationId: string, now: number): Promise<string[]> {
  const ofOrganisation = eq(apiKeys.organisationId, organisationId);
  const isMarked = eq(apiKeys.status, 'expired');
  // Two statements in one: each uses the index of its end time.
  const ended = statements
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(ofOrganisation, not(isMarked), lte(apiKeys.expiresAt, now)));
  const replaced = statements
    .select({ id: apiKeys.id })
    .from(apiKeys)
    .where(and(ofOrganisation, lte(apiKeys.replacedEndsAt, now)));
  const rows = await ended.union(replaced).limit(maxExpired);
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
      updatedAt: now,
      version: sql`${version} + 1`,
      change,
    })
    .where(and(eq(apiKeys.organisationId, organisationId), inArray(apiKeys.id, ids)));
}

function whereKey(organisationId: string, id: string): SQL | undefined {
  return and(eq(apiKeys.organisationId, organisationId), eq(apiKeys.id, id));
}

function rowOf(
  { secrets, rotation, ...record }: ApiKeyRecord,
  { change }: HeldCounters,
): typeof apiKeys.$inferInsert {
  const [present, replaced, ...more] = secrets;
  if (more.length > 0) throw new GatewayError('internal', 'A key has two secrets at the most.');
  return {
    ...record,
    // `undefined` would leave the column as it is.
    workspaceId: record.workspaceId ?? null,
    usageLimits: record.usageLimits ?? null,
    expiresAt: record.expiresAt ?? null,
    ...rotationColumns(rotation),
    scopes: [...record.scopes],
    alertEmails: [...record.alertEmails],
    secretHash: present?.hash ?? null,
    secretEndsAt: present?.expiresAt ?? null,
    replacedHash: replaced?.hash ?? null,
    replacedEndsAt: replaced?.expiresAt ?? null,
    change,
  };
}

function rotationColumns(rotation: ApiKeyRecord['rotation']) {
  if (rotation === undefined) return { rotation: null, nextRotationAt: null };
  const { nextAt, ...policy } = rotation;
  return { rotation: policy, nextRotationAt: nextAt };
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

const directoryPage = 1000;
const everyType = ['organisation-service', 'workspace-service', 'workspace-user'] as const;
const { change: changeColumn, told: toldColumn, ...recordColumns } = getTableColumns(apiKeys);

/** Reads service keys with the statements of one transaction. */
function apiKeysReader(statements: Statements): ApiKeysReader {
  const select = () => statements.select(recordColumns).from(apiKeys);

  async function pageById(where: SQL | undefined, afterId: string): Promise<readonly DirectoryKey[]> {
    const page = statements
      .select()
      .from(apiKeys)
      .where(and(gt(apiKeys.id, afterId), where))
      .orderBy(asc(apiKeys.id))
      .limit(directoryPage)
      .as('page');
    const [read] = await statements.select({ rows: directoryRows }).from(page);
    return (read?.rows ?? []).map(directoryKey);
  }

  return {
    async find(organisationId, id) {
      const [found] = await select().where(
        and(eq(apiKeys.organisationId, organisationId), eq(apiKeys.id, id)),
      );
      return found === undefined ? undefined : recordOf(found);
    },
    list(organisationId, filter, page) {
      const where = matching(organisationId, filter);
      return storedRows.pagedList(page, {
        total: () => totalOf(statements, organisationId, filter),
        async rows({ limit, offset, towards }) {
          const order = [towards(apiKeys.createdAt), towards(apiKeys.id)];
          // The index alone skips the rows before the page: only the rows of the page are read whole.
          const shown = statements
            .select({ id: apiKeys.id })
            .from(apiKeys)
            .where(where)
            .orderBy(...order)
            .limit(limit)
            .offset(offset);
          const rows = await select()
            .where(inArray(apiKeys.id, shown))
            .orderBy(...order);
          return rows.map(recordOf);
        },
      });
    },
    all: (afterId) => pageById(undefined, afterId),
    changedSince: (organisationId, afterChange, afterId) =>
      pageById(and(eq(apiKeys.organisationId, organisationId), gt(changeColumn, afterChange)), afterId),
    removedSince: (organisationId, afterChange) =>
      removedRows.since(statements, apiKeys, organisationId, afterChange),
    async rotationsDue(organisationId, now) {
      const { nextRotationAt, expiresAt, replacedEndsAt, id } = apiKeys;
      const rows = await select()
        .where(
          and(
            alive(organisationId),
            lte(nextRotationAt, now),
            or(isNull(expiresAt), gt(expiresAt, now)),
            or(isNull(replacedEndsAt), lte(replacedEndsAt, now)),
          ),
        )
        .orderBy(asc(nextRotationAt), asc(id))
        .limit(maxDue);
      return rows.map(recordOf);
    },
    async untold(organisationId, now, until) {
      const { nextRotationAt, secretEndsAt, expiresAt } = apiKeys;
      const comes = (at: PgColumn, kind: keyof KeyMoments, by: number | undefined) => {
        const ids = statements.select({ id: apiKeys.id }).from(apiKeys);
        const isTold = sql`coalesce((${toldColumn} ->> ${kind})::bigint, 0) = (extract(epoch FROM ${at}) * 1000)::bigint`;
        const isDue = and(gt(at, now), by === undefined ? undefined : lte(at, by), not(isTold));
        return ids.where(and(alive(organisationId), isDue)).limit(maxDue);
      };
      // One statement: each part of it uses the index of its time.
      const ids = comes(nextRotationAt, 'rotation', until)
        .union(comes(secretEndsAt, 'rotated', undefined))
        .union(comes(secretEndsAt, 'secret', until))
        .union(comes(expiresAt, 'end', until));
      const rows = await statements
        .select({ ...recordColumns, told: toldColumn })
        .from(apiKeys)
        .where(inArray(apiKeys.id, ids))
        .orderBy(asc(apiKeys.id))
        .limit(maxDue);
      return rows.map(({ told, ...row }) => ({ key: recordOf(row), told }));
    },
  };
}

async function totalOf(
  statements: Statements,
  organisationId: string,
  filter: ApiKeyFilter,
): Promise<number> {
  const { workspaceId, types, ids, userId, aliveAt } = filter;
  if (ids === undefined && userId === undefined && aliveAt === undefined)
    return storedRows.total(statements, { table: apiKeys, organisationId, workspaceId, kinds: types });
  return storedRows.count(statements, apiKeys, matching(organisationId, filter));
}

function matching(organisationId: string, filter: ApiKeyFilter): SQL | undefined {
  const { workspaceId, ids, types, userId, aliveAt } = filter;
  return and(
    eq(apiKeys.organisationId, organisationId),
    userId === undefined ? undefined : eq(apiKeys.userId, userId),
    workspaceId === undefined ? undefined : eq(apiKeys.workspaceId, workspaceId),
    ids === undefined ? undefined : inArray(apiKeys.id, [...ids]),
    // Most callers request all of them; comparing each row of a long list takes longer than reading it.
    types === undefined || everyType.every((type) => types.includes(type))
      ? undefined
      : inArray(apiKeys.type, [...types]),
    aliveAt === undefined ? undefined : ne(apiKeys.status, 'expired'),
    aliveAt === undefined ? undefined : or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, aliveAt)),
  );
}

/** Keys of the organisation that are not marked as ended. */
function alive(organisationId: string): SQL | undefined {
  return and(eq(apiKeys.organisationId, organisationId), ne(apiKeys.status, 'expired'));
}

type ApiKeyRow = Omit<typeof apiKeys.$inferSelect, 'change' | 'told'>;

function recordOf(row: ApiKeyRow): ApiKeyRecord {
  const { secretHash, secretEndsAt, replacedHash, replacedEndsAt, nextRotationAt, rotation, ...rest } = row;
  return {
    ...rest,
    workspaceId: row.workspaceId ?? undefined,
    usageLimits: row.usageLimits ?? undefined,
    expiresAt: row.expiresAt ?? undefined,
    rotation:
      rotation === null || nextRotationAt === null ? undefined : { ...rotation, nextAt: nextRotationAt },
    secrets: secretsOf(secretHash, secretEndsAt, replacedHash, replacedEndsAt),
  };
}

function secretsOf(
  hash: string | null,
  endsAt: number | null,
  replacedHash: string | null,
  replacedEndsAt: number | null,
): readonly ApiKeySecret[] {
  if (hash === null) return [];
  const present = { hash, expiresAt: endsAt ?? undefined };
  if (replacedHash === null) return [present];
  return [present, { hash: replacedHash, expiresAt: replacedEndsAt ?? undefined }];
}

/**
 * Columns of a page of keys for the directory, as one value. All keys are read at every start: the protocol costs as
 * much per column as reading the row, and JSON of columns of several types as much again.
 */
const directoryRows = sql<readonly DirectoryRow[] | null>`array_to_json(array_agg(array[
  id, organisation_id, workspace_id, user_id, name, type, status, array_to_json(scopes)::text, defaults::text,
  rate_limits::text, ${milliseconds('expires_at')}, ${milliseconds('updated_at')},
  secret_hash, ${milliseconds('secret_ends_at')}, replaced_hash, ${milliseconds('replaced_ends_at')},
  case when usage_limits is null then null else json_build_object('usageLimits', usage_limits,
    'createdAt', ${milliseconds('created_at')}::bigint, 'alertEmails', alert_emails)::text end] order by id))`;

function milliseconds(column: string): SQL {
  return sql`(extract(epoch from ${sql.raw(column)}) * 1000)::bigint::text`;
}

type DirectoryRow = readonly [
  id: string,
  organisationId: string,
  workspaceId: string | null,
  userId: string,
  name: string,
  type: ApiKeyRecord['type'],
  status: ApiKeyRecord['status'],
  /** JSON. */
  scopes: string,
  /** JSON. */
  defaults: string,
  /** JSON. */
  rateLimits: string,
  expiresAt: string | null,
  updatedAt: string,
  secretHash: string | null,
  secretEndsAt: string | null,
  replacedHash: string | null,
  replacedEndsAt: string | null,
  /** JSON. */
  usageLimit: string | null,
];

function directoryKey(row: DirectoryRow): DirectoryKey {
  const [id, organisationId, workspaceId, userId, name, type, status, scopes] = row;
  const [, , , , , , , , defaults, rateLimits, expiresAt, updatedAt, hash, endsAt] = row;
  const [replaced, replacedEndsAt, usageLimit] = row.slice(14) as [
    string | null,
    string | null,
    string | null,
  ];
  return {
    id,
    organisationId,
    workspaceId: workspaceId ?? undefined,
    userId,
    name,
    type,
    status,
    scopes: JSON.parse(scopes) as ApiKeyRecord['scopes'],
    rateLimits: rateLimits === '[]' ? [] : (JSON.parse(rateLimits) as ApiKeyRecord['rateLimits']),
    secrets: secretsOf(hash, numberOf(endsAt), replaced, numberOf(replacedEndsAt)),
    usageLimits: undefined,
    ...(usageLimit !== null &&
      (JSON.parse(usageLimit) as Pick<DirectoryKey, 'usageLimits' | 'createdAt' | 'alertEmails'>)),
    defaults: defaults === '{}' ? {} : (JSON.parse(defaults) as ApiKeyDefaults),
    expiresAt: numberOf(expiresAt) ?? undefined,
    updatedAt: Number(updatedAt),
  };
}

function numberOf(text: string | null): number | null {
  return text === null ? null : Number(text);
}
