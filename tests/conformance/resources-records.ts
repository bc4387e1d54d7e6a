import { randomUUID } from 'node:crypto';
import { sha256 } from '../../core/base/bytes.ts';
import type { GroupMappingRecord, InviteRecord, MemberRecord, UserRecord } from '../../core/ports/people.ts';
import type { RecordVersion, StoredRecord } from '../../core/ports/records.ts';
import type {
  ApiKeyRecord,
  AuditEntry,
  OrganisationRecord,
  Resources,
  WorkspaceRecord,
} from '../../core/ports/resources.ts';

const createdAt = Date.parse('2026-03-01T10:00:00.123Z');

/** An organisation that no other test uses. */
export function anOrganisation(): OrganisationRecord {
  const id = `org-${randomUUID()}`;
  return { id, name: `Organisation ${id}`, createdAt };
}

/** A workspace with every field set, some of them as given. */
export function aWorkspace(organisationId: string, given: Partial<WorkspaceRecord> = {}): WorkspaceRecord {
  const id = given.id ?? randomUUID();
  return {
    id,
    organisationId,
    slug: `ws-${id.slice(0, 6)}-${id.slice(-6)}`,
    name: `Workspace ${id}`,
    description: 'For trying things',
    icon: '🌊',
    status: 'active',
    isDefault: false,
    defaults: {
      metadata: { team: 'blue', 'odd "key"': 'a\\b' },
      configId: 'pc-default',
      allowedModels: ['m-*'],
    },
    usageLimits: [{ type: 'cost', creditLimit: 12.5, alertThreshold: 10, periodicResetDays: 30 }],
    rateLimits: [{ type: 'requests', unit: 'rpm', value: 600 }],
    createdAt,
    updatedAt: createdAt + 1,
    version: 1,
    ...given,
  };
}

/** A key with every field set, some of them as given. */
export function aKey(organisationId: string, given: Partial<ApiKeyRecord> = {}): ApiKeyRecord {
  const id = given.id ?? randomUUID();
  return {
    id,
    organisationId,
    workspaceId: 'the-workspace',
    userId: '',
    name: `Key ${id}`,
    description: 'For a service',
    type: 'workspace-service',
    status: 'active',
    scopes: ['completions.write', 'odd "scope", {x} \\ NULL', ''],
    rateLimits: [{ type: 'tokens', unit: 'rpd', value: 9_007_199_254_740_991 }],
    usageLimits: { type: 'tokens', creditLimit: 1e6, periodicReset: 'monthly', nextResetAt: createdAt + 5 },
    defaults: {
      metadata: { team: 'red' },
      configId: 'pc-1',
      allowedModels: ['a', 'b*'],
      allowConfigOverride: false,
    },
    alertEmails: ['ops@example.com'],
    masked: 'wk_ab…yz',
    creationMode: 'api',
    secrets: [{ hash: sha256(`secret of ${id}`, 'base64'), expiresAt: undefined }],
    expiresAt: createdAt + 86_400_001,
    rotation: { days: 30, transitionMs: 1_800_000, nextAt: createdAt + 7 },
    createdAt,
    updatedAt: createdAt + 2,
    version: 1,
    ...given,
  };
}

/** A user with every field set, some of them as given. */
export function aUser(organisationId: string, given: Partial<UserRecord> = {}): UserRecord {
  const id = given.id ?? randomUUID();
  return {
    id,
    organisationId,
    email: `${id}@example.com`,
    firstName: 'Ada',
    lastName: 'Löwe 🦁',
    role: 'member',
    createdAt,
    updatedAt: createdAt + 3,
    version: 1,
    ...given,
  };
}

/** The user's membership of `the-workspace`, some fields as given. */
export function aMember(user: UserRecord, given: Partial<MemberRecord> = {}): MemberRecord {
  return {
    organisationId: user.organisationId,
    workspaceId: 'the-workspace',
    userId: user.id,
    role: 'member',
    createdAt,
    updatedAt: createdAt + 4,
    version: 1,
    ...given,
  };
}

/** An invite with every field set, some of them as given. It ends a day after it was made. */
export function anInvite(organisationId: string, given: Partial<InviteRecord> = {}): InviteRecord {
  const id = given.id ?? randomUUID();
  return {
    id,
    organisationId,
    email: `${id}@example.com`,
    role: 'member',
    status: 'pending',
    workspaces: [
      { id: 'the-workspace', role: 'manager' },
      { id: 'another "one"', role: 'member' },
    ],
    keyScopes: ['completions.write', 'odd "scope", {x} \\ NULL'],
    tokenHash: sha256(`token of ${id}`, 'base64'),
    invitedBy: 'user-1',
    expiresAt: createdAt + 86_400_000,
    acceptedAt: undefined,
    createdAt,
    updatedAt: createdAt + 5,
    version: 1,
    ...given,
  };
}

/** A group mapping with every field set, some of them as given. */
export function aGroupMapping(
  organisationId: string,
  given: Partial<GroupMappingRecord> = {},
): GroupMappingRecord {
  const id = given.id ?? randomUUID();
  return {
    id,
    organisationId,
    workspaceId: 'the-workspace',
    role: 'member',
    groupId: `group-${id}`,
    groupName: '',
    createdAt,
    ...given,
  };
}

/** A config of `the-workspace` with every field set, some of them as given. */
export function aRecord(
  organisationId: string,
  given: Partial<StoredRecord<'config'>> = {},
): StoredRecord<'config'> {
  const id = given.id ?? randomUUID();
  return {
    kind: 'config',
    id,
    organisationId,
    workspaceId: 'the-workspace',
    slug: `pc-${id}`,
    name: `Config ${id} 🌊`,
    status: 'active',
    parentId: 'the-parent',
    data: { config: { zeta: [1.5, null], alpha: { y: '"', x: '\\' } }, isDefault: false },
    secrets: { key: `sealed ${id}` },
    createdBy: 'user-1',
    updatedBy: 'user-2',
    createdAt,
    updatedAt: createdAt + 6,
    version: 1,
    ...given,
  };
}

/** A version of the record with every field set but its label, some of them as given. */
export function aVersion(
  { id: recordId, name }: StoredRecord<'config'>,
  given: Partial<RecordVersion<'config'>> = {},
): Omit<RecordVersion<'config'>, 'number'> {
  const id = given.id ?? randomUUID();
  return {
    id,
    recordId,
    name,
    data: { config: { of: id }, isDefault: true },
    description: `Version ${id}`,
    labelId: '',
    createdBy: 'user-1',
    createdAt,
    ...given,
  };
}

/** An entry of the audit log with every field set, some of them as given. */
export function anEntry(organisationId: string, given: Partial<AuditEntry> = {}): AuditEntry {
  const id = given.id ?? randomUUID();
  return {
    id,
    organisationId,
    workspaceId: 'the-workspace',
    at: createdAt,
    actorType: 'api_key',
    actorId: 'key-1',
    actorName: 'Deployment',
    action: 'create',
    resourceType: 'workspaces',
    resourceId: 'ws-1',
    method: 'POST',
    uri: '/v1/workspaces?x=1',
    requestId: `request-${id}`,
    status: 200,
    clientIp: '192.0.2.1',
    details: '{"body":{"name":"Blue"}}',
    ...given,
  };
}

/** Stores an organisation that no other test uses, in one change, and gives its id. */
export async function newOrganisation(resources: Resources): Promise<string> {
  const organisation = anOrganisation();
  await resources.write(organisation.id, (writer) => writer.organisations.ensure(organisation));
  return organisation.id;
}

/** The number of the last change of an organisation; 0 before the first. */
export async function changeOf(resources: Resources, organisationId: string): Promise<number> {
  return (await resources.changes()).get(organisationId) ?? 0;
}
