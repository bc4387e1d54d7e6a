import { GatewayError, Type, type Static } from '../../core/pipeline/plugin.ts';
import type { RateLimit, UsageLimit } from '../../core/ports/resources.ts';
import { Instant, orNull, strict } from './text-schema.ts';
import { readInstant } from './time-window.ts';

const most = Number.MAX_SAFE_INTEGER;

const UsageType = Type.Union([Type.Literal('cost'), Type.Literal('tokens')], {
  description: 'US dollars or tokens. Default `cost`.',
});
const Period = Type.Union([Type.Literal('monthly'), Type.Literal('weekly')]);

/** A usage limit as bodies give it and answers show it; the same for keys, workspaces, providers and integrations. */
export const UsageLimitSchema = Type.Object(
  {
    type: Type.Optional(UsageType),
    credit_limit: Type.Number({ minimum: 1, maximum: most, description: 'How much may be used.' }),
    alert_threshold: Type.Optional(
      orNull(
        Type.Number({ minimum: 1, maximum: most, description: 'Below `credit_limit`: when to tell people.' }),
      ),
    ),
    periodic_reset: Type.Optional(orNull(Period)),
    periodic_reset_days: Type.Optional(
      orNull(Type.Integer({ minimum: 1, maximum: 365, description: 'Instead of `periodic_reset`.' })),
    ),
    next_usage_reset_at: Type.Optional(orNull(Instant('When it begins anew for the first time.'))),
  },
  strict,
);

/** A rate limit as bodies give it and answers show it. */
export const RateLimitSchema = Type.Object(
  {
    type: Type.Union([Type.Literal('requests'), Type.Literal('tokens')]),
    unit: Type.Union(
      [
        Type.Literal('rps'),
        Type.Literal('rpm'),
        Type.Literal('rph'),
        Type.Literal('rpd'),
        Type.Literal('rpw'),
      ],
      { description: 'Per second, minute, hour, day or week.' },
    ),
    value: Type.Integer({ minimum: 0, maximum: most }),
  },
  strict,
);

/** The rate limits of a record. */
export const RateLimits = Type.Array(RateLimitSchema, { maxItems: 10 });

/**
 * A usage limit of a body. `pointer` is its place there. Throws `invalid_request` for two ways of beginning anew and
 * for a threshold that the limit never lets be reached.
 */
export function readUsageLimit(body: Static<typeof UsageLimitSchema>, pointer: string): UsageLimit {
  const reset = body.periodic_reset ?? undefined;
  const days = body.periodic_reset_days ?? undefined;
  const threshold = body.alert_threshold ?? undefined;
  const next = body.next_usage_reset_at ?? undefined;
  if (reset !== undefined && days !== undefined)
    throw refused(`${pointer}/periodic_reset_days`, 'cannot stand beside periodic_reset; give one of them');
  if (threshold !== undefined && threshold >= body.credit_limit)
    throw refused(`${pointer}/alert_threshold`, 'must be below credit_limit');
  return {
    type: body.type ?? 'cost',
    creditLimit: body.credit_limit,
    ...(threshold !== undefined && { alertThreshold: threshold }),
    ...(reset !== undefined && { periodicReset: reset }),
    ...(days !== undefined && { periodicResetDays: days }),
    ...(next !== undefined && { nextResetAt: readInstant(`${pointer}/next_usage_reset_at`, next) }),
  };
}

/** A usage limit as answers show it. */
export function showUsageLimit(limit: UsageLimit): Static<typeof UsageLimitSchema> {
  return {
    type: limit.type,
    credit_limit: limit.creditLimit,
    alert_threshold: limit.alertThreshold ?? null,
    periodic_reset: limit.periodicReset ?? null,
    periodic_reset_days: limit.periodicResetDays ?? null,
    next_usage_reset_at: limit.nextResetAt === undefined ? null : new Date(limit.nextResetAt).toISOString(),
  };
}

/** The rate limits of a body. Throws `invalid_request` when two of them limit the same in the same unit. */
export function readRateLimits(
  body: readonly Static<typeof RateLimitSchema>[],
  pointer: string,
): readonly RateLimit[] {
  const seen = new Set<string>();
  body.forEach(({ type, unit }, index) => {
    if (seen.has(`${type}/${unit}`))
      throw refused(`${pointer}/${index}`, `is a second limit of ${type} per ${unit}; keep one`);
    seen.add(`${type}/${unit}`);
  });
  return body.map(({ type, unit, value }) => ({ type, unit, value }));
}

function refused(path: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `The body is not valid: ${path} ${message}.`, {
    param: path,
    extra: { errors: [{ path, message }] },
  });
}
