import { keepsReportedBodies } from '../../../core/pipeline/keys.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { Redaction } from '../../../core/redaction/redaction.ts';
import { refusedBody, strict } from '../shared/fields.ts';
import { StringDecoder } from 'node:string_decoder';
import type { AnswerFacts, Dialect } from '../../../core/dialects/dialect.ts';
import type { Endpoint } from '../../../core/dialects/endpoint.ts';
import { matchEndpoint } from '../../../core/dialects/match-endpoint.ts';
import { writeJson } from '../../../core/base/json.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { BodyRow, RequestRow } from '../../../core/ports/request-row.ts';
import { randomUUID } from 'node:crypto';
import { rowTime } from '../../../core/base/row-time.ts';
import type { Clock } from '../../../core/ports/clock.ts';
import type { Journal, JournalTable } from '../../../core/ports/journal.ts';
import { noUsage, type Usage } from '../../../core/dialects/usage.ts';
import { clip } from '../../../core/base/bytes.ts';

/**
 * A row of a reported request, which did not pass through the gateway: its known columns. Reporter, acceptance time and
 * source are always known.
 */
export type ReportedRow = Partial<RequestRow> & Pick<RequestRow, keyof Acceptance | 'source'>;

/** Columns from the reporter's key and the time of acceptance. */
type Acceptance = Pick<
  RequestRow,
  'id' | 'created_at' | 'organisation_id' | 'workspace_id' | 'api_key_id' | 'user_id'
>;

/**
 * First columns of a row reported by this key at `now` (milliseconds since the epoch); `id` is a UUID, by default a new
 * one. The time of a row is that of its acceptance, not of the report: tables are partitioned by it.
 */
export function acceptance(key: KeyRecord, now: number, id: string = randomUUID()): Acceptance {
  return {
    id,
    created_at: rowTime(now),
    organisation_id: key.organisationId,
    workspace_id: key.workspaceId,
    api_key_id: key.id,
    user_id: key.userId,
  };
}

/** Maximum lengths in UTF-16 units of columns that differ from the default of 255. */
const longest: Partial<Record<keyof RequestRow, number>> = {
  method: 32,
  path: 2048,
  error_message: 1024,
  model_requested: 512,
  model: 512,
  tries: 65_536,
  decision: 65_536,
  guardrails: 65_536,
  user_agent: 256,
  finish_reason: 128,
};

/**
 * The row as a line of the journal, for the table `requests`. Empty members (empty, zero, false) are left out, and the
 * store reads them as such; texts are cut to the length of their columns, as for proxied requests. Numbers that are not
 * finite, or negative where that is impossible, are left out.
 */
export function reportedLine(row: ReportedRow): string {
  const members: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(row)) {
    const kept = keptValue(name as keyof RequestRow, value);
    if (kept !== undefined) members[name] = kept;
  }
  return JSON.stringify(members);
}

function keptValue(name: keyof RequestRow, value: unknown): unknown {
  switch (typeof value) {
    case 'string':
      return value === '' ? undefined : clip(value, longest[name] ?? 255);
    case 'number':
      return Number.isFinite(value) && (value > 0 || name === 'retries') && value !== 0 ? value : undefined;
    case 'boolean':
      return value || undefined;
    case 'object':
      return value !== null && Object.keys(value).length > 0 ? value : undefined;
    default:
      return undefined;
  }
}

/** A reported entry of the log; `bodies` is undefined when none are stored. */
interface ReportedEntry {
  readonly request: ReportedRow;
  readonly bodies: BodyRow | undefined;
}

/** Rows of the entry as lines of the journal, with path, error message, metadata and bodies redacted. */
export async function reportedLines(
  { request, bodies }: ReportedEntry,
  redaction: Redaction | undefined,
  clock: Pick<Clock, 'monotonic'>,
): Promise<KeptRow[]> {
  const row = redaction === undefined ? request : redactedRow(request, redaction);
  const lines: KeptRow[] = [{ table: 'requests', line: reportedLine(row) }];
  if (bodies !== undefined) {
    const kept = redaction === undefined ? bodies : await redactedBodies(bodies, redaction, clock);
    lines.push({ table: 'bodies', line: JSON.stringify(kept) });
  }
  return lines;
}

function redactedRow(row: ReportedRow, redaction: Redaction): ReportedRow {
  return {
    ...row,
    path: redaction.text(row.path ?? ''),
    error_message: redaction.text(row.error_message ?? ''),
    metadata: redaction.metadata(row.metadata ?? {}),
  };
}

async function redactedBodies(
  row: BodyRow,
  redaction: Redaction,
  clock: Pick<Clock, 'monotonic'>,
): Promise<BodyRow> {
  const request = { isEventStream: false, isTruncated: row.request_truncated };
  const response = { isEventStream: row.log_format === 'sse', isTruncated: row.response_truncated };
  return {
    ...row,
    request: await redaction.body(row.request, request, clock),
    response: await redaction.body(row.response, response, clock),
  };
}

/** A row on its way to the analytics store. */
export interface KeptRow {
  readonly table: JournalTable;
  readonly line: string;
}

/**
 * Appends rows to the journal durably; `owner` is their workspace. Throws `store_unavailable` when the journal has no
 * room for all of them.
 */
export async function keepRows(journal: Journal, rows: readonly KeptRow[], owner: string): Promise<void> {
  const tables = [...new Set(rows.map(({ table }) => table))];
  const shed = (): number => tables.reduce((sum, table) => sum + journal.state(table).shed, 0);
  const before = shed();
  for (const { table, line } of rows) journal.append(table, line, owner);
  await journal.flush();
  if (shed() === before) return;
  throw new GatewayError(
    'store_unavailable',
    'The journal has no room, and not all of it was kept. Try again when the analytics store takes rows.',
    { headers: ['retry-after', '5'] },
  );
}

/** Usage of a reported request, as columns of its row. */
export function usageColumns(usage: Usage = noUsage) {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
    cached_tokens: usage.cachedTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    reasoning_tokens: usage.reasoningTokens,
    input_audio_tokens: usage.inputAudioTokens,
    output_audio_tokens: usage.outputAudioTokens,
  };
}

const maxReported = 100;

const Headers = Type.Optional(
  Type.Record(Type.String(), Type.Unknown(), {
    description: 'Accepted for existing clients, and not stored.',
  }),
);

const Body = (description: string) => Type.Unknown({ description });

const Log = Type.Object(
  {
    request: Type.Object(
      {
        url: Type.String({
          minLength: 1,
          maxLength: 2048,
          examples: ['https://api.openai.com/v1/chat/completions'],
          description: 'URL of the request. Its path determines the format of the bodies.',
        }),
        method: Type.Optional(Type.String({ minLength: 1, maxLength: 32, description: 'Default `POST`.' })),
        headers: Headers,
        body: Body('Body of the request: a JSON value, or any text.'),
        provider: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 255,
            description: 'Kind of provider, for prices. Default: the provider with the address of the URL.',
          }),
        ),
      },
      strict,
    ),
    response: Type.Object(
      {
        status: Type.Optional(Type.Integer({ minimum: 100, maximum: 599, description: 'Default 200.' })),
        headers: Headers,
        body: Body('Body of the answer: a JSON value, or the text of a stream of events.'),
        response_time: Type.Optional(
          Type.Number({ minimum: 0, maximum: 86_400_000, description: 'Milliseconds to the last byte.' }),
        ),
      },
      strict,
    ),
    metadata: Type.Optional(
      Type.Record(Type.String({ minLength: 1, maxLength: 255 }), Type.String({ maxLength: 1024 }), {
        maxProperties: 50,
        examples: [{ trace_id: 'checkout-17', span_name: 'answer', team: 'search' }],
        description:
          'Texts by name. `trace_id`, `span_id`, `parent_span_id` and `span_name` give the position of the request in a trace; `_user` names its user.',
      }),
    ),
  },
  strict,
);
/** One reported request, which did not pass through the gateway. */
type ReportedLog = Static<typeof Log>;

/** Body of `POST /logs`: one, or a list. */
const ReportedLogs = Type.Union([
  Log,
  Type.Array(Log, { minItems: 1, maxItems: maxReported, description: `At most ${maxReported}.` }),
]);

/** Parts of the scope for parsing reported requests. */
type ReportParts = Pick<Scope, 'dialects' | 'prices' | 'router'>;

/** Upper bound of stored bytes of each body, the same as for a proxied request. */
const maxBytes = 262_144;
/** Base for a URL that is only a path. */
const anywhere = 'http://0.0.0.0/';
const placeNames: readonly string[] = ['trace_id', 'span_id', 'parent_span_id', 'span_name'];

/** The rows of the log for a reported request. */
function reportedRows(
  { request, response, metadata = {} }: ReportedLog,
  parts: ReportParts,
  { key, now }: { readonly key: KeyRecord; readonly now: number },
): { readonly request: ReportedRow; readonly bodies: BodyRow } {
  const accepted = acceptance(key, now);
  const { method = 'POST' } = request;
  const { host, path } = addressOf(request.url);
  const endpoint = endpointOf(method, path);
  const sent = textOf(request.body);
  const answered = textOf(response.body);
  const { status = 200, response_time: latency = 0 } = response;
  const facts = factsOf(parts.dialects.get(endpoint.dialect), endpoint, answered);
  const service = serviceOf(request.provider, host, parts.router.providers);
  const requested = memberOf(request.body, 'model');
  const model = facts.model ?? requested;
  const price = parts.prices.price(facts.usage, service, model, now);
  const failed = status >= 400 || facts.errorMessage !== undefined;
  return {
    request: {
      ...accepted,
      source: 'api',
      method: method.toUpperCase(),
      path,
      endpoint: endpoint.id,
      stream: isObject(request.body) && request.body['stream'] === true,
      status,
      outcome: failed && status < 400 ? 'failed' : 'completed',
      is_success: !failed && status >= 200 && status < 300,
      error_source: failed ? 'provider' : '',
      error_message: facts.errorMessage ?? '',
      ai_service: service,
      provider: request.provider ?? service,
      model_requested: requested,
      model,
      upstream_host: host,
      latency_ms: latency,
      upstream_ms: latency,
      request_bytes: sent.bytes,
      response_bytes: answered.bytes,
      ...usageColumns(facts.usage),
      cost: price.cost,
      pricing: price.status,
      price_version: price.version,
      attempts: 1,
      finish_reason: facts.finishReason ?? '',
      metadata: Object.fromEntries(Object.entries(metadata).filter(([name]) => !placeNames.includes(name))),
      // As for a proxied request: without a trace id the request is its own trace.
      trace_id: metadata['trace_id'] || accepted.id,
      span_id: metadata['span_id'] ?? '',
      parent_span_id: metadata['parent_span_id'] ?? '',
      span_name: metadata['span_name'] ?? '',
    },
    bodies: {
      id: accepted.id,
      created_at: accepted.created_at,
      organisation_id: accepted.organisation_id,
      workspace_id: accepted.workspace_id,
      request: sent.kept,
      request_truncated: sent.truncated,
      response: answered.kept,
      response_truncated: answered.truncated,
      log_format: isStream(answered) ? 'sse' : sent.isJson && answered.isJson ? 'json' : 'text',
    },
  };
}

interface ReportedBody {
  readonly whole: Buffer;
  readonly bytes: number;
  readonly kept: string;
  readonly truncated: boolean;
  readonly isJson: boolean;
}

/** Text as it is, everything else as JSON. */
function textOf(body: unknown): ReportedBody {
  const isText = typeof body === 'string';
  const whole = Buffer.from(isText ? body : writeJson(body));
  const truncated = whole.length > maxBytes;
  // The decoder drops a character that the cut divides.
  const kept = truncated ? new StringDecoder('utf8').write(whole.subarray(0, maxBytes)) : whole.toString();
  return { whole, bytes: whole.length, kept, truncated, isJson: !isText };
}

function isStream({ isJson, kept }: ReportedBody): boolean {
  return !isJson && /^\s*(?:data|event|id|retry|):/.test(kept);
}

/** Facts of the answer, when its dialect is known; none for an unreadable one. */
function factsOf(dialect: Dialect | undefined, endpoint: Endpoint, answer: ReportedBody): AnswerFacts {
  if (dialect === undefined || !endpoint.modelled) return {};
  if (!isStream(answer)) return dialect.scanAnswer(endpoint.id, answer.whole);
  const scanner = dialect.streamScanner(endpoint.id);
  scanner.scan(answer.whole);
  return scanner.facts;
}

/** True for a URL or a path. */
function isAddress(url: string): boolean {
  return URL.canParse(url, anywhere);
}

/** Host and path of an address, without its query: that may hold a secret. */
function addressOf(url: string): { readonly host: string; readonly path: string } {
  const { host, pathname } = new URL(url, anywhere);
  return { host: /^[a-z][a-z0-9+.-]*:\/\//i.test(url) ? host : '', path: pathname };
}

/** The operation at the end of the path, after any prefix of the host. */
function endpointOf(method: string, path: string): Endpoint {
  const whole = matchEndpoint(method.toUpperCase(), path);
  for (let at = path.indexOf('/', 1); at !== -1; at = path.indexOf('/', at + 1)) {
    const found = matchEndpoint(method.toUpperCase(), path.slice(at));
    if (found.modelled) return found;
  }
  return whole;
}

/** Kind of provider: the named one, or the one whose base URL has this host. */
function serviceOf(named: string | undefined, host: string, table: Scope['router']['providers']): string {
  if (named !== undefined) return table.get(named)?.service ?? named;
  if (host === '') return '';
  for (const [name, { base_url: base, service = name }] of table)
    if (base?.split('/')[2] === host) return service;
  return '';
}

function memberOf(body: unknown, name: string): string {
  const value = isObject(body) ? body[name] : undefined;
  return typeof value === 'string' ? value : '';
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

/**
 * `POST /logs`: writes reported requests to the log through the journal, after `redaction`.
 */
export function insertLogsRoute(scope: Scope, redaction?: Redaction): RouteDefinition {
  const { clock, directory, journal } = scope;

  return defineRoute({
    id: 'logs.create',
    method: 'POST',
    path: '/logs',
    summary: 'Writes log entries for requests that did not pass through the gateway',
    scope: 'logs.write',
    // Rows of the log, like those of requests: nothing that is administered changes.
    audit: null,
    body: ReportedLogs,
    reply: Type.Object({
      status: Type.Literal('success'),
      ids: Type.Array(Type.String(), { description: 'Ids of the entries, in the order of the body.' }),
    }),
    async handle({ body, key }) {
      const now = clock.now();
      const logs = Array.isArray(body) ? body : [body];
      const mistakes = logs.flatMap(({ request }, index) =>
        isAddress(request.url)
          ? []
          : [{ path: `${Array.isArray(body) ? `/${index}` : ''}/request/url`, message: 'is no address' }],
      );
      if (mistakes.length > 0) throw refusedBody(mistakes);
      const rows = logs.map((log) => reportedRows(log, scope, { key, now }));
      const withBodies = keepsReportedBodies(directory, key);
      const lines: KeptRow[] = [];
      for (const { request, bodies } of rows) {
        const entry = { request, bodies: withBodies ? bodies : undefined };
        lines.push(...(await reportedLines(entry, redaction, clock)));
      }
      await keepRows(journal, lines, key.workspaceId);
      return { status: 'success' as const, ids: rows.map(({ request }) => request.id) };
    },
  });
}
