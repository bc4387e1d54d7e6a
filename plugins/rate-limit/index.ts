import { callerKey } from '../../core/pipeline/keys.ts';
import {
  definePlugin,
  GatewayError,
  type RequestContext,
  type Static,
  Type,
} from '../../core/pipeline/plugin.ts';
import type { Decision, Window } from '../../core/ports/counters.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { needs } from '../../core/organisation/fields.ts';

const Requests = (unit: string) =>
  Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1_000_000_000, description: `Most requests within any ${unit}.` }),
  );

/** Options of `rate-limit`. */
const RateLimitSchema = Type.Object(
  {
    requests_per_minute: Requests('minute'),
    requests_per_hour: Requests('hour'),
    requests_per_day: Requests('24 hours'),
    per: Type.Optional(
      Type.Union([Type.Literal('key'), Type.Literal('workspace'), Type.Literal('organisation')], {
        default: 'key',
        description: 'Owner of a count: each service key, each workspace or each organisation.',
      }),
    ),
    name: Type.Optional(
      Type.String({
        pattern: '^[a-z0-9-]{0,64}$',
        default: '',
        description:
          'Limits with different names are counted separately. Pipelines with a rate limit without a name share one count.',
      }),
    ),
    on_store_failure: Type.Optional(
      Type.Union([Type.Literal('local'), Type.Literal('open'), Type.Literal('closed')], {
        default: 'local',
        description:
          'Behaviour while the shared counters (`storage.counters`) do not answer within 50 ms: `local` counts in this process, `open` lets requests through uncounted, `closed` refuses them with 503 `limits_unavailable`.',
      }),
    ),
  },
  {
    additionalProperties: false,
    anyOf: [needs('requests_per_minute'), needs('requests_per_hour'), needs('requests_per_day')],
  },
);

export type RateLimitOptions = Static<typeof RateLimitSchema>;
/** Scope of one count. */
type Per = NonNullable<RateLimitOptions['per']>;

/** One limit of the options. */
interface Limit {
  readonly unit: 'minute' | 'hour' | 'day';
  readonly limit: number;
  readonly windowMs: number;
}

const units = [
  { unit: 'minute', windowMs: 60_000, option: 'requests_per_minute' },
  { unit: 'hour', windowMs: 3_600_000, option: 'requests_per_hour' },
  { unit: 'day', windowMs: 86_400_000, option: 'requests_per_day' },
] as const;

/** The limits that are set, shortest window first. */
function limitsOf(options: RateLimitOptions): readonly Limit[] {
  return units.flatMap(({ unit, windowMs, option }) => {
    const limit = options[option];
    return limit === undefined ? [] : [{ unit, windowMs, limit }];
  });
}

/**
 * The counted windows of one caller. Their names hold neither the limit nor the place in the file, so that a
 * changed limit goes on counting where the old one was.
 */
function windowsFor(
  key: KeyRecord,
  rule: { readonly limits: readonly Limit[]; readonly per: Per; readonly name: string },
): readonly Window[] {
  const group = JSON.stringify(groupOf(key, rule.per));
  return rule.limits.map(({ unit, windowMs, limit }) => ({
    key: `requests:${unit}:${rule.name}:${rule.per}:${group}`,
    group: key.organisationId,
    limit,
    windowMs,
  }));
}

/** Ids are unique only within their parent, hence the whole path. */
function groupOf(key: KeyRecord, per: Per): readonly string[] {
  if (per === 'organisation') return [key.organisationId];
  return [key.organisationId, per === 'workspace' ? key.workspaceId : key.id];
}

/** Refuses a caller's requests beyond a number per minute, hour or day: 429 `rate_limited`. */
export default definePlugin({
  name: 'rate-limit',
  description:
    'Limits requests per minute, hour and day in sliding windows, and reports the window with the least left to the caller in `ratelimit-limit`, `-remaining` and `-reset` (seconds; 0 while requests are left) under the header prefix. These headers are absent while a shared store is unavailable and `on_store_failure` is `open`.',
  schema: RateLimitSchema,
  capabilities: { needs: ['key'] },
  create(options, { counters, headerPrefix }) {
    const limits = limitsOf(options);
    const { per = 'key', name = '', on_store_failure: onStoreFailure = 'local' } = options;
    const header = `${headerPrefix}-ratelimit`;
    const names = { limit: `${header}-limit`, remaining: `${header}-remaining`, reset: `${header}-reset` };
    // The windows of a key are garbage-collected with its record.
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
