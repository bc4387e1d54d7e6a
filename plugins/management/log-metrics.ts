import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { isoTime } from './iso-time.ts';

const text = Type.String();
const count = Type.Integer();
const flag = Type.Boolean();
const ms = Type.Number({ description: 'Milliseconds.' });
const same = (as: string) => ({
  description: `The same as \`${as}\`, under the name that existing clients know.`,
});

/** Everything that is measured and known of one request: the columns of its row, and some of them by a second name. */
export const LogMetrics = Type.Object({
  id: text,
  created_at: text,
  organisation_id: text,
  workspace_id: text,
  api_key_id: text,
  user_id: text,
  method: text,
  path: text,
  endpoint: text,
  stream: flag,
  status: count,
  outcome: text,
  is_success: flag,
  error_code: text,
  error_source: text,
  error_message: text,
  plugin: text,
  ai_service: text,
  provider: text,
  model_requested: text,
  model: text,
  upstream_host: text,
  config: text,
  config_version: text,
  prompt: text,
  prompt_version: text,
  virtual_key: text,
  cache_status: text,
  generation: text,
  latency_ms: ms,
  upstream_ms: ms,
  gateway_ms: ms,
  first_byte_ms: ms,
  first_token_ms: ms,
  request_bytes: count,
  response_bytes: count,
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  cached_tokens: count,
  cache_write_tokens: count,
  reasoning_tokens: count,
  input_audio_tokens: count,
  output_audio_tokens: count,
  cost: Type.Number({ description: 'US dollars.' }),
  lost_cost: Type.Number({
    description:
      'US dollars, estimated, of tries that were broken off because another one won; no part of `cost`.',
  }),
  cost_currency: Type.Literal('USD'),
  pricing: text,
  price_version: text,
  attempts: count,
  option: Type.String({
    description: 'Where the target that was tried last stands in its config; empty without a config.',
  }),
  retries: Type.Integer({ description: 'Tries after the first one at that target; -1 when all failed.' }),
  limits: Type.Array(text, { description: 'Limits that refused it, or let it pass a target over.' }),
  resent: flag,
  finish_reason: text,
  dropped: Type.Array(text, {
    description: "What the request asked for and its target's wire cannot say.",
  }),
  metadata: Type.Record(text, text),
  trace_id: text,
  span_id: text,
  parent_span_id: text,
  span_name: text,
  client_address: text,
  user_agent: text,
  sdk: Type.String({ description: 'The client library, `openai-python 1.99.0`.' }),
  source: Type.String({
    description: 'Empty for a request that was proxied, `api` for one that was reported, `otel` for a span.',
  }),
  ai_org: Type.String(same('ai_service')),
  ai_model: Type.String(same('model')),
  req_units: Type.Integer(same('prompt_tokens')),
  res_units: Type.Integer(same('completion_tokens')),
  total_units: Type.Integer(same('total_tokens')),
  request_method: Type.String(same('method')),
  request_url: Type.String(same('path')),
  response_status_code: Type.Integer(same('status')),
  response_time: Type.Number(same('latency_ms')),
  upstream_response_time: Type.Number(same('upstream_ms')),
  gateway_processing_time: Type.Number(same('gateway_ms')),
  config_id: Type.String(same('config')),
  config_version_id: Type.String(same('config_version')),
  prompt_slug: Type.String(same('prompt')),
  prompt_version_id: Type.String(same('prompt_version')),
  is_proxy_call: Type.Boolean({ description: 'Whether `endpoint` is `proxy`.' }),
  stream_mode: Type.Integer({ minimum: 0, maximum: 1, description: '1 for `stream`.' }),
  retry_success_count: Type.Integer({
    description: '`retries` of a request that succeeded, else 0.',
  }),
  last_used_option_index: Type.Union([count, Type.Null()], {
    description: 'The number at the end of `option`; null without one.',
  }),
  'metadata.key': Type.Array(text, { description: 'The names of `metadata`.' }),
  'metadata.value': Type.Array(text, { description: 'Its values, in the same order.' }),
});

type Metrics = Static<typeof LogMetrics>;
/** What a row says in JSON of its own stands elsewhere. */
type Row = Omit<RequestRow, 'tries' | 'decision' | 'guardrails'>;

/** What is no column of the row, or another value there. */
const made: {
  readonly [Name in Exclude<keyof Metrics, keyof Row> | 'created_at' | 'cost' | 'lost_cost']: (
    row: Row,
  ) => Metrics[Name];
} = {
  created_at: (row) => isoTime(row.created_at),
  cost: (row) => Number(row.cost),
  lost_cost: (row) => Number(row.lost_cost),
  cost_currency: () => 'USD',
  ai_org: (row) => row.ai_service,
  ai_model: (row) => row.model,
  req_units: (row) => row.prompt_tokens,
  res_units: (row) => row.completion_tokens,
  total_units: (row) => row.total_tokens,
  request_method: (row) => row.method,
  request_url: (row) => row.path,
  response_status_code: (row) => row.status,
  response_time: (row) => row.latency_ms,
  upstream_response_time: (row) => row.upstream_ms,
  gateway_processing_time: (row) => row.gateway_ms,
  config_id: (row) => row.config,
  config_version_id: (row) => row.config_version,
  prompt_slug: (row) => row.prompt,
  prompt_version_id: (row) => row.prompt_version,
  is_proxy_call: (row) => row.endpoint === 'proxy',
  stream_mode: (row) => (row.stream ? 1 : 0),
  retry_success_count: (row) => (row.is_success ? Math.max(row.retries, 0) : 0),
  last_used_option_index: ({ option }) => {
    const index = /\[(\d+)\]$/.exec(option)?.[1];
    return index === undefined ? null : Number(index);
  },
  'metadata.key': (row) => Object.keys(row.metadata),
  'metadata.value': (row) => Object.values(row.metadata),
};

/** Some of what the API shows of a row. Lists show many rows: what is not asked for is not made. */
export function metricsOf<Name extends keyof Metrics>(row: Row, names: readonly Name[]): Pick<Metrics, Name> {
  const metrics: Record<string, unknown> = {};
  const makers: Partial<Record<keyof Metrics, (row: Row) => unknown>> = made;
  for (const name of names) {
    const make = makers[name];
    metrics[name] = make === undefined ? row[name as keyof Row] : make(row);
  }
  return metrics as Pick<Metrics, Name>;
}

/** Every name of `LogMetrics`. */
export const metricNames = Object.keys(LogMetrics.properties) as (keyof Metrics)[];
