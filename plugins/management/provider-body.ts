import { plainProvider, providerFields } from '../../core/organisation/provider-schema.ts';
import { Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { ProviderData } from '../../core/ports/record-kinds.ts';
import { GivenSlug } from './integration-body.ts';
import { BodyUsageLimit, rateLimitsOfBody, usageLimitOfBody } from './provider-limits.ts';
import { refusedBody } from './refused-body.ts';
import { Name, strict } from './text-schema.ts';

/** Existing clients say it with an update. */
export const ResetUsage = Type.Optional(
  Type.Boolean({ description: 'What was used so far counts no more.' }),
);

/** What makes a provider. */
export const CreateProvider = Type.Object(
  {
    name: Name('For people.'),
    integration_id: Name('Id or slug of an integration that the workspace may use.'),
    workspace_id: Type.Optional(Name('Id or slug. Default: the workspace of the key.')),
    slug: Type.Optional(GivenSlug),
    ...providerFields,
    usage_limits: BodyUsageLimit,
  },
  strict,
);

/** What changes one; what is not given stays. */
export const UpdateProvider = Type.Object(
  {
    name: Type.Optional(Name('For people.')),
    workspace_id: Type.Optional(Name('Its workspace, for keys of the organisation that name it by slug.')),
    ...providerFields,
    usage_limits: BodyUsageLimit,
    reset_usage: ResetUsage,
  },
  strict,
);

/** The part of a body that a provider keeps. */
export type ProviderBody = Pick<
  Static<typeof UpdateProvider>,
  'note' | 'usage_limits' | 'rate_limits' | 'expires_at'
>;

/** What the body makes of a provider as it is. Throws `invalid_request` for limits and times that cannot be. */
export function changedProvider(
  body: ProviderBody,
  { clock }: Pick<Scope, 'clock'>,
  before: ProviderData = plainProvider,
): ProviderData {
  const { note, usage_limits: usage, rate_limits: rates, expires_at: expires } = body;
  return {
    note: note === undefined ? before.note : (note ?? ''),
    usageLimits: usage === undefined ? before.usageLimits : usageLimitOfBody(usage),
    rateLimits: rates === undefined ? before.rateLimits : rateLimitsOfBody(rates),
    expiresAt: expires === undefined ? before.expiresAt : timeOf(expires, clock.now()),
    isVirtualKey: before.isVirtualKey,
  };
}

function timeOf(text: string | null, now: number): number | undefined {
  if (text === null) return undefined;
  const at = Date.parse(text);
  if (at > now) return at;
  if (!Number.isNaN(at)) throw refusedBody([{ path: '/expires_at', message: 'lies in the past' }]);
  throw refusedBody([{ path: '/expires_at', message: 'must be an ISO 8601 time like 2030-01-31T00:00:00Z' }]);
}
