import { randomUUID } from 'node:crypto';
import type { MemberRecord, UserRecord } from '../../../core/ports/people.ts';
import type { ApiKeyRecord, Resources } from '../../../core/ports/resources.ts';

/** A user with the role `member` and a unique address, unless overridden. */
export function aUser(organisationId: string, overrides: Partial<UserRecord> = {}): UserRecord {
  const id = overrides.id ?? randomUUID();
  return {
    id,
    organisationId,
    email: `${id}@example.com`,
    firstName: 'Ann',
    lastName: 'Lee',
    role: 'member',
    createdAt: 1,
    updatedAt: 1,
    version: 1,
    ...overrides,
  };
}

/** Stores a user of `aUser`. */
export async function addUser(
  resources: Resources,
  organisationId: string,
  overrides: Partial<UserRecord> = {},
): Promise<UserRecord> {
  const user = aUser(organisationId, overrides);
  await resources.write(organisationId, ({ users }) => users.insert(user));
  return user;
}

/** Adds a user to a workspace; default role `member`. */
export async function addMember(
  resources: Resources,
  { organisationId, id: userId }: UserRecord,
  { workspaceId, role = 'member' }: { readonly workspaceId: string; readonly role?: MemberRecord['role'] },
): Promise<void> {
  const times = { createdAt: 1, updatedAt: 1, version: 1 };
  await resources.write(organisationId, ({ members }) =>
    members.insert({ organisationId, workspaceId, userId, role, ...times }),
  );
}

/** Stores a user key in a workspace and returns its id. */
export async function addKeyOf(
  resources: Resources,
  { organisationId, id: userId }: UserRecord,
  workspaceId: string,
): Promise<string> {
  const id = randomUUID();
  const key: ApiKeyRecord = {
    id,
    organisationId,
    workspaceId,
    userId,
    name: id,
    description: '',
    type: 'workspace-user',
    status: 'active',
    scopes: ['logs.view'],
    rateLimits: [],
    usageLimits: undefined,
    defaults: {},
    alertEmails: [],
    masked: 'wk_ab…yz',
    secrets: [{ hash: id, expiresAt: undefined }],
    creationMode: 'api',
    expiresAt: undefined,
    rotation: undefined,
    createdAt: 1,
    updatedAt: 1,
    version: 1,
  };
  await resources.write(organisationId, ({ apiKeys }) => apiKeys.insert(key));
  return id;
}

/** The ids of all user keys of the organisation. */
export async function keysOfPeople(resources: Resources, organisationId: string): Promise<readonly string[]> {
  const filter = { types: ['workspace-user'] as const };
  const { data } = await resources.read(({ apiKeys }) =>
    apiKeys.list(organisationId, filter, { offset: 0, limit: 100 }),
  );
  return data.map(({ id }) => id).sort();
}

/** Entries of the audit trail, oldest first: `action resource of workspace`. */
export async function auditedActions(
  resources: Resources,
  organisationId: string,
): Promise<readonly string[]> {
  const { data } = await resources.read(({ audit }) =>
    audit.list(organisationId, {}, { offset: 0, limit: 100 }),
  );
  return data
    .map((entry) => `${entry.action} ${entry.resourceType} ${entry.resourceId} of "${entry.workspaceId}"`)
    .reverse();
}
