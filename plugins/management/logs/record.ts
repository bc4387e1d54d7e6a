import { type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { LogRecord } from '../../../core/ports/analytics.ts';
import { costKinds } from '../../../core/ports/prices.ts';
import {
  type RequestRow,
  type StoredCall,
  type StoredCallBody,
  usageOfRow,
} from '../../../core/ports/request-row.ts';
import { isoTime } from '../shared/replies.ts';
import { orNull } from '../shared/fields.ts';

const text = Type.String();
const count = Type.Integer();
const flag = Type.Boolean();
const ms = Type.Number({ description: 'Milliseconds.' });
const same = (as: string) => ({
  description: `Same value as \`${as}\`, under the name that existing clients use.`,
});

/** All metrics of one request: the columns of its row, and second names for some of them. */
const LogMetrics = Type.Object({
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
  mcp_server: Type.String({ description: 'Slug of the MCP server; empty for every other request.' }),
  mcp_tool: Type.String({ description: 'Tool that was called there.' }),
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
  usage_estimated: Type.Boolean({
    description:
      'Whether the tokens are an estimate because the answer was broken off before its provider reported them.',
  }),
  cost: Type.Number({ description: 'US dollars.' }),
  lost_cost: Type.Number({
    description:
      'Estimated US dollars of attempts aborted because another attempt won; not included in `cost`.',
  }),
  cost_currency: Type.Literal('USD'),
  pricing: text,
  price_version: text,
  attempts: count,
  option: Type.String({
    description: 'Position of the last target in its config; empty without a config.',
  }),
  retries: Type.Integer({ description: 'Attempts after the first one at that target; -1 if all failed.' }),
  limits: Type.Array(text, { description: 'Limits that refused the request, or skipped a target.' }),
  resent: flag,
  finish_reason: text,
  dropped: Type.Array(text, {
    description: 'Parts of the request that the wire format of the target cannot express.',
  }),
  metadata: Type.Record(text, text),
  trace_id: text,
  span_id: text,
  parent_span_id: text,
  span_name: text,
  client_address: text,
  user_agent: text,
  sdk: Type.String({ description: 'Client library, such as `openai-python 1.99.0`.' }),
  source: Type.String({
    description: 'Empty for a proxied request, `api` for a reported one, `otel` for a span.',
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
    description: '`retries` if the request succeeded, else 0.',
  }),
  last_used_option_index: Type.Union([count, Type.Null()], {
    description: 'Number at the end of `option`; null without one.',
  }),
  'metadata.key': Type.Array(text, { description: 'Keys of `metadata`.' }),
  'metadata.value': Type.Array(text, { description: 'Values of `metadata`, in the same order.' }),
});

type Metrics = Static<typeof LogMetrics>;
/** A row without its JSON columns, which `LogReply` shows elsewhere. */
type Row = Omit<RequestRow, 'tries' | 'decision' | 'guardrails'>;

/** Makers of metrics that are not columns of the row, or differ from their column. */
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

/** The named metrics of a row. Lists show many rows, so no other metric is made. */
function metricsOf<Name extends keyof Metrics>(row: Row, names: readonly Name[]): Pick<Metrics, Name> {
  const metrics: Record<string, unknown> = {};
  const makers: Partial<Record<keyof Metrics, (row: Row) => unknown>> = made;
  for (const name of names) {
    const make = makers[name];
    metrics[name] = make === undefined ? row[name as keyof Row] : make(row);
  }
  return metrics as Pick<Metrics, Name>;
}

/** Every name of `LogMetrics`. */
const metricNames = Object.keys(LogMetrics.properties) as (keyof Metrics)[];

const Body = Type.Unknown({
  description:
    'JSON value if the body is complete JSON whose integers keep their value, else its text (base64 if `log_format` says so); null if the body was not kept.',
});

const ToldHeaders = Type.Record(Type.String(), Type.String(), {
  description: 'Headers by lower-case name. Values that may be secret are `***`.',
});

/** Members of both directions of a call to a provider. */
const call = {
  method: Type.String(),
  url: Type.String(),
  headers: ToldHeaders,
  body: Body,
  truncated: Type.Boolean(),
};

const LoggedAttempt = Type.Object({
  option: Type.String({ description: 'Position of the target in the config.' }),
  provider: Type.String(),
  model: Type.String(),
  status: Type.Integer({ description: 'Status that the client would have got; 0 for an aborted attempt.' }),
  error: Type.String(),
  start_ms: orNull(
    Type.Number({
      description:
        'Milliseconds after acceptance, as `end_ms`. Null for the only attempt of a request; `upstream_ms` of `metrics` is its duration.',
    }),
  ),
  end_ms: orNull(Type.Number()),
  lost: Type.Boolean({
    description: 'Whether the answer was not used because another attempt followed or won.',
  }),
  skipped: Type.Optional(Type.String({ description: 'Reason why the target was skipped.' })),
});

const CostParts = Type.Array(
  Type.Object({
    kind: Type.Enum([...costKinds], {
      description:
        'Kind of tokens, each without those of the others; `request` for the price of each request. Kinds without a price of their own are in the one that includes them: cached input in `input`, reasoning in `output`.',
    }),
    tokens: Type.Integer({ description: '0 for `request`.' }),
    price_per_million: orNull(
      Type.Number({
        description:
          'US dollars per million tokens, at the time and the size of the request, after all factors; null for `request`.',
      }),
    ),
    cost: Type.Number({ description: 'US dollars.' }),
  }),
  {
    description:
      'Parts of `metrics.cost`, which add up to it to the twelfth digit after the point. Null without a price, and where the prices of `metrics.price_version` are not known any more or do not give this cost.',
  },
);

/** One log entry in the API. */
export const LogReply = Type.Object({
  id: Type.String(),
  _id: Type.String({ description: 'Same value as `id`, under the name that existing clients use.' }),
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
    { description: 'Format of the bodies; `none` if none was kept.' },
  ),
  request: Type.Object({
    method: Type.String(),
    url: Type.String(),
    headers: orNull(
      Type.Record(Type.String(), Type.String(), {
        description:
          'Headers of the request by lower-case name. Values that may be secret are `***`. Null if no body was kept, or the row is from an older version.',
      }),
    ),
    body: Body,
    truncated: Type.Boolean(),
  }),
  response: Type.Object({
    status: Type.Integer(),
    response_time: Type.Number({ description: 'Milliseconds to the last byte.' }),
    responseTime: Type.Number({ description: 'Same value as `response_time`.' }),
    lastUsedOptionJsonPath: Type.String({ description: 'Same value as `metrics.option`.' }),
    body: Body,
    truncated: Type.Boolean(),
  }),
  transformedRequest: orNull(
    Type.Object(call, {
      description:
        'Last request sent to a provider, in its wire format. Secrets in headers and query are masked as `***`, and so are values that the client did not send. Null if no provider was called or no body was kept, and in rows from an older version.',
    }),
  ),
  originalResponse: orNull(
    Type.Object(
      { ...call, status: Type.Integer() },
      {
        description:
          'Answer of the provider before translation. Null if it was passed through unchanged (see `response`), if it was streamed, and if a plugin judges or changes answers.',
      },
    ),
  ),
  metrics: LogMetrics,
  cost_parts: orNull(CostParts),
  tries: Type.Union([Type.Array(LoggedAttempt), Type.Null()], {
    description: 'Attempts, in the order in which they ended; null if no provider was called.',
  }),
  guardrails: Type.Unknown({ description: 'Results of guardrails; null if none ran.' }),
  decision: Type.Unknown({
    description:
      'Decisions of the gateway with their reasons, for a request with the header `explain: true`; else null.',
  }),
});

/** What a request's cost is made of. */
interface PriceSources {
  readonly prices: Pick<Scope['prices'], 'parts'>;
  readonly router: Pick<Scope['router'], 'storedPrices'>;
}

/** Converts a stored record to the API's shape. */
export function logReply(record: LogRecord, sources: PriceSources): Static<typeof LogReply> {
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
    ...callOf(record, bodies.request),
    metrics: metricsOf(row, metricNames),
    cost_parts: costPartsOf(row, sources),
    tries: tries === '' ? onlyAttempt(row) : (JSON.parse(tries) as Static<typeof LoggedAttempt>[]),
    guardrails: guardrails === '' ? null : JSON.parse(guardrails),
    decision: decision === '' ? null : JSON.parse(decision),
  };
}

/**
 * The parts of a row's cost, by the prices that are known now for the time of its request. A row does not tell whether its
 * price was one of the provider's integration: the first that gives its cost to the last digit is the one.
 */
function costPartsOf(row: Row, { prices, router }: PriceSources): Static<typeof LogReply>['cost_parts'] {
  if (row.pricing !== 'priced') return null;
  const { organisation_id: organisationId, workspace_id: workspaceId, provider: slug } = row;
  const stored = router.storedPrices({ organisationId, workspaceId }, slug, row.model_requested);
  for (const by of [stored, row.ai_service]) {
    if (by === undefined) continue;
    const found = prices.parts(usageOfRow(row), by, row.model, Date.parse(isoTime(row.created_at)));
    if (found?.price.version !== row.price_version || !isSameAmount(found.price.cost, row.cost)) continue;
    return found.parts.map(({ kind, tokens, perMillion = null, cost }) => ({
      kind,
      tokens,
      price_per_million: perMillion,
      cost: Number(cost),
    }));
  }
  return null;
}

/** Stores leave out zeros at the end. */
function isSameAmount(one: string, other: string): boolean {
  const [[whole, rest = ''], [otherWhole, otherRest = '']] = [one.split('.'), other.split('.')];
  return whole === otherWhole && rest.padEnd(12, '0') === otherRest.padEnd(12, '0');
}

function headersOf({ body }: LogRecord): Record<string, string> | null {
  return body?.request_headers ? (JSON.parse(body.request_headers) as Record<string, string>) : null;
}

/** The request sent to a provider, and the provider's answer before its translation. */
function callOf({ body }: LogRecord, request: ReturnType<typeof bodiesOf>['request']) {
  if (!body?.provider_call) return { transformedRequest: null, originalResponse: null };
  const { request: sent, response: answer } = JSON.parse(body.provider_call) as StoredCall;
  const { method, url } = sent;
  return {
    transformedRequest: { method, url, headers: sent.headers, ...(sent.own ? request : callBodyOf(sent)) },
    originalResponse: answer
      ? { method, url, status: answer.status, headers: answer.headers, ...callBodyOf(answer) }
      : null,
  };
}

function callBodyOf({ body, base64 = false, truncated = false }: StoredCallBody) {
  return { body: bodyOf(body, !base64), truncated };
}

/** The only attempt of a request whose row has no list of attempts. */
function onlyAttempt(
  row: Pick<
    RequestRow,
    'attempts' | 'option' | 'provider' | 'mcp_server' | 'model' | 'status' | 'error_code'
  >,
): Static<typeof LoggedAttempt>[] | null {
  if (row.attempts !== 1) return null;
  const { model, status, error_code: error } = row;
  const provider = row.provider || row.mcp_server;
  const option = row.option || 'config';
  return [{ option, provider, model, status, error, start_ms: null, end_ms: null, lost: false }];
}

/** First members of an entry, in full and in lists. */
function headOf({
  id,
  created_at,
  organisation_id,
  workspace_id,
}: Pick<RequestRow, 'id' | 'created_at' | 'organisation_id' | 'workspace_id'>) {
  return { id, object: 'log' as const, created_at: isoTime(created_at), organisation_id, workspace_id };
}

/** Members of an entry's bodies, in full and in lists. */
function bodiesOf({ body }: Pick<LogRecord, 'body'>) {
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

/** Metrics of an entry in a list; `GET /logs/{id}` has the rest. */
const shown = [
  ...(['workspace_id', 'api_key_id', 'user_id', 'endpoint', 'stream', 'outcome', 'is_success'] as const),
  ...(['error_code', 'error_message', 'ai_service', 'ai_org', 'provider', 'model', 'ai_model'] as const),
  ...(['mcp_server', 'mcp_tool'] as const),
  ...(['config', 'prompt', 'prompt_slug', 'virtual_key', 'cache_status', 'finish_reason', 'source'] as const),
  ...(['latency_ms', 'first_token_ms', 'prompt_tokens', 'completion_tokens', 'total_tokens'] as const),
  ...(['req_units', 'res_units', 'total_units', 'cost', 'cost_currency', 'pricing', 'attempts'] as const),
  ...(['retries', 'metadata', 'trace_id', 'span_id', 'parent_span_id', 'span_name', 'sdk'] as const),
];

const { request, response, log_format } = LogReply.properties;
const whole = Type.Optional;

/** An entry in a list or a stream: a subset of `GET /logs/{id}`. */
export const LogSummary = Type.Object({
  ...Type.Pick(LogReply, ['id', 'object', 'created_at', 'organisation_id', 'workspace_id']).properties,
  request: Type.Object({
    ...Type.Pick(request, ['method', 'url']).properties,
    headers: whole(request.properties.headers),
    body: whole(request.properties.body),
    truncated: whole(request.properties.truncated),
    preview: whole(
      orNull(
        Type.String({
          description:
            'With `include=preview`: the first words of the last message of a user; null if the body has none or was not kept.',
        }),
      ),
    ),
  }),
  response: Type.Object({
    ...Type.Pick(response, ['status', 'response_time']).properties,
    body: whole(response.properties.body),
    truncated: whole(response.properties.truncated),
  }),
  log_format: whole(log_format),
  metrics: Type.Pick(LogMetrics, shown),
});

/** The entry for a list; with `bodies`, it includes those of request and answer, and otherwise the record's preview. */
export function logSummary(record: LogRecord, { bodies = false } = {}): Static<typeof LogSummary> {
  const row = record.request;
  const kept = bodies ? bodiesOf(record) : undefined;
  return {
    ...headOf(row),
    request: {
      ...{ method: row.method, url: row.path },
      ...(kept !== undefined && { headers: headersOf(record), ...kept.request }),
      ...(record.preview !== undefined && { preview: record.preview === '' ? null : record.preview }),
    },
    response: { status: row.status, response_time: row.latency_ms, ...kept?.response },
    ...(kept !== undefined && { log_format: kept.log_format }),
    metrics: metricsOf(row, shown),
  };
}
