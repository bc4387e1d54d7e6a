import { Type, type Static } from '../../core/pipeline/plugin.ts';
import { exportStates } from '../../core/ports/export-fields.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import { Field, Format } from './export-body.ts';
import { orNull } from './text-schema.ts';

const time = (description: string) => orNull(Type.String({ description }));

/** One export as the API shows it. */
export const ExportReply = Type.Object({
  id: Type.String(),
  organisation_id: Type.String(),
  workspace_id: Type.String(),
  filters: Type.Record(Type.String(), Type.Unknown(), { description: 'As they were asked for.' }),
  requested_data: Type.Array(Field),
  format: Format,
  status: Type.Enum([...exportStates]),
  description: Type.String(),
  total_records: Type.Integer({ description: 'Rows that it is about, as counted last.' }),
  rows_written: Type.Integer(),
  bytes_written: Type.Integer(),
  error: Type.String({ description: 'Why it failed; empty when it did not.' }),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  started_at: time('When its last run began.'),
  finished_at: time('When it ended.'),
  expires_at: time('When its file is removed; null while there is none, and afterwards.'),
  created_by: Type.String({ description: 'Id of the user, or of the key, that made it.' }),
  object: Type.Literal('export'),
});

/** What is answered when an export was drafted or changed. */
export const DraftReply = Type.Object({
  id: Type.String(),
  total: Type.Integer({ description: 'Rows that it is about now.' }),
  object: Type.Literal('export'),
});

/** Puts a stored export into the shape of the API. */
export function showExport(record: StoredRecord<'log_export'>): Static<typeof ExportReply> {
  const { data } = record;
  return {
    ...{ id: record.id, organisation_id: record.organisationId, workspace_id: record.workspaceId ?? '' },
    ...{ filters: { ...data.filters }, requested_data: [...data.requestedData], format: data.format },
    ...{ status: data.state, description: data.description, error: data.error },
    ...{ total_records: data.total, rows_written: data.rows, bytes_written: data.bytes },
    created_at: timeText(record.createdAt),
    last_updated_at: timeText(record.updatedAt),
    started_at: timeOrNull(data.startedAt),
    finished_at: timeOrNull(data.finishedAt),
    expires_at: timeOrNull(data.expiresAt),
    created_by: record.createdBy,
    object: 'export',
  };
}

function timeText(at: number): string {
  return new Date(at).toISOString();
}

function timeOrNull(at: number | undefined): string | null {
  return at === undefined ? null : timeText(at);
}
