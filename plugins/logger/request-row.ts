import type { Outcome, RequestContext } from '../../core/pipeline/context.ts';
import { loggedTry, type RequestFacts } from '../../core/pipeline/facts.ts';
import { noUsage, type Usage } from '../../core/dialects/usage.ts';
import { quoteWithin } from '../../core/base/json.ts';
import type { Redaction } from '../../core/redaction/redaction.ts';
import { createdAt } from './created-at.ts';
import { clip, duration, list, milliseconds, number, redacted, text } from './members.ts';

/**
 * The log row of one request as a line of JSON, without what `redaction` takes out of its path, error message, metadata
 * and decision; `common` is what it shares with others, `now` the monotonic clock at its end. Members that say nothing
 * (empty, zero, false) are left out, which the store reads as exactly that: half of a line would be such members, and
 * each of its bytes is written, shipped and parsed. By hand, because this runs for every request.
 */
export function requestLine(
  context: RequestContext,
  outcome: Outcome,
  common: string,
  now: number,
  redaction?: Redaction,
): string {
  const { facts } = context;
  const { error, price } = outcome;
  const usage = facts.usage ?? noUsage;
  const sentAt = facts.upstreamStartedAt;
  const upstream = sentAt > 0 ? Math.min((facts.upstreamEndedAt || now) - sentAt, outcome.latencyMs) : 0;
  return (
    `{"id":"${context.id}","created_at":"${createdAt(context.startedAt)}"${common}` +
    (error === undefined ? '' : text('error_message', clip(redacted(error.message, redaction), 1024))) +
    duration('latency_ms', outcome.latencyMs) +
    duration('upstream_ms', upstream) +
    duration('gateway_ms', outcome.latencyMs - upstream) +
    duration('first_byte_ms', since(sentAt, facts.firstByteAt)) +
    duration('first_token_ms', since(sentAt, facts.firstTokenAt)) +
    number('request_bytes', facts.requestBytes) +
    number('response_bytes', facts.responseBytes) +
    (usage === noUsage ? '' : usageMembers(usage)) +
    `,"cost":"${price.cost}"` +
    (facts.lostCost === 0 ? '' : `,"lost_cost":"${facts.lostCost.toFixed(12)}"`) +
    (facts.config === '' ? '' : planMembers(facts)) +
    text('decision', redaction === undefined ? facts.decision : redaction.json(facts.decision)) +
    guardrails(facts.verdicts) +
    limits(facts.limits, error?.limit) +
    list('dropped', facts.dropped) +
    metadata(redaction === undefined ? facts.metadata : redaction.metadata(facts.metadata)) +
    text('trace_id', clip(facts.traceId, 255)) +
    text('span_id', clip(facts.spanId, 255)) +
    text('parent_span_id', clip(facts.parentSpanId, 255)) +
    text('span_name', clip(facts.spanName, 255)) +
    '}'
  );
}

/** Where the request went within its config, and what it took. */
function planMembers(facts: RequestFacts): string {
  const { tries, option, retries } = facts;
  const told = tries.length === 0 ? '' : text('tries', JSON.stringify(tries.map(loggedTry)));
  return text('option', option) + number('retries', retries) + told;
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

function metadata(values: RequestFacts['metadata']): string {
  for (const _ in values) return `,"metadata":${JSON.stringify(values)}`;
  return '';
}

function since(start: number, at: number): number {
  return at > 0 && start > 0 ? at - start : 0;
}
