import type {
  GroupMappingsReader,
  GroupMappingsWriter,
  InvitesReader,
  InvitesWriter,
  MembersReader,
  MembersWriter,
  UsersReader,
  UsersWriter,
} from './people.ts';
import type { RateLimit, UsageLimit } from './budgets.ts';
import type { Page, Paged } from './page.ts';
import type { OrganisationDefaults, SettingsReader, SettingsWriter } from './organisation-settings.ts';
import type { RecordsReader, RecordsWriter } from './records.ts';

/**
 * Store of administration: organisations, workspaces, service keys and their audit log. The request path never reads it
 * (see `Directory`).
 */
export interface Resources {
  /**
   * Runs `work` in one transaction that locks the organisation's counter row: its writes, audit rows included, become
   * visible together and count as one change of the organisation; none of them does when `work` throws. Rejects with
   * `GatewayError` `store_unavailable` when the database is unreachable. Keep it short: no network calls inside.
   */
  write<T>(organisationId: string, work: (writer: ResourcesWriter) => Promise<T>): Promise<T>;
  /** Runs `work` on one consistent view. */
  read<T>(work: (reader: ResourcesReader) => Promise<T>): Promise<T>;
  /** The number of the last change of every organisation. */
  changes(): Promise<ReadonlyMap<string, number>>;
  /** Calls `look` when something may have changed, here or elsewhere. Notifications may be lost: poll as well. */
  onChange(look: () => void): () => void;
  /** Rejects when the database does not answer. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

export interface ResourcesReader {
  readonly organisations: OrganisationsReader;
  readonly workspaces: WorkspacesReader;
  readonly apiKeys: ApiKeysReader;
  readonly users: UsersReader;
  readonly members: MembersReader;
  readonly invites: InvitesReader;
  readonly groupMappings: GroupMappingsReader;
  readonly settings: SettingsReader;
  readonly records: RecordsReader;
  readonly audit: AuditReader;
  /** For the directory, to find the parts that changed since its last read. */
  marks(organisationId: string): Promise<ChangeMarks>;
}

/** Number of the organisation's last change to each of these; 0 for none. */
export interface ChangeMarks {
  readonly workspaces: number;
  /** Users and members. */
  readonly people: number;
  readonly settings: number;
  /** Records of every kind. */
  readonly records: number;
}

export interface ResourcesWriter {
  readonly organisations: OrganisationsReader & OrganisationsWriter;
  readonly workspaces: WorkspacesReader & WorkspacesWriter;
  readonly apiKeys: ApiKeysReader & ApiKeysWriter;
  readonly users: UsersReader & UsersWriter;
  readonly members: MembersReader & MembersWriter;
  readonly invites: InvitesReader & InvitesWriter;
  readonly groupMappings: GroupMappingsReader & GroupMappingsWriter;
  readonly settings: SettingsReader & SettingsWriter;
  readonly records: RecordsReader & RecordsWriter;
  readonly audit: AuditReader & AuditWriter;
}

/** Times are milliseconds since the epoch. `version` counts the changes of a record, from 1. */
export interface OrganisationRecord {
  readonly id: string;
  readonly name: string;
  readonly createdAt: number;
}

export interface OrganisationsReader {
  byId(id: string): Promise<OrganisationRecord | undefined>;
  list(): Promise<readonly OrganisationRecord[]>;
}

export interface OrganisationsWriter {
  /** Does nothing when it exists. */
  ensure(record: OrganisationRecord): Promise<void>;
}

export interface WorkspaceRecord {
  readonly id: string;
  readonly organisationId: string;
  /** `ws-` and letters; unique in the organisation. */
  readonly slug: string;
  readonly name: string;
  readonly description: string;
  readonly icon: string;
  readonly status: 'active' | 'archived';
  readonly isDefault: boolean;
  readonly defaults: WorkspaceDefaults;
  readonly usageLimits: readonly UsageLimit[];
  readonly rateLimits: readonly RateLimit[];
  /** `file` for a workspace of the configuration, which is not in the store. Absent for all others. */
  readonly managedBy?: 'file';
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly version: number;
}

export interface WorkspaceDefaults extends Omit<OrganisationDefaults, 'excludedWorkspaces'> {
  /** Models that its requests may ask for, whatever their keys allow; as `allowedModels` of a key. Default: all. */
  readonly allowedModels?: readonly string[];
}

export interface WorkspaceFilter {
  /** Part of the name, in any case. */
  readonly name?: string;
  readonly exactName?: string;
  readonly statuses?: readonly WorkspaceRecord['status'][];
}

export interface WorkspacesReader {
  /** By id or slug. */
  find(organisationId: string, idOrSlug: string): Promise<WorkspaceRecord | undefined>;
  /** Oldest first. */
  list(organisationId: string, filter: WorkspaceFilter, page: Page): Promise<Paged<WorkspaceRecord>>;
}

export interface WorkspacesWriter {
  /** Rejects with `already_exists` when the slug or the name is taken. */
  insert(record: WorkspaceRecord): Promise<void>;
  /** Stores the record when the stored version is the previous one; false when it is another one, or the record is gone. */
  replace(record: WorkspaceRecord): Promise<boolean>;
}

export interface ApiKeyRecord {
  readonly id: string;
  readonly organisationId: string;
  /** Undefined for keys of the organisation. */
  readonly workspaceId: string | undefined;
  /** Empty unless `type` is `workspace-user`. */
  readonly userId: string;
  readonly name: string;
  readonly description: string;
  readonly type: 'organisation-service' | 'workspace-service' | 'workspace-user';
  readonly status: 'active' | 'exhausted' | 'expired';
  readonly scopes: readonly string[];
  readonly rateLimits: readonly RateLimit[];
  readonly usageLimits: UsageLimit | undefined;
  readonly defaults: ApiKeyDefaults;
  readonly alertEmails: readonly string[];
  /** Masked secret for lists: `wk_ab…yz`. */
  readonly masked: string;
  /** The present secret, and during the transition of a rotation the previous one. At most 2. */
  readonly secrets: readonly ApiKeySecret[];
  readonly creationMode: 'ui' | 'api' | 'auto';
  /** `file` for a key of the configuration, which is not in the store. Absent for all others. */
  readonly managedBy?: 'file';
  readonly expiresAt: number | undefined;
  /** Schedule of automatic rotation; undefined for none. */
  readonly rotation: KeyRotation | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly version: number;
}

export interface ApiKeySecret {
  /** SHA-256 of the secret, base64. The secret itself is not stored. */
  readonly hash: string;
  /** Undefined for the present one, unless its rotation is due: then it expires, and the next one is made on demand. */
  readonly expiresAt: number | undefined;
}

/** Schedule of a key's automatic rotation: once in each period, every `days` days, or once. */
export interface KeyRotation {
  readonly period?: 'weekly' | 'monthly';
  readonly days?: number;
  /** Time during which the previous secret stays valid. */
  readonly transitionMs: number;
  /** Milliseconds since the epoch. */
  readonly nextAt: number;
}

/** Events of a key that users are notified of, with their times (milliseconds since the epoch). */
export type KeyMoments = Readonly<Partial<Record<'rotation' | 'rotated' | 'secret' | 'end', number>>>;

/** A key with a due notification, and the notifications that were sent before. */
export interface UntoldKey {
  readonly key: ApiKeyRecord;
  readonly told: KeyMoments;
}

export interface ApiKeyDefaults {
  readonly metadata?: Readonly<Record<string, string>>;
  readonly configId?: string;
  /** Models that its requests may ask for; a `*` at the end stands for any text. Default: all. */
  readonly allowedModels?: readonly string[];
  /** Default true. */
  readonly allowConfigOverride?: boolean;
  /** False: bodies of its requests are never logged. Default: the setting of the workspace and the configuration. */
  readonly logBodies?: boolean;
}

export interface ApiKeyFilter {
  readonly workspaceId?: string;
  readonly ids?: readonly string[];
  /** Only keys of these types. */
  readonly types?: readonly ApiKeyRecord['type'][];
  /** Only keys of this user. */
  readonly userId?: string;
  /** Only keys that have not expired by this time. */
  readonly aliveAt?: number;
}

/** Fields of a key that the directory needs. Every start reads all keys. */
export type DirectoryKey = Pick<
  ApiKeyRecord,
  | 'id'
  | 'organisationId'
  | 'workspaceId'
  | 'userId'
  | 'name'
  | 'type'
  | 'status'
  | 'scopes'
  | 'rateLimits'
  | 'usageLimits'
  | 'secrets'
  | 'defaults'
  | 'expiresAt'
  | 'updatedAt'
> &
  /** Only read where there is a usage limit. */
  Partial<Pick<ApiKeyRecord, 'createdAt' | 'alertEmails'>>;

export interface ApiKeysReader {
  find(organisationId: string, id: string): Promise<ApiKeyRecord | undefined>;
  /** Oldest first. */
  list(organisationId: string, filter: ApiKeyFilter, page: Page): Promise<Paged<ApiKeyRecord>>;
  /** Every key of every organisation, for the directory, in pages of 1,000 by id: those after `afterId`. */
  all(afterId: string): Promise<readonly DirectoryKey[]>;
  /**
   * For the directory: the organisation's keys that its changes after number `afterChange` (see `Resources.changes`)
   * stored, as they are now, in pages of 1,000 by id: those after `afterId`.
   */
  changedSince(
    organisationId: string,
    afterChange: number,
    afterId: string,
  ): Promise<readonly DirectoryKey[]>;
  /**
   * For the directory: ids of the organisation's keys that its changes after number `afterChange` removed. Removals
   * are remembered for a day at least.
   */
  removedSince(organisationId: string, afterChange: number): Promise<readonly string[]>;
  /**
   * Keys of the organisation that have not expired, whose rotation is due by `now`, and whose previous secret is no
   * longer valid. 200 at the most, the longest due first.
   */
  rotationsDue(organisationId: string, now: number): Promise<readonly ApiKeyRecord[]>;
  /**
   * Keys of the organisation with a due notification: `rotation` (its rotation), `secret` (the end of a secret whose
   * rotation was due) or `end` (its own end) by `until`, or `rotated` (that end of a secret, at any time). 200 at the
   * most.
   */
  untold(organisationId: string, now: number, until: number): Promise<readonly UntoldKey[]>;
}

export interface ApiKeysWriter {
  /** Rejects with `already_exists` when its workspace (or the organisation) has a key of this name and type. */
  insert(record: ApiKeyRecord): Promise<void>;
  replace(record: ApiKeyRecord): Promise<boolean>;
  /** False when there is none. */
  remove(organisationId: string, id: string): Promise<boolean>;
  /** Removes all keys of the user, or only those in one workspace; returns their number. */
  removeOfUser(organisationId: string, userId: string, workspaceId?: string): Promise<number>;
  /**
   * Marks active and exhausted keys of the organisation that have ended by `now` as `expired`, and drops secrets whose
   * transition has ended; 1,000 keys at the most. Returns the ids of those that changed.
   */
  expireDue(organisationId: string, now: number): Promise<readonly string[]>;
  /** Notes the notifications of a key. Does not count as a change of the key: its version and the directory stay. */
  noteTold(organisationId: string, id: string, told: KeyMoments): Promise<void>;
}

/** An administrative action, done or refused. */
export interface AuditEntry {
  readonly id: string;
  readonly organisationId: string;
  /** Empty for actions on the organisation. */
  readonly workspaceId: string;
  readonly at: number;
  readonly actorType: 'api_key' | 'user' | 'system';
  readonly actorId: string;
  readonly actorName: string;
  /** `create`, `update`, `delete`, `rotate` … */
  readonly action: string;
  /** `workspaces`, `api_keys` … */
  readonly resourceType: string;
  readonly resourceId: string;
  readonly method: string;
  /** Path as received. */
  readonly uri: string;
  readonly requestId: string;
  readonly status: number;
  readonly clientIp: string;
  /** Body, query and headers of the request as JSON, secrets masked, 16 KiB at the most. */
  readonly details: string;
}

/** An entry with its position in the organisation's hash chain. */
export interface AuditRecord extends AuditEntry {
  /** From 1, without gaps; 0 for a refused action, which is not in the chain. */
  readonly number: number;
  /** SHA-256 (hex) over the previous record's hash and all of this one; empty for a refused action. */
  readonly hash: string;
}

export interface AuditFilter {
  readonly from?: number;
  readonly to?: number;
  readonly action?: string;
  /** One, or any of a list. */
  readonly resourceType?: string | readonly string[];
  readonly resourceId?: string;
  readonly actorType?: AuditEntry['actorType'];
  readonly actorId?: string;
  readonly workspaceId?: string;
  readonly method?: string;
  readonly uri?: string;
  readonly requestId?: string;
  readonly status?: number;
  readonly clientIp?: string;
}

/** Result of a verification of a part of a chain. */
interface ChainCheck {
  /** Number of the last record that is as it was appended. */
  readonly verified: number;
  /** Number of the last record of the chain, as the store keeps it. */
  readonly end: number;
  /** Why the next record, or the end of the chain, is not as it was written; undefined when it is. */
  readonly fault: string | undefined;
}

export interface AuditReader {
  /** Newest first. */
  list(organisationId: string, filter: AuditFilter, page: Page): Promise<Paged<AuditRecord>>;
  /** Records after `afterNumber` in order, 1,000 at the most: to verify the chain. */
  chain(organisationId: string, afterNumber: number): Promise<readonly AuditRecord[]>;
  /** Verifies the records after `afterNumber`, 1,000 at the most, and the end of the chain when it is reached. */
  verify(organisationId: string, afterNumber: number): Promise<ChainCheck>;
  /** End of the chain, stored apart from it so that a truncated chain is detected. Number 0 when it is empty. */
  head(organisationId: string): Promise<{ readonly number: number; readonly hash: string }>;
}

export interface AuditWriter {
  /** Appends to the organisation's chain. */
  append(entry: AuditEntry): Promise<void>;
  /** Stores a refused action beside the chain; lists include it until retention removes it. */
  appendRefused(entry: AuditEntry): Promise<void>;
  /** Removes up to 1,000 refused actions that are older than `before`; returns their number. */
  removeRefused(organisationId: string, before: number): Promise<number>;
}

/** Section `storage.resources` of the configuration, defaults filled in. All but `url` applies to a server. */
export interface ResourcesStoreSettings {
  /** `pglite:` (under the data folder), `pglite:DIRECTORY`, `postgres://…`, or `none:`. */
  readonly url: string;
  /** Password outside `url`, where it would need escaping. */
  readonly password?: string;
  readonly ca_file?: string;
}
