import type { DialectName } from '../dialects/endpoint.ts';
import type { ProviderRow } from '../providers/provider-row.ts';

/** What hosts of a wire want where their row does not say otherwise; every other wire: `Authorization: Bearer`. */
const defaults: Readonly<Partial<Record<DialectName, ProviderRow>>> = {
  'anthropic-messages': {
    credentials: 'x-api-key',
    // Required by the API: https://docs.anthropic.com/en/api/versioning
    headers: { 'anthropic-version': '2023-06-01' },
    usage_in_stream: 'always',
  },
  'google-gemini': { credentials: 'x-goog-api-key' },
  'google-vertex': { credentials: 'google' },
  'azure-openai': { credentials: 'api-key' },
  'bedrock-converse': { credentials: 'sigv4' },
};

/** The row with what its wire wants filled in. */
export function withDialectDefaults(row: ProviderRow): ProviderRow {
  const own = defaults[row.dialect ?? 'openai-chat'];
  return own === undefined ? row : { ...own, ...row, headers: { ...own.headers, ...row.headers } };
}
