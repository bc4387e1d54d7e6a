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
