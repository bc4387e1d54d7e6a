import { callerKey } from '../../core/pipeline/keys.ts';
import { definePlugin, GatewayError, type RequestContext } from '../../core/pipeline/plugin.ts';
import type { Decision, Window } from '../../core/ports/counters.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { type Limit, limitsOf, type Per, RateLimitSchema, windowsFor } from './limits.ts';

/** Refuses a caller's requests beyond so many per minute, hour or day: 429 `rate_limited`. */
export default definePlugin({
  name: 'rate-limit',
  description:
    'Limits requests per minute, hour and day in sliding windows, and tells the caller what is left in `ratelimit-limit`, `-remaining` and `-reset` (seconds; 0 while something is left) under the header prefix: those of the window with the least left. Says nothing there while a shared store is away and the limit `open`.',
  schema: RateLimitSchema,
  capabilities: { needs: ['key'] },
  create(options, { counters, headerPrefix }) {
    const limits = limitsOf(options);
    const { per = 'key', name = '', on_store_failure: onStoreFailure = 'local' } = options;
    const header = `${headerPrefix}-ratelimit`;
    const names = { limit: `${header}-limit`, remaining: `${header}-remaining`, reset: `${header}-reset` };
    // A record lives as long as its key is known, so the windows built for it are dropped with it.
    const windowsByKey = new WeakMap<KeyRecord, readonly Window[]>();

    function decide(context: RequestContext, decision: Decision): void {
      const index = decision.allowed ? tightest(decision) : decision.refusedBy;
      const state = decision.windows[index];
      if (state === undefined) return;
      const reset = Math.ceil(state.resetMs / 1000);
      context.addResponseHeader(names.limit, String(state.limit));
      context.addResponseHeader(names.remaining, String(state.remaining));
      context.addResponseHeader(names.reset, String(reset));
      if (!decision.allowed) throw refusal(limits[index], per, Math.max(1, reset));
    }

    return {
      request(context) {
        const key = context.get(callerKey);
        if (key === undefined) return undefined;
        let windows = windowsByKey.get(key);
        if (windows === undefined) windowsByKey.set(key, (windows = windowsFor(key, { limits, per, name })));
        const decision = counters.take(windows, 1, onStoreFailure);
        if ('then' in decision) return decision.then((decided) => decide(context, decided));
        return decide(context, decision);
      },
    };
  },
});

/** The window with the least left; of several, the one that takes longest to recover. */
function tightest({ windows }: Decision): number {
  let best = 0;
  for (let index = 1; index < windows.length; index++) {
    const one = windows[index];
    const other = windows[best];
    if (one === undefined || other === undefined || one.remaining > other.remaining) continue;
    if (one.remaining < other.remaining || one.resetMs > other.resetMs) best = index;
  }
  return best;
}

function refusal(limit: Limit | undefined, per: Per, seconds: number): GatewayError {
  const rule = limit === undefined ? '' : `: ${limit.limit} requests per ${limit.unit} for this ${per}`;
  return new GatewayError('rate_limited', `The rate limit is reached${rule}. Try again in ${seconds} s.`, {
    limit:
      limit === undefined ? undefined : `rate-limit per ${per} (${limit.limit} requests per ${limit.unit})`,
    headers: ['retry-after', String(seconds)],
  });
}
