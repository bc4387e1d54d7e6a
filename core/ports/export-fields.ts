/** Fields of an export of logs, in the order of its columns. */
export const exportFields = [
  'id',
  'trace_id',
  'created_at',
  'request',
  'response',
  'is_success',
  'ai_org',
  'ai_model',
  'req_units',
  'res_units',
  'total_units',
  'request_url',
  'cost',
  'cost_currency',
  'response_time',
  'response_status_code',
  'mode',
  'config',
  'prompt_slug',
  'metadata',
] as const;
/** One of them. */
export type ExportField = (typeof exportFields)[number];

/** File formats of an export: JSON lines, CSV, columnar. */
export const exportFormats = ['jsonl', 'csv', 'parquet'] as const;
/** One of them. */
export type ExportFormat = (typeof exportFormats)[number];

/** `draft` until the start; `stopped` by a user, `failed` by an error. */
export const exportStates = ['draft', 'in_progress', 'success', 'failed', 'stopped'] as const;
/** One of them. */
export type ExportState = (typeof exportStates)[number];

/** Section `exports` of the configuration, defaults filled in. Members from `region` on apply to S3 stores only. */
export interface ExportSettings {
  /** `file:`, `file:/DIR` or `s3://BUCKET/PREFIX`. */
  readonly url: string;
  readonly expires_days: number;
  readonly max_rows: number;
  readonly link_minutes: number;
  readonly denied_fields: readonly ExportField[];
  readonly region: string;
  /** Empty: the endpoint of AWS in the region. */
  readonly endpoint: string;
  readonly path_style: boolean;
  readonly access_key_id?: string;
  readonly secret_access_key?: string;
  readonly session_token?: string;
}
