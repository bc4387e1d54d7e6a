import {
  bigint,
  boolean,
  customType,
  integer,
  json,
  jsonb,
  pgTable,
  primaryKey,
  text,
} from 'drizzle-orm/pg-core';
import type {
  OrganisationDefaults,
  SecuritySettings,
  SettingsCategory,
} from '../../core/ports/organisation-settings.ts';
import type { InviteRecord, UserRecord, WorkspaceRole } from '../../core/ports/people.ts';
import type { RecordKind, StoredRecord } from '../../core/ports/records.ts';
import type {
  ApiKeyDefaults,
  ApiKeyRecord,
  AuditEntry,
  KeyMoments,
  KeyRotation,
  WorkspaceDefaults,
  WorkspaceRecord,
} from '../../core/ports/resources.ts';
import type { RateLimit, UsageLimit } from '../../core/ports/budgets.ts';

// Columns as the statements see them. Indexes, checks and triggers are in `migrations/`, and a test compares the two.

/** A moment in milliseconds since the epoch, stored as `timestamptz`. */
const moment = customType<{ data: number; driverData: string }>({
  dataType: () => 'timestamp with time zone',
  toDriver: (milliseconds) => new Date(milliseconds).toISOString(),
  fromDriver: (written) => Date.parse(written),
});
const count = (name = '') => bigint(name, { mode: 'number' });

/** Organisations. */
export const organisations = pgTable('organisations', {
  id: text().primaryKey(),
  name: text().notNull(),
  createdAt: moment('created_at').notNull(),
});

/**
 * One row per organisation: number of its last change, number and hash of the last record of its audit chain, and
 * numbers of the last changes that touched workspaces, people, settings and records.
 */
export const organisationCounters = pgTable('organisation_counters', {
  organisationId: text('organisation_id').primaryKey(),
  changes: count().notNull().default(0),
  audits: count().notNull().default(0),
  auditHash: text('audit_hash').notNull(),
  workspacesChange: count('workspaces_change').notNull().default(0),
  peopleChange: count('people_change').notNull().default(0),
  settingsChange: count('settings_change').notNull().default(0),
  recordsChange: count('records_change').notNull().default(0),
});

/** Workspaces. */
export const workspaces = pgTable('workspaces', {
  id: text().primaryKey(),
  organisationId: text('organisation_id').notNull(),
  slug: text().notNull(),
  name: text().notNull(),
  description: text().notNull(),
  icon: text().notNull(),
  status: text().$type<WorkspaceRecord['status']>().notNull(),
  isDefault: boolean('is_default').notNull(),
  defaults: jsonb().$type<WorkspaceDefaults>().notNull(),
  usageLimits: jsonb('usage_limits').$type<readonly UsageLimit[]>().notNull(),
  rateLimits: jsonb('rate_limits').$type<readonly RateLimit[]>().notNull(),
  createdAt: moment('created_at').notNull(),
  updatedAt: moment('updated_at').notNull(),
  version: integer().notNull(),
});

/**
 * Service keys with the hashes of their secrets: the present one, and after a rotation the one before it. `change` is
 * the number of the organisation's change that stored the row.
 */
export const apiKeys = pgTable('api_keys', {
  id: text().primaryKey(),
  organisationId: text('organisation_id').notNull(),
  workspaceId: text('workspace_id'),
  userId: text('user_id').notNull(),
  name: text().notNull(),
  description: text().notNull(),
  type: text().$type<ApiKeyRecord['type']>().notNull(),
  status: text().$type<ApiKeyRecord['status']>().notNull(),
  scopes: text().array().notNull(),
  rateLimits: jsonb('rate_limits').$type<readonly RateLimit[]>().notNull(),
  usageLimits: jsonb('usage_limits').$type<UsageLimit>(),
  defaults: jsonb().$type<ApiKeyDefaults>().notNull(),
  alertEmails: text('alert_emails').array().notNull(),
  masked: text().notNull(),
  creationMode: text('creation_mode').$type<ApiKeyRecord['creationMode']>().notNull(),
  expiresAt: moment('expires_at'),
  createdAt: moment('created_at').notNull(),
  updatedAt: moment('updated_at').notNull(),
  version: integer().notNull(),
  change: count().notNull(),
  secretHash: text('secret_hash'),
  secretEndsAt: moment('secret_ends_at'),
  replacedHash: text('replaced_hash'),
  replacedEndsAt: moment('replaced_ends_at'),
  rotation: jsonb().$type<Omit<KeyRotation, 'nextAt'>>(),
  nextRotationAt: moment('next_rotation_at'),
  told: jsonb().$type<KeyMoments>().notNull().default({}),
});

/** Lengths of lists, kept by triggers. */
export const listTotals = pgTable(
  'list_totals',
  {
    organisationId: text('organisation_id').notNull(),
    list: text().notNull(),
    part: text().notNull(),
    kind: text().notNull(),
    total: count().notNull(),
  },
  (table) => [primaryKey({ columns: [table.organisationId, table.list, table.part, table.kind] })],
);

/** Removed rows of the tables that directories follow, with the number of the change that removed them. */
export const removals = pgTable(
  'removals',
  {
    organisationId: text('organisation_id').notNull(),
    list: text().notNull(),
    id: text().notNull(),
    change: count().notNull(),
    removedAt: moment('removed_at').notNull(),
  },
  (table) => [primaryKey({ columns: [table.organisationId, table.list, table.id] })],
);

/** People of organisations. */
export const users = pgTable('users', {
  id: text().primaryKey(),
  organisationId: text('organisation_id').notNull(),
  email: text().notNull(),
  firstName: text('first_name').notNull(),
  lastName: text('last_name').notNull(),
  role: text().$type<UserRecord['role']>().notNull(),
  createdAt: moment('created_at').notNull(),
  updatedAt: moment('updated_at').notNull(),
  version: integer().notNull(),
});

/** Membership of users in workspaces. */
export const members = pgTable(
  'members',
  {
    organisationId: text('organisation_id').notNull(),
    workspaceId: text('workspace_id').notNull(),
    userId: text('user_id').notNull(),
    role: text().$type<WorkspaceRole>().notNull(),
    createdAt: moment('created_at').notNull(),
    updatedAt: moment('updated_at').notNull(),
    version: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.organisationId, table.workspaceId, table.userId] })],
);

/** Invitations into organisations, without their tokens. */
export const invites = pgTable('invites', {
  id: text().primaryKey(),
  organisationId: text('organisation_id').notNull(),
  email: text().notNull(),
  role: text().$type<InviteRecord['role']>().notNull(),
  workspaces: jsonb().$type<InviteRecord['workspaces']>().notNull(),
  keyScopes: text('key_scopes').array().notNull(),
  status: text().$type<InviteRecord['status']>().notNull(),
  tokenHash: text('token_hash').notNull(),
  invitedBy: text('invited_by').notNull(),
  expiresAt: moment('expires_at').notNull(),
  acceptedAt: moment('accepted_at'),
  createdAt: moment('created_at').notNull(),
  updatedAt: moment('updated_at').notNull(),
  version: integer().notNull(),
});

/** Groups of the identity provider and the workspaces that they grant. */
export const groupMappings = pgTable('group_mappings', {
  id: text().primaryKey(),
  organisationId: text('organisation_id').notNull(),
  workspaceId: text('workspace_id').notNull(),
  role: text().$type<WorkspaceRole>().notNull(),
  groupId: text('group_id').notNull(),
  groupName: text('group_name').notNull(),
  createdAt: moment('created_at').notNull(),
});

/** Settings of organisations, once changed. */
export const organisationSettings = pgTable('organisation_settings', {
  organisationId: text('organisation_id').primaryKey(),
  security: jsonb().$type<SecuritySettings>().notNull(),
  overridable: text().array().$type<SettingsCategory[]>().notNull(),
  defaults: jsonb().$type<OrganisationDefaults>().notNull(),
  updatedAt: moment('updated_at').notNull(),
  version: integer().notNull(),
});

/** Settings by which workspaces override their organisation. */
export const workspaceSettings = pgTable(
  'workspace_settings',
  {
    organisationId: text('organisation_id').notNull(),
    workspaceId: text('workspace_id').notNull(),
    overrides: jsonb().$type<Partial<SecuritySettings>>().notNull(),
    updatedAt: moment('updated_at').notNull(),
    version: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.organisationId, table.workspaceId] })],
);

/**
 * Records of every kind. `change` is the number of the organisation's change that stored the row, a version of it, or a
 * label; `size` the length of `data` in bytes.
 */
export const records = pgTable('records', {
  id: text().primaryKey(),
  organisationId: text('organisation_id').notNull(),
  kind: text().$type<RecordKind>().notNull(),
  workspaceId: text('workspace_id'),
  slug: text().notNull(),
  name: text().notNull(),
  status: text().$type<StoredRecord['status']>().notNull(),
  parentId: text('parent_id').notNull(),
  data: json().$type<unknown>().notNull(),
  size: integer().notNull(),
  secrets: jsonb().$type<StoredRecord['secrets']>().notNull(),
  createdBy: text('created_by').notNull(),
  updatedBy: text('updated_by').notNull(),
  createdAt: moment('created_at').notNull(),
  updatedAt: moment('updated_at').notNull(),
  version: integer().notNull(),
  change: count().notNull(),
});

/** Earlier versions of records. Only the label of a row changes. */
export const recordVersions = pgTable('record_versions', {
  id: text().primaryKey(),
  organisationId: text('organisation_id').notNull(),
  recordId: text('record_id').notNull(),
  number: integer().notNull(),
  name: text().notNull(),
  data: json().$type<unknown>().notNull(),
  description: text().notNull(),
  labelId: text('label_id').notNull(),
  createdBy: text('created_by').notNull(),
  createdAt: moment('created_at').notNull(),
});

const auditEntryColumns = () => ({
  organisationId: text('organisation_id').notNull(),
  number: count().notNull(),
  id: text().notNull(),
  workspaceId: text('workspace_id').notNull(),
  at: moment().notNull(),
  actorType: text('actor_type').$type<AuditEntry['actorType']>().notNull(),
  actorId: text('actor_id').notNull(),
  actorName: text('actor_name').notNull(),
  action: text().notNull(),
  resourceType: text('resource_type').notNull(),
  resourceId: text('resource_id').notNull(),
  method: text().notNull(),
  uri: text().notNull(),
  requestId: text('request_id').notNull(),
  status: integer().notNull(),
  clientIp: text('client_ip').notNull(),
  details: text().notNull(),
});

/** The audit chains. Append-only: a trigger refuses everything else. */
export const auditLogs = pgTable(
  'audit_logs',
  { ...auditEntryColumns(), hash: text().notNull() },
  (table) => [primaryKey({ columns: [table.organisationId, table.number] })],
);

/** Refused attempts, outside the chains. `number` is that of the chain's last record at the time. */
export const refusedAttempts = pgTable(
  'refused_attempts',
  { ...auditEntryColumns(), seq: bigint({ mode: 'number' }).generatedAlwaysAsIdentity() },
  (table) => [primaryKey({ columns: [table.organisationId, table.number, table.seq] })],
);

/** Use of budgets since `epoch`, in whole units, and the claimed alerts. */
export const budgetUsage = pgTable('budget_usage', {
  key: text().primaryKey(),
  organisationId: text('organisation_id').notNull(),
  epoch: count().notNull(),
  used: count().notNull(),
  thresholdMark: text('threshold_mark').notNull().default(''),
  exhaustedMark: text('exhausted_mark').notNull().default(''),
  updatedAt: moment('updated_at').notNull(),
  since: count(),
  corrections: integer().notNull().default(0),
});
