import type { GatewayError } from '../errors/gateway-error.ts';
import type { Price, Prices } from '../ports/prices.ts';
import { callHook, isPromise, type HookRuntime } from './call-hook.ts';
import type { Outcome } from './context.ts';
import type { Exchange } from './exchange.ts';

/** What the pipeline needs from outside to run and settle requests; one object per generation. */
export interface EngineRuntime extends HookRuntime {
  readonly prices: Prices;
  /** Called once per request after its plugins have settled: metrics. */
  onSettled(exchange: Exchange, outcome: Outcome): void;
}

/** What was sent to the client, as far as it was kept. */
export interface SentAnswer {
  readonly status: number;
  readonly body?: Buffer | undefined;
  readonly truncated?: boolean;
  readonly contentType?: string;
  readonly contentEncoding?: string;
}

const settledExchanges = new WeakSet<Exchange>();

/**
 * Ends a request: exactly once, whatever happened, after the last byte. Runs every plugin's `settled` hook in
 * file order; a failing one is logged and keeps nobody from running.
 */
export function settle(
  exchange: Exchange,
  sent: SentAnswer,
  error: GatewayError | undefined,
  runtime: EngineRuntime,
): void {
  if (settledExchanges.has(exchange)) return;
  settledExchanges.add(exchange);
  const latencyMs = runtime.clock.monotonic() - exchange.startedMonotonic;
  const finish = (): void =>
    runSettled(exchange, outcomeOf(exchange, sent, error, latencyMs, runtime.prices), runtime);
  if (exchange.pendingFacts) exchange.pendingFacts.then(finish, finish);
  else finish();
}

function outcomeOf(
  exchange: Exchange,
  sent: SentAnswer,
  error: GatewayError | undefined,
  latencyMs: number,
  prices: Prices,
): Outcome {
  const { facts, startedAt } = exchange;
  let price: Price | undefined;
  return {
    kind: kindOf(exchange, error),
    status: sent.status,
    error,
    latencyMs,
    requestBody: exchange.body.loaded ? exchange.body.bytes : undefined,
    responseBody: sent.body,
    responseTruncated: sent.truncated ?? false,
    responseContentType: sent.contentType ?? '',
    responseContentEncoding: sent.contentEncoding ?? '',
    get price() {
      price ??= prices.price(
        facts.usage,
        facts.aiService,
        facts.modelAnswered || facts.modelRequested,
        startedAt,
      );
      return price;
    },
  };
}

function kindOf(exchange: Exchange, error: GatewayError | undefined): Outcome['kind'] {
  if (error === undefined) return 'completed';
  if (error.code === 'client_closed' || error.code === 'client_stalled') return 'cancelled';
  return error.status < 500 && !exchange.sink.stalled ? 'refused' : 'failed';
}

function runSettled(exchange: Exchange, outcome: Outcome, runtime: EngineRuntime): void {
  for (const step of exchange.pipeline.settled) {
    try {
      const pending = callHook(step.instance, 'settled', runtime, () => step.run(exchange, outcome));
      if (isPromise(pending)) pending.catch(() => undefined);
    } catch {
      // callHook has logged and counted it; an answer that has left cannot be refused any more.
    }
  }
  try {
    runtime.onSettled(exchange, outcome);
  } finally {
    exchange.release?.();
  }
}
