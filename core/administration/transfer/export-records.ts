import { rotationOf, showRotation } from '../../organisation/key-rotation.ts';
import { rateLimitsOf, showUsageLimit, usageLimitOf } from '../../organisation/limits.ts';
import type { GroupMappingRecord, InviteRecord, MemberRecord, UserRecord } from '../../ports/people.ts';
import type { ApiKeyRecord, WorkspaceDefaults, WorkspaceRecord } from '../../ports/resources.ts';
import type { ExportedOrganisationData as Shown } from './export-schema.ts';
import {
  defaultSecurity,
  type DefaultGuardrails,
  type OrganisationDefaults,
  type OrganisationSettings,
  type SecuritySettings,
  type UserKeyRules,
  type WorkspaceSettings,
} from '../../ports/organisation-settings.ts';

// The order of members is that of the file.

interface Dated {
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly version: number;
}
interface ShownDates {
  readonly created_at: string;
  readonly updated_at: string;
  readonly version: number;
}
interface ShownDefaults {
  readonly metadata?: Readonly<Record<string, string>>;
  readonly config_id?: string;
  allowed_models?: string[];
  guardrails?: { input: string[]; output: string[] };
  excluded_workspaces?: { input: string[]; output: string[] };
}

/** A moment in milliseconds as text. */
export function isoOf(at: number): string {
  return new Date(at).toISOString();
}

function datesOf({ createdAt, updatedAt, version }: Dated): ShownDates {
  return { created_at: isoOf(createdAt), updated_at: isoOf(updatedAt), version };
}

function readDates({ created_at: created, updated_at: updated, version }: ShownDates): Dated {
  return { createdAt: Date.parse(created), updatedAt: Date.parse(updated), version };
}

/** Metadata and config in the file's form. */
function showDefaults({
  metadata,
  configId,
  guardrails,
  excludedWorkspaces,
  allowedModels,
}: OrganisationDefaults & WorkspaceDefaults): ShownDefaults {
  return {
    ...(metadata !== undefined && { metadata: { ...metadata } }),
    ...(configId !== undefined && { config_id: configId }),
    ...(allowedModels !== undefined && { allowed_models: [...allowedModels] }),
    ...(guardrails !== undefined && { guardrails: byPhase(guardrails) }),
    ...(excludedWorkspaces !== undefined && { excluded_workspaces: byPhase(excludedWorkspaces) }),
  };
}

function byPhase({ input, output }: DefaultGuardrails): { input: string[]; output: string[] } {
  return { input: [...input], output: [...output] };
}

/** Metadata and config of the file. */
function readDefaults({
  metadata,
  config_id: configId,
  guardrails,
  excluded_workspaces: excludedWorkspaces,
  allowed_models: allowedModels,
}: ShownDefaults): OrganisationDefaults & WorkspaceDefaults {
  return {
    ...(metadata !== undefined && { metadata }),
    ...(configId !== undefined && { configId }),
    ...(allowedModels !== undefined && { allowedModels }),
    ...(guardrails !== undefined && { guardrails }),
    ...(excludedWorkspaces !== undefined && { excludedWorkspaces }),
  };
}

/** A workspace in the file's form. */
function showWorkspace(record: WorkspaceRecord): Shown['workspaces'][number] {
  return {
    id: record.id,
    slug: record.slug,
    name: record.name,
    description: record.description,
    icon: record.icon,
    status: record.status,
    is_default: record.isDefault,
    defaults: showDefaults(record.defaults),
    usage_limits: record.usageLimits.map((limit) => showUsageLimit(limit)),
    rate_limits: [...rateLimitsOf(record.rateLimits)],
    ...datesOf(record),
  };
}

/** A workspace of the file. */
function readWorkspace(shown: Shown['workspaces'][number], organisationId: string): WorkspaceRecord {
  return {
    id: shown.id,
    organisationId,
    slug: shown.slug,
    name: shown.name,
    description: shown.description,
    icon: shown.icon,
    status: shown.status,
    isDefault: shown.is_default,
    defaults: readDefaults(shown.defaults),
    usageLimits: shown.usage_limits.map((limit) => usageLimitOf(limit)),
    rateLimits: rateLimitsOf(shown.rate_limits),
    ...readDates(shown),
  };
}

/** A service key in the file's form. */
function showKey(record: ApiKeyRecord): Shown['keys'][number] {
  const { workspaceId, userId, usageLimits, defaults, expiresAt, rotation } = record;
  const { allowConfigOverride: override, logBodies } = defaults;
  return {
    id: record.id,
    type: record.type,
    ...(workspaceId !== undefined && { workspace_id: workspaceId }),
    ...(userId !== '' && { user_id: userId }),
    name: record.name,
    description: record.description,
    status: record.status,
    scopes: [...record.scopes],
    rate_limits: [...rateLimitsOf(record.rateLimits)],
    ...(usageLimits !== undefined && { usage_limits: showUsageLimit(usageLimits) }),
    defaults: {
      ...showDefaults(defaults),
      ...(override !== undefined && { allow_config_override: override }),
      ...(logBodies !== undefined && { log_bodies: logBodies }),
    },
    alert_emails: [...record.alertEmails],
    masked: record.masked,
    hashes: record.secrets.map(({ hash, expiresAt: end }) => ({
      sha256: hash,
      ...(end !== undefined && { expires_at: isoOf(end) }),
    })),
    creation_mode: record.creationMode,
    ...(expiresAt !== undefined && { expires_at: isoOf(expiresAt) }),
    ...(rotation !== undefined && { rotation_policy: showRotation(rotation) }),
    ...datesOf(record),
  };
}

/** A service key of the file. */
function readKey(shown: Shown['keys'][number], organisationId: string): ApiKeyRecord {
  const { usage_limits: usage, expires_at: expires, rotation_policy: policy } = shown;
  const { allow_config_override: override, log_bodies: logBodies } = shown.defaults;
  return {
    id: shown.id,
    organisationId,
    type: shown.type,
    workspaceId: shown.workspace_id,
    userId: shown.user_id ?? '',
    name: shown.name,
    description: shown.description,
    status: shown.status,
    scopes: shown.scopes,
    rateLimits: rateLimitsOf(shown.rate_limits),
    usageLimits: usage === undefined ? undefined : usageLimitOf(usage),
    defaults: {
      ...readDefaults(shown.defaults),
      ...(override !== undefined && { allowConfigOverride: override }),
      ...(logBodies !== undefined && { logBodies }),
    },
    alertEmails: shown.alert_emails,
    masked: shown.masked,
    secrets: shown.hashes.map(({ sha256, expires_at: end }) => ({
      hash: sha256,
      expiresAt: end === undefined ? undefined : Date.parse(end),
    })),
    creationMode: shown.creation_mode,
    expiresAt: expires === undefined ? undefined : Date.parse(expires),
    rotation:
      typeof policy?.next_rotation_at === 'string'
        ? rotationOf({ ...policy, nextAt: Date.parse(policy.next_rotation_at) }, 0, undefined)
        : undefined,
    ...readDates(shown),
  };
}

/** A user in the file's form. */
function showUser(record: UserRecord): Shown['users'][number] {
  const { id, email, firstName, lastName, role } = record;
  return { id, email, first_name: firstName, last_name: lastName, role, ...datesOf(record) };
}

/** A user of the file. */
function readUser(shown: Shown['users'][number], organisationId: string): UserRecord {
  const { id, email, first_name: firstName, last_name: lastName, role } = shown;
  return { id, organisationId, email: email.toLowerCase(), firstName, lastName, role, ...readDates(shown) };
}

/** A membership in the file's form. */
function showMember(record: MemberRecord): Shown['members'][number] {
  const { workspaceId, userId, role } = record;
  return { workspace_id: workspaceId, user_id: userId, role, ...datesOf(record) };
}

/** A membership of the file. */
function readMember(shown: Shown['members'][number], organisationId: string): MemberRecord {
  const { workspace_id: workspaceId, user_id: userId, role } = shown;
  return { organisationId, workspaceId, userId, role, ...readDates(shown) };
}

/** A pending invite in the file's form. */
function showInvite(record: InviteRecord): Shown['invites'][number] {
  return {
    id: record.id,
    email: record.email,
    role: record.role,
    workspaces: record.workspaces.map(({ id, role }) => ({ id, role })),
    key_scopes: [...record.keyScopes],
    token_sha256: record.tokenHash,
    invited_by: record.invitedBy,
    expires_at: isoOf(record.expiresAt),
    ...datesOf(record),
  };
}

/** A pending invite of the file. */
function readInvite(shown: Shown['invites'][number], organisationId: string): InviteRecord {
  return {
    id: shown.id,
    organisationId,
    email: shown.email.toLowerCase(),
    role: shown.role,
    workspaces: shown.workspaces,
    keyScopes: shown.key_scopes,
    status: 'pending',
    tokenHash: shown.token_sha256,
    invitedBy: shown.invited_by,
    expiresAt: Date.parse(shown.expires_at),
    acceptedAt: undefined,
    ...readDates(shown),
  };
}

/** A group mapping in the file's form. */
function showMapping(record: GroupMappingRecord): Shown['group_mappings'][number] {
  const { id, workspaceId, role, groupId, groupName } = record;
  return {
    id,
    workspace_id: workspaceId,
    role,
    ...(groupId !== '' && { group_id: groupId }),
    ...(groupName !== '' && { group_name: groupName }),
    created_at: isoOf(record.createdAt),
  };
}

/** A group mapping of the file. */
function readMapping(shown: Shown['group_mappings'][number], organisationId: string): GroupMappingRecord {
  const { id, workspace_id: workspaceId, role, group_id: groupId = '', group_name: groupName = '' } = shown;
  return {
    id,
    organisationId,
    workspaceId,
    role,
    groupId,
    groupName,
    createdAt: Date.parse(shown.created_at),
  };
}

type ShownSecurity = NonNullable<Shown['settings']>['security'];
type ShownRules = ShownSecurity['user_api_keys'];

/** Settings in the file's form; undefined while they are unchanged. */
function showSettings(settings: OrganisationSettings): Shown['settings'] {
  if (settings.version === 0) return undefined;
  const { security, overridable, defaults } = settings;
  const { user_api_keys: rules, ...switches } = security;
  return {
    security: { ...switches, user_api_keys: showRules(rules) },
    overridable: [...overridable],
    defaults: showDefaults(defaults),
  };
}

/** Settings of the file. */
function readSettings(
  shown: NonNullable<Shown['settings']>,
): Pick<OrganisationSettings, 'security' | 'overridable' | 'defaults'> {
  const { security, overridable, defaults } = shown;
  const { user_api_keys: rules, logging = defaultSecurity.logging, ...switches } = security;
  return {
    security: { ...switches, user_api_keys: readRules(rules), logging },
    overridable,
    defaults: readDefaults(defaults),
  };
}

/** Overrides of a workspace in the file's form. */
function showOverrides({
  workspaceId,
  overrides,
}: Pick<WorkspaceSettings, 'workspaceId' | 'overrides'>): Shown['workspace_settings'][number] {
  const { user_api_keys: rules, ...switches } = overrides;
  return {
    workspace_id: workspaceId,
    overrides: { ...switches, ...(rules !== undefined && { user_api_keys: showRules(rules) }) },
  };
}

/** Overrides of a workspace of the file. */
function readOverrides({ overrides }: Shown['workspace_settings'][number]): Partial<SecuritySettings> {
  const { user_api_keys: rules, ...switches } = overrides;
  return { ...switches, ...(rules !== undefined && { user_api_keys: readRules(rules) }) };
}

function showRules({ maxPerWorkspace, defaultDays, maxDays, rotationDays }: UserKeyRules): ShownRules {
  return {
    ...(maxPerWorkspace !== undefined && { maxPerWorkspace }),
    ...(defaultDays !== undefined && { defaultDays }),
    ...(maxDays !== undefined && { maxDays }),
    ...(rotationDays !== undefined && { rotationDays }),
  };
}

function readRules({ maxPerWorkspace, defaultDays, maxDays, rotationDays }: ShownRules): UserKeyRules {
  return { maxPerWorkspace, defaultDays, maxDays, ...(rotationDays !== undefined && { rotationDays }) };
}

/** The form of each kind of records in the file: `show` makes it, `read` is the inverse. */
export const exported = {
  workspace: { show: showWorkspace, read: readWorkspace },
  key: { show: showKey, read: readKey },
  user: { show: showUser, read: readUser },
  member: { show: showMember, read: readMember },
  invite: { show: showInvite, read: readInvite },
  mapping: { show: showMapping, read: readMapping },
  settings: { show: showSettings, read: readSettings },
  overrides: { show: showOverrides, read: readOverrides },
};
