import { estimatedUsage } from '../../pipeline/estimated-usage.ts';
import { isPromise } from '../../pipeline/call-hook.ts';
import type { Exchange } from '../../pipeline/exchange.ts';
import { limitsOnStoreFailure } from '../../pipeline/keys.ts';
import type { Counters } from '../../ports/counters.ts';
import { takeCharges, type LimitCharges, type TokenReservation } from '../../access/limit-charge.ts';

/**
 * Counts a try at a target with limits, just before it is asked. Throws `provider_rate_limited` when one of them is used
 * up, and what the counters refuse with while they are away. A promise only where they answer with one.
 */
export function takeTargetLimits(
  exchange: Exchange,
  limits: LimitCharges,
  counters: Counters,
): void | Promise<void> {
  const tokens = limits.tokens === undefined ? 0 : estimatedUsage(exchange).totalTokens;
  const onStoreFailure = exchange.get(limitsOnStoreFailure);
  const taken = takeCharges(limits, { counters, tokens, onStoreFailure, code: 'provider_rate_limited' });
  if (isPromise(taken)) return taken.then((reserved) => keep(exchange, reserved));
  keep(exchange, taken);
}

/** Nothing is served from the try that the exchange has made: what it took counts as `used` tokens. */
export function settleTargetLimits(exchange: Exchange, used: number): void {
  const { reservedTokens } = exchange;
  if (reservedTokens === undefined) return;
  exchange.reservedTokens = undefined;
  // Counters report what they cannot count themselves.
  void reservedTokens.settle(used);
}

function keep(exchange: Exchange, reserved: TokenReservation | undefined): void {
  exchange.reservedTokens = reserved;
}
