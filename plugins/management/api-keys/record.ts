import { keyBudgetKey } from '../../../core/access/limit-charges.ts';
import { type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { ApiKeyDefaults, ApiKeyRecord } from '../../../core/ports/resources.ts';
import {
  rotationIssues,
  rotationOf,
  RotationPolicy,
  showRotation,
} from '../../../core/organisation/key-rotation.ts';
import { RateLimits } from '../../../core/organisation/limits.ts';
import { limitFields, limitSchemas } from '../shared/limits.ts';
import {
  AllowedModelNames,
  Description,
  Instant,
  ManagedBy,
  Metadata,
  Name,
  orNull,
  readInstant,
  refusedBody,
  strict,
} from '../shared/fields.ts';
import type { DefaultNames } from '../configs/uses.ts';
import { workspaceDefaults } from '../workspaces/defaults.ts';
import type { ApiKeyType } from '../../../core/access/scopes.ts';

/** Changes and shows the record of a key. */
export const keyRecord = { changed: changedKey, resetUsage: resetKeyUsage, show: showApiKey };

/** Example of a secret, for the reference. */
const secretExample = 'wk_the-new-secret-of-forty-random-characters';

/** Scopes that keys of each type can hold. */
const scopesExample: Readonly<Record<ApiKeyType, readonly string[]>> = {
  'organisation-service': ['workspaces.list', 'audit_logs.list'],
  'workspace-service': ['completions.write', 'logs.view'],
  'workspace-user': ['completions.write', 'logs.view'],
};

/** Example of a key, for the reference. */
const apiKeyExample: Static<typeof ApiKeyReply> = {
  id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f',
  key: 'wk_Qz…7f',
  name: 'batch',
  description: 'Nightly',
  type: 'workspace-service',
  status: 'active',
  creation_mode: 'api',
  managed_by: 'api',
  user_id: null,
  organisation_id: '0198a1c2-0000-7c4d-8e5f-6a7b8c9d0e1f',
  workspace_id: '0198a1c2-1111-7c4d-8e5f-6a7b8c9d0e1f',
  created_at: '2026-11-21T09:00:00.000Z',
  last_updated_at: '2026-11-21T09:00:00.000Z',
  rate_limits: [{ type: 'requests', unit: 'rpm', value: 600 }],
  usage_limits: {
    type: 'cost',
    credit_limit: 100,
    alert_threshold: 80,
    current_usage: 12.5,
    periodic_reset: 'monthly',
    periodic_reset_days: null,
    next_usage_reset_at: null,
  },
  current_usage: 12.5,
  scopes: [...scopesExample['workspace-service']],
  defaults: {
    metadata: { team: 'research' },
    config_id: null,
    allowed_models: null,
    allow_config_override: true,
    log_bodies: null,
  },
  alert_emails: ['ann@example.com'],
  expires_at: '2030-01-01T00:00:00.000Z',
  last_reset_at: '2026-12-01T00:00:00.000Z',
  next_usage_reset_at: '2027-01-01T00:00:00.000Z',
  key_transition_expires_at: null,
  rotation_policy: {
    rotation_period: 'monthly',
    rotation_period_days: null,
    next_rotation_at: '2026-12-01T00:00:00.000Z',
    key_transition_period_ms: 86_400_000,
  },
  object: 'api-key',
};

/** Examples, for the reference. */
export const keyExamples = { secret: secretExample, scopes: scopesExample, key: apiKeyExample };

const Scopes = Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
  minItems: 1,
  maxItems: 300,
  description: 'Scopes of the key: `completions.write`, `logs.view` …',
});

const fields = {
  description: Type.Optional(orNull(Description)),
  rate_limits: Type.Optional(orNull(RateLimits)),
  usage_limits: Type.Optional(orNull(limitSchemas.UsageLimit)),
  defaults: Type.Optional(
    Type.Object(
      {
        metadata: Type.Optional(Metadata),
        config_id: Type.Optional(orNull(Name('A config of this gateway.'))),
        allowed_models: Type.Optional(orNull(AllowedModelNames)),
        allow_config_override: Type.Optional(Type.Boolean()),
        log_bodies: Type.Optional(
          orNull(
            Type.Boolean({
              description: 'False: bodies of its requests and answers are never logged.',
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
        'Expiry time, ISO 8601 with a time zone; null: never. Default: never, and for user keys the lifetime in the settings.',
      ),
    ),
  ),
  rotation_policy: Type.Optional(orNull(RotationPolicy)),
};

const KeyName = Name('Unique among the keys of its type in the workspace, or in the organisation.');
const OrganisationId = Type.Optional(Name("Default, and nothing else: the caller's organisation."));
const WorkspaceId = Type.Optional(
  Name("Id or slug. Default for workspace keys: the caller's workspace; others must say it."),
);
/** Members that some clients repeat from the path. */
const ofPath = (type: string, subType: string) => ({
  type: Type.Optional(Type.Literal(type, { description: 'Same value as in the path.' })),
  'sub-type': Type.Optional(Type.Literal(subType, { description: 'Same value as in the path.' })),
});
const made = { name: KeyName, scopes: Scopes, organisation_id: OrganisationId, ...fields };

/** Body that creates a key of the organisation. */
const CreateOrganisationKey = Type.Object({ ...made, ...ofPath('organisation', 'service') }, strict);
/** Body that creates a service key of a workspace. */
const CreateServiceKey = Type.Object(
  { ...made, ...ofPath('workspace', 'service'), workspace_id: WorkspaceId },
  strict,
);
/** Body that creates a user key. */
const CreateUserKey = Type.Object(
  {
    ...made,
    ...ofPath('workspace', 'user'),
    workspace_id: WorkspaceId,
    user_id: Type.Optional(
      Name(
        'User of the key: id or e-mail address of a member of the workspace, or of an owner or admin of the organisation. Default: the caller, if the caller is a user.',
      ),
    ),
  },
  strict,
);

/** Body that changes a key; absent members stay unchanged. */
const UpdateKey = Type.Object(
  {
    id: Type.Optional(Name('As in the path: some clients say it here as well.')),
    name: Type.Optional(KeyName),
    scopes: Type.Optional(Scopes),
    ...fields,
    reset_usage: limitSchemas.ResetUsage,
  },
  strict,
);

/** Members of a record that a body can set, except its scopes. */
export type KeyContent = Pick<
  ApiKeyRecord,
  | 'name'
  | 'description'
  | 'rateLimits'
  | 'usageLimits'
  | 'defaults'
  | 'alertEmails'
  | 'expiresAt'
  | 'rotation'
>;

type Body = Omit<Static<typeof UpdateKey>, 'scopes'>;

/** The key after the change by the body. Throws `invalid_request`, with the place, for an invalid value. */
function changedKey(
  body: Body,
  before: KeyContent,
  scope: Pick<Scope, 'clock'> & { readonly router: DefaultNames },
): KeyContent {
  const { usage_limits: usage, rate_limits: rates, alert_emails: emails } = body;
  return {
    name: body.name ?? before.name,
    description: body.description === undefined ? before.description : (body.description ?? ''),
    rateLimits: rates === undefined ? before.rateLimits : limitFields.readRates(rates ?? []),
    usageLimits:
      usage === undefined
        ? before.usageLimits
        : usage === null
          ? undefined
          : limitFields.readUsage(usage, '/usage_limits'),
    defaults: body.defaults === undefined ? before.defaults : readKeyDefaults(body.defaults, scope.router),
    alertEmails: emails === undefined ? before.alertEmails : (emails ?? []),
    expiresAt: readExpiry(body.expires_at, before.expiresAt, scope.clock.now()),
    rotation: readRotation(body.rotation_policy, before.rotation, scope.clock.now()),
  };
}

function readRotation(
  given: Body['rotation_policy'],
  before: KeyContent['rotation'],
  now: number,
): KeyContent['rotation'] {
  if (given === undefined) return before;
  if (given === null) return undefined;
  const { next_rotation_at: next } = given;
  const nextAt =
    typeof next === 'string' ? readInstant('/rotation_policy/next_rotation_at', next) : undefined;
  const policy = { ...given, nextAt };
  const issues = rotationIssues(policy, now, before?.nextAt);
  if (issues.length > 0) throw refusedBody(issues);
  return rotationOf(policy, now, before);
}

function readKeyDefaults(defaults: NonNullable<Body['defaults']>, router: DefaultNames): ApiKeyDefaults {
  const { allow_config_override: override, log_bodies: logBodies } = defaults;
  return {
    ...workspaceDefaults.read(defaults, router),
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

/** A key as the API shows it: never its secret. */
const ApiKeyReply = Type.Object({
  id: Type.String(),
  key: Type.String({ description: 'Masked secret; the full secret is shown only once, at creation.' }),
  name: Type.String(),
  description: Type.String(),
  type: Type.Union([
    Type.Literal('organisation-service'),
    Type.Literal('workspace-service'),
    Type.Literal('workspace-user'),
  ]),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String()),
  user_id: orNull(Type.String()),
  status: Type.Union([Type.Literal('active'), Type.Literal('exhausted'), Type.Literal('expired')]),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  creation_mode: Type.Union([Type.Literal('ui'), Type.Literal('api'), Type.Literal('auto')]),
  rate_limits: RateLimits,
  usage_limits: orNull(limitSchemas.UsageLimit),
  current_usage: orNull(
    Type.Number({
      description:
        'Usage since the start of the period of `usage_limits` or since the last reset, in the unit of the limit. Null without such a limit.',
    }),
  ),
  scopes: Type.Array(Type.String()),
  defaults: Type.Object({
    metadata: Metadata,
    config_id: orNull(Type.String()),
    allowed_models: orNull(AllowedModelNames),
    allow_config_override: Type.Boolean(),
    log_bodies: orNull(
      Type.Boolean({
        description:
          'False: bodies of its requests and answers are never logged. Otherwise the settings of the workspace and the configuration decide.',
      }),
    ),
  }),
  alert_emails: Type.Array(Type.String()),
  expires_at: orNull(Type.String()),
  ...limitSchemas.ResetTimes,
  key_transition_expires_at: orNull(
    Type.String({
      description:
        'End of the time in which the previous secret is also accepted after a rotation. For a rotation that is due by policy: end of the time in which the current secret is accepted, even if it has passed; `POST /api-keys/{id}/rotate` returns the new secret.',
    }),
  ),
  rotation_policy: orNull(RotationPolicy),
  managed_by: ManagedBy,
  object: Type.Literal('api-key'),
});

/** Bodies and replies of keys. */
export const keySchemas = {
  CreateOrganisation: CreateOrganisationKey,
  CreateService: CreateServiceKey,
  CreateUser: CreateUserKey,
  Update: UpdateKey,
  Reply: ApiKeyReply,
};

/** Budget of a key's usage limit. */
function budgetOf({ id, organisationId, createdAt }: ApiKeyRecord) {
  return { prefix: keyBudgetKey(organisationId, id), organisationId, createdAt };
}

/** Resets the usage counted against a key's usage limit. */
async function resetKeyUsage(record: ApiKeyRecord, { budgets }: Pick<Scope, 'budgets'>): Promise<void> {
  const { usageLimits } = record;
  if (usageLimits !== undefined) await limitFields.resetUsed([usageLimits], budgetOf(record), budgets);
}

/** Converts a stored key to the API's shape, with its current usage. */
function showApiKey(
  record: ApiKeyRecord,
  { clock, budgets }: Pick<Scope, 'clock' | 'budgets'>,
): Static<typeof ApiKeyReply> {
  const { expiresAt, usageLimits, defaults } = record;
  const now = clock.now();
  const limit = usageLimits && limitFields.showUsed(usageLimits, budgetOf(record), budgets);
  const isExpired = expiresAt !== undefined && expiresAt <= now;
  const isUsedUp =
    usageLimits !== undefined && limitFields.isExhausted(usageLimits, budgetOf(record), budgets);
  return {
    id: record.id,
    key: record.masked,
    name: record.name,
    description: record.description,
    type: record.type,
    organisation_id: record.organisationId,
    workspace_id: record.workspaceId ?? null,
    user_id: record.userId === '' ? null : record.userId,
    status: isExpired ? 'expired' : isUsedUp ? 'exhausted' : record.status,
    created_at: isoOf(record.createdAt),
    last_updated_at: isoOf(record.updatedAt),
    creation_mode: record.creationMode,
    rate_limits: record.rateLimits.map(({ type, unit, value }) => ({ type, unit, value })),
    usage_limits: limit ?? null,
    ...limitFields.showResetTimes(usageLimits === undefined ? [] : [usageLimits], budgetOf(record), {
      budgets,
      clock,
    }),
    current_usage: limit?.current_usage ?? null,
    scopes: [...record.scopes],
    defaults: {
      metadata: { ...defaults.metadata },
      config_id: defaults.configId ?? null,
      allowed_models: workspaceDefaults.shownModels(defaults),
      allow_config_override: defaults.allowConfigOverride ?? true,
      log_bodies: defaults.logBodies ?? null,
    },
    alert_emails: [...record.alertEmails],
    expires_at: expiresAt === undefined ? null : isoOf(expiresAt),
    key_transition_expires_at: transitionEnd(record, now),
    rotation_policy: record.rotation === undefined ? null : showRotation(record.rotation),
    managed_by: record.managedBy ?? 'api',
    object: 'api-key',
  };
}

function transitionEnd({ secrets }: ApiKeyRecord, now: number): string | null {
  const [present, before] = secrets;
  const end = present?.expiresAt ?? before?.expiresAt;
  return end === undefined || (end <= now && present?.expiresAt === undefined) ? null : isoOf(end);
}

function isoOf(at: number): string {
  return new Date(at).toISOString();
}
