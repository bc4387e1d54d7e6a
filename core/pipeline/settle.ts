import { countedUsage, learnsFrom, unfinishedUsage } from './estimated-usage.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Price, Prices } from '../ports/prices.ts';
import { atTurnEnd } from '../base/turns.ts';
import { callHook, type HookRuntime, type HookTimes, isPromise } from './call-hook.ts';
import type { MaybePromise, Outcome } from './context.ts';
import type { Exchange } from './exchange.ts';

/** Dependencies of the pipeline for running and settling requests; one object per generation. */
export interface EngineRuntime extends HookRuntime {
  readonly prices: Prices;
  /** Called once per request after its plugins have settled: metrics. */
  onSettled(exchange: Exchange, outcome: Outcome): void;
  /** Default: nothing is timed. */
  readonly hookTimes?: HookTimes | undefined;
}

/** Answer that was sent to the client, as far as it was kept. */
interface SentAnswer {
  readonly status: number;
  readonly body?: Buffer | undefined;
  readonly truncated?: boolean;
  readonly contentType?: string;
  readonly contentEncoding?: string;
}

/**
 * Ends a request: exactly once, whatever happened, after the last byte. Runs every plugin's `settled` hook in
 * file order; a failing one is logged and does not stop the others.
 */
export function settle(
  exchange: Exchange,
  sent: SentAnswer,
  error: GatewayError | undefined,
  runtime: EngineRuntime,
): void {
  if (exchange.settled) return;
  exchange.settled = true;
  const { trace, facts } = exchange;
  const latencyMs = (facts.openSince || runtime.clock.monotonic()) - exchange.startedMonotonic;
  if (facts.openSince > 0 && error?.code === 'client_closed') {
    // The end of such a stream, not one that came too early.
    error = undefined;
    sent = { ...sent, status: 200 };
  }
  if (trace !== undefined) facts.decision = trace.json(exchange, sent.status, error?.code ?? '');
  const outcome = new SettledOutcome(exchange, sent, error, latencyMs, runtime.prices);
  if (exchange.pendingFacts) void exchange.pendingFacts.finally(() => runSettled(exchange, outcome, runtime));
  else atTurnEnd({ run: () => runSettled(exchange, outcome, runtime) });
}

class SettledOutcome implements Outcome {
  readonly kind: Outcome['kind'];
  readonly status: number;
  readonly error: GatewayError | undefined;
  readonly latencyMs: number;
  readonly requestBody: Buffer | undefined;
  readonly responseBody: Buffer | undefined;
  readonly responseTruncated: boolean;
  readonly responseContentType: string;
  readonly responseContentEncoding: string;
  private readonly exchange: Exchange;
  private readonly prices: Prices;
  private known: Price | undefined;

  constructor(
    exchange: Exchange,
    sent: SentAnswer,
    error: GatewayError | undefined,
    latencyMs: number,
    prices: Prices,
  ) {
    this.kind = kindOf(exchange, error);
    this.status = sent.status;
    this.error = error;
    this.latencyMs = latencyMs;
    this.requestBody = exchange.body.loaded ? exchange.body.bytes : undefined;
    this.responseBody = sent.body;
    this.responseTruncated = sent.truncated ?? false;
    this.responseContentType = sent.contentType ?? '';
    this.responseContentEncoding = sent.contentEncoding ?? '';
    this.exchange = exchange;
    this.prices = prices;
  }

  get requestIsJson(): boolean {
    return this.exchange.body.isJsonDocument;
  }

  get responseIsJson(): boolean {
    return this.exchange.answerIsJson && !this.responseTruncated && this.responseContentEncoding === '';
  }

  get price(): Price {
    const { facts, startedAt } = this.exchange;
    this.known ??= this.prices.price(
      facts.usage,
      facts.pricedBy ?? facts.aiService,
      facts.modelAnswered || facts.modelRequested,
      startedAt,
    );
    return this.known;
  }
}

function kindOf(exchange: Exchange, error: GatewayError | undefined): Outcome['kind'] {
  if (error === undefined) return 'completed';
  if (error.code === 'client_closed' || error.code === 'client_stalled') return 'cancelled';
  return error.status < 500 && !exchange.sink.stalled ? 'refused' : 'failed';
}

function runSettled(exchange: Exchange, outcome: Outcome, runtime: EngineRuntime): void {
  let unfinished: Promise<unknown>[] | undefined;
  if (outcome.error !== undefined) estimateUsage(exchange, outcome);
  const { reservation } = exchange;
  exchange.get(learnsFrom)?.learn(exchange, outcome);
  if (reservation !== undefined) {
    const pending = reservation.settle(countedUsage(exchange, outcome, reservation.reserved));
    if (isPromise(pending)) (unfinished ??= []).push(pending);
  }
  for (const step of exchange.pipeline.settled) {
    try {
      const pending = callHook(step.instance, 'settled', runtime, () => step.run(exchange, outcome));
      if (isPromise(pending)) (unfinished ??= []).push(pending.catch(() => undefined));
    } catch {
      // callHook has logged and counted it; an answer that has left cannot be refused any more.
    }
  }
  try {
    runtime.onSettled(exchange, outcome);
  } finally {
    // The generation must not retire under a hook that still works.
    if (unfinished) void Promise.all(unfinished).then(() => exchange.release?.());
    else exchange.release?.();
  }
}

/** Estimates the usage that a broken-off answer did not report. */
function estimateUsage(exchange: Exchange, { kind, responseBody }: Outcome): void {
  const usage = unfinishedUsage(exchange, kind, responseBody);
  if (usage === undefined) return;
  exchange.facts.usage = usage;
  exchange.facts.isUsageEstimated = true;
}

/** Delivering must not throw; if it does, the connection is cut and the request still settles. Never rejects. */
export function deliverSafely(
  exchange: Exchange,
  runtime: EngineRuntime,
  send: () => MaybePromise<void>,
): MaybePromise<void> {
  try {
    const pending = send();
    return isPromise(pending) ? pending.catch((error: unknown) => cut(exchange, runtime, error)) : undefined;
  } catch (error) {
    return cut(exchange, runtime, error);
  }
}

function cut(exchange: Exchange, runtime: EngineRuntime, error: unknown): void {
  runtime.log.error('An answer could not be delivered', { request: exchange.id, error });
  exchange.sink.cut();
  const failure = new GatewayError('internal', 'The answer could not be delivered.', { cause: error });
  settle(exchange, { status: failure.status }, failure, runtime);
}
