import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { LogRecord } from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { isoTime } from './iso-time.ts';
import { orNull } from './text-schema.ts';
import { LogMetrics, metricNames, metricsOf } from './log-metrics.ts';

const Body = Type.Unknown({
  description:
    'The JSON value where the body is complete JSON whose integers survive it, else its text (base64 when `log_format` says so); null when it was not kept.',
});

const Try = Type.Object({
  option: Type.String({ description: 'Where the target stands in the config.' }),
  provider: Type.String(),
  model: Type.String(),
  status: Type.Integer({ description: 'What the client would have seen; 0 for one that was broken off.' }),
  error: Type.String(),
  start_ms: orNull(
    Type.Number({
      description:
        'Milliseconds after acceptance, as `end_ms`. Null for the only try of a request: `upstream_ms` of `metrics` tells how long it took.',
    }),
  ),
  end_ms: orNull(Type.Number()),
  lost: Type.Boolean({ description: 'Nothing was served from it: another try followed, or won.' }),
  skipped: Type.Optional(Type.String({ description: 'Why the target was not asked at all.' })),
});

/** One log entry as the API shows it. */
export const LogReply = Type.Object({
  id: Type.String(),
  _id: Type.String({ description: 'The same as `id`, under the name that existing clients know.' }),
  object: Type.Literal('log'),
  created_at: Type.String({ description: 'Acceptance, ISO 8601.' }),
  organisation_id: Type.String(),
  workspace_id: Type.String(),
  log_format: Type.Union(
    [
      Type.Literal('json'),
      Type.Literal('sse'),
      Type.Literal('text'),
      Type.Literal('base64'),
      Type.Literal('none'),
    ],
    { description: 'How the bodies are to be read; `none` when none was kept.' },
  ),
  request: Type.Object({
    method: Type.String(),
    url: Type.String(),
    headers: orNull(
      Type.Record(Type.String(), Type.String(), {
        description:
          'The headers of the request by their names in lower case. Values that may be secret are `***`. Null where no body was kept, or the row is of an older version.',
      }),
    ),
    body: Body,
    truncated: Type.Boolean(),
  }),
  response: Type.Object({
    status: Type.Integer(),
    response_time: Type.Number({ description: 'Milliseconds until the last byte.' }),
    responseTime: Type.Number({ description: 'The same as `response_time`.' }),
    lastUsedOptionJsonPath: Type.String({ description: 'The same as `metrics.option`.' }),
    body: Body,
    truncated: Type.Boolean(),
  }),
  metrics: LogMetrics,
  tries: Type.Union([Type.Array(Try), Type.Null()], {
    description: 'The tries, in the order in which they ended; null where no provider was asked.',
  }),
  guardrails: Type.Unknown({ description: 'A list of what guardrails said; null when none judged.' }),
  decision: Type.Unknown({
    description:
      'What the gateway decided and why, for a request with the header `explain: true`; else null.',
  }),
});

/** Puts a stored record into the shape of the API. */
export function logReply(record: LogRecord): Static<typeof LogReply> {
  const { tries, decision, guardrails, ...row } = record.request;
  const bodies = bodiesOf(record);
  return {
    ...headOf(row),
    _id: row.id,
    log_format: bodies.log_format,
    request: { method: row.method, url: row.path, headers: headersOf(record), ...bodies.request },
    response: {
      status: row.status,
      response_time: row.latency_ms,
      responseTime: row.latency_ms,
      lastUsedOptionJsonPath: row.option,
      ...bodies.response,
    },
    metrics: metricsOf(row, metricNames),
    tries: tries === '' ? onlyTry(row) : (JSON.parse(tries) as Static<typeof Try>[]),
    guardrails: guardrails === '' ? null : JSON.parse(guardrails),
    decision: decision === '' ? null : JSON.parse(decision),
  };
}

function headersOf({ body }: LogRecord): Record<string, string> | null {
  return body?.request_headers ? (JSON.parse(body.request_headers) as Record<string, string>) : null;
}

/** The one try of a request whose row needs no list of them. */
function onlyTry(
  row: Pick<RequestRow, 'attempts' | 'option' | 'provider' | 'model' | 'status' | 'error_code'>,
): Static<typeof Try>[] | null {
  if (row.attempts !== 1) return null;
  const { provider, model, status, error_code: error } = row;
  const option = row.option || 'config';
  return [{ option, provider, model, status, error, start_ms: null, end_ms: null, lost: false }];
}

/** What an entry says first, in full and in lists. */
export function headOf({
  id,
  created_at,
  organisation_id,
  workspace_id,
}: Pick<RequestRow, 'id' | 'created_at' | 'organisation_id' | 'workspace_id'>) {
  return { id, object: 'log' as const, created_at: isoTime(created_at), organisation_id, workspace_id };
}

/** What an entry says of bodies, in full and in lists. */
export function bodiesOf({ body }: Pick<LogRecord, 'body'>) {
  const format = body?.log_format ?? 'none';
  const isText = format !== 'base64';
  return {
    log_format: format,
    request: { body: bodyOf(body?.request, isText), truncated: body?.request_truncated ?? false },
    response: { body: bodyOf(body?.response, isText), truncated: body?.response_truncated ?? false },
  };
}

function bodyOf(text: string | undefined, isText: boolean): unknown {
  if (!text) return null;
  if (!isText || !/^\s*[[{]/.test(text)) return text;
  let exact = true;
  try {
    const value: unknown = JSON.parse(text, (_, member: unknown) => {
      if (Number.isInteger(member) && !Number.isSafeInteger(member)) exact = false;
      return member;
    });
    return exact ? value : text;
  } catch {
    return text;
  }
}
