import { GatewayError, type Static, Type } from '../../../core/pipeline/plugin.ts';
import { exportFields, exportFormats, exportStates } from '../../../core/ports/request-row.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { Identifier, Name, orNull, strict } from '../shared/fields.ts';
import { filterBody } from '../shared/request-filter.ts';

/** Reads the record of an export. */
export const exportRecord = { show: showExport, wrongState, requireFile };

const Field = Type.Enum([...exportFields]);
const Format = Type.Enum([...exportFormats]);

const Filters = Type.Object(
  {
    ...filterBody,
    page_size: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 50_000,
        description: 'Most rows of the export: the page `current_page` of this size. Default: all rows.',
      }),
    ),
    current_page: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'Page of `page_size` rows, from 0.' }),
    ),
  },
  {
    ...strict,
    description:
      'Filters of requests, as for logs and analytics. `cost_min` and `cost_max` are US cents, for existing clients; exported costs are in US dollars.',
  },
);

const RequestedData = Type.Array(Field, {
  minItems: 1,
  maxItems: 50,
  examples: [['id', 'created_at', 'ai_model', 'cost']],
  description: 'The columns.',
});

const shared = {
  filters: Filters,
  workspace_id: Type.Optional(
    Name("Id or slug of the workspace whose requests are exported. Default: the key's own."),
  ),
  description: Type.Optional(Type.String({ maxLength: 1000, description: 'For people.' })),
  format: Type.Optional(
    Type.Enum([...exportFormats], { description: 'Format of the file. Default: lines of JSON (`jsonl`).' }),
  ),
};

/** Body that creates an export. */
const CreateExport = Type.Object({ ...shared, requested_data: RequestedData }, strict);

/** Body that changes a draft; absent members stay unchanged, and `filters` are replaced as a whole. */
const UpdateExport = Type.Object(
  {
    ...shared,
    requested_data: Type.Optional(RequestedData),
    // Some clients repeat the id of the path.
    exportId: Type.Optional(Identifier),
    export_id: Type.Optional(Identifier),
  },
  strict,
);

export type ExportFilters = Static<typeof Filters>;

const time = (description: string) => orNull(Type.String({ description }));

/** One export as the API shows it. */
const ExportReply = Type.Object({
  id: Type.String(),
  organisation_id: Type.String(),
  workspace_id: Type.String(),
  filters: Type.Record(Type.String(), Type.Unknown(), { description: 'Requested fields.' }),
  requested_data: Type.Array(Field),
  format: Format,
  status: Type.Enum([...exportStates]),
  description: Type.String(),
  total_records: Type.Integer({ description: 'Rows that match the export, at the last count.' }),
  rows_written: Type.Integer(),
  bytes_written: Type.Integer(),
  error: Type.String({ description: 'Reason for the failure; empty if it did not fail.' }),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  started_at: time('Start of its last run.'),
  finished_at: time('End of the export.'),
  expires_at: time('Time at which its file is removed; null before the file exists and after its removal.'),
  created_by: Type.String({ description: 'Id of the user or key that created it.' }),
  object: Type.Literal('export'),
});

/** Answer to the creation or change of an export. */
const DraftReply = Type.Object({
  id: Type.String(),
  total: Type.Integer({ description: 'Rows that currently match the export.' }),
  object: Type.Literal('export'),
});

/** Bodies and replies of exports. */
export const exportSchemas = {
  Field,
  Create: CreateExport,
  Update: UpdateExport,
  Reply: ExportReply,
  DraftReply,
};

/** Converts a stored export to the API's shape. */
function showExport(record: StoredRecord<'log_export'>): Static<typeof ExportReply> {
  const { data } = record;
  return {
    id: record.id,
    organisation_id: record.organisationId,
    workspace_id: record.workspaceId ?? '',
    filters: { ...data.filters },
    requested_data: [...data.requestedData],
    format: data.format,
    status: data.state,
    description: data.description,
    error: data.error,
    total_records: data.total,
    rows_written: data.rows,
    bytes_written: data.bytes,
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

/** `resource_conflict`: the state of the export does not allow this action. */
function wrongState({ data: { state } }: StoredRecord<'log_export'>, remedy: string): GatewayError {
  return new GatewayError('resource_conflict', `The export is "${state}". ${remedy}`);
}

/** Throws `resource_conflict` while there is no file, `resource_not_found` when it has expired. */
function requireFile(record: StoredRecord<'log_export'>, now: number): void {
  if (record.data.state !== 'success')
    throw wrongState(record, 'Its file is there when it has succeeded; read it again until then.');
  if (record.data.expiresAt !== undefined && record.data.expiresAt > now) return;
  throw new GatewayError(
    'resource_not_found',
    'The file of this export was removed when its time was over (exports.expires_days). Start the export again.',
  );
}
