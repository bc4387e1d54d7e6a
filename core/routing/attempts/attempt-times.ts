import type { HeaderList } from '../../ports/header-list.ts';
import type { RetrySettings } from '../plan/plan-node.ts';
import { retryAfterMs } from '../../base/retry-after.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { AttemptOptions } from '../../pipeline/router.ts';

/** The bounds of one attempt that reach across its phases. Made only for attempts that have one. */
export class AttemptTimers {
  private cancelWhole: (() => void) | undefined;
  private cancelToken: (() => void) | undefined;

  /** The first that runs out calls `cut` with the error that the client is to see. */
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

  /** The first token has come. */
  firstToken(): void {
    this.cancelToken?.();
    this.cancelToken = undefined;
  }

  /** The attempt has ended. */
  over(): void {
    this.firstToken();
    this.cancelWhole?.();
    this.cancelWhole = undefined;
  }
}

/** The most attempts after the first one, whatever a config says. */
export const maxRetries = 5;
/** What all waits of one request at one target may add up to. */
export const retryBudgetMs = 60_000;

const firstBackOffMs = 1000;
/** A provider tells all that it turns away the same moment; they come back spread over this much more, at least. */
const leastSpreadMs = 100;
const spreadShare = 0.1;

/** How an attempt at a target came out, for deciding about the next one there. */
export interface RetryState {
  /** Retries made before: 0 when the first attempt has failed. */
  readonly retry: number;
  /** What a client would see of the attempt that failed: the provider's status, or that of the gateway's error. */
  readonly status: number;
  /** The answer's headers; empty when there was no answer. */
  readonly headers: HeaderList;
  /** What was waited before, all waits of this request at this target together. */
  readonly waitedMs: number;
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number;
}

/**
 * How long to wait before the target is tried again, in whole milliseconds. Undefined: it is not tried again, because
 * the attempts are used up, the status is none to retry, or the wait would bring the total above `retryBudgetMs`.
 *
 * The wait is 1, 2, 4, 8, 16 s, of which half is certain and half is left to `random` (at least 0, below 1): requests
 * that failed together then do not return together, and still none returns at once. With `useRetryAfter` an answer
 * with 429 or 503, the two statuses for which the header is defined (RFC 6585, RFC 9110), says itself how long; up to a
 * tenth, at least 100 ms, is added to that. One that asks for 60 s or more is not waited for: another target is better.
 */
export function retryDelay(
  settings: RetrySettings,
  state: RetryState,
  random: () => number,
): number | undefined {
  const attempts = Math.min(settings.attempts, maxRetries);
  if (!(state.retry < attempts) || !settings.onStatusCodes.has(state.status)) return undefined;
  const left = retryBudgetMs - state.waitedMs;
  const asked = askedFor(settings, state);
  if (asked === undefined) {
    const backOff = Math.round(firstBackOffMs * 2 ** state.retry * (0.5 + random() / 2));
    return backOff > left ? undefined : backOff;
  }
  if (asked >= retryBudgetMs || asked > left) return undefined;
  // The wait that is added for others' sake must not cost this request its retry.
  const spread = random() * Math.max(leastSpreadMs, asked * spreadShare);
  return Math.floor(Math.min(left, Math.ceil(asked + spread)));
}

function askedFor({ useRetryAfter }: RetrySettings, state: RetryState): number | undefined {
  if (!useRetryAfter || (state.status !== 429 && state.status !== 503)) return undefined;
  return retryAfterMs(state.headers, state.now);
}
