import { and, eq, exists, max, ne, type SQL } from 'drizzle-orm';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { RecordKinds } from '../../core/ports/record-kinds.ts';
import type { RecordKind, RecordsReader, RecordsWriter, RecordVersion } from '../../core/ports/records.ts';
import type { Page } from '../../core/ports/page.ts';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { countRows, insertRow, pagedList, sizeOfData } from './stored-records.ts';
import { records, recordVersions } from './schema.ts';

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
export function versionsReader(statements: Statements): Pick<RecordsReader, 'versions' | 'version'> {
  return {
    versions<K extends RecordKind>(kind: K, organisationId: string, recordId: string, page: Page) {
      const where = and(eq(recordVersions.recordId, recordId), ofKind(statements, organisationId, kind));
      return pagedList<RecordVersion<K>>(
        page,
        {
          total: () => countRows(statements, recordVersions, where),
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
            ofKind(statements, organisationId, kind),
            whereVersion(wanted),
          ),
        );
      return found === undefined ? undefined : versionOf<K>(found);
    },
  };
}

/** Writes versions of records of the organisation whose counters are held. */
export function versionsWriter(
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
      sizeOfData(version.data);
      if (!(await touch(kind, recordId)))
        throw new GatewayError('resource_not_found', `There is no record "${recordId}" of kind ${kind}.`);
      // No other transaction writes in the organisation now.
      const [last] = await statements
        .select({ number: max(recordVersions.number) })
        .from(recordVersions)
        .where(ofRecord(organisationId, recordId));
      const numbered = { ...version, number: (last?.number ?? 0) + 1 };
      if (labelId !== '') await takeOff(recordId, labelId);
      await insertRow(
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
        .where(and(eq(recordVersions.id, versionId), ofKind(statements, organisationId, kind)));
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
function ofKind(statements: Statements, organisationId: string, kind: RecordKind): SQL | undefined {
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
