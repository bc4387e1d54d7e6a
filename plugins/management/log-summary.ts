import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { LogRecord } from '../../core/ports/analytics.ts';
import { LogMetrics, metricsOf } from './log-metrics.ts';
import { bodiesOf, headOf, LogReply } from './log-record.ts';

/** What a list says of an entry; `GET /logs/{id}` says the rest. */
const shown = [
  ...(['workspace_id', 'api_key_id', 'user_id', 'endpoint', 'stream', 'outcome', 'is_success'] as const),
  ...(['error_code', 'error_message', 'ai_service', 'ai_org', 'provider', 'model', 'ai_model'] as const),
  ...(['config', 'prompt', 'prompt_slug', 'virtual_key', 'cache_status', 'finish_reason', 'source'] as const),
  ...(['latency_ms', 'first_token_ms', 'prompt_tokens', 'completion_tokens', 'total_tokens'] as const),
  ...(['req_units', 'res_units', 'total_units', 'cost', 'cost_currency', 'pricing', 'attempts'] as const),
  ...(['retries', 'metadata', 'trace_id', 'span_id', 'parent_span_id', 'span_name', 'sdk'] as const),
];

const { request, response, log_format } = LogReply.properties;
const whole = Type.Optional;

/** An entry in a list or a stream: the names of `GET /logs/{id}`, and less of them. */
export const LogSummary = Type.Object({
  ...Type.Pick(LogReply, ['id', 'object', 'created_at', 'organisation_id', 'workspace_id']).properties,
  request: Type.Object({
    ...Type.Pick(request, ['method', 'url']).properties,
    body: whole(request.properties.body),
    truncated: whole(request.properties.truncated),
  }),
  response: Type.Object({
    ...Type.Pick(response, ['status', 'response_time']).properties,
    body: whole(response.properties.body),
    truncated: whole(response.properties.truncated),
  }),
  log_format: whole(log_format),
  metrics: Type.Pick(LogMetrics, shown),
});

/** The entry for a list; `bodies`: with what was sent and answered. */
export function logSummary(record: LogRecord, { bodies = false } = {}): Static<typeof LogSummary> {
  const row = record.request;
  const kept = bodies ? bodiesOf(record) : undefined;
  return {
    ...headOf(row),
    request: { method: row.method, url: row.path, ...kept?.request },
    response: { status: row.status, response_time: row.latency_ms, ...kept?.response },
    ...(kept !== undefined && { log_format: kept.log_format }),
    metrics: metricsOf(row, shown),
  };
}
