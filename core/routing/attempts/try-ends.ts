import { GatewayError } from '../../errors/gateway-error.ts';
import { isStreamSource } from '../../pipeline/answer.ts';
import { clientLeft } from '../../pipeline/client-left.ts';
import type { Exchange } from '../../pipeline/exchange.ts';
import type { Clock } from '../../ports/clock.ts';
import { CurrentAttempt } from '../current-attempt.ts';
import type { TryResult } from './try-result.ts';

/** Nothing is served from this try: what still flows is stopped, and the attempt's hooks are told. */
export function leaveTry({ exchange, answer }: TryResult): void {
  const body = answer?.body ?? null;
  if (isStreamSource(body)) body.cancel(new GatewayError('client_closed', 'Another try is made instead.'));
  const { latestAttempt } = exchange;
  if (latestAttempt instanceof CurrentAttempt) latestAttempt.abandon();
}

/** Waits, unless the client leaves (or the try loses its race) first: then resolves to why, at once. */
export function pause(exchange: Exchange, ms: number, clock: Clock): Promise<GatewayError | undefined> {
  return new Promise((resolve) => {
    const stopTimer = clock.after(ms, () => {
      stopListening();
      resolve(undefined);
    });
    const stopListening = exchange.onAbort(() => {
      stopTimer();
      resolve(exchange.failure ?? clientLeft());
    });
  });
}
