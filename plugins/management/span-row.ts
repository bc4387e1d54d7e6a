import { noUsage, type Usage } from '../../core/dialects/usage.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { endpointOfOperation, serviceOfGenAiProvider } from '../../core/dialects/gen-ai-names.ts';
import type { Price, Prices } from '../../core/ports/prices.ts';
import { acceptance, type ReportedRow } from './reported-row.ts';
import { sha256 } from '../../core/base/sha256.ts';
import type { ReportedSpan } from './otlp-spans.ts';
import { SpanReader } from './span-reader.ts';
import { spanMetadata } from './span-metadata.ts';
import { usageColumns } from './usage-columns.ts';

/** What rows of spans are made with. */
export interface SpanRowParts {
  readonly key: KeyRecord;
  readonly prices: Prices;
  /** Time of acceptance, milliseconds since the epoch. */
  readonly now: number;
}

/**
 * The row of a span. Its id is the same each time that the span is reported, within an organisation. What the GenAI
 * conventions say, in this or an earlier edition, fills the columns; a cost that the span does not tell is worked out from
 * its tokens.
 */
export function spanRow(span: ReportedSpan, { key, prices, now }: SpanRowParts): ReportedRow {
  const read = new SpanReader(span.attributes);
  const operation = read.text('gen_ai.operation.name', 'llm.request.type');
  const service = serviceOfGenAiProvider(read.text('gen_ai.provider.name', 'gen_ai.system'));
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
    endpoint: endpointOfOperation(operation),
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

/** A UUID (version 8: made of what it stands for) that nobody else's span has. */
export function spanRowId(
  organisationId: string,
  { traceId, spanId }: Pick<ReportedSpan, 'traceId' | 'spanId'>,
): string {
  const hex = sha256(`${organisationId}/${traceId}/${spanId}`, 'hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** That of HTTP where the span says it; else 200, or 500 for an error. */
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
