import type { ExportField } from './export-fields.ts';

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
