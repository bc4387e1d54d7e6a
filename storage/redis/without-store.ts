import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { OnStoreFailure } from '../../core/ports/counters.ts';
import type { Counter, Metrics } from '../../core/ports/metrics.ts';

/** Retry delay in a refusal without the store, in seconds. */
const retryAfterSeconds = 2;

/** Decides without the shared store, and counts how often. */
export class WithoutStore {
  private readonly decided: Record<OnStoreFailure, Counter | undefined>;

  constructor(metrics?: Metrics) {
    const without = metrics?.counter({
      name: 'weir_limits_without_store_total',
      help: 'Limit decisions made without the shared counters, by policy.',
      labels: ['policy'],
    });
    const series = (policy: OnStoreFailure): Counter | undefined => without?.({ policy });
    this.decided = { open: series('open'), closed: series('closed'), local: series('local') };
  }

  /** Applies the policy: calls `local` or `open`. Throws `limits_unavailable` under `closed`. */
  decide<Result>(policy: OnStoreFailure, by: { local(): Result; open(): Result }): Result {
    this.decided[policy]?.inc();
    if (policy !== 'closed') return by[policy]();
    throw new GatewayError(
      'limits_unavailable',
      'The limits of this request cannot be checked now, because the store that counts does not answer. Try again shortly.',
      { headers: ['retry-after', String(retryAfterSeconds)] },
    );
  }
}
