import { keepsReportedBodies } from '../../../core/pipeline/keys.ts';
import {
  defineMediaRoute,
  GatewayError,
  Type,
  type Answer,
  type Scope,
} from '../../../core/pipeline/plugin.ts';
import type { RequestContext } from '../../../core/pipeline/context.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { RecentMap } from '../../../core/base/recent-map.ts';
import type { Redaction } from '../../../core/redaction/redaction.ts';
import { keepRows, type KeptRow, reportedLines } from '../logs/reported-row.ts';
import {
  readExportRequest,
  readSpans,
  type ReadSpans,
  type ReportedSpan,
  writeExportResponse,
} from './otlp.ts';
import { spanBodies, spanRow } from './spans.ts';

const maxBodyBytes = 4_194_304;
const maxSpans = 1000;
/** Number of spans remembered for deduplication: an exporter that lost the answer sends its spans again. */
const maxRemembered = 20_000;
const protobuf = 'application/x-protobuf';

const Reply = Type.Object(
  {
    partialSuccess: Type.Object({
      rejectedSpans: Type.Optional(Type.String({ description: 'Number of rejected spans.' })),
      errorMessage: Type.Optional(Type.String({ description: 'Reason for the first rejection.' })),
    }),
  },
  { description: 'As defined by OTLP; in protocol buffers for a request in protocol buffers.' },
);

/**
 * `POST /otel/v1/traces`, whose spans are stored after `redaction`, and refusals of the other signals, which exporters
 * then drop and do not retry.
 */
export function otelRoutes(scope: Scope, redaction?: Redaction): readonly RouteDefinition[] {
  return [tracesRoute(scope, redaction), otherSignal('logs'), otherSignal('metrics')];
}

function tracesRoute(scope: Scope, redaction: Redaction | undefined): RouteDefinition {
  const seen = new RecentMap<true>(maxRemembered);
  return defineMediaRoute({
    id: 'otel.traces',
    method: 'POST',
    path: '/otel/v1/traces',
    summary: 'Receives spans over OTLP/HTTP, in JSON or protocol buffers, as log entries',
    scope: 'logs.write',
    // Rows of the log: nothing that is administered changes.
    audit: null,
    reply: Reply,
    media: 'application/json',
    examples: { response: { partialSuccess: {} } },
    async handle({ context, key }) {
      const isProtobuf = await load(context);
      const { spans, rejected, reason } = readBody(context, isProtobuf);
      await keepSpans(scope, { key, spans, seen, redaction });
      return isProtobuf
        ? answer(protobuf, writeExportResponse(rejected, reason))
        : answer('application/json', Buffer.from(JSON.stringify(partialSuccess(rejected, reason))));
    },
  });
}

function otherSignal(signal: 'logs' | 'metrics'): RouteDefinition {
  return defineMediaRoute({
    id: `otel.${signal}`,
    method: 'POST',
    path: `/otel/v1/${signal}`,
    summary: `Refuses ${signal} over OTLP: only spans become log entries`,
    scope: 'logs.write',
    // Changes nothing.
    audit: null,
    reply: Reply,
    media: 'application/json',
    handle: () => {
      throw new GatewayError(
        'not_supported',
        `The gateway takes spans over OTLP, and no ${signal}. Export traces to /otel/v1/traces and switch the exporter for ${signal} off.`,
      );
    },
  });
}

/** Loads the body into memory, within its bound. True for protocol buffers, false for JSON. */
async function load(context: RequestContext): Promise<boolean> {
  const type = context.header('content-type') ?? '';
  const isProtobuf = /^\s*application\/(?:x-)?protobuf\b/i.test(type);
  if (!isProtobuf && !/^\s*application\/json\b/i.test(type))
    throw new GatewayError(
      'body_encoding_unsupported',
      `Spans are taken as application/json or ${protobuf}, and the content-type says ${type.slice(0, 64) || 'nothing'}. Set the protocol of the exporter to http/json or http/protobuf.`,
    );
  if (Number(context.header('content-length') ?? 0) > maxBodyBytes) throw tooLarge();
  await context.body.load();
  if (context.body.bytes.length > maxBodyBytes) throw tooLarge();
  return isProtobuf;
}

function tooLarge(): GatewayError {
  return new GatewayError(
    'body_too_large',
    `The export is larger than ${maxBodyBytes} bytes. Let the exporter send smaller batches.`,
  );
}

function readBody({ body }: RequestContext, isProtobuf: boolean): ReadSpans {
  let message: unknown = body.bytes.length === 0 ? { resourceSpans: [] } : undefined;
  if (isProtobuf) {
    try {
      message = readExportRequest(body.bytes);
    } catch (cause) {
      throw new GatewayError(
        'invalid_request',
        `The body is no ExportTraceServiceRequest in protocol buffers: ${(cause as Error).message}.`,
        { cause },
      );
    }
    // An empty message is an export without spans.
    message = { resourceSpans: [], ...(message as object) };
  } else message ??= body.json;
  if (message === undefined) throw new GatewayError('invalid_json', 'The request body is no valid JSON.');
  const read = readSpans(message, maxSpans);
  if (read !== undefined) return read;
  throw new GatewayError(
    'invalid_request',
    'The body is no ExportTraceServiceRequest of OTLP: it has no list "resourceSpans".',
    { param: '/resourceSpans' },
  );
}

/** Stores the spans that are not stored yet. Throws `store_unavailable` when the journal has no room. */
async function keepSpans(
  { journal, clock, prices, directory }: Scope,
  {
    key,
    spans,
    seen,
    redaction,
  }: {
    readonly key: KeyRecord;
    readonly spans: readonly ReportedSpan[];
    readonly seen: RecentMap<true>;
    readonly redaction: Redaction | undefined;
  },
): Promise<void> {
  const now = clock.now();
  const withBodies = keepsReportedBodies(directory, key);
  const lines: KeptRow[] = [];
  const fresh = new Set<string>();
  for (const span of spans) {
    const request = spanRow(span, { key, prices, now });
    const { id, created_at, organisation_id, workspace_id } = request;
    if (seen.get(id) !== undefined || fresh.has(id)) continue;
    fresh.add(id);
    const said = withBodies ? spanBodies(span) : undefined;
    const bodies = said && { id, created_at, organisation_id, workspace_id, ...said };
    lines.push(...(await reportedLines({ request, bodies }, redaction, clock)));
  }
  await keepRows(journal, lines, key.workspaceId);
  for (const id of fresh) seen.set(id, true);
}

function partialSuccess(rejected: number, reason: string) {
  if (rejected === 0) return { partialSuccess: {} };
  return { partialSuccess: { rejectedSpans: String(rejected), errorMessage: reason } };
}

function answer(type: string, body: Buffer): Answer {
  return { status: 200, headers: ['content-type', type], body, source: 'gateway' };
}
