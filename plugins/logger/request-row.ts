import type { Outcome, RequestContext } from '../../core/pipeline/context.ts';
import type { RequestFacts } from '../../core/pipeline/facts.ts';
import { noUsage, type Usage } from '../../core/dialects/usage.ts';
import { headerNameList } from '../../core/ports/header-name-list.ts';
import { loggedTry } from '../../core/ports/logged-try.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { sha256 } from '../../core/ports/sha256.ts';
import type { Redaction } from '../../core/redaction/redaction.ts';
import { createdAt } from './created-at.ts';
import { quote, quoteWithin } from './quote.ts';
import { sdkOf } from './sdk.ts';

/**
 * The log row of one request as a line of JSON, without what `redaction` takes out of its path, error message, metadata
 * and decision; `now` is the monotonic clock at its end. Members that say nothing
 * (empty, zero, false) are left out, which the store reads as exactly that: half of a line would be such members, and
 * each of its bytes is written, shipped and parsed. By hand, because this runs for every request.
 */
export function requestLine(
  context: RequestContext,
  outcome: Outcome,
  now: number,
  redaction?: Redaction,
): string {
  const { facts } = context;
  const { error, price } = outcome;
  const usage = facts.usage ?? noUsage;
  const sentAt = facts.upstreamStartedAt;
  const upstream = sentAt > 0 ? Math.min((facts.upstreamEndedAt || now) - sentAt, outcome.latencyMs) : 0;
  return (
    `{"id":"${context.id}","created_at":"${createdAt(context.startedAt)}","outcome":"${outcome.kind}"` +
    `,"status":${outcome.status},"pricing":"${price.status}"` +
    text('organisation_id', facts.organisationId) +
    text('workspace_id', facts.workspaceId) +
    text('api_key_id', facts.apiKeyId) +
    text('user_id', facts.userId) +
    text('method', clip(context.method, 32)) +
    text('path', clip(redacted(context.originalPath, redaction), 2048)) +
    text('endpoint', context.endpoint.id) +
    flag('stream', facts.stream) +
    flag('is_success', outcome.kind === 'completed' && isSuccess(outcome.status)) +
    (error === undefined
      ? ''
      : text('error_code', error.code) +
        text('error_message', clip(redacted(error.message, redaction), 1024))) +
    text('error_source', errorSource(outcome, facts)) +
    text('plugin', error?.plugin ?? '') +
    text('ai_service', facts.aiService) +
    text('provider', clip(facts.provider, 255)) +
    text('model_requested', clip(facts.modelRequested, 512)) +
    text('model', clip(facts.modelAnswered || facts.modelRequested, 512)) +
    text('upstream_host', facts.upstreamHost) +
    text('config', clip(facts.config, 255)) +
    text('config_version', facts.configVersion) +
    text('prompt', clip(facts.prompt, 255)) +
    text('prompt_version', facts.promptVersion) +
    text('virtual_key', clip(facts.virtualKey, 255)) +
    text('cache_status', facts.cacheStatus) +
    text('generation', context.generation) +
    duration('latency_ms', outcome.latencyMs) +
    duration('upstream_ms', upstream) +
    duration('gateway_ms', outcome.latencyMs - upstream) +
    duration('first_byte_ms', since(sentAt, facts.firstByteAt)) +
    duration('first_token_ms', since(sentAt, facts.firstTokenAt)) +
    number('request_bytes', facts.requestBytes) +
    number('response_bytes', facts.responseBytes) +
    (usage === noUsage ? '' : usageMembers(usage)) +
    `,"cost":"${price.cost}"` +
    text('price_version', price.version) +
    (facts.lostCost === 0 ? '' : `,"lost_cost":"${facts.lostCost.toFixed(12)}"`) +
    number('attempts', facts.attempts) +
    (facts.config === '' ? '' : planMembers(facts)) +
    text('decision', redaction === undefined ? facts.decision : redaction.json(facts.decision)) +
    guardrails(facts.verdicts) +
    limits(facts.limits, error?.limit) +
    flag('resent', facts.resent) +
    text('finish_reason', clip(facts.finishReason, 128)) +
    list('dropped', facts.dropped) +
    metadata(redaction === undefined ? facts.metadata : redaction.metadata(facts.metadata)) +
    text('trace_id', clip(facts.traceId, 255)) +
    text('span_id', clip(facts.spanId, 255)) +
    text('parent_span_id', clip(facts.parentSpanId, 255)) +
    text('span_name', clip(facts.spanName, 255)) +
    text('client_address', context.remoteAddress) +
    client(context) +
    '}'
  );
}

/** Where the request went within its config, and what it took. */
function planMembers(facts: RequestFacts): string {
  const { tries, option, retries } = facts;
  const told = tries.length === 0 ? '' : text('tries', JSON.stringify(tries.map(loggedTry)));
  return text('option', option) + number('retries', retries) + told;
}

/**
 * The program that asked. Its user agent stands there as a digest where the request calls this header sensitive: equal
 * ones stay equal, and tell nothing else.
 */
function client(context: RequestContext): string {
  const agent = context.header('user-agent') ?? '';
  const sensitive = context.service('sensitive-headers');
  if (sensitive === undefined || agent === '' || !headerNameList(sensitive).includes('user-agent'))
    return text('user_agent', clip(agent, 256)) + text('sdk', sdkOf(context, agent));
  return text('user_agent', `sha256:${sha256(agent, 'hex')}`) + text('sdk', sdkOf(context, ''));
}

/** 2xx, and a WebSocket that was relayed (101). */
function isSuccess(status: number): boolean {
  return (status >= 200 && status < 300) || status === 101;
}

function usageMembers(usage: Usage): string {
  return (
    number('prompt_tokens', usage.promptTokens) +
    number('completion_tokens', usage.completionTokens) +
    number('total_tokens', usage.totalTokens) +
    number('cached_tokens', usage.cachedTokens) +
    number('cache_write_tokens', usage.cacheWriteTokens) +
    number('reasoning_tokens', usage.reasoningTokens) +
    number('input_audio_tokens', usage.inputAudioTokens) +
    number('output_audio_tokens', usage.outputAudioTokens)
  );
}

function text(name: keyof RequestRow, value: string): string {
  return value === '' ? '' : `,"${name}":${quote(value)}`;
}

function number(name: keyof RequestRow, value: number): string {
  return value === 0 ? '' : `,"${name}":${value}`;
}

function flag(name: keyof RequestRow, value: boolean): string {
  return value ? `,"${name}":true` : '';
}

function list(name: keyof RequestRow, values: readonly string[]): string {
  return values.length === 0 ? '' : `,"${name}":${JSON.stringify(values.map((value) => clip(value, 128)))}`;
}

function guardrails(verdicts: RequestFacts['verdicts']): string {
  if (verdicts.length === 0) return '';
  let told = '';
  for (const { name, hook, verdict, ms } of verdicts) {
    const of = `\\"name\\":${quoteWithin(clip(name, 128))},\\"hook\\":\\"${hook}\\"`;
    told += `${told && ','}{${of},\\"verdict\\":\\"${verdict}\\",\\"ms\\":${milliseconds(ms)}}`;
  }
  return `,"guardrails":"[${told}]"`;
}

/** What refused the request stands first; a target that was passed over for the same limit is not told twice. */
function limits(passedOver: readonly string[], refusedBy: string | undefined): string {
  if (refusedBy === undefined) return list('limits', passedOver);
  return list('limits', [refusedBy, ...passedOver.filter((limit) => limit !== refusedBy)]);
}

function redacted(value: string, redaction: Redaction | undefined): string {
  return redaction === undefined ? value : redaction.text(value);
}

function metadata(values: RequestFacts['metadata']): string {
  for (const _ in values) return `,"metadata":${JSON.stringify(values)}`;
  return '';
}

/** Who is to blame: whoever raised the error, or the provider when its own error answer was passed on. */
function errorSource({ error, status }: Outcome, facts: RequestFacts): RequestRow['error_source'] {
  if (error) return error.source;
  return status >= 400 && facts.upstreamStartedAt > 0 ? 'provider' : '';
}

function since(start: number, at: number): number {
  return at > 0 && start > 0 ? at - start : 0;
}

/** `.000` to `.999`: writing a fraction is many times dearer than looking it up. */
const thousandths = Array.from({ length: 1000 }, (_, n) => `.${String(n).padStart(3, '0')}`);

/** With three digits after the point, never negative: more would be noise, and costs time to write. */
function milliseconds(ms: number): string {
  const micros = ms > 0 ? Math.round(ms * 1000) : 0;
  return `${Math.floor(micros / 1000)}${thousandths[micros % 1000]}`;
}

function duration(name: keyof RequestRow, ms: number): string {
  return ms < 0.0005 ? '' : `,"${name}":${milliseconds(ms)}`;
}

/** At most `length` UTF-16 units, and no half of a surrogate pair at the end. */
function clip(text: string, length: number): string {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}
