import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { Window } from '../../core/ports/counters.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';

const Requests = (unit: string) =>
  Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1_000_000_000, description: `Most requests within any ${unit}.` }),
  );

/** `properties` repeats the name because strict ajv wants every required property declared where it is required. */
const needs = (property: string) => ({ required: [property], properties: { [property]: {} } });

/** Options of `rate-limit`. */
export const RateLimitSchema = Type.Object(
  {
    requests_per_minute: Requests('minute'),
    requests_per_hour: Requests('hour'),
    requests_per_day: Requests('24 hours'),
    per: Type.Optional(
      Type.Union([Type.Literal('key'), Type.Literal('workspace'), Type.Literal('organisation')], {
        default: 'key',
        description:
          'Who shares one count: each service key has its own, or a whole workspace or organisation.',
      }),
    ),
    name: Type.Optional(
      Type.String({
        pattern: '^[a-z0-9-]{0,64}$',
        default: '',
        description:
          'Limits with another name are counted apart. Without one, the pipelines with a rate limit count together.',
      }),
    ),
    on_store_failure: Type.Optional(
      Type.Union([Type.Literal('local'), Type.Literal('open'), Type.Literal('closed')], {
        default: 'local',
        description:
          'What happens while the shared counters (`storage.counters`) do not answer within 50 ms: `local` counts in this process, `open` lets requests through uncounted, `closed` refuses them with 503 `limits_unavailable`.',
      }),
    ),
  },
  {
    additionalProperties: false,
    anyOf: [needs('requests_per_minute'), needs('requests_per_hour'), needs('requests_per_day')],
  },
);

export type RateLimitOptions = Static<typeof RateLimitSchema>;
/** Who shares one count. */
export type Per = NonNullable<RateLimitOptions['per']>;

/** One limit of the options. */
export interface Limit {
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
export function limitsOf(options: RateLimitOptions): readonly Limit[] {
  return units.flatMap(({ unit, windowMs, option }) => {
    const limit = options[option];
    return limit === undefined ? [] : [{ unit, windowMs, limit }];
  });
}

/**
 * The counted windows of one caller. Their names hold neither the limit nor the place in the file, so that a
 * changed limit goes on counting where the old one was.
 */
export function windowsFor(
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

/** Ids are unique within what holds them, hence the whole path. */
function groupOf(key: KeyRecord, per: Per): readonly string[] {
  if (per === 'organisation') return [key.organisationId];
  return [key.organisationId, per === 'workspace' ? key.workspaceId : key.id];
}
