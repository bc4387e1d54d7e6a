import type { ApiKeyDefaults, WorkspaceDefaults } from './resources.ts';
import type { OwnedUsageLimit, RateLimit } from './limits.ts';
import type { OrganisationRole, WorkspaceRole } from './people.ts';
import type { RecordKind, RecordPlace, StoredRecord } from './records.ts';
import type { DefaultGuardrails, OrganisationDefaults, SecuritySettings } from './organisation-settings.ts';

/** A service key as the request path sees it. Secrets are not part of it. */
export interface KeyRecord {
  readonly id: string;
  readonly name: string;
  readonly kind: 'owner' | 'organisation-service' | 'workspace-service' | 'workspace-user';
  readonly organisationId: string;
  readonly workspaceId: string;
  readonly userId: string;
  /** `*` stands for every scope. */
  readonly scopes: readonly string[];
  /** Milliseconds since the epoch, or null for never. */
  readonly expiresAt: number | null;
  /** True for the secret before a rotation: `expiresAt` is then the end of the time of transition. */
  readonly isReplaced?: boolean;
  /** What its requests begin with; absent for nothing. */
  readonly defaults?: ApiKeyDefaults;
  /** How much may be asked with it; absent for no limit. */
  readonly rateLimits?: readonly RateLimit[];
  /** How much may be used with it; absent for no limit. */
  readonly usageLimits?: readonly OwnedUsageLimit[];
  /** True for the bearer of a verified JSON Web Token: it is no key of the store. */
  readonly isToken?: boolean;
  /** Where the configuration defines it (`organisation.keys[0]`); absent for keys of the store. */
  readonly definedAt?: string | undefined;
}

/** What requests of a workspace begin with: its own defaults before the organisation's. */
export interface DirectoryDefaults extends Pick<OrganisationDefaults, 'metadata' | 'configId'> {
  /** What of it the workspace says itself. Absent for nothing. */
  readonly own?: WorkspaceDefaults;
  /** Of the organisation, without those that the workspace is excluded from. Absent for none. */
  readonly organisationGuardrails?: DefaultGuardrails;
}

/** A user as the request path sees them. */
export interface DirectoryUser {
  readonly id: string;
  readonly role: OrganisationRole;
}

/**
 * How well the directory knows its store. `current`: as it was at the last look, which succeeded. `behind`: the store
 * cannot be read now; what was known before is served, and what is not known may exist. `unknown`: nothing has been read,
 * or so long ago that it must not be relied on. Always `current` where there is no store.
 */
export type DirectoryStanding = 'current' | 'behind' | 'unknown';

/** The request path's only view of administration: in memory, compiled, never a database call. */
export interface Directory {
  standing(): DirectoryStanding;
  /**
   * The key whose secret has this SHA-256 (base64), or undefined. Keys of the store are not found while `standing` is
   * `unknown`: only when it is `current` does a key that is not found not exist.
   */
  keyByHash(sha256: string): KeyRecord | undefined;
  /** The key with this id, or undefined. For work that goes on after the request that asked for it. */
  keyById(id: string): KeyRecord | undefined;
  /** True for the id of a workspace that was archived: its keys are refused. */
  isArchived(workspaceId: string): boolean;
  /** The id of the organisation's workspace with this id or slug, archived ones too; undefined when there is none. */
  workspaceId(organisationId: string, idOrSlug: string): string | undefined;
  /** What requests of this workspace begin with: its own defaults before the organisation's. */
  defaultsOf(organisationId: string, workspaceId: string): DirectoryDefaults;
  /** How much all keys of this workspace may ask together; undefined for no limit. The same list until one of them changes. */
  rateLimitsOf(organisationId: string, workspaceId: string): readonly RateLimit[] | undefined;
  /** How much all keys of this workspace may use together; undefined for no limit. The same list until one of them changes. */
  usageLimitsOf(organisationId: string, workspaceId: string): readonly OwnedUsageLimit[] | undefined;
  /** What holds in the workspace; with an empty id, in the organisation. */
  settingsIn(organisationId: string, workspaceId: string): SecuritySettings;
  /** By id, or by e-mail address in any case. */
  user(organisationId: string, idOrEmail: string): DirectoryUser | undefined;
  /** What the user was made in this workspace; undefined for nothing. Owners and admins need not be members. */
  memberRole(workspaceId: string, userId: string): WorkspaceRole | undefined;
  /**
   * An active record of the workspace, or else of its organisation, by id or slug. Only kinds that requests are served
   * with; `collection` is not among them.
   */
  record<K extends RecordKind>(kind: K, place: RecordPlace, idOrSlug: string): StoredRecord<K> | undefined;
  /**
   * All active ones of a kind in the workspace, oldest first, and behind them those of its organisation; without a
   * workspace the latter alone. The same array until one of them changes.
   */
  records<K extends RecordKind>(kind: K, place: RecordPlace): readonly StoredRecord<K>[];
  readonly defaultOrganisationId: string;
  readonly defaultWorkspaceId: string;
}

/** A directory as it was at one moment. */
export interface DirectorySnapshot {
  /** Wall clock: when the store held exactly this, milliseconds since the epoch. */
  readonly at: number;
  /** JSON values, in the order in which they are read again. */
  readonly rows: Iterable<unknown>;
}

/** Where a directory keeps what it knows, for a start at which its store does not answer. */
export interface DirectorySnapshots {
  /**
   * The one that was written last; its `at` is that of the last `confirm`. Undefined when there is none, or none that can
   * be used; why it cannot is in the log. Never rejects.
   */
  read(): Promise<DirectorySnapshot | undefined>;
  /** Puts it in the place of the one before, whole or not at all. Rejects when it cannot be written. */
  write(snapshot: DirectorySnapshot): Promise<void>;
  /** The store still holds at `at` exactly what was written last. */
  confirm(at: number): Promise<void>;
}
