import type { SecretBox } from '../../ports/secret-managers.ts';
import type { MemberRecord, UserRecord } from '../../ports/people.ts';
import type { StoredRecord } from '../../ports/records.ts';
import type { ApiKeyRecord, WorkspaceRecord } from '../../ports/resources.ts';

/** A stored key with overrides. */
export function storedKey(overrides: Partial<ApiKeyRecord> = {}): ApiKeyRecord {
  const id = overrides.id ?? 'key-1';
  return {
    id,
    organisationId: 'org-1',
    workspaceId: 'ws-1',
    userId: '',
    name: `name of ${id}`,
    description: '',
    type: 'workspace-service',
    status: 'active',
    scopes: ['completions.write'],
    rateLimits: [],
    usageLimits: undefined,
    defaults: {},
    alertEmails: [],
    masked: 'wk_ab…yz',
    secrets: [{ hash: `hash of ${id}`, expiresAt: undefined }],
    creationMode: 'api',
    expiresAt: undefined,
    rotation: undefined,
    createdAt: 1,
    updatedAt: 1,
    version: 1,
    ...overrides,
  };
}

/** A stored workspace with overrides. */
export function storedWorkspace(overrides: Partial<WorkspaceRecord> = {}): WorkspaceRecord {
  const id = overrides.id ?? 'ws-1';
  return {
    id,
    organisationId: 'org-1',
    slug: `slug-of-${id}`,
    name: `name of ${id}`,
    description: '',
    icon: '',
    status: 'active',
    isDefault: false,
    defaults: {},
    usageLimits: [],
    rateLimits: [],
    createdAt: 1,
    updatedAt: 1,
    version: 1,
    ...overrides,
  };
}

/** A stored user with overrides. */
export function storedUser(overrides: Partial<UserRecord> = {}): UserRecord {
  const id = overrides.id ?? 'user-1';
  return {
    id,
    organisationId: 'org-1',
    email: `${id}@example.com`,
    firstName: '',
    lastName: '',
    role: 'member',
    createdAt: 1,
    updatedAt: 1,
    version: 1,
    ...overrides,
  };
}

/** A stored membership with overrides. */
export function storedMember(overrides: Partial<MemberRecord> = {}): MemberRecord {
  return {
    organisationId: 'org-1',
    workspaceId: 'ws-1',
    userId: 'user-1',
    role: 'member',
    createdAt: 1,
    updatedAt: 1,
    version: 1,
    ...overrides,
  };
}

/** A stored config with overrides. */
export function storedRecord(overrides: Partial<StoredRecord> = {}): StoredRecord {
  const id = overrides.id ?? 'r-1';
  return {
    kind: 'config',
    id,
    organisationId: 'org-1',
    workspaceId: 'ws-1',
    slug: `slug-of-${id}`,
    name: `name of ${id}`,
    status: 'active',
    parentId: '',
    data: { config: {}, isDefault: false },
    secrets: {},
    createdBy: 'user-1',
    updatedBy: 'user-1',
    createdAt: 1,
    updatedAt: 1,
    version: 1,
    ...overrides,
  };
}

/** Seals nothing, so that tests see the text and its context. */
export const plainBox: SecretBox = {
  keyId: 'none',
  seal: (text, context) => `${context}:${text}`,
  open: (sealed, context) => sealed.slice(context.length + 1),
  isCurrent: () => true,
};
