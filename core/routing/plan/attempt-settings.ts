import type { CacheSettings } from '../../ports/cache.ts';
import type { BreakerInput, RouteConfigInput } from '../../organisation/route-config.ts';
import { maxRetries } from '../attempts/retry-delay.ts';
import type { ParamEdits } from '../params/param-edits.ts';
import type { Inherited } from './inherit-settings.ts';
import type { AttemptSettings, BreakerSettings, RetrySettings } from './plan-node.ts';

/** How the tries at a target with these settings are made. */
export function attemptSettings(own: Inherited, params: ParamEdits | undefined): AttemptSettings {
  return {
    params,
    retry: retrySettings(own.retry),
    requestTimeoutMs: timeoutMs(own.requestTimeout),
    firstTokenTimeoutMs: timeoutMs(own.firstTokenTimeout),
    idleTimeoutMs: timeoutMs(own.idleTimeout),
    cache: cacheSettings(own.cache),
    customHost: own.destination.customHost,
    forwardHeaders: own.forwardHeaders,
    strictOpenAiCompliance: own.strictOpenAiCompliance,
    onDrop: own.onDrop,
    apiKey: own.destination.apiKey,
    fields: own.destination.fields,
  };
}

/** Zero is how a target undoes what it would inherit. */
function timeoutMs(written: number | undefined): number | undefined {
  return written === 0 ? undefined : written;
}

const retriedStatusCodes: readonly number[] = [429, 500, 502, 503, 504, 529];

function retrySettings(retry: RouteConfigInput['retry']): RetrySettings | undefined {
  if (retry === undefined) return undefined;
  return {
    attempts: Math.min(retry.attempts, maxRetries),
    onStatusCodes: new Set(retry.on_status_codes ?? retriedStatusCodes),
    useRetryAfter: retry.use_retry_after_headers ?? false,
  };
}

function cacheSettings(cache: RouteConfigInput['cache']): CacheSettings | undefined {
  if (cache === undefined) return undefined;
  if (typeof cache === 'string') return { mode: cache, maxAgeMs: undefined, threshold: undefined };
  const { mode, max_age: maxAge, threshold } = cache;
  return { mode, maxAgeMs: maxAge === undefined ? undefined : maxAge * 1000, threshold };
}

/** Below this many requests within the minute the share of failures says nothing. */
const minimumRequests = 10;

/** When a target is left alone. */
export function breakerSettings(breaker: BreakerInput | undefined): BreakerSettings | undefined {
  if (breaker === undefined) return undefined;
  const codes = breaker.failure_status_codes;
  return {
    failureThreshold: breaker.failure_threshold,
    failureThresholdPercentage: breaker.failure_threshold_percentage,
    minimumRequests: breaker.minimum_requests ?? minimumRequests,
    cooldownMs: breaker.cooldown_interval,
    failureStatusCodes: codes === undefined ? undefined : new Set(codes),
  };
}
