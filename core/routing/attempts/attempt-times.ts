import type { HeaderList } from '../../ports/header-list.ts';
import type { RetrySettings } from '../plan/plan-node.ts';
import { retryAfterMs } from '../../base/retry-after.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { AttemptOptions } from '../../pipeline/router.ts';

/** Timeouts of one attempt that span its phases. Created only for attempts that have one. */
export class AttemptTimers {
  private cancelWhole: (() => void) | undefined;
  private cancelToken: (() => void) | undefined;

  /** The first timeout calls `cut` with the error for the client. */
  constructor(
    { requestTimeoutMs, firstTokenTimeoutMs }: AttemptOptions,
    clock: Clock,
    cut: (error: GatewayError) => void,
  ) {
    if (requestTimeoutMs > 0) {
      this.cancelWhole = clock.after(requestTimeoutMs, () => {
        this.over();
        cut(
          new GatewayError(
            'request_timeout',
            `Request exceeded the timeout sent in the request: ${requestTimeoutMs}ms`,
          ),
        );
      });
    }
    if (firstTokenTimeoutMs > 0) {
      this.cancelToken = clock.after(firstTokenTimeoutMs, () => {
        this.over();
        cut(
          new GatewayError(
            'upstream_timeout',
            `The provider sent no token within ${firstTokenTimeoutMs} ms (first_token_timeout).`,
            { source: 'provider' },
          ),
        );
      });
    }
  }

  /** Call it when the first token has arrived. */
  firstToken(): void {
    this.cancelToken?.();
    this.cancelToken = undefined;
  }

  /** Call it when the attempt has ended. */
  over(): void {
    this.firstToken();
    this.cancelWhole?.();
    this.cancelWhole = undefined;
  }
}

/** Upper bound of retries, whatever a config says. */
export const maxRetries = 5;
/** Upper bound of the sum of all waits of one request at one target. */
export const retryBudgetMs = 60_000;

const firstBackOffMs = 1000;
/** Minimum spread of retries: a provider gives all rejected requests the same retry time. */
const minSpreadMs = 100;
const spreadShare = 0.1;

/** Result of an attempt at a target, for the decision about a retry. */
interface RetryState {
  /** Retries so far: 0 when the first attempt has failed. */
  readonly retry: number;
  /** Status of the failed attempt as a client would see it: the provider's, or that of the gateway's error. */
  readonly status: number;
  /** The answer's headers; empty when there was no answer. */
  readonly headers: HeaderList;
  /** Sum of all earlier waits of this request at this target. */
  readonly waitedMs: number;
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Wait before the next retry at the target, in whole milliseconds. Undefined: no retry, because the attempts are used
 * up, the status is not retryable, or the wait would bring the total above `retryBudgetMs`.
 *
 * The wait is 1, 2, 4, 8, 16 s; half of it is fixed and half is scaled by `random` (at least 0, below 1), so that
 * requests that failed together do not return together, and none returns at once. With `useRetryAfter` an answer
 * with 429 or 503, the two statuses for which the header is defined (RFC 6585, RFC 9110), sets the wait; up to a tenth,
 * at least 100 ms, is added to it. A wait of 60 s or more means no retry: another target is better.
 */
export function retryDelay(
  settings: RetrySettings,
  state: RetryState,
  random: () => number,
): number | undefined {
  const attempts = Math.min(settings.attempts, maxRetries);
  if (!(state.retry < attempts) || !settings.onStatusCodes.has(state.status)) return undefined;
  const left = retryBudgetMs - state.waitedMs;
  const asked = requestedDelay(settings, state);
  if (asked === undefined) {
    const backOff = Math.round(firstBackOffMs * 2 ** state.retry * (0.5 + random() / 2));
    return backOff > left ? undefined : backOff;
  }
  if (asked >= retryBudgetMs || asked > left) return undefined;
  // The added spread must not cost this request its retry.
  const spread = random() * Math.max(minSpreadMs, asked * spreadShare);
  return Math.floor(Math.min(left, Math.ceil(asked + spread)));
}

function requestedDelay({ useRetryAfter }: RetrySettings, state: RetryState): number | undefined {
  if (!useRetryAfter || (state.status !== 429 && state.status !== 503)) return undefined;
  return retryAfterMs(state.headers, state.now);
}
