import { and, asc, gt, type SQL, sql } from 'drizzle-orm';
import type { RecordKinds } from '../../core/ports/record-kinds.ts';
import type { RecordKind, StoredRecord } from '../../core/ports/records.ts';
import type { Statements } from './database.ts';
import { records } from './schema.ts';

const mostRows = 1000;
/** A record may have 1 MiB, and the embedded engine holds the whole answer in memory. */
const mostBytes = 16 * 1024 * 1024;

/**
 * Records by id, those after `afterId`: 1,000 at the most, and no more of them than begin within the first 16 MiB.
 * Empty when there are no more.
 */
export async function recordsById(
  statements: Statements,
  where: SQL | undefined,
  afterId: string,
): Promise<readonly StoredRecord[]> {
  const page = statements
    .select()
    .from(records)
    .where(and(gt(records.id, afterId), where))
    .orderBy(asc(records.id))
    .limit(mostRows)
    .as('page');
  const sized = sql`(SELECT *, sum(size) OVER (ORDER BY id) - size AS before FROM ${page}) AS sized`;
  const [read] = await statements
    .select({ rows: recordRows })
    .from(sized)
    .where(sql`before <= ${mostBytes}`);
  return (read?.rows ?? []).map(recordOfRow);
}

/** A page of records as one value: the protocol costs as much for each column of a row as reading the row does. */
const recordRows = sql<readonly RecordRow[] | null>`json_agg(json_build_array(
  id, organisation_id, kind, workspace_id, slug, name, status, parent_id, data, secrets, created_by, updated_by,
  (extract(epoch from created_at) * 1000)::bigint, (extract(epoch from updated_at) * 1000)::bigint, version
) ORDER BY id)`;

type RecordRow = readonly [
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

function recordOfRow(row: RecordRow): StoredRecord {
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
