import { Type, type Static } from 'typebox';
import { RotationPolicy } from '../../organisation/key-rotation.ts';
import { RateLimits, UsageLimitSchema } from '../../organisation/limits.ts';
import { AllowedModelNames, Description, Instant, Metadata, strict } from '../../organisation/fields.ts';

/** Format name in the first line of every export; its number changes with the shape. */
export const exportFormat = 'weir-export-1';

const Id = Type.String({ minLength: 1, maxLength: 255 });
const Text = Type.String({ maxLength: 255 });
const Moment = Instant('ISO 8601 with a time zone.');
const Hash = Type.String({ pattern: '^[A-Za-z0-9+/]{43}=$', 'x-expected': 'a SHA-256 in base64' });
const Scopes = Type.Array(Text, { maxItems: 300 });
const WorkspaceRole = Type.Union([Type.Literal('manager'), Type.Literal('member')]);
const Version = Type.Integer({ minimum: 1, maximum: 2_147_483_647 });
const changed = { created_at: Moment, updated_at: Moment, version: Version };
const defaults = { metadata: Type.Optional(Metadata), config_id: Type.Optional(Id) };
const ByPhase = Type.Object(
  { input: Type.Array(Id, { maxItems: 1000 }), output: Type.Array(Id, { maxItems: 1000 }) },
  strict,
);
const guardedDefaults = { ...defaults, guardrails: Type.Optional(ByPhase) };

/** A workspace of an export. */
const ExportedWorkspace = Type.Object(
  {
    id: Id,
    slug: Id,
    name: Text,
    description: Description,
    icon: Text,
    status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
    is_default: Type.Boolean(),
    defaults: Type.Object({ ...guardedDefaults, allowed_models: Type.Optional(AllowedModelNames) }, strict),
    usage_limits: Type.Array(UsageLimitSchema, { maxItems: 10 }),
    rate_limits: RateLimits,
    ...changed,
  },
  strict,
);

/** A service key of an export. Holds only hashes of its secrets. */
const ExportedKey = Type.Object(
  {
    id: Id,
    type: Type.Union([
      Type.Literal('organisation-service'),
      Type.Literal('workspace-service'),
      Type.Literal('workspace-user'),
    ]),
    workspace_id: Type.Optional(Id),
    user_id: Type.Optional(Id),
    name: Text,
    description: Description,
    status: Type.Union([Type.Literal('active'), Type.Literal('exhausted'), Type.Literal('expired')]),
    scopes: Scopes,
    rate_limits: RateLimits,
    usage_limits: Type.Optional(UsageLimitSchema),
    defaults: Type.Object(
      {
        ...defaults,
        allowed_models: Type.Optional(AllowedModelNames),
        allow_config_override: Type.Optional(Type.Boolean()),
        log_bodies: Type.Optional(Type.Boolean()),
      },
      strict,
    ),
    alert_emails: Type.Array(Text, { maxItems: 50 }),
    masked: Text,
    hashes: Type.Array(Type.Object({ sha256: Hash, expires_at: Type.Optional(Moment) }, strict), {
      maxItems: 2,
    }),
    creation_mode: Type.Union([Type.Literal('ui'), Type.Literal('api'), Type.Literal('auto')]),
    expires_at: Type.Optional(Moment),
    rotation_policy: Type.Optional(RotationPolicy),
    ...changed,
  },
  strict,
);

/** A user of an export. */
const ExportedUser = Type.Object(
  {
    id: Id,
    email: Id,
    first_name: Text,
    last_name: Text,
    role: Type.Union([Type.Literal('owner'), Type.Literal('admin'), Type.Literal('member')]),
    ...changed,
  },
  strict,
);

/** A membership of an export. */
const ExportedMember = Type.Object(
  { workspace_id: Id, user_id: Id, role: WorkspaceRole, ...changed },
  strict,
);

/** A pending invite of an export. Holds only a hash of its token. */
const ExportedInvite = Type.Object(
  {
    id: Id,
    email: Id,
    role: Type.Union([Type.Literal('admin'), Type.Literal('member')]),
    workspaces: Type.Array(Type.Object({ id: Id, role: WorkspaceRole }, strict), { maxItems: 100 }),
    key_scopes: Scopes,
    token_sha256: Hash,
    invited_by: Text,
    expires_at: Moment,
    ...changed,
  },
  strict,
);

/** A group mapping of an export. */
const ExportedMapping = Type.Object(
  {
    id: Id,
    workspace_id: Id,
    role: WorkspaceRole,
    group_id: Type.Optional(Id),
    group_name: Type.Optional(Id),
    created_at: Moment,
  },
  strict,
);

const on = Type.Boolean();
const count = Type.Optional(Type.Integer({ minimum: 0, maximum: 2_147_483_647 }));

const Security = Type.Object(
  {
    data_visibility: Type.Object(
      {
        membersViewAllData: on,
        managersViewAllData: on,
        membersViewAnalytics: on,
        managersViewAnalytics: on,
      },
      strict,
    ),
    prompts: Type.Object(
      { membersViewPrompts: on, membersWritePrompts: on, managersViewPrompts: on, managersWritePrompts: on },
      strict,
    ),
    configs: Type.Object(
      { membersViewConfigs: on, membersWriteConfigs: on, managersViewConfigs: on, managersWriteConfigs: on },
      strict,
    ),
    user_api_keys: Type.Object(
      { maxPerWorkspace: count, defaultDays: count, maxDays: count, rotationDays: count },
      strict,
    ),
    // Absent in older files.
    logging: Type.Optional(
      Type.Object({ mode: Type.Union([Type.Literal('full'), Type.Literal('metadata')]) }, strict),
    ),
  },
  strict,
);

/** Settings of an organisation and its workspaces. */
const ExportedSettings = Type.Object(
  {
    security: Security,
    overridable: Type.Array(
      Type.Union([
        Type.Literal('data_visibility'),
        Type.Literal('prompts'),
        Type.Literal('configs'),
        Type.Literal('user_api_keys'),
        Type.Literal('logging'),
      ]),
      { maxItems: 5 },
    ),
    defaults: Type.Object({ ...guardedDefaults, excluded_workspaces: Type.Optional(ByPhase) }, strict),
  },
  strict,
);

/** Overrides of a workspace. */
const ExportedOverrides = Type.Object(
  { workspace_id: Id, overrides: Type.Partial(Security, strict) },
  strict,
);

const maxRecords = 1_000_000;

/** Everything of one organisation except its audit trail. */
const ExportedOrganisation = Type.Object(
  {
    id: Id,
    name: Text,
    created_at: Moment,
    settings: Type.Optional(ExportedSettings),
    workspaces: Type.Array(ExportedWorkspace, { maxItems: maxRecords }),
    workspace_settings: Type.Array(ExportedOverrides, { maxItems: maxRecords }),
    users: Type.Array(ExportedUser, { maxItems: maxRecords }),
    members: Type.Array(ExportedMember, { maxItems: maxRecords }),
    keys: Type.Array(ExportedKey, { maxItems: maxRecords }),
    invites: Type.Array(ExportedInvite, { maxItems: maxRecords }),
    group_mappings: Type.Array(ExportedMapping, { maxItems: maxRecords }),
  },
  strict,
);

/** The file that `weir export` writes and `weir import` reads. */
export const ExportFile = Type.Object(
  {
    format: Type.Literal(exportFormat),
    organisations: Type.Array(ExportedOrganisation, { maxItems: 10_000 }),
  },
  strict,
);

/** One organisation of an export. */
export type ExportedOrganisationData = Static<typeof ExportedOrganisation>;
