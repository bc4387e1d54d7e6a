import { and, asc, count, eq, getTableColumns, gt, inArray, lt, notExists, type SQL, sql } from 'drizzle-orm';
import type { Clock } from '../../core/ports/clock.ts';
import type {
  ApiKeyFilter,
  ApiKeyRecord,
  ApiKeySecret,
  ApiKeysReader,
  ApiKeysWriter,
  DirectoryKey,
} from '../../core/ports/resources.ts';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { pageBounds } from './page-bounds.ts';
import { apiKeyRemovals, apiKeys, apiKeySecrets } from './schema.ts';
import { refusedAsTaken } from './taken.ts';

const directoryPage = 1000;
/** Twice what is promised. */
const removalsKeptMs = 2 * 24 * 3600 * 1000;

/** The hashes of a key's secrets with their ends in milliseconds, in one statement with the key itself. */
const secretsOfKey = sql<[string, number | null][]>`(
  select coalesce(jsonb_agg(
    jsonb_build_array(api_key_secrets.hash, (extract(epoch from api_key_secrets.expires_at) * 1000)::bigint)
    order by api_key_secrets.position), '[]')
  from api_key_secrets
  where api_key_secrets.organisation_id = api_keys.organisation_id and api_key_secrets.api_key_id = api_keys.id)`;
const { change: changeColumn, ...recordColumns } = getTableColumns(apiKeys);
const columns = { ...recordColumns, secrets: secretsOfKey };
/** All keys are read at every start: nothing that the directory does not look at. */
const directoryColumns = {
  id: apiKeys.id,
  organisationId: apiKeys.organisationId,
  workspaceId: apiKeys.workspaceId,
  userId: apiKeys.userId,
  name: apiKeys.name,
  type: apiKeys.type,
  status: apiKeys.status,
  scopes: apiKeys.scopes,
  secrets: secretsOfKey,
  expiresAt: apiKeys.expiresAt,
  updatedAt: apiKeys.updatedAt,
} satisfies Record<keyof DirectoryKey, unknown>;

/** Reads service keys with the statements of one transaction. */
export function apiKeysReader(statements: Statements): ApiKeysReader {
  const select = () => statements.select(columns).from(apiKeys);

  async function pageById(where: SQL | undefined, afterId: string): Promise<readonly DirectoryKey[]> {
    const rows = await statements
      .select(directoryColumns)
      .from(apiKeys)
      .where(and(gt(apiKeys.id, afterId), where))
      .orderBy(asc(apiKeys.id))
      .limit(directoryPage);
    return rows.map((row) => ({ ...row, ...optionalOf(row) }));
  }

  return {
    async find(organisationId, id) {
      const [found] = await select().where(
        and(eq(apiKeys.organisationId, organisationId), eq(apiKeys.id, id)),
      );
      return found === undefined ? undefined : recordOf(found);
    },
    async list(organisationId, filter, page) {
      const { limit, offset } = pageBounds(page);
      const where = matching(organisationId, filter);
      const [counted] = await statements.select({ total: count() }).from(apiKeys).where(where);
      const rows = await select()
        .where(where)
        .orderBy(asc(apiKeys.createdAt), asc(apiKeys.id))
        .limit(limit)
        .offset(offset);
      return { total: counted?.total ?? 0, data: rows.map(recordOf) };
    },
    all: (afterId) => pageById(undefined, afterId),
    changedSince: (organisationId, afterChange, afterId) =>
      pageById(and(eq(apiKeys.organisationId, organisationId), gt(changeColumn, afterChange)), afterId),
    async removedSince(organisationId, afterChange) {
      // A key that was removed and stored again under its id is there.
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
    },
  };
}

/** Writes service keys of the organisation whose counters are held; `clock` dates removals. */
export function apiKeysWriter(statements: Statements, held: HeldCounters, clock: Clock): ApiKeysWriter {
  async function insertSecrets(record: ApiKeyRecord): Promise<void> {
    if (record.secrets.length === 0) return;
    const rows = record.secrets.map((secret, position) => secretRow(record, secret, position));
    await statements
      .insert(apiKeySecrets)
      .values(rows)
      .catch(refusedAsTaken(taken(record)));
  }

  return {
    async insert(record) {
      held.check(record.organisationId);
      await statements
        .insert(apiKeys)
        .values(rowOf(record, held))
        .catch(refusedAsTaken(taken(record)));
      await insertSecrets(record);
      held.mark();
    },
    async replace(record) {
      held.check(record.organisationId);
      const stored = and(
        eq(apiKeys.organisationId, record.organisationId),
        eq(apiKeys.id, record.id),
        eq(apiKeys.version, record.version - 1),
      );
      const replaced = await statements
        .update(apiKeys)
        .set(rowOf(record, held))
        .where(stored)
        .returning({ id: apiKeys.id })
        .catch(refusedAsTaken(taken(record)));
      if (replaced.length === 0) return false;
      await statements
        .delete(apiKeySecrets)
        .where(
          and(eq(apiKeySecrets.organisationId, record.organisationId), eq(apiKeySecrets.apiKeyId, record.id)),
        );
      await insertSecrets(record);
      held.mark();
      return true;
    },
    async remove(organisationId, id) {
      held.check(organisationId);
      const removed = await statements
        .delete(apiKeys)
        .where(and(eq(apiKeys.organisationId, organisationId), eq(apiKeys.id, id)))
        .returning({ id: apiKeys.id });
      if (removed.length === 0) return false;
      await rememberRemoval(statements, held, id, clock.now());
      held.mark();
      return true;
    },
  };
}

async function rememberRemoval(
  statements: Statements,
  { organisationId, change }: HeldCounters,
  apiKeyId: string,
  now: number,
): Promise<void> {
  await statements
    .delete(apiKeyRemovals)
    .where(
      and(
        eq(apiKeyRemovals.organisationId, organisationId),
        lt(apiKeyRemovals.removedAt, now - removalsKeptMs),
      ),
    );
  await statements
    .insert(apiKeyRemovals)
    .values({ organisationId, apiKeyId, change, removedAt: now })
    .onConflictDoUpdate({
      target: [apiKeyRemovals.organisationId, apiKeyRemovals.apiKeyId],
      set: { change, removedAt: now },
    });
}

function matching(organisationId: string, { workspaceId, ids, types }: ApiKeyFilter): SQL | undefined {
  return and(
    eq(apiKeys.organisationId, organisationId),
    workspaceId === undefined ? undefined : eq(apiKeys.workspaceId, workspaceId),
    ids === undefined ? undefined : inArray(apiKeys.id, [...ids]),
    types === undefined ? undefined : inArray(apiKeys.type, [...types]),
  );
}

type ApiKeyRow = Omit<typeof apiKeys.$inferSelect, 'change'> & {
  readonly secrets: [string, number | null][];
};

function recordOf(row: ApiKeyRow): ApiKeyRecord {
  return { ...row, ...optionalOf(row), usageLimits: row.usageLimits ?? undefined };
}

/** The parts that keys and the directory's keys have in common and that are stored in another way. */
function optionalOf({
  workspaceId,
  expiresAt,
  secrets,
}: Pick<ApiKeyRow, 'workspaceId' | 'expiresAt' | 'secrets'>): Pick<
  ApiKeyRecord,
  'workspaceId' | 'expiresAt' | 'secrets'
> {
  return {
    workspaceId: workspaceId ?? undefined,
    expiresAt: expiresAt ?? undefined,
    secrets: secrets.map(([hash, end]) => ({ hash, expiresAt: end ?? undefined })),
  };
}

/** Secrets are no column; a statement passes over them. */
function rowOf(record: ApiKeyRecord, { change }: HeldCounters): typeof apiKeys.$inferInsert {
  return {
    ...record,
    // `undefined` would leave the column as it is.
    workspaceId: record.workspaceId ?? null,
    usageLimits: record.usageLimits ?? null,
    expiresAt: record.expiresAt ?? null,
    scopes: [...record.scopes],
    alertEmails: [...record.alertEmails],
    change,
  };
}

function secretRow(
  { organisationId, id }: ApiKeyRecord,
  { hash, expiresAt }: ApiKeySecret,
  position: number,
): typeof apiKeySecrets.$inferInsert {
  return { organisationId, apiKeyId: id, position, hash, expiresAt: expiresAt ?? null };
}

function taken({ id, name, type, workspaceId }: ApiKeyRecord): Readonly<Record<string, string>> {
  const place = workspaceId === undefined ? 'The organisation' : 'The workspace';
  return {
    api_keys_name_taken: `${place} has a key of type ${type} named "${name}" already; choose another name.`,
    api_keys_pkey: `A key with the id "${id}" exists already.`,
    api_key_secrets_hash_taken: `The secret of key "${id}" is that of another key already; make a new one.`,
  };
}
