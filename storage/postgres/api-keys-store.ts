import { and, asc, eq, getTableColumns, gt, inArray, isNull, ne, or, type SQL, sql } from 'drizzle-orm';
import type {
  ApiKeyDefaults,
  ApiKeyFilter,
  ApiKeyRecord,
  ApiKeySecret,
  ApiKeysReader,
  DirectoryKey,
} from '../../core/ports/resources.ts';
import type { Statements } from './database.ts';
import { keptTotal } from './list-totals.ts';
import { removedSince } from './removals.ts';
import { apiKeys } from './schema.ts';
import { countRows, pagedList } from './stored-records.ts';

const directoryPage = 1000;
const everyType = ['organisation-service', 'workspace-service', 'workspace-user'] as const;
const { change: changeColumn, ...recordColumns } = getTableColumns(apiKeys);

/** Reads service keys with the statements of one transaction. */
export function apiKeysReader(statements: Statements): ApiKeysReader {
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
      return pagedList(page, {
        total: () => totalOf(statements, organisationId, filter),
        async rows({ limit, offset, towards }) {
          const order = [towards(apiKeys.createdAt), towards(apiKeys.id)];
          // What is passed over is passed over in the index: only the rows of the page are read whole.
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
      removedSince(statements, apiKeys, organisationId, afterChange),
  };
}

async function totalOf(
  statements: Statements,
  organisationId: string,
  filter: ApiKeyFilter,
): Promise<number> {
  const { workspaceId, types, ids, userId, aliveAt } = filter;
  if (ids === undefined && userId === undefined && aliveAt === undefined)
    return keptTotal(statements, { table: apiKeys, organisationId, workspaceId, kinds: types });
  return countRows(statements, apiKeys, matching(organisationId, filter));
}

function matching(organisationId: string, filter: ApiKeyFilter): SQL | undefined {
  const { workspaceId, ids, types, userId, aliveAt } = filter;
  return and(
    eq(apiKeys.organisationId, organisationId),
    userId === undefined ? undefined : eq(apiKeys.userId, userId),
    workspaceId === undefined ? undefined : eq(apiKeys.workspaceId, workspaceId),
    ids === undefined ? undefined : inArray(apiKeys.id, [...ids]),
    // All of them is what most callers ask for; comparing each row of a long list takes longer than reading it.
    types === undefined || everyType.every((type) => types.includes(type))
      ? undefined
      : inArray(apiKeys.type, [...types]),
    aliveAt === undefined ? undefined : ne(apiKeys.status, 'expired'),
    aliveAt === undefined ? undefined : or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, aliveAt)),
  );
}

type ApiKeyRow = Omit<typeof apiKeys.$inferSelect, 'change'>;

function recordOf(row: ApiKeyRow): ApiKeyRecord {
  const { secretHash, secretEndsAt, replacedHash, replacedEndsAt, ...rest } = row;
  return {
    ...rest,
    workspaceId: row.workspaceId ?? undefined,
    usageLimits: row.usageLimits ?? undefined,
    expiresAt: row.expiresAt ?? undefined,
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
 * What the directory looks at of a page of keys, as one value. All keys are read at every start: the protocol costs as
 * much for each column of a row as reading the row does, and JSON of columns of several types as much again.
 */
const directoryRows = sql<readonly DirectoryRow[] | null>`array_to_json(array_agg(array[
  id, organisation_id, workspace_id, user_id, name, type, status, array_to_json(scopes)::text, defaults::text,
  rate_limits::text, ${milliseconds('expires_at')}, ${milliseconds('updated_at')},
  secret_hash, ${milliseconds('secret_ends_at')}, replaced_hash, ${milliseconds('replaced_ends_at')}] order by id))`;

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
];

function directoryKey(row: DirectoryRow): DirectoryKey {
  const [id, organisationId, workspaceId, userId, name, type, status, scopes] = row;
  const [, , , , , , , , defaults, rateLimits, expiresAt, updatedAt, hash, endsAt, replaced, replacedEndsAt] =
    row;
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
    defaults: defaults === '{}' ? {} : (JSON.parse(defaults) as ApiKeyDefaults),
    expiresAt: numberOf(expiresAt) ?? undefined,
    updatedAt: Number(updatedAt),
  };
}

function numberOf(text: string | null): number | null {
  return text === null ? null : Number(text);
}
