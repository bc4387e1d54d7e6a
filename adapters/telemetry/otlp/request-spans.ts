import type { Outcome, RequestContext } from '../../../core/pipeline/context.ts';
import { genAiNames } from '../../../core/dialects/gen-ai-names.ts';
import type { RequestFacts, AttemptRecord } from '../../../core/pipeline/facts.ts';
import type { Redaction } from '../../../core/redaction/redaction.ts';
import type { SpanContext } from '../../../core/base/trace-context.ts';

/** OTLP numbers of span kinds. */
const spanKind = { server: 2, client: 3 } as const;

/** A span that has ended. */
interface Span {
  readonly ids: SpanContext;
  readonly name: string;
  readonly kind: number;
  /** The caller's `tracestate`. */
  readonly state: string | undefined;
  /** Milliseconds since the epoch. */
  readonly startMs: number;
  readonly endMs: number;
  /** JSON. */
  readonly attributes: string;
  /** Undefined: no error. */
  readonly error: string | undefined;
}

/** The span as OTLP JSON. */
function spanJson(span: Span): string {
  const { traceId, spanId, parentSpanId } = span.ids;
  const parent = parentSpanId === '' ? '' : `,"parentSpanId":"${parentSpanId}"`;
  const state =
    span.state === undefined || span.state === ''
      ? ''
      : `,"traceState":${JSON.stringify(span.state.slice(0, 512))}`;
  const message =
    span.error === undefined || span.error === ''
      ? ''
      : `,"message":${JSON.stringify(span.error.slice(0, 1024))}`;
  const status = span.error === undefined ? '' : `,"status":{"code":2${message}}`;
  return (
    `{"traceId":"${traceId}","spanId":"${spanId}"${parent}${state},"name":${JSON.stringify(span.name)}` +
    `,"kind":${span.kind},"startTimeUnixNano":"${nanos(span.startMs)}"` +
    `,"endTimeUnixNano":"${nanos(Math.max(span.startMs, span.endMs))}","attributes":${span.attributes}${status}}`
  );
}

/** Nanoseconds from milliseconds since the epoch, as text: a number cannot hold them. */
function nanos(ms: number): string {
  const whole = Math.floor(ms);
  const micros = Math.min(999, Math.floor((ms - whole) * 1000));
  return `${whole}${String(micros).padStart(3, '0')}000`;
}

/** Operation and model, the span name of the conventions. */
function spanName(operation: string, model: string): string {
  return model === '' ? operation : `${operation} ${model.slice(0, 512)}`;
}

/**
 * Attributes of a span as OTLP JSON, built as text, because this runs for every request. Empty values (empty texts,
 * invalid numbers) are left out; 64-bit numbers are texts, as in the JSON mapping of protocol buffers.
 */
class Attributes {
  private text = '';

  string(key: string, value: string): this {
    if (value !== '') this.add(key, `{"stringValue":${JSON.stringify(value)}}`);
    return this;
  }

  /** Adds the number only when it is above zero. */
  count(key: string, value: number): this {
    if (value > 0) this.integer(key, value);
    return this;
  }

  integer(key: string, value: number): this {
    if (Number.isFinite(value)) this.add(key, `{"intValue":"${Math.trunc(value)}"}`);
    return this;
  }

  number(key: string, value: number): this {
    if (Number.isFinite(value)) this.add(key, `{"doubleValue":${value}}`);
    return this;
  }

  /** Adds the flag only when it is true. */
  flag(key: string, value: boolean): this {
    if (value) this.add(key, '{"boolValue":true}');
    return this;
  }

  strings(key: string, values: readonly string[]): this {
    if (values.length === 0) return this;
    const list = values.map((value) => `{"stringValue":${JSON.stringify(value)}}`).join(',');
    this.add(key, `{"arrayValue":{"values":[${list}]}}`);
    return this;
  }

  /** The list, as JSON. */
  get json(): string {
    return `[${this.text}]`;
  }

  /** Keys are constants or validated: they need no escape. */
  private add(key: string, value: string): void {
    this.text += `${this.text === '' ? '' : ','}{"key":"${key}","value":${value}}`;
  }
}

/**
 * The spans of one request, as OTLP JSON: its own, and one per attempt. Names and attributes follow the GenAI
 * conventions of OpenTelemetry. Tokens and cost are on the request's own span alone, so that sums do not count them
 * twice.
 */
export function requestSpans(request: SettledRequest): string[] {
  const { context, outcome, ids } = request;
  const { facts, startedAt } = context;
  const name = spanName(
    genAiNames.operation(context.endpoint.id, facts.operation),
    facts.modelRequested || facts.mcpTool,
  );
  const isError = outcome.kind !== 'cancelled' && (outcome.status >= 400 || facts.answerFailed);
  const state = facts.sampled === undefined ? undefined : context.header('tracestate');
  const own = spanJson({
    ids,
    name,
    kind: spanKind.server,
    state,
    startMs: startedAt,
    endMs: startedAt + outcome.latencyMs,
    attributes: ownAttributes(request),
    // Error messages may quote the request.
    error: isError ? (request.content?.errorMessage ?? '') : undefined,
  });
  return [own, ...attemptSpans(request)];
}

function ownAttributes(request: SettledRequest): string {
  const { context, outcome, content, redaction } = request;
  const { facts, originalPath: path } = context;
  const { usage } = facts;
  const model = facts.modelRequested.slice(0, 512);
  const list = new Attributes()
    .string('gen_ai.operation.name', genAiNames.operation(context.endpoint.id, facts.operation))
    .string('gen_ai.tool.name', facts.mcpTool.slice(0, 512))
    .string('weir.mcp.server', facts.mcpServer)
    .string('gen_ai.provider.name', genAiNames.provider(facts.aiService))
    .string('gen_ai.request.model', model)
    .flag('gen_ai.request.stream', facts.stream)
    .string('gen_ai.response.model', facts.modelAnswered.slice(0, 512))
    .strings('gen_ai.response.finish_reasons', reasonsOf(facts.finishReason));
  if (facts.firstTokenAt > 0 && facts.upstreamStartedAt > 0)
    list.number('gen_ai.response.time_to_first_chunk', (facts.firstTokenAt - facts.upstreamStartedAt) / 1000);
  if (usage !== undefined)
    list
      .integer('gen_ai.usage.input_tokens', usage.promptTokens)
      .integer('gen_ai.usage.output_tokens', usage.completionTokens)
      .count('gen_ai.usage.cache_read.input_tokens', usage.cachedTokens)
      .count('gen_ai.usage.cache_creation.input_tokens', usage.cacheWriteTokens)
      .count('gen_ai.usage.reasoning.output_tokens', usage.reasoningTokens);
  addHost(list, facts.upstreamHost);
  list
    .string('http.request.method', context.method)
    .string('url.path', (redaction === undefined ? path : redaction.text(path)).slice(0, 2048))
    .integer('http.response.status_code', outcome.status)
    .string('error.type', facts.answerFailed ? facts.finishReason : errorType(outcome))
    .string('weir.request.id', context.id)
    .string('weir.outcome', outcome.kind)
    .string('weir.organisation.id', facts.organisationId)
    .string('weir.workspace.id', facts.workspaceId)
    .string('weir.api_key.id', facts.apiKeyId)
    .string('weir.provider', facts.provider.slice(0, 255))
    .string('weir.config', facts.config.slice(0, 255))
    .string('gen_ai.prompt.name', facts.prompt.slice(0, 255))
    .string('weir.cache.status', facts.cacheStatus)
    .string('weir.generation', context.generation)
    .integer('weir.attempts', facts.attempts);
  if (outcome.price.status === 'priced') list.number('weir.cost.usd', Number(outcome.price.cost));
  if (facts.lostCost > 0) list.number('weir.cost.lost_usd', facts.lostCost);
  if (content !== undefined)
    list
      .string('gen_ai.input.messages', content.inputMessages)
      .string('gen_ai.output.messages', content.outputMessages);
  return list.json;
}

function reasonsOf(finishReason: string): string[] {
  return finishReason === '' ? [] : finishReason.slice(0, 255).split(',');
}

function errorType({ error, status }: Outcome): string {
  if (error !== undefined) return error.code;
  return status >= 400 ? String(status) : '';
}

/** One attempt; times are milliseconds after acceptance. */
interface Attempt extends Pick<
  AttemptRecord,
  'provider' | 'model' | 'status' | 'error' | 'startedMs' | 'endedMs' | 'lost'
> {
  readonly option: string;
  /** Host of the attempt, when it is known. */
  readonly host: string;
}

/** One span per attempt, in order, as OTLP JSON. */
function attemptSpans(request: SettledRequest): string[] {
  return attemptsOf(request).map((attempt, index) => attemptSpan(request, attempt, index));
}

/** Skipped targets are not attempts. A request served by its first attempt is known only from the facts. */
function attemptsOf(request: SettledRequest): Attempt[] {
  const { context, outcome, acceptedAt } = request;
  const { facts } = context;
  const endOfLast = facts.upstreamEndedAt > 0 ? facts.upstreamEndedAt - acceptedAt : outcome.latencyMs;
  const asked = facts.attemptRecords.filter(({ skipped }) => skipped === undefined);
  if (asked.length === 0) return facts.upstreamStartedAt > 0 ? [onlyAttempt(request, endOfLast)] : [];
  return asked.map((one) =>
    one.lost
      ? { ...one, host: '' }
      : { ...one, host: facts.upstreamHost, endedMs: Math.max(one.endedMs, endOfLast) },
  );
}

function onlyAttempt({ context, outcome, acceptedAt }: SettledRequest, endedMs: number): Attempt {
  const { facts } = context;
  return {
    option: facts.config === '' ? '' : facts.option,
    provider: facts.provider,
    endedMs,
    model: facts.modelRequested,
    status: outcome.status,
    error: outcome.error?.code ?? '',
    startedMs: facts.upstreamStartedAt - acceptedAt,
    lost: false,
    host: facts.upstreamHost,
  };
}

function attemptSpan({ context, ids }: SettledRequest, attempt: Attempt, index: number): string {
  const { facts, startedAt } = context;
  const operation = genAiNames.operation(context.endpoint.id, facts.operation);
  const list = new Attributes()
    .string('gen_ai.operation.name', operation)
    .string('gen_ai.provider.name', attemptProvider(facts, attempt))
    .string('gen_ai.request.model', attempt.model.slice(0, 512));
  addHost(list, attempt.host);
  if (attempt.status > 0) list.integer('http.response.status_code', attempt.status);
  list
    .string('error.type', attempt.error || (attempt.status >= 400 ? String(attempt.status) : ''))
    .string('weir.provider', attempt.provider.slice(0, 255))
    .string('weir.attempt.option', attempt.option.slice(0, 255))
    .integer('weir.attempt.number', index + 1)
    .flag('weir.attempt.lost', attempt.lost);
  const isError = attempt.status >= 400 || (attempt.error !== '' && attempt.error !== 'lost_race');
  return spanJson({
    ids: {
      traceId: ids.traceId,
      spanId: attemptId(context.id, index),
      parentSpanId: ids.spanId,
    },
    name: spanName(operation, attempt.model),
    kind: spanKind.client,
    state: undefined,
    startMs: startedAt + attempt.startedMs,
    endMs: startedAt + attempt.endedMs,
    attributes: list.json,
    error: isError ? '' : undefined,
  });
}

/** The kind of provider is known for the last attempt; the others use the provider's name. */
function attemptProvider(facts: RequestFacts, { provider }: Attempt): string {
  return genAiNames.provider(provider === facts.provider ? facts.aiService : provider.replace(/^@/, ''));
}

/** Derived from the half of the request id that the request's own span id does not use. */
function attemptId(id: string, index: number): string {
  const rest = id.slice(19, 23) + id.slice(24);
  const last = (Number.parseInt(rest.slice(12), 16) + index) & 0xffff;
  return rest.slice(0, 12) + last.toString(16).padStart(4, '0');
}

/** `host:port` as two attributes; the port defaults to that of the scheme. */
function addHost(list: Attributes, host: string): void {
  const at = /:\d+$/.exec(host)?.index ?? host.length;
  list.string('server.address', host.slice(0, at).slice(0, 255));
  if (at < host.length) list.integer('server.port', Number(host.slice(at + 1)));
}

/** Request and answer as span attributes; each is empty when there is nothing to report. */
export interface SpanContent {
  readonly inputMessages: string;
  readonly outputMessages: string;
  readonly errorMessage: string;
}

/** A settled request, and the place of its span. */
interface SettledRequest {
  readonly context: RequestContext;
  readonly outcome: Outcome;
  /** Monotonic clock at acceptance. */
  readonly acceptedAt: number;
  readonly ids: SpanContext;
  /** Content that its span may carry; undefined for none. */
  readonly content: SpanContent | undefined;
  /** Redaction of the other attributes. */
  readonly redaction: Redaction | undefined;
}
