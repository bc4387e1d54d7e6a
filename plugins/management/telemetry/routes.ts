import { keepsReportedBodies } from '../../../core/pipeline/keys.ts';
import {
  type Answer,
  defineMediaRoute,
  GatewayError,
  type Scope,
  Type,
} from '../../../core/pipeline/plugin.ts';
import type { RequestContext } from '../../../core/pipeline/context.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { RecentMap } from '../../../core/base/recent-map.ts';
import type { Redaction } from '../../../core/redaction/redaction.ts';
import {
  acceptance,
  keepRows,
  type KeptRow,
  reportedLines,
  type ReportedRow,
  usageColumns,
} from '../logs/reported.ts';
import { type AttributeValue, otlp, type ReadSpans, type ReportedSpan, type SpanAttributes } from './otlp.ts';
import { noUsage, type Usage } from '../../../core/dialects/usage.ts';
import { genAiNames } from '../../../core/dialects/gen-ai-names.ts';
import type { Price, Prices } from '../../../core/ports/prices.ts';
import { clip, sha256 } from '../../../core/base/bytes.ts';
import type { BodyRow } from '../../../core/ports/request-row.ts';

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
        ? answer(protobuf, otlp.writeResponse(rejected, reason))
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
      message = otlp.readRequest(body.bytes);
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
  const read = otlp.readSpans(message, maxSpans);
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

const maxTokens = 2 ** 31;

/** Reads attributes by their current and former names, and records the names that it read. */
class SpanReader {
  /** Names that were read: their values are in columns. */
  readonly asked = new Set<string>();
  readonly #attributes: SpanAttributes;

  constructor(attributes: SpanAttributes) {
    this.#attributes = attributes;
  }

  text(...names: string[]): string {
    const found = this.#first(names, (value) => typeof value === 'string' && value !== '');
    return typeof found === 'string' ? found : '';
  }

  /** A finite number, not negative; numeric texts count. */
  number(...names: string[]): number | undefined {
    const found = this.#first(names, (value) => isCount(value));
    return found === undefined ? undefined : Number(found);
  }

  /** A whole number, cut to the range of its column. */
  tokens(...names: string[]): number | undefined {
    const found = this.number(...names);
    return found === undefined ? undefined : Math.min(maxTokens, Math.trunc(found));
  }

  flag(...names: string[]): boolean {
    return this.#first(names, (value) => value === true || value === 'true') !== undefined;
  }

  /** The texts of a list; a text is a list of one. */
  list(...names: string[]): readonly string[] {
    const found = this.#first(names, () => true);
    if (typeof found === 'string') return [found];
    return Array.isArray(found) ? found.filter((item) => typeof item === 'string') : [];
  }

  #first(names: readonly string[], suits: (value: AttributeValue) => boolean): AttributeValue | undefined {
    let found: AttributeValue | undefined;
    for (const name of names) {
      this.asked.add(name);
      const value = this.#attributes.get(name);
      if (found === undefined && value !== undefined && suits(value)) found = value;
    }
    return found;
  }
}

function isCount(value: AttributeValue): boolean {
  if (typeof value !== 'number' && (typeof value !== 'string' || value.trim() === '')) return false;
  const number = Number(value);
  return Number.isFinite(number) && number >= 0;
}

const maxKeys = 20;
const longestMetadata = 128;

/**
 * Attributes of a span and its resource that have no column, as metadata: at most 20 keys, names and values cut at 128
 * characters. Order: user, service, attributes of the span, rest of the resource. Prompts and answers are not metadata.
 */
function spanMetadata(span: ReportedSpan, { asked }: SpanReader): Record<string, string> {
  const metadata: Record<string, string> = {};
  let keys = 0;
  const add = (name: string, value: AttributeValue | undefined): void => {
    const key = clip(name, longestMetadata);
    if (value === undefined || keys >= maxKeys || Object.hasOwn(metadata, key)) return;
    const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
    if (text === '') return;
    metadata[key] = clip(text, longestMetadata);
    keys++;
  };
  const { attributes, resource } = span;
  add('_user', attributes.get('enduser.id') ?? attributes.get('user.id'));
  add('service.name', resource.get('service.name'));
  for (const [name, value] of attributes) {
    if (!asked.has(name) && !isContent(name) && name !== 'enduser.id' && name !== 'user.id') add(name, value);
  }
  for (const [name, value] of resource) add(name, value);
  return metadata;
}

/** Upper bound of a body in characters, like that of the `logger`. */
const longestBody = 262_144;

const inputs = ['gen_ai.input.messages', 'gen_ai.prompt'];
const outputs = ['gen_ai.output.messages', 'gen_ai.completion'];
const system = 'gen_ai.system_instructions';
const tools = 'gen_ai.tool.definitions';
/** `gen_ai.prompt.0.role`: messages of older instrumentations. */
const numbered = /^gen_ai\.(prompt|completion)\.(\d{1,3})\.([a-z][a-z_]{0,31})$/;
/** Upper bound of numbered messages of one span. */
const maxNumbered = 200;

/** True for attributes that hold prompts or answers. */
function isContent(name: string): boolean {
  return (
    inputs.includes(name) ||
    outputs.includes(name) ||
    name === system ||
    name === tools ||
    numbered.test(name)
  );
}

/** Conversation of a span in the form of logged bodies. */
type SpanBodies = Pick<
  BodyRow,
  'request' | 'response' | 'request_truncated' | 'response_truncated' | 'log_format'
>;

/** Reads the conversation from the attributes of the span or of its events; undefined without one. */
function spanBodies(span: ReportedSpan): SpanBodies | undefined {
  const places = [span.attributes, ...span.events.map(({ attributes }) => attributes)];
  const messages = firstAttribute(places, inputs) ?? numberedOf(span.attributes, 'prompt');
  const answers = firstAttribute(places, outputs) ?? numberedOf(span.attributes, 'completion');
  const instructions = firstAttribute(places, [system]);
  if (messages === undefined && answers === undefined && instructions === undefined) return undefined;
  const model = span.attributes.get('gen_ai.request.model');
  const request = JSON.stringify({
    model,
    system: instructions,
    messages,
    tools: firstAttribute(places, [tools]),
  });
  const response = answers === undefined ? '' : JSON.stringify({ messages: answers });
  return {
    request: clip(request, longestBody),
    response: clip(response, longestBody),
    request_truncated: request.length > longestBody,
    response_truncated: response.length > longestBody,
    log_format: 'json',
  };
}

/** The first attribute present; JSON in a text is parsed. */
function firstAttribute(places: readonly SpanAttributes[], names: readonly string[]): unknown {
  for (const name of names) {
    for (const attributes of places) {
      const value = attributes.get(name);
      if (value !== undefined) return typeof value === 'string' ? parseIfJson(value) : value;
    }
  }
  return undefined;
}

function parseIfJson(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function numberedOf(attributes: SpanAttributes, kind: string): unknown {
  const messages = new Map<number, Record<string, AttributeValue>>();
  for (const [name, value] of attributes) {
    const match = numbered.exec(name);
    if (match === null || match[1] !== kind) continue;
    const index = Number(match[2]);
    let message = messages.get(index);
    if (message === undefined) {
      if (messages.size >= maxNumbered) continue;
      messages.set(index, (message = {}));
    }
    message[match[3] as string] = value;
  }
  if (messages.size === 0) return undefined;
  return [...messages].sort(([a], [b]) => a - b).map(([, message]) => message);
}

/** Input for rows of spans. */
interface SpanRowParts {
  readonly key: KeyRecord;
  readonly prices: Prices;
  /** Time of acceptance, milliseconds since the epoch. */
  readonly now: number;
}

/**
 * The row of a span. Its id is the same for every report of the span within an organisation. Attributes of the GenAI
 * conventions, current or earlier, fill the columns; a missing cost is computed from the tokens.
 */
function spanRow(span: ReportedSpan, { key, prices, now }: SpanRowParts): ReportedRow {
  const read = new SpanReader(span.attributes);
  const operation = read.text('gen_ai.operation.name', 'llm.request.type');
  const service = genAiNames.service(read.text('gen_ai.provider.name', 'gen_ai.system'));
  const requested = read.text('gen_ai.request.model');
  const model = read.text('gen_ai.response.model') || requested;
  const usage = usageOf(read);
  const known = read.number('weir.cost.usd', 'gen_ai.usage.cost', 'gen_ai.cost.total');
  const price: Price =
    known === undefined
      ? prices.price(usage, service, model, span.startedAt)
      : { cost: known.toFixed(12), status: 'priced', version: 'reported' };
  const status = statusOf(span, read);
  const error = span.isError || status >= 400;
  const port = read.number('server.port');
  const host = read.text('server.address', 'net.peer.name');
  return {
    ...acceptance(key, now, spanRowId(key.organisationId, span)),
    source: 'otel',
    method: read.text('http.request.method', 'http.method'),
    path: read.text('url.path', 'http.target').split('?', 1)[0] ?? '',
    endpoint: genAiNames.endpoint(operation),
    stream: read.flag('gen_ai.request.stream', 'gen_ai.request.is_stream', 'llm.is_streaming'),
    status,
    outcome: error ? 'failed' : 'completed',
    is_success: !error,
    error_code: error ? read.text('error.type') : '',
    error_source: error ? 'provider' : '',
    error_message: error ? span.statusMessage : '',
    ai_service: service,
    provider: service,
    model_requested: requested,
    model,
    upstream_host: port === undefined || host === '' ? host : `${host}:${port}`,
    prompt: read.text('gen_ai.prompt.name'),
    latency_ms: span.durationMs,
    upstream_ms: span.durationMs,
    first_token_ms: (read.number('gen_ai.response.time_to_first_chunk') ?? 0) * 1000,
    ...usageColumns(usage),
    cost: price.cost,
    pricing: price.status,
    price_version: price.version,
    finish_reason: read.list('gen_ai.response.finish_reasons').join(','),
    metadata: spanMetadata(span, read),
    trace_id: span.traceId,
    span_id: span.spanId,
    parent_span_id: span.parentSpanId,
    span_name: span.name,
    sdk: span.scope,
  };
}

/** A UUID (version 8: a hash of organisation, trace and span), unique per span. */
export function spanRowId(
  organisationId: string,
  { traceId, spanId }: Pick<ReportedSpan, 'traceId' | 'spanId'>,
): string {
  const hex = sha256(`${organisationId}/${traceId}/${spanId}`, 'hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** HTTP status of the span; without one 200, or 500 for an error. */
function statusOf(span: ReportedSpan, read: SpanReader): number {
  const said = read.number('http.response.status_code', 'http.status_code');
  if (said !== undefined && Number.isInteger(said) && said >= 100 && said <= 599) return said;
  return span.isError ? 500 : 200;
}

function usageOf(read: SpanReader): Usage | undefined {
  const promptTokens = read.tokens('gen_ai.usage.input_tokens', 'gen_ai.usage.prompt_tokens');
  const completionTokens = read.tokens('gen_ai.usage.output_tokens', 'gen_ai.usage.completion_tokens');
  if (promptTokens === undefined && completionTokens === undefined) return undefined;
  const prompt = promptTokens ?? 0;
  const completion = completionTokens ?? 0;
  return {
    ...noUsage,
    promptTokens: prompt,
    completionTokens: completion,
    totalTokens: prompt + completion,
    cachedTokens:
      read.tokens('gen_ai.usage.cache_read.input_tokens', 'gen_ai.usage.cache_read_input_tokens') ?? 0,
    cacheWriteTokens:
      read.tokens(
        'gen_ai.usage.cache_creation.input_tokens',
        'gen_ai.usage.cache_write.input_tokens',
        'gen_ai.usage.cache_creation_input_tokens',
      ) ?? 0,
    reasoningTokens:
      read.tokens('gen_ai.usage.reasoning.output_tokens', 'gen_ai.usage.reasoning_tokens') ?? 0,
  };
}
