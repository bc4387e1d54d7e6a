import type { GroupBy, SeriesSplit } from '../../core/ports/analytics.ts';

/** The column of `requests` behind each way to tell requests apart. */
export const splitColumns: Readonly<Record<Extract<GroupBy | SeriesSplit, string>, string>> = {
  ai_service: 'ai_service',
  model: 'model',
  status_code: 'status',
  api_key: 'api_key_id',
  config: 'config',
  workspace: 'workspace_id',
  provider: 'provider',
  prompt: 'prompt',
  user: 'end_user',
  retries: 'retries',
};

/** How rows of `requests` are told apart: a text, and which rows have it. */
export function splitColumn(split: GroupBy | SeriesSplit | undefined): {
  readonly sql: string;
  readonly conditions: readonly string[];
  readonly parameters: Readonly<Record<string, unknown>>;
} {
  if (split === undefined) return { sql: "''", conditions: [], parameters: {} };
  if (typeof split === 'object') {
    return {
      sql: 'metadata[{split_key:String}]',
      conditions: ['mapContains(metadata, {split_key:String})'],
      parameters: { split_key: split.metadata },
    };
  }
  const conditions = split === 'retries' ? ['is_success', 'retries > 0'] : [];
  return { sql: `toString(${splitColumns[split]})`, conditions, parameters: {} };
}
