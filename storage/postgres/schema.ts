import {
  bigint,
  boolean,
  customType,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  smallint,
  text,
} from 'drizzle-orm/pg-core';
import type {
  ApiKeyDefaults,
  ApiKeyRecord,
  AuditEntry,
  RateLimit,
  UsageLimit,
  WorkspaceDefaults,
  WorkspaceRecord,
} from '../../core/ports/resources.ts';

// Columns as the statements see them. Indexes, checks and triggers are in `migrations/`, and a test compares the two.

/** A moment in milliseconds since the epoch, stored as `timestamptz`. */
const moment = customType<{ data: number; driverData: string }>({
  dataType: () => 'timestamp with time zone',
  toDriver: (milliseconds) => new Date(milliseconds).toISOString(),
  fromDriver: (written) => Date.parse(written),
});
const count = () => bigint({ mode: 'number' });

/** Organisations. */
export const organisations = pgTable('organisations', {
  id: text().primaryKey(),
  name: text().notNull(),
  createdAt: moment('created_at').notNull(),
});

/** One row per organisation: number of its last change, number and hash of the last record of its audit chain. */
export const organisationCounters = pgTable('organisation_counters', {
  organisationId: text('organisation_id').primaryKey(),
  changes: count().notNull().default(0),
  audits: count().notNull().default(0),
  auditHash: text('audit_hash').notNull(),
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

/** Service keys, without their secrets. `change` is the number of the organisation's change that stored the row. */
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
});

/** Hashes of the keys' secrets: the present one at position 0, the one before it at 1. */
export const apiKeySecrets = pgTable(
  'api_key_secrets',
  {
    organisationId: text('organisation_id').notNull(),
    apiKeyId: text('api_key_id').notNull(),
    position: smallint().notNull(),
    hash: text().notNull(),
    expiresAt: moment('expires_at'),
  },
  (table) => [primaryKey({ columns: [table.organisationId, table.apiKeyId, table.position] })],
);

/** Keys that are gone, with the number of the change that removed them. */
export const apiKeyRemovals = pgTable(
  'api_key_removals',
  {
    organisationId: text('organisation_id').notNull(),
    apiKeyId: text('api_key_id').notNull(),
    change: count().notNull(),
    removedAt: moment('removed_at').notNull(),
  },
  (table) => [primaryKey({ columns: [table.organisationId, table.apiKeyId] })],
);

/** The audit chains. Append-only: a trigger refuses everything else. */
export const auditLogs = pgTable(
  'audit_logs',
  {
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
    hash: text().notNull(),
  },
  (table) => [primaryKey({ columns: [table.organisationId, table.number] })],
);
