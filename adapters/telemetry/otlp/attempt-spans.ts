import type { RequestFacts, TryRecord } from '../../../core/pipeline/facts.ts';
import { genAiProvider, operationName } from '../../../core/dialects/gen-ai-names.ts';
import { Attributes } from './attributes.ts';
import { addHost } from './host-attributes.ts';
import type { SettledRequest } from './settled-request.ts';
import { spanJson, spanKind, spanName } from './span-json.ts';

/** One time that a provider was asked; times are milliseconds after acceptance. */
interface Attempt extends Pick<
  TryRecord,
  'provider' | 'model' | 'status' | 'error' | 'startedMs' | 'endedMs' | 'lost'
> {
  readonly option: string;
  /** Where it went, when that is known. */
  readonly host: string;
}

/** One span for each time that a provider was asked, in their order, as JSON of OTLP. */
export function attemptSpans(request: SettledRequest): string[] {
  return attemptsOf(request).map((attempt, index) => attemptSpan(request, attempt, index));
}

/** A target that was passed over was not asked. What was served by the first try is told by the facts alone. */
function attemptsOf(request: SettledRequest): Attempt[] {
  const { context, outcome, acceptedAt } = request;
  const { facts } = context;
  const endOfLast = facts.upstreamEndedAt > 0 ? facts.upstreamEndedAt - acceptedAt : outcome.latencyMs;
  const asked = facts.tries.filter(({ skipped }) => skipped === undefined);
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
    ...{ option: facts.config === '' ? '' : facts.option, provider: facts.provider, endedMs },
    ...{ model: facts.modelRequested, status: outcome.status, error: outcome.error?.code ?? '' },
    ...{ startedMs: facts.upstreamStartedAt - acceptedAt, lost: false, host: facts.upstreamHost },
  };
}

function attemptSpan({ context, ids }: SettledRequest, attempt: Attempt, index: number): string {
  const { facts, startedAt } = context;
  const operation = operationName(context.endpoint.id);
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
    ...{ name: spanName(operation, attempt.model), kind: spanKind.client, state: undefined },
    ...{ startMs: startedAt + attempt.startedMs, endMs: startedAt + attempt.endedMs },
    ...{ attributes: list.json, error: isError ? '' : undefined },
  });
}

/** The kind of provider is known of the one that was asked last; of others their name has to do. */
function attemptProvider(facts: RequestFacts, { provider }: Attempt): string {
  return genAiProvider(provider === facts.provider ? facts.aiService : provider.replace(/^@/, ''));
}

/** Made of the half of the request id of which the request's own span id is not made. */
function attemptId(id: string, index: number): string {
  const rest = id.slice(19, 23) + id.slice(24);
  const last = (Number.parseInt(rest.slice(12), 16) + index) & 0xffff;
  return rest.slice(0, 12) + last.toString(16).padStart(4, '0');
}
