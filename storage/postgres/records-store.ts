import { and, desc, eq, gt, ilike, inArray, isNull, ne, or, type SQL, sql } from 'drizzle-orm';
import type { RecordKinds } from '../../core/ports/record-kinds.ts';
import type {
  RecordFilter,
  RecordKind,
  RecordPlace,
  RecordsReader,
  StoredRecord,
} from '../../core/ports/records.ts';
import type { Statements } from './database.ts';
import { containing } from './like-pattern.ts';
import { keptTotal } from './list-totals.ts';
import { recordsById } from './record-pages.ts';
import { versionsReader } from './record-versions-store.ts';
import { removedSince } from './removals.ts';
import { records } from './schema.ts';
import { countRows, pagedList } from './stored-records.ts';

const statuses = ['active', 'archived'] as const;
const recordColumns = {
  ...{ kind: records.kind, id: records.id, organisationId: records.organisationId },
  ...{ workspaceId: records.workspaceId, slug: records.slug, name: records.name, status: records.status },
  ...{ parentId: records.parentId, data: records.data, secrets: records.secrets },
  ...{ createdBy: records.createdBy, updatedBy: records.updatedBy },
  ...{ createdAt: records.createdAt, updatedAt: records.updatedAt, version: records.version },
};

/** Reads records with the statements of one transaction. */
export function recordsReader(statements: Statements): RecordsReader {
  const select = () => statements.select(recordColumns).from(records);

  return {
    async find<K extends RecordKind>(kind: K, place: RecordPlace, idOrSlug: string) {
      // The id wins over a slug that looks like it, and the workspace over its organisation.
      const [found] = await select()
        .where(and(ofKind(place.organisationId, kind), named(place, idOrSlug)))
        .orderBy(desc(eq(records.id, idOrSlug)), isNull(records.workspaceId))
        .limit(1);
      return found === undefined ? undefined : recordOf(kind, found);
    },
    list<K extends RecordKind>(
      kind: K,
      organisationId: string,
      filter: RecordFilter,
      page: Parameters<RecordsReader['list']>[3],
    ) {
      const where = and(ofKind(organisationId, kind), matching(filter));
      return pagedList<StoredRecord<K>>(page, {
        total: () => totalOf(statements, organisationId, kind, filter),
        async rows({ limit, offset, towards }) {
          const rows = await select()
            .where(where)
            .orderBy(towards(records.createdAt), towards(records.id))
            .limit(limit)
            .offset(offset);
          return rows.map((row) => recordOf(kind, row));
        },
      });
    },
    ...versionsReader(statements),
    changedSince: (organisationId, afterChange, kinds, afterId) =>
      recordsById(
        statements,
        and(
          eq(records.organisationId, organisationId),
          gt(records.change, afterChange),
          inArray(records.kind, [...kinds]),
        ),
        afterId,
      ),
    removedSince: (organisationId, afterChange) =>
      removedSince(statements, records, organisationId, afterChange),
    withSecrets: (afterId) => recordsById(statements, ne(records.secrets, sql`'{}'::jsonb`), afterId),
  };
}

/** Records of one kind in one organisation. */
export function ofKind(organisationId: string, kind: RecordKind): SQL | undefined {
  return and(eq(records.organisationId, organisationId), eq(records.kind, kind));
}

function named({ workspaceId }: RecordPlace, idOrSlug: string): SQL | undefined {
  const byId = eq(records.id, idOrSlug);
  const bySlug = eq(records.slug, idOrSlug);
  const ofOrganisation = isNull(records.workspaceId);
  if (workspaceId === undefined) return or(byId, and(bySlug, ofOrganisation));
  return and(or(byId, bySlug), or(eq(records.workspaceId, workspaceId), ofOrganisation));
}

function totalOf(
  statements: Statements,
  organisationId: string,
  kind: RecordKind,
  filter: RecordFilter,
): Promise<number> {
  const { workspaceId, ofOrganisation, status, parentId, search, exactName } = filter;
  const isKept =
    parentId === undefined &&
    search === undefined &&
    exactName === undefined &&
    (workspaceId === undefined || ofOrganisation === undefined);
  if (!isKept) return countRows(statements, records, and(ofKind(organisationId, kind), matching(filter)));
  return keptTotal(statements, {
    ...{ table: records, organisationId },
    workspaceId: ofOrganisation ? '' : workspaceId,
    kinds: (status === undefined ? statuses : [status]).map((one) => `${kind} ${one}`),
  });
}

function matching(filter: RecordFilter): SQL | undefined {
  const { workspaceId, ofOrganisation, status, parentId, search, exactName } = filter;
  const pattern = search === undefined ? '' : containing(search);
  return and(
    workspaceId === undefined ? undefined : eq(records.workspaceId, workspaceId),
    ofOrganisation ? isNull(records.workspaceId) : undefined,
    status === undefined ? undefined : eq(records.status, status),
    parentId === undefined ? undefined : eq(records.parentId, parentId),
    search === undefined ? undefined : or(ilike(records.name, pattern), ilike(records.slug, pattern)),
    exactName === undefined ? undefined : eq(records.name, exactName),
  );
}

type RecordRow = Omit<typeof records.$inferSelect, 'change' | 'size'>;

function recordOf<K extends RecordKind>(kind: K, row: RecordRow): StoredRecord<K> {
  // The statement asked for this kind alone.
  const data = row.data as RecordKinds[K];
  return { ...row, kind, data, workspaceId: row.workspaceId ?? undefined };
}
