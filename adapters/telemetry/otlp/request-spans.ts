import type { Outcome } from '../../../core/pipeline/context.ts';
import { genAiProvider, operationName } from '../../../core/dialects/gen-ai-names.ts';
import { attemptSpans } from './attempt-spans.ts';
import { Attributes } from './attributes.ts';
import { addHost } from './host-attributes.ts';
import type { SettledRequest } from './settled-request.ts';
import { spanJson, spanKind, spanName } from './span-json.ts';

/**
 * The spans of one request, as JSON of OTLP: its own, and one for each time that a provider was asked. They are named and
 * described by the GenAI conventions of OpenTelemetry. Tokens and cost stand on the request's own span alone, so that
 * nobody who adds them up counts them twice.
 */
export function requestSpans(request: SettledRequest): string[] {
  const { context, outcome, ids } = request;
  const { facts, startedAt } = context;
  const name = spanName(operationName(context.endpoint.id), facts.modelRequested);
  const isError = outcome.kind !== 'cancelled' && outcome.status >= 400;
  const state = facts.sampled === undefined ? undefined : context.header('tracestate');
  const own = spanJson({
    ...{ ids, name, kind: spanKind.server, state, startMs: startedAt, endMs: startedAt + outcome.latencyMs },
    attributes: ownAttributes(request),
    // Error messages may quote what was asked.
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
    .string('gen_ai.operation.name', operationName(context.endpoint.id))
    .string('gen_ai.provider.name', genAiProvider(facts.aiService))
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
    .string('error.type', errorType(outcome))
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
