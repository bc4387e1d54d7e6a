/** What an export of logs can say of each request, in the order of its columns. */
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

/** What the file of an export can be: lines of JSON, a table as text, a table in columns. */
export const exportFormats = ['jsonl', 'csv', 'parquet'] as const;
/** One of them. */
export type ExportFormat = (typeof exportFormats)[number];

/** `draft` until it is started; `stopped` by somebody, `failed` by itself. */
export const exportStates = ['draft', 'in_progress', 'success', 'failed', 'stopped'] as const;
/** One of them. */
export type ExportState = (typeof exportStates)[number];

/** Section `exports` of the configuration, defaults filled in. All of the second half is for a store that speaks S3. */
export interface ExportSettings {
  /** `file:`, `file:/DIR` or `s3://BUCKET/PREFIX`. */
  readonly url: string;
  readonly expires_days: number;
  readonly max_rows: number;
  readonly link_minutes: number;
  readonly denied_fields: readonly ExportField[];
  readonly region: string;
  /** Empty: that of AWS in the region. */
  readonly endpoint: string;
  readonly path_style: boolean;
  readonly access_key_id?: string;
  readonly secret_access_key?: string;
  readonly session_token?: string;
}
