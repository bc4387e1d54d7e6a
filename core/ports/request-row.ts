import type { Usage } from '../dialects/usage.ts';

/**
 * One row of the `requests` table: one client request, wide on purpose. Field names are column names. Unknown strings
 * are empty and unknown numbers zero; times are milliseconds with fractions.
 */
export interface RequestRow {
  /** The request id, as in `x-service-request-id`. A UUID. */
  id: string;
  /** Acceptance, `YYYY-MM-DD HH:MM:SS.mmm` in UTC; tables are partitioned by it. */
  created_at: string;
  organisation_id: string;
  workspace_id: string;
  api_key_id: string;
  user_id: string;
  method: string;
  /** Path as received, without the query. */
  path: string;
  /** `chat.completions`, `embeddings`, … or `proxy`; the operation of a request to an MCP server (`mcp.tools.call`). */
  endpoint: string;
  stream: boolean;
  status: number;
  outcome: 'completed' | 'refused' | 'failed' | 'cancelled';
  /** 2xx, or 101 (a WebSocket that was relayed), and completed; not when the answer itself says that a tool failed. */
  is_success: boolean;
  error_code: string;
  error_source: '' | 'gateway' | 'provider';
  error_message: string;
  /** The plugin that refused or failed. */
  plugin: string;
  /** The kind of provider (`openai`). */
  ai_service: string;
  /** The provider as addressed: a name of the provider table, a YAML provider or a slug. */
  provider: string;
  model_requested: string;
  /** As answered, else as requested. */
  model: string;
  /** Slug of the MCP server, and the tool that was called there; empty for every other request. */
  mcp_server: string;
  mcp_tool: string;
  upstream_host: string;
  config: string;
  /** Version of the saved config; empty for an inline config. */
  config_version: string;
  prompt: string;
  prompt_version: string;
  virtual_key: string;
  cache_status: string;
  /** Hash of the configuration and plugin code that served the request. */
  generation: string;
  /** Until the last byte; of a stream that goes on until one side leaves (`mcp.listen`), until its beginning. */
  latency_ms: number;
  /** From the send to the provider until its last byte. */
  upstream_ms: number;
  /** latency − upstream, at least 0. */
  gateway_ms: number;
  /** From the send to the provider until the first byte, and the first token, of its answer. */
  first_byte_ms: number;
  first_token_ms: number;
  request_bytes: number;
  response_bytes: number;
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  cached_tokens: number;
  cache_write_tokens: number;
  reasoning_tokens: number;
  input_audio_tokens: number;
  output_audio_tokens: number;
  /** True when the answer was aborted before the provider reported its usage. */
  usage_estimated: boolean;
  /** Decimal string, US dollars, 12 digits after the point. */
  cost: string;
  /** Estimated cost of attempts that were aborted because another one won; format of `cost`, and not part of it. */
  lost_cost: string;
  pricing: 'priced' | 'unpriced' | 'none';
  price_version: string;
  attempts: number;
  /** Path of the last attempted target in its config (`config.targets[1]`); empty without a config. */
  option: string;
  /** Attempts after the first one at that target; -1 when all of them failed. */
  retries: number;
  /** JSON list of the attempts of a plan, in the order of their ends; empty without a plan. */
  tries: string;
  /** JSON of the gateway's decisions and their reasons; empty unless the request asked for it. */
  decision: string;
  /** JSON list of guardrail verdicts; empty for none. */
  guardrails: string;
  /** Limits that refused the request or made it skip a target. */
  limits: string[];
  /** Sent again on a fresh connection after the reset of a stale pooled one. */
  resent: boolean;
  finish_reason: string;
  /** Parameters of the request that its target's dialect cannot express. */
  dropped: string[];
  metadata: Record<string, string>;
  trace_id: string;
  span_id: string;
  parent_span_id: string;
  span_name: string;
  client_address: string;
  user_agent: string;
  /** The client library, from its own headers or its user agent: `openai-python 1.99.0`. */
  sdk: string;
  /**
   * Where the row comes from: empty for a request that was proxied, `api` for one that was reported, `otel` for a span.
   */
  source: '' | 'api' | 'otel';
}

/** The tokens of a row as a usage. */
export function usageOfRow(
  row: Pick<
    RequestRow,
    | 'prompt_tokens'
    | 'completion_tokens'
    | 'total_tokens'
    | 'cached_tokens'
    | 'cache_write_tokens'
    | 'reasoning_tokens'
    | 'input_audio_tokens'
    | 'output_audio_tokens'
  >,
): Usage {
  return {
    promptTokens: row.prompt_tokens,
    completionTokens: row.completion_tokens,
    totalTokens: row.total_tokens,
    cachedTokens: row.cached_tokens,
    cacheWriteTokens: row.cache_write_tokens,
    reasoningTokens: row.reasoning_tokens,
    inputAudioTokens: row.input_audio_tokens,
    outputAudioTokens: row.output_audio_tokens,
  };
}

/** One row of the `bodies` table, which has its own, shorter retention. */
export interface BodyRow {
  id: string;
  created_at: string;
  organisation_id: string;
  workspace_id: string;
  request: string;
  response: string;
  request_truncated: boolean;
  response_truncated: boolean;
  /** Format of `request` and `response`. */
  log_format: 'json' | 'sse' | 'text' | 'base64' | 'none';
  /** JSON object of the request's headers, masked; empty or absent where they are not kept. */
  request_headers?: string;
  /** JSON of a `StoredCall`; empty or absent where it is not kept, or no request went to a provider. */
  provider_call?: string;
}

/** The last request to a provider, masked, and its answer where that was translated as a whole. */
export interface StoredCall {
  readonly request: StoredCallBody & {
    readonly method: string;
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    /** The body equals that of the client's request. */
    readonly own?: boolean;
  };
  readonly response?: StoredCallBody & {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
  };
}

/** A body of a provider call. Absent flags mean false. */
export interface StoredCallBody {
  readonly body?: string;
  /** `body` is not UTF-8, so it is in base64. */
  readonly base64?: boolean;
  readonly truncated?: boolean;
}

/**
 * One row of the `feedback` table: a user's rating of the answers of a trace. Rows never change: a change of feedback
 * adds a row with the next revision, and the highest one counts.
 */
export interface FeedbackRow {
  /** UUID of the row. */
  readonly id: string;
  /** Acceptance time of the row, as in `RequestRow`. */
  readonly created_at: string;
  /** UUID of the feedback: the same in all of its revisions. */
  readonly feedback_id: string;
  /** From 1. */
  readonly revision: number;
  readonly organisation_id: string;
  readonly workspace_id: string;
  readonly api_key_id: string;
  readonly user_id: string;
  readonly trace_id: string;
  /** A whole number from -10 to 10. */
  readonly value: number;
  /** 0 to 1. */
  readonly weight: number;
  /** A JSON object. */
  readonly metadata: string;
}

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
