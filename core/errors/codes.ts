/**
 * The one table of error codes. `docs/errors.md` lists exactly these rows; `scripts/check-errors.ts` proves it.
 *
 * `status` is the HTTP status that a client sees, `type` the OpenAI-style error type, `admin` the code of the
 * administration shape (`AB01` … `AB09`).
 */
export const errorTable = {
  // Errors in the client's request
  invalid_request: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  invalid_json: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  invalid_header: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  provider_missing: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  provider_unknown: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  provider_ambiguous: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  invalid_config: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  config_unknown: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  custom_host_refused: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  address_refused: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  fetch_failed: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  not_supported: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  body_too_large: { status: 413, type: 'invalid_request_error', admin: 'AB01' },
  body_encoding_unsupported: { status: 415, type: 'invalid_request_error', admin: 'AB01' },
  body_timeout: { status: 408, type: 'timeout_error', admin: 'AB01' },
  route_not_found: { status: 404, type: 'invalid_request_error', admin: 'AB08' },
  resource_not_found: { status: 404, type: 'invalid_request_error', admin: 'AB08' },
  already_exists: { status: 409, type: 'invalid_request_error', admin: 'AB07' },
  resource_conflict: { status: 409, type: 'invalid_request_error', admin: 'AB07' },
  mcp_message_invalid: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  mcp_server_unknown: { status: 404, type: 'invalid_request_error', admin: 'AB08' },
  mcp_session_unknown: { status: 404, type: 'invalid_request_error', admin: 'AB08' },
  version_mismatch: { status: 412, type: 'invalid_request_error', admin: 'AB01' },
  // Authentication and permission
  key_missing: { status: 401, type: 'authentication_error', admin: 'AB05' },
  key_invalid: { status: 401, type: 'authentication_error', admin: 'AB05' },
  key_expired: { status: 401, type: 'authentication_error', admin: 'AB05' },
  token_invalid: { status: 401, type: 'authentication_error', admin: 'AB05' },
  token_keys_unavailable: { status: 503, type: 'service_unavailable_error', admin: 'AB04' },
  workspace_archived: { status: 403, type: 'permission_error', admin: 'AB03' },
  scope_missing: { status: 403, type: 'permission_error', admin: 'AB03' },
  provider_disabled: { status: 403, type: 'permission_error', admin: 'AB03' },
  model_not_allowed: { status: 403, type: 'permission_error', admin: 'AB03' },
  mcp_capability_refused: { status: 403, type: 'permission_error', admin: 'AB03' },
  mcp_connection_missing: { status: 403, type: 'permission_error', admin: 'AB03' },
  origin_refused: { status: 403, type: 'permission_error', admin: 'AB03' },
  config_override_denied: { status: 403, type: 'permission_error', admin: 'AB03' },
  feature_disabled: { status: 403, type: 'permission_error', admin: 'AB03' },
  // Rules of the operator
  hooks_failed: { status: 446, type: 'hooks_failed', admin: 'AB01' },
  limits_unavailable: { status: 503, type: 'service_unavailable_error', admin: 'AB04' },
  rate_limited: { status: 429, type: 'rate_limit_error', admin: 'AB06' },
  provider_rate_limited: { status: 429, type: 'rate_limit_error', admin: 'AB06' },
  budget_exhausted: { status: 412, type: 'budget_exhausted', admin: 'AB09' },
  provider_budget_exhausted: { status: 412, type: 'budget_exhausted', admin: 'AB09' },
  // State of the gateway
  overloaded: { status: 503, type: 'overloaded_error', admin: 'AB04' },
  upstream_busy: { status: 503, type: 'overloaded_error', admin: 'AB04' },
  store_unavailable: { status: 503, type: 'service_unavailable_error', admin: 'AB04' },
  too_many_jobs: { status: 503, type: 'overloaded_error', admin: 'AB04' },
  journal_full: { status: 503, type: 'service_unavailable_error', admin: 'AB04' },
  too_many_queries: { status: 429, type: 'rate_limit_error', admin: 'AB06' },
  too_many_streams: { status: 429, type: 'rate_limit_error', admin: 'AB06' },
  query_too_large: { status: 400, type: 'invalid_request_error', admin: 'AB01' },
  query_timeout: { status: 504, type: 'timeout_error', admin: 'AB04' },
  shutting_down: { status: 503, type: 'service_unavailable_error', admin: 'AB04' },
  // Failures of the provider
  provider_error: { status: 502, type: 'upstream_error', admin: 'AB04' },
  upstream_unreachable: { status: 502, type: 'upstream_error', admin: 'AB04' },
  upstream_reset: { status: 502, type: 'upstream_error', admin: 'AB04' },
  request_timeout: { status: 408, type: 'timeout_error', admin: 'AB04' },
  upstream_timeout: { status: 504, type: 'timeout_error', admin: 'AB04' },
  upstream_invalid: { status: 502, type: 'upstream_error', admin: 'AB04' },
  upstream_too_large: { status: 502, type: 'upstream_error', admin: 'AB04' },
  credentials_failed: { status: 502, type: 'upstream_error', admin: 'AB04' },
  mcp_failed: { status: 502, type: 'upstream_error', admin: 'AB04' },
  // Requests that ended before their answer (a client that left never reads it; the log does)
  client_closed: { status: 499, type: 'client_closed_request', admin: 'AB01' },
  client_stalled: { status: 499, type: 'client_closed_request', admin: 'AB01' },
  // Internal failures
  plugin_failed: { status: 500, type: 'plugin_error', admin: 'AB04' },
  plugin_timeout: { status: 500, type: 'plugin_error', admin: 'AB04' },
  plugin_unavailable: { status: 503, type: 'plugin_error', admin: 'AB04' },
  reply_invalid: { status: 500, type: 'internal_error', admin: 'AB04' },
  internal: { status: 500, type: 'internal_error', admin: 'AB04' },
} as const satisfies Record<string, ErrorRow>;

interface ErrorRow {
  readonly status: number;
  readonly type: string;
  readonly admin: `AB0${number}`;
}

export type ErrorCode = keyof typeof errorTable;
