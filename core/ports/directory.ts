import type { ApiKeyDefaults, WorkspaceDefaults } from './resources.ts';
import type { OwnedUsageLimit, RateLimit } from './budgets.ts';
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
  /** True for the secret before a rotation: `expiresAt` is then the end of the transition. */
  readonly isReplaced?: boolean;
  /** Default values for its requests; absent for none. */
  readonly defaults?: ApiKeyDefaults;
  /** Rate limits of the key; absent for none. */
  readonly rateLimits?: readonly RateLimit[];
  /** Usage limits of the key; absent for none. */
  readonly usageLimits?: readonly OwnedUsageLimit[];
  /** True for the bearer of a verified JSON Web Token, who has no key in the store. */
  readonly isToken?: boolean;
  /** Audiences of the token (`aud`); absent for keys. */
  readonly audiences?: readonly string[];
  /** Where the configuration defines it (`organisation.keys[0]`); absent for keys of the store. */
  readonly definedAt?: string | undefined;
}

/** Default values for requests of a workspace: its own take precedence over the organisation's. */
export interface DirectoryDefaults extends Pick<OrganisationDefaults, 'metadata' | 'configId'> {
  /** The workspace's own part of the defaults. Absent for none. */
  readonly own?: WorkspaceDefaults;
  /** Guardrails of the organisation, without those that exclude the workspace. Absent for none. */
  readonly organisationGuardrails?: DefaultGuardrails;
}

/** A user as the request path sees them. */
export interface DirectoryUser {
  readonly id: string;
  readonly role: OrganisationRole;
}

/**
 * Freshness of the directory. `current`: the last read of the store succeeded. `behind`: the store cannot be read now;
 * the directory serves the state of the last read, and an entry that it lacks may exist. `unknown`: no read has
 * succeeded, or the last one is too old to rely on. Always `current` where there is no store.
 */
export type DirectoryStanding = 'current' | 'behind' | 'unknown';

/** The request path's only view of administration: in memory, compiled, never a database call. */
export interface Directory {
  standing(): DirectoryStanding;
  /**
   * The key whose secret has this SHA-256 (base64), or undefined. Finds no keys of the store while `standing` is
   * `unknown`. Undefined proves that the key does not exist only while `standing` is `current`.
   */
  keyByHash(sha256: string): KeyRecord | undefined;
  /** The key with this id, or undefined. For work that continues after its request. */
  keyById(id: string): KeyRecord | undefined;
  /** True for the id of an archived workspace: its keys are refused. */
  isArchived(workspaceId: string): boolean;
  /** The id of the organisation's workspace with this id or slug, archived ones too; undefined when there is none. */
  workspaceId(organisationId: string, idOrSlug: string): string | undefined;
  /** Default values for requests of this workspace: its own take precedence over the organisation's. */
  defaultsOf(organisationId: string, workspaceId: string): DirectoryDefaults;
  /** Rate limits over all keys of this workspace; undefined for none. The same list until one of them changes. */
  rateLimitsOf(organisationId: string, workspaceId: string): readonly RateLimit[] | undefined;
  /** Usage limits over all keys of this workspace; undefined for none. The same list until one of them changes. */
  usageLimitsOf(organisationId: string, workspaceId: string): readonly OwnedUsageLimit[] | undefined;
  /** Settings in force in the workspace; with an empty id, in the organisation. */
  settingsIn(organisationId: string, workspaceId: string): SecuritySettings;
  /** By id, or by e-mail address in any case. */
  user(organisationId: string, idOrEmail: string): DirectoryUser | undefined;
  /** Role of the user in this workspace; undefined for no member. Owners and admins need not be members. */
  memberRole(workspaceId: string, userId: string): WorkspaceRole | undefined;
  /**
   * An active record of the workspace, or else of its organisation, by id or slug. Only of kinds that the request path
   * uses; `collection` is not among them.
   */
  record<K extends RecordKind>(kind: K, place: RecordPlace, idOrSlug: string): StoredRecord<K> | undefined;
  /**
   * All active records of a kind in the workspace, oldest first, followed by those of its organisation; without a
   * workspace the latter alone. The same array until one of them changes.
   */
  records<K extends RecordKind>(kind: K, place: RecordPlace): readonly StoredRecord<K>[];
  readonly defaultOrganisationId: string;
  readonly defaultWorkspaceId: string;
}

/** State of a directory at one moment. */
export interface DirectorySnapshot {
  /** Wall clock time at which the store held exactly this state, milliseconds since the epoch. */
  readonly at: number;
  /** JSON values; `read` returns them in the same order. */
  readonly rows: Iterable<unknown>;
}

/** Snapshots of a directory, for a start while its store does not answer. */
export interface DirectorySnapshots {
  /**
   * The latest snapshot; its `at` is that of the last `confirm`. Undefined when there is none, or when it is unusable,
   * with the reason in the log. Never rejects.
   */
  read(): Promise<DirectorySnapshot | undefined>;
  /** Replaces the snapshot atomically. Rejects when it cannot be written. */
  write(snapshot: DirectorySnapshot): Promise<void>;
  /** Notes that the store still holds at `at` exactly the state of the last snapshot. */
  confirm(at: number): Promise<void>;
}
