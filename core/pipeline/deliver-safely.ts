import { GatewayError } from '../errors/gateway-error.ts';
import { isPromise } from './call-hook.ts';
import type { MaybePromise } from './context.ts';
import type { Exchange } from './exchange.ts';
import { settle, type EngineRuntime } from './settle.ts';

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
