import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { WorkspaceDefaults, WorkspaceRecord } from '../../core/ports/resources.ts';
import type { ConfigNames } from './config-names.ts';
import { RateLimits, readRateLimits, readUsageLimit, UsageLimitSchema } from './limits-schema.ts';
import { refusedBody } from './refused-body.ts';
import { Description, Metadata, Name, orNull, strict } from './text-schema.ts';

const fields = {
  description: Type.Optional(orNull(Description)),
  icon: Type.Optional(orNull(Type.String({ maxLength: 255 }))),
  defaults: Type.Optional(
    Type.Object(
      {
        metadata: Type.Optional(Metadata),
        config_id: Type.Optional(orNull(Name('A config of this gateway.'))),
      },
      strict,
    ),
  ),
  usage_limits: Type.Optional(orNull(Type.Array(UsageLimitSchema, { maxItems: 10 }))),
  rate_limits: Type.Optional(orNull(RateLimits)),
};

const WorkspaceName = Name('Unique in the organisation.');

/** What makes a workspace. */
export const CreateWorkspace = Type.Object(
  {
    name: WorkspaceName,
    ...fields,
    users: Type.Optional(
      Type.Array(Name('The id or the e-mail address of somebody of the organisation.'), {
        maxItems: 100,
        description: 'Who its members are from the beginning, with the role `member`.',
      }),
    ),
  },
  strict,
);

/** What changes one; what is not given stays, and lists are replaced as a whole. */
export const UpdateWorkspace = Type.Object({ name: Type.Optional(WorkspaceName), ...fields }, strict);

/** The part of a record that a body can say. */
export type WorkspaceContent = Pick<
  WorkspaceRecord,
  'name' | 'description' | 'icon' | 'defaults' | 'usageLimits' | 'rateLimits'
>;

/** What the body makes of a workspace as it is. Throws `invalid_request`, with its place, for what cannot be. */
export function changedWorkspace(
  body: Static<typeof UpdateWorkspace>,
  before: WorkspaceContent,
  router: ConfigNames,
): WorkspaceContent {
  const { usage_limits: usage, rate_limits: rates } = body;
  return {
    name: body.name ?? before.name,
    description: body.description === undefined ? before.description : (body.description ?? ''),
    icon: body.icon === undefined ? before.icon : (body.icon ?? ''),
    defaults: body.defaults === undefined ? before.defaults : readDefaults(body.defaults, router),
    usageLimits:
      usage === undefined
        ? before.usageLimits
        : (usage ?? []).map((limit, index) => readUsageLimit(limit, `/usage_limits/${index}`)),
    rateLimits: rates === undefined ? before.rateLimits : readRateLimits(rates ?? [], '/rate_limits'),
  };
}

/**
 * Metadata and config that requests begin with, at `pointer` of the body. Throws `invalid_request` when there is no such
 * config.
 */
export function readDefaults(
  { metadata, config_id: configId }: { metadata?: Record<string, string>; config_id?: string | null },
  router: ConfigNames,
  pointer = '/defaults',
): WorkspaceDefaults {
  const missing = typeof configId === 'string' ? router.missingConfig(configId) : undefined;
  if (missing !== undefined) throw refusedBody([{ path: `${pointer}/config_id`, message: missing }]);
  return {
    ...(metadata !== undefined && { metadata }),
    ...(typeof configId === 'string' && { configId }),
  };
}
