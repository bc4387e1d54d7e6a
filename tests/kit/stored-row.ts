import type { RequestRow } from '../../core/ports/request-row.ts';

const texts =
  'id created_at organisation_id workspace_id api_key_id user_id method path endpoint error_code error_source error_message plugin ai_service provider model_requested model mcp_server mcp_tool upstream_host config prompt virtual_key cache_status generation price_version finish_reason trace_id span_id parent_span_id span_name client_address user_agent option tries decision config_version prompt_version guardrails sdk source';
const numbers =
  'status latency_ms upstream_ms gateway_ms first_byte_ms first_token_ms request_bytes response_bytes prompt_tokens completion_tokens total_tokens cached_tokens cache_write_tokens reasoning_tokens input_audio_tokens output_audio_tokens attempts retries';

/** A log line as the store reads it: members that the line leaves out are empty, zero or false. */
export function storedRow(line: Partial<RequestRow>): RequestRow {
  return {
    ...Object.fromEntries(texts.split(' ').map((name) => [name, ''])),
    ...Object.fromEntries(numbers.split(' ').map((name) => [name, 0])),
    stream: false,
    is_success: false,
    resent: false,
    usage_estimated: false,
    dropped: [],
    limits: [],
    metadata: {},
    lost_cost: '0',
    ...line,
  } as RequestRow;
}
