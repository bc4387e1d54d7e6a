import { Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { ApiKeyDefaults, ApiKeyRecord } from '../../core/ports/resources.ts';
import { RateLimits, readRateLimits, readUsageLimit, UsageLimitSchema } from './limits-schema.ts';
import { refusedBody } from './refused-body.ts';
import { Description, Instant, Metadata, Name, orNull, strict } from './text-schema.ts';
import { readInstant } from './time-window.ts';
import type { ConfigNames } from './config-names.ts';
import { readDefaults } from './workspace-body.ts';

const Scopes = Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
  minItems: 1,
  maxItems: 300,
  description: 'What it may do: `completions.write`, `logs.view` …',
});

/** The usage limit of a key. */
export const KeyUsageLimit = Type.Object(
  {
    ...UsageLimitSchema.properties,
    current_usage: Type.Optional(
      orNull(
        Type.Number({
          description:
            'What was used since its period began. Answers say it; what a body says changes nothing.',
        }),
      ),
    ),
  },
  strict,
);

const fields = {
  description: Type.Optional(orNull(Description)),
  rate_limits: Type.Optional(orNull(RateLimits)),
  usage_limits: Type.Optional(orNull(KeyUsageLimit)),
  defaults: Type.Optional(
    Type.Object(
      {
        metadata: Type.Optional(Metadata),
        config_id: Type.Optional(orNull(Name('A config of this gateway.'))),
        allow_config_override: Type.Optional(Type.Boolean()),
        log_bodies: Type.Optional(
          orNull(
            Type.Boolean({
              description: 'False: what its requests send and are answered is never logged.',
            }),
          ),
        ),
      },
      strict,
    ),
  ),
  alert_emails: Type.Optional(
    orNull(Type.Array(Type.String({ format: 'email', maxLength: 255 }), { maxItems: 50 })),
  ),
  expires_at: Type.Optional(
    orNull(
      Instant(
        'From when on it is refused, ISO 8601 with a time zone; null: never. Default: never, and for keys of people what the settings say.',
      ),
    ),
  ),
  rotation_policy: Type.Optional(
    Type.Unknown({
      description:
        'Null, or refused: a secret that is made by itself is one that nobody has seen. Rotate with `POST /api-keys/{id}/rotate`.',
    }),
  ),
};

const KeyName = Name('Unique among the keys of its type in the workspace, or in the organisation.');
const OrganisationId = Type.Optional(Name("Default, and nothing else: the caller's organisation."));
const WorkspaceId = Type.Optional(
  Name("Id or slug. Default for workspace keys: the caller's workspace; others must say it."),
);
/** Some clients say in the body what the path says. */
const ofPath = (type: string, subType: string) => ({
  type: Type.Optional(Type.Literal(type, { description: 'As in the path.' })),
  'sub-type': Type.Optional(Type.Literal(subType, { description: 'As in the path.' })),
});
const made = { name: KeyName, scopes: Scopes, organisation_id: OrganisationId, ...fields };

/** What makes a key of the organisation. */
export const CreateOrganisationKey = Type.Object({ ...made, ...ofPath('organisation', 'service') }, strict);
/** What makes a service key of a workspace. */
export const CreateServiceKey = Type.Object(
  { ...made, ...ofPath('workspace', 'service'), workspace_id: WorkspaceId },
  strict,
);
/** What makes a key for somebody. */
export const CreateUserKey = Type.Object(
  {
    ...made,
    ...ofPath('workspace', 'user'),
    workspace_id: WorkspaceId,
    user_id: Type.Optional(
      Name(
        'Whose it is: the id or the e-mail address of a member of the workspace, or of an owner or admin of the organisation. Default: the caller, where the caller is somebody.',
      ),
    ),
  },
  strict,
);

/** What changes a key; what is not given stays. */
export const UpdateKey = Type.Object(
  {
    id: Type.Optional(Name('As in the path: some clients say it here as well.')),
    name: Type.Optional(KeyName),
    scopes: Type.Optional(Scopes),
    ...fields,
  },
  strict,
);

/** The part of a record that a body can say, its scopes apart. */
export type KeyContent = Pick<
  ApiKeyRecord,
  'name' | 'description' | 'rateLimits' | 'usageLimits' | 'defaults' | 'alertEmails' | 'expiresAt'
>;

type Body = Omit<Static<typeof UpdateKey>, 'scopes'>;

/** What the body makes of a key as it is. Throws `invalid_request`, with its place, for what cannot be. */
export function changedKey(
  body: Body,
  before: KeyContent,
  scope: Pick<Scope, 'clock'> & { readonly router: ConfigNames },
): KeyContent {
  const { usage_limits: usage, rate_limits: rates, alert_emails: emails } = body;
  refuseRotationPolicy(body.rotation_policy);
  return {
    name: body.name ?? before.name,
    description: body.description === undefined ? before.description : (body.description ?? ''),
    rateLimits: rates === undefined ? before.rateLimits : readRateLimits(rates ?? [], '/rate_limits'),
    usageLimits:
      usage === undefined
        ? before.usageLimits
        : usage === null
          ? undefined
          : readUsageLimit(usage, '/usage_limits'),
    defaults: body.defaults === undefined ? before.defaults : readKeyDefaults(body.defaults, scope.router),
    alertEmails: emails === undefined ? before.alertEmails : (emails ?? []),
    expiresAt: readExpiry(body.expires_at, before.expiresAt, scope.clock.now()),
  };
}

/** Throws `invalid_request` for anything but null: what it asks for would be of no use to anybody. */
function refuseRotationPolicy(policy: unknown): void {
  if (policy === undefined || policy === null) return;
  const message =
    'cannot be had: a secret that is made by itself is one that nobody has seen. Leave it out, and rotate with POST /api-keys/{id}/rotate, whose answer has the new secret';
  throw refusedBody([{ path: '/rotation_policy', message }]);
}

function readKeyDefaults(defaults: NonNullable<Body['defaults']>, router: ConfigNames): ApiKeyDefaults {
  const { allow_config_override: override, log_bodies: logBodies } = defaults;
  return {
    ...readDefaults(defaults, router),
    ...(override !== undefined && { allowConfigOverride: override }),
    ...(typeof logBodies === 'boolean' && { logBodies }),
  };
}

function readExpiry(
  text: string | null | undefined,
  before: number | undefined,
  now: number,
): number | undefined {
  if (text === undefined) return before;
  if (text === null) return undefined;
  const at = readInstant('/expires_at', text);
  if (at > now) return at;
  throw refusedBody([{ path: '/expires_at', message: 'lies in the past' }]);
}
