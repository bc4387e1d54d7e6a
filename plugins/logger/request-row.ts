import type { Outcome, RequestContext } from '../../core/pipeline/context.ts';
import type { RequestFacts } from '../../core/pipeline/facts.ts';
import type { Usage } from '../../core/dialects/usage.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { createdAt } from './created-at.ts';

const noUsage: Usage = {
  promptTokens: 0,
  completionTokens: 0,
  totalTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  inputAudioTokens: 0,
  outputAudioTokens: 0,
};

/** The log row of one request. `now` is the monotonic clock at its end. One literal: this runs for every request. */
export function requestRow(context: RequestContext, outcome: Outcome, now: number): RequestRow {
  const { facts } = context;
  const { error, price } = outcome;
  const usage = facts.usage ?? noUsage;
  const sentAt = facts.upstreamStartedAt;
  const upstream = sentAt > 0 ? Math.min((facts.upstreamEndedAt || now) - sentAt, outcome.latencyMs) : 0;
  return {
    id: context.id,
    created_at: createdAt(context.startedAt),
    organisation_id: facts.organisationId,
    workspace_id: facts.workspaceId,
    api_key_id: facts.apiKeyId,
    user_id: facts.userId,
    method: clip(context.method, 32),
    path: clip(context.originalPath, 2048),
    endpoint: context.endpoint.id,
    stream: facts.stream,
    status: outcome.status,
    outcome: outcome.kind,
    is_success: outcome.kind === 'completed' && outcome.status >= 200 && outcome.status < 300,
    error_code: error?.code ?? '',
    error_source: errorSource(outcome, facts),
    error_message: clip(error?.message ?? '', 1024),
    plugin: error?.plugin ?? '',
    ai_service: facts.aiService,
    provider: clip(facts.provider, 255),
    model_requested: clip(facts.modelRequested, 512),
    model: clip(facts.modelAnswered || facts.modelRequested, 512),
    upstream_host: facts.upstreamHost,
    config: clip(facts.config, 255),
    prompt: clip(facts.prompt, 255),
    virtual_key: clip(facts.virtualKey, 255),
    cache_status: facts.cacheStatus,
    generation: context.generation,
    latency_ms: micros(outcome.latencyMs),
    upstream_ms: micros(upstream),
    gateway_ms: micros(outcome.latencyMs - upstream),
    first_byte_ms: since(sentAt, facts.firstByteAt),
    first_token_ms: since(sentAt, facts.firstTokenAt),
    request_bytes: facts.requestBytes,
    response_bytes: facts.responseBytes,
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
    cached_tokens: usage.cachedTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    reasoning_tokens: usage.reasoningTokens,
    input_audio_tokens: usage.inputAudioTokens,
    output_audio_tokens: usage.outputAudioTokens,
    cost: price.cost,
    pricing: price.status,
    price_version: price.version,
    attempts: facts.attempts,
    resent: facts.resent,
    finish_reason: clip(facts.finishReason, 128),
    metadata: facts.metadata,
    trace_id: clip(facts.traceId, 255),
    span_id: clip(facts.spanId, 255),
    parent_span_id: clip(facts.parentSpanId, 255),
    span_name: clip(facts.spanName, 255),
    client_address: context.remoteAddress,
    user_agent: clip(context.header('user-agent') ?? '', 256),
  };
}

/** Who is to blame: whoever raised the error, or the provider when its own error answer was passed on. */
function errorSource({ error, status }: Outcome, facts: RequestFacts): RequestRow['error_source'] {
  if (error) return error.source;
  return status >= 400 && facts.upstreamStartedAt > 0 ? 'provider' : '';
}

function since(start: number, at: number): number {
  return at > 0 && start > 0 ? micros(at - start) : 0;
}

/** Milliseconds with three digits after the point, never negative: more would be noise, and costs time to write. */
function micros(ms: number): number {
  return ms > 0 ? Math.round(ms * 1000) / 1000 : 0;
}

/** At most `length` UTF-16 units, and no half of a surrogate pair at the end. */
function clip(text: string, length: number): string {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}
