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
import type { RateLimit, UsageLimit } from './limits.ts';
import type { Page, Paged } from './page.ts';
import type { OrganisationDefaults, SettingsReader, SettingsWriter } from './organisation-settings.ts';
import type { RecordsReader, RecordsWriter } from './records.ts';

/**
 * What is administered: organisations, workspaces, service keys, and the record of who changed them. The request path
 * never asks it (see `Directory`).
 */
export interface Resources {
  /**
   * Runs `work` in one transaction that holds the organisation's counter row: what it writes becomes visible together,
   * its audit rows included, and counts as one change of the organisation; or nothing of it does, when `work` throws.
   * Rejects with `GatewayError` `store_unavailable` when the database is away. Keep it short: no network calls inside.
   */
  write<T>(organisationId: string, work: (writer: ResourcesWriter) => Promise<T>): Promise<T>;
  /** Runs `work` on one consistent view. */
  read<T>(work: (reader: ResourcesReader) => Promise<T>): Promise<T>;
  /** The number of the last change of every organisation. */
  changes(): Promise<ReadonlyMap<string, number>>;
  /** Calls `look` when something may have changed, here or elsewhere. A notification may be lost: look now and then as well. */
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
  /** For the directory: which of what it keeps has changed since it looked. */
  marks(organisationId: string): Promise<ChangeMarks>;
}

/** The number of the organisation's last change that touched each of these; 0 when none did. */
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
  /** `file` for one that the configuration owns: it is not in the store. Absent for all others. */
  readonly managedBy?: 'file';
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly version: number;
}

export type WorkspaceDefaults = Omit<OrganisationDefaults, 'excludedWorkspaces'>;

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
  /** Stores the record when the stored one has the version before; false when it has another one, or is gone. */
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
  /** What lists show of the secret: `wk_ab…yz`. */
  readonly masked: string;
  /** The present secret, and after a rotation for a while the one before. At most 2. */
  readonly secrets: readonly ApiKeySecret[];
  readonly creationMode: 'ui' | 'api' | 'auto';
  /** `file` for one that the configuration owns: it is not in the store. Absent for all others. */
  readonly managedBy?: 'file';
  readonly expiresAt: number | undefined;
  /** When its secret is replaced by itself; undefined for never. */
  readonly rotation: KeyRotation | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly version: number;
}

export interface ApiKeySecret {
  /** SHA-256 of the secret, base64. The secret itself is stored nowhere. */
  readonly hash: string;
  /** Undefined for the present one, unless its rotation was due: then it ends, and the next one is made when it is asked for. */
  readonly expiresAt: number | undefined;
}

/** When a key's secret is replaced by itself: in each period, so many days apart, or once. */
export interface KeyRotation {
  readonly period?: 'weekly' | 'monthly';
  readonly days?: number;
  /** For how long the secret before is taken as well. */
  readonly transitionMs: number;
  /** Milliseconds since the epoch. */
  readonly nextAt: number;
}

/** What people are told of a key before or when it happens, with its moment (milliseconds since the epoch). */
export type KeyMoments = Readonly<Partial<Record<'rotation' | 'rotated' | 'secret' | 'end', number>>>;

/** A key that people are to be told of, and what they were told before. */
export interface UntoldKey {
  readonly key: ApiKeyRecord;
  readonly told: KeyMoments;
}

export interface ApiKeyDefaults {
  readonly metadata?: Readonly<Record<string, string>>;
  readonly configId?: string;
  /** Default true. */
  readonly allowConfigOverride?: boolean;
  /** False: bodies of its requests are never logged. Default: what the workspace and the configuration say. */
  readonly logBodies?: boolean;
}

export interface ApiKeyFilter {
  readonly workspaceId?: string;
  readonly ids?: readonly string[];
  /** Only keys of these types. */
  readonly types?: readonly ApiKeyRecord['type'][];
  /** Only keys of this user. */
  readonly userId?: string;
  /** Only those that have not ended by then. */
  readonly aliveAt?: number;
}

/** What the directory needs of a key: all of them are read at every start. */
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
   * Keys of the organisation that have not ended, whose rotation is due by `now`, and of which no secret before is
   * taken any more. 200 at the most, the longest due first.
   */
  rotationsDue(organisationId: string, now: number): Promise<readonly ApiKeyRecord[]>;
  /**
   * Keys of the organisation of which `rotation` (its rotation), `secret` (the end of a secret whose rotation was due)
   * or `end` (its own end) comes by `until` and was not told, or `rotated` (that end too, however far) was not. 200 at
   * the most.
   */
  untold(organisationId: string, now: number, until: number): Promise<readonly UntoldKey[]>;
}

export interface ApiKeysWriter {
  /** Rejects with `already_exists` when its workspace (or the organisation) has a key of this name and type. */
  insert(record: ApiKeyRecord): Promise<void>;
  replace(record: ApiKeyRecord): Promise<boolean>;
  /** False when there is none. */
  remove(organisationId: string, id: string): Promise<boolean>;
  /** Removes all keys of the user, or only those in one workspace; how many. */
  removeOfUser(organisationId: string, userId: string, workspaceId?: string): Promise<number>;
  /**
   * Marks active and exhausted keys of the organisation that have ended by `now` (`expired`), and drops secrets whose
   * time of transition has; 1,000 keys at the most. The ids of those that changed.
   */
  expireDue(organisationId: string, now: number): Promise<readonly string[]>;
  /** Notes what people were told of a key. No change of the key: neither its version nor the directory hears of it. */
  noteTold(organisationId: string, id: string, told: KeyMoments): Promise<void>;
}

/** What somebody did, or was not allowed to do. */
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

/** An entry with its place in the organisation's chain. */
export interface AuditRecord extends AuditEntry {
  /** From 1, without gaps; 0 for a refused attempt, which is in no chain. */
  readonly number: number;
  /** SHA-256 (hex) over the hash of the record before and everything in this one; empty for a refused attempt. */
  readonly hash: string;
}

export interface AuditFilter {
  readonly from?: number;
  readonly to?: number;
  readonly action?: string;
  readonly resourceType?: string;
  readonly actorType?: AuditEntry['actorType'];
  readonly actorId?: string;
  readonly workspaceId?: string;
  readonly method?: string;
  readonly uri?: string;
  readonly requestId?: string;
  readonly status?: number;
  readonly clientIp?: string;
}

export interface AuditReader {
  /** Newest first. */
  list(organisationId: string, filter: AuditFilter, page: Page): Promise<Paged<AuditRecord>>;
  /** In their order, those after `afterNumber`, 1,000 at the most: for verifying the chain. */
  chain(organisationId: string, afterNumber: number): Promise<readonly AuditRecord[]>;
  /** Where the chain ends, kept apart from it: what was cut off its end is missed by it. Number 0 when it is empty. */
  head(organisationId: string): Promise<{ readonly number: number; readonly hash: string }>;
}

export interface AuditWriter {
  /** Appends to the organisation's chain. */
  append(entry: AuditEntry): Promise<void>;
  /** Stores a refused attempt beside the chain: it is listed with it and removed when it is old. */
  appendRefused(entry: AuditEntry): Promise<void>;
  /** Removes refused attempts from before a moment, 1,000 at the most; how many. */
  removeRefused(organisationId: string, before: number): Promise<number>;
}

/** Section `storage.resources` of the configuration, defaults filled in. All but `url` is for a server. */
export interface ResourcesStoreSettings {
  /** `pglite:` (under the data folder), `pglite:DIRECTORY`, `postgres://…`, or `none:`. */
  readonly url: string;
  /** Instead of one in `url`, where it had to be escaped. */
  readonly password?: string;
  readonly ca_file?: string;
}
