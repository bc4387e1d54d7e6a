import {
  and,
  asc,
  desc,
  eq,
  exists,
  gt,
  ilike,
  inArray,
  isNull,
  max,
  ne,
  or,
  sql,
  type SQL,
} from 'drizzle-orm';
import type { RecordKinds } from '../../core/ports/record-kinds.ts';
import type {
  RecordFilter,
  RecordKind,
  RecordPlace,
  RecordsReader,
  RecordsWriter,
  RecordVersion,
  StoredRecord,
} from '../../core/ports/records.ts';
import type { Statements } from './database.ts';
import { type HeldCounters, removedRows, storedRows, type Taken } from './stored-records.ts';
import { records, recordVersions } from './schema.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Page } from '../../core/ports/page.ts';

/** Reads and writes records. */
export const recordsStore = { reader: recordsReader, writer: recordsWriter };

const maxRows = 1000;
/** A record may have 1 MiB, and the embedded engine holds the whole answer in memory. */
const maxBytes = 16 * 1024 * 1024;

/**
 * Records by id, those after `afterId`: at most 1,000, and only those that start within the first 16 MiB. Empty at the
 * end.
 */
async function recordsById(
  statements: Statements,
  where: SQL | undefined,
  afterId: string,
): Promise<readonly StoredRecord[]> {
  const page = statements
    .select()
    .from(records)
    .where(and(gt(records.id, afterId), where))
    .orderBy(asc(records.id))
    .limit(maxRows)
    .as('page');
  const sized = sql`(SELECT *, sum(size) OVER (ORDER BY id) - size AS before FROM ${page}) AS sized`;
  const [read] = await statements
    .select({ rows: recordRows })
    .from(sized)
    .where(sql`before <= ${maxBytes}`);
  return (read?.rows ?? []).map(recordOfRow);
}

/** A page of records as one value: the protocol costs as much per column as reading the row. */
const recordRows = sql<readonly PageRow[] | null>`json_agg(json_build_array(
  id, organisation_id, kind, workspace_id, slug, name, status, parent_id, data, secrets, created_by, updated_by,
  (extract(epoch from created_at) * 1000)::bigint, (extract(epoch from updated_at) * 1000)::bigint, version
) ORDER BY id)`;

type PageRow = readonly [
  id: string,
  organisationId: string,
  kind: RecordKind,
  workspaceId: string | null,
  slug: string,
  name: string,
  status: StoredRecord['status'],
  parentId: string,
  data: RecordKinds[RecordKind],
  secrets: Readonly<Record<string, string>>,
  createdBy: string,
  updatedBy: string,
  createdAt: number,
  updatedAt: number,
  version: number,
];

function recordOfRow(row: PageRow): StoredRecord {
  const [id, organisationId, kind, workspaceId, slug, name, status, parentId] = row;
  return {
    kind,
    id,
    organisationId,
    workspaceId: workspaceId ?? undefined,
    slug,
    name,
    status,
    parentId,
    data: row[8],
    secrets: row[9],
    createdBy: row[10],
    updatedBy: row[11],
    createdAt: row[12],
    updatedAt: row[13],
    version: row[14],
  };
}

const statuses = ['active', 'archived'] as const;
const recordColumns = {
  kind: records.kind,
  id: records.id,
  organisationId: records.organisationId,
  workspaceId: records.workspaceId,
  slug: records.slug,
  name: records.name,
  status: records.status,
  parentId: records.parentId,
  data: records.data,
  secrets: records.secrets,
  createdBy: records.createdBy,
  updatedBy: records.updatedBy,
  createdAt: records.createdAt,
  updatedAt: records.updatedAt,
  version: records.version,
};

/** Reads records with the statements of one transaction. */
function recordsReader(statements: Statements): RecordsReader {
  const select = () => statements.select(recordColumns).from(records);

  return {
    async find<K extends RecordKind>(kind: K, place: RecordPlace, idOrSlug: string) {
      // The id wins over an equal slug, and the workspace over its organisation.
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
      return storedRows.pagedList<StoredRecord<K>>(page, {
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
      removedRows.since(statements, records, organisationId, afterChange),
    withSecrets: (afterId) => recordsById(statements, ne(records.secrets, sql`'{}'::jsonb`), afterId),
  };
}

/** Records of one kind in one organisation. */
function ofKind(organisationId: string, kind: RecordKind): SQL | undefined {
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
  if (!isKept)
    return storedRows.count(statements, records, and(ofKind(organisationId, kind), matching(filter)));
  return storedRows.total(statements, {
    table: records,
    organisationId,
    workspaceId: ofOrganisation ? '' : workspaceId,
    kinds: (status === undefined ? statuses : [status]).map((one) => `${kind} ${one}`),
  });
}

function matching(filter: RecordFilter): SQL | undefined {
  const { workspaceId, ofOrganisation, status, parentId, search, exactName } = filter;
  const pattern = search === undefined ? '' : storedRows.containing(search);
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
  // The statement selected this kind alone.
  const data = row.data as RecordKinds[K];
  return { ...row, kind, data, workspaceId: row.workspaceId ?? undefined };
}

/** Writes records of the organisation whose counters are held; `clock` dates removals. */
function recordsWriter(statements: Statements, held: HeldCounters, clock: Clock): RecordsWriter {
  return {
    async insert(record) {
      held.check(record.organisationId);
      await storedRows.insert(statements, records, rowOf(record, held), taken(record));
      held.mark('records');
    },
    async replace(record) {
      const { kind, organisationId, id, version } = record;
      held.check(organisationId);
      const stored = and(ofKind(organisationId, kind), eq(records.id, id), eq(records.version, version - 1));
      const row = rowOf(record, held);
      const replaced = await storedRows.replace(statements, {
        table: records,
        row,
        stored,
        taken: taken(record),
      });
      if (replaced) held.mark('records');
      return replaced;
    },
    async remove(kind, organisationId, id) {
      held.check(organisationId);
      const removed = await storedRows.remove(
        statements,
        records,
        and(ofKind(organisationId, kind), eq(records.id, id)),
      );
      if (removed === 0) return false;
      await removedRows.remember(statements, held, { table: records, ids: [id], now: clock.now() });
      held.mark('records');
      return true;
    },
    ...versionsWriter(statements, held),
  };
}

function rowOf(record: StoredRecord, { change }: HeldCounters): typeof records.$inferInsert {
  const { kind, id, organisationId, slug, name, status, parentId, data, secrets } = record;
  const { createdBy, updatedBy, createdAt, updatedAt, version } = record;
  return {
    kind,
    id,
    organisationId,
    slug,
    name,
    status,
    parentId,
    data,
    secrets,
    createdBy,
    updatedBy,
    createdAt,
    updatedAt,
    version,
    // `undefined` would leave the column as it is.
    workspaceId: record.workspaceId ?? null,
    size: storedRows.sizeOfData(data),
    change,
  };
}

function taken({ kind, id, slug, workspaceId }: StoredRecord): Taken {
  const place = workspaceId === undefined ? 'The organisation' : 'The workspace';
  const what = kind.replaceAll('_', ' ').replace(/^mcp /, 'MCP ');
  const article = /^(?:[aeiou]|MCP)/.test(what) ? 'an' : 'a';
  return {
    records_slug_taken: `${place} has ${article} ${what} with the slug "${slug}" already; choose another slug.`,
    records_pkey: `A record with the id "${id}" exists already.`,
  };
}

const versionColumns = {
  id: recordVersions.id,
  recordId: recordVersions.recordId,
  number: recordVersions.number,
  name: recordVersions.name,
  data: recordVersions.data,
  description: recordVersions.description,
  labelId: recordVersions.labelId,
  createdBy: recordVersions.createdBy,
  createdAt: recordVersions.createdAt,
};

/** Reads versions of records with the statements of one transaction. */
function versionsReader(statements: Statements): Pick<RecordsReader, 'versions' | 'version'> {
  return {
    versions<K extends RecordKind>(kind: K, organisationId: string, recordId: string, page: Page) {
      const where = and(
        eq(recordVersions.recordId, recordId),
        ofRecordKind(statements, organisationId, kind),
      );
      return storedRows.pagedList<RecordVersion<K>>(
        page,
        {
          total: () => storedRows.count(statements, recordVersions, where),
          async rows({ limit, offset, towards }) {
            const rows = await statements
              .select(versionColumns)
              .from(recordVersions)
              .where(where)
              .orderBy(towards(recordVersions.number))
              .limit(limit)
              .offset(offset);
            return rows.map((row) => versionOf<K>(row));
          },
        },
        'descending',
      );
    },
    async version<K extends RecordKind>(
      kind: K,
      organisationId: string,
      recordId: string,
      wanted: Wanted,
    ): Promise<RecordVersion<K> | undefined> {
      const [found] = await statements
        .select(versionColumns)
        .from(recordVersions)
        .where(
          and(
            eq(recordVersions.recordId, recordId),
            ofRecordKind(statements, organisationId, kind),
            whereVersion(wanted),
          ),
        );
      return found === undefined ? undefined : versionOf<K>(found);
    },
  };
}

/** Writes versions of records of the organisation whose counters are held. */
function versionsWriter(
  statements: Statements,
  held: HeldCounters,
): Pick<RecordsWriter, 'addVersion' | 'label'> {
  /** Notes the change on the record, so that directories read it again; false when there is none. */
  async function touch(kind: RecordKind, id: string): Promise<boolean> {
    const { organisationId, change } = held;
    const { rowCount } = await statements
      .update(records)
      .set({ change })
      .where(and(eq(records.organisationId, organisationId), eq(records.kind, kind), eq(records.id, id)));
    if ((rowCount ?? 0) === 0) return false;
    held.mark('records');
    return true;
  }

  async function takeOff(recordId: string, labelId: string): Promise<void> {
    const { organisationId } = held;
    await statements
      .update(recordVersions)
      .set({ labelId: '' })
      .where(and(ofRecord(organisationId, recordId), eq(recordVersions.labelId, labelId)));
  }

  return {
    async addVersion<K extends RecordKind>(
      kind: K,
      organisationId: string,
      version: Omit<RecordVersion<K>, 'number'>,
    ) {
      held.check(organisationId);
      const { id, recordId, labelId } = version;
      storedRows.sizeOfData(version.data);
      if (!(await touch(kind, recordId)))
        throw new GatewayError('resource_not_found', `There is no record "${recordId}" of kind ${kind}.`);
      // No other transaction writes in the organisation now.
      const [last] = await statements
        .select({ number: max(recordVersions.number) })
        .from(recordVersions)
        .where(ofRecord(organisationId, recordId));
      const numbered = { ...version, number: (last?.number ?? 0) + 1 };
      if (labelId !== '') await takeOff(recordId, labelId);
      await storedRows.insert(
        statements,
        recordVersions,
        { ...numbered, organisationId },
        { record_versions_pkey: `A version with the id "${id}" exists already.` },
      );
      return numbered;
    },
    async label(kind, organisationId, versionId, labelId) {
      held.check(organisationId);
      const [found] = await statements
        .select({ recordId: recordVersions.recordId })
        .from(recordVersions)
        .where(and(eq(recordVersions.id, versionId), ofRecordKind(statements, organisationId, kind)));
      if (found === undefined || !(await touch(kind, found.recordId))) return false;
      if (labelId !== '') await takeOff(found.recordId, labelId);
      await statements
        .update(recordVersions)
        .set({ labelId })
        .where(and(ofRecord(organisationId, found.recordId), eq(recordVersions.id, versionId)));
      return true;
    },
  };
}

type Wanted = Parameters<RecordsReader['version']>[3];

function whereVersion(wanted: Wanted): SQL | undefined {
  if ('number' in wanted) return eq(recordVersions.number, wanted.number);
  if ('id' in wanted) return eq(recordVersions.id, wanted.id);
  // Most versions have no label.
  return and(ne(recordVersions.labelId, ''), eq(recordVersions.labelId, wanted.labelId));
}

function ofRecord(organisationId: string, recordId: string): SQL | undefined {
  return and(eq(recordVersions.organisationId, organisationId), eq(recordVersions.recordId, recordId));
}

/** Versions of the organisation's records of this kind. */
function ofRecordKind(statements: Statements, organisationId: string, kind: RecordKind): SQL | undefined {
  const record = statements
    .select({ id: records.id })
    .from(records)
    .where(
      and(
        eq(records.organisationId, recordVersions.organisationId),
        eq(records.id, recordVersions.recordId),
        eq(records.kind, kind),
      ),
    );
  return and(eq(recordVersions.organisationId, organisationId), exists(record));
}

type VersionRow = Omit<typeof recordVersions.$inferSelect, 'organisationId'>;

function versionOf<K extends RecordKind>(row: VersionRow): RecordVersion<K> {
  // The statement selected this kind alone.
  return { ...row, data: row.data as RecordKinds[K] };
}
