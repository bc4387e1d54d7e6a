import type { Page, Paged } from './page.ts';

/** Role of a user in an organisation. Owners and admins manage every workspace of it. */
export type OrganisationRole = 'owner' | 'admin' | 'member';

/** Role of a user in one workspace. Request bodies may say `admin`, an alias of `manager`. */
export type WorkspaceRole = 'manager' | 'member';

/** A user of an organisation. */
export interface UserRecord {
  readonly id: string;
  readonly organisationId: string;
  /** Lower-case; unique in the organisation. */
  readonly email: string;
  readonly firstName: string;
  readonly lastName: string;
  readonly role: OrganisationRole;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly version: number;
}

export interface UserFilter {
  readonly role?: OrganisationRole;
  /** In any case. */
  readonly email?: string;
}

export interface UsersReader {
  find(organisationId: string, id: string): Promise<UserRecord | undefined>;
  /** In any case. */
  byEmail(organisationId: string, email: string): Promise<UserRecord | undefined>;
  /** Oldest first. */
  list(organisationId: string, filter: UserFilter, page: Page): Promise<Paged<UserRecord>>;
  /** Ids of the workspaces that each of these users (100 at the most) is a member of, sorted. */
  workspaceIds(
    organisationId: string,
    userIds: readonly string[],
  ): Promise<ReadonlyMap<string, readonly string[]>>;
  /** For the directory, in pages of 1,000 by id: those after `afterId`. */
  all(organisationId: string, afterId: string): Promise<readonly UserRecord[]>;
}

export interface UsersWriter {
  /** Rejects with `already_exists` when the organisation has a user with this e-mail address. */
  insert(record: UserRecord): Promise<void>;
  replace(record: UserRecord): Promise<boolean>;
  /** Removes a user and their memberships. False when there is no such user. */
  remove(organisationId: string, id: string): Promise<boolean>;
}

/** Membership of one user in one workspace. */
export interface MemberRecord {
  readonly organisationId: string;
  readonly workspaceId: string;
  readonly userId: string;
  readonly role: WorkspaceRole;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly version: number;
}

/** A membership with its user. */
export interface Member {
  readonly member: MemberRecord;
  readonly user: UserRecord;
}

export interface MemberFilter {
  readonly role?: WorkspaceRole;
  /** In any case. */
  readonly email?: string;
}

export interface MembersReader {
  find(organisationId: string, workspaceId: string, userId: string): Promise<Member | undefined>;
  /** Longest members first. */
  list(organisationId: string, workspaceId: string, filter: MemberFilter, page: Page): Promise<Paged<Member>>;
  /** For the directory, in pages of 1,000 by workspace and user: those after `after`. */
  all(
    organisationId: string,
    after: { readonly workspaceId: string; readonly userId: string },
  ): Promise<readonly MemberRecord[]>;
}

export interface MembersWriter {
  /** Rejects with `already_exists` when the user is a member of the workspace. */
  insert(record: MemberRecord): Promise<void>;
  replace(record: MemberRecord): Promise<boolean>;
  /** False when there is none. */
  remove(organisationId: string, workspaceId: string, userId: string): Promise<boolean>;
}

/** An invitation into an organisation, and into workspaces of it. */
export interface InviteRecord {
  readonly id: string;
  readonly organisationId: string;
  /** Lower-case. */
  readonly email: string;
  readonly role: Exclude<OrganisationRole, 'owner'>;
  /** At most 100. */
  readonly workspaces: readonly { readonly id: string; readonly role: WorkspaceRole }[];
  /** Scopes of the key that accepting the invite creates in each workspace; empty: it creates no key. */
  readonly keyScopes: readonly string[];
  /** A pending invite is invalid from `expiresAt` on, even before `expireDue` marks it. */
  readonly status: 'pending' | 'cancelled' | 'accepted' | 'expired';
  /** SHA-256 (base64) of the token in the link. The token itself is not stored. */
  readonly tokenHash: string;
  /** Id of the user or key that sent the invite. */
  readonly invitedBy: string;
  readonly expiresAt: number;
  readonly acceptedAt: number | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly version: number;
}

export interface InviteFilter {
  readonly role?: InviteRecord['role'];
  /** In any case. */
  readonly email?: string;
  readonly status?: InviteRecord['status'];
}

export interface InvitesReader {
  find(organisationId: string, id: string): Promise<InviteRecord | undefined>;
  /** In any organisation. */
  byTokenHash(tokenHash: string): Promise<InviteRecord | undefined>;
  /** Oldest first. */
  list(organisationId: string, filter: InviteFilter, page: Page): Promise<Paged<InviteRecord>>;
}

export interface InvitesWriter {
  /** Rejects with `already_exists` when a pending invite has this e-mail address. */
  insert(record: InviteRecord): Promise<void>;
  replace(record: InviteRecord): Promise<boolean>;
  /** Marks up to 1,000 pending invites of the organisation that have expired by `now`; returns their number. */
  expireDue(organisationId: string, now: number): Promise<number>;
}

/** Role that the members of an identity provider's group have in a workspace. */
export interface GroupMappingRecord {
  readonly id: string;
  readonly organisationId: string;
  readonly workspaceId: string;
  readonly role: WorkspaceRole;
  /** One of the two is empty. */
  readonly groupId: string;
  readonly groupName: string;
  readonly createdAt: number;
}

export interface GroupMappingFilter {
  readonly workspaceId?: string;
  readonly groupId?: string;
  readonly role?: WorkspaceRole;
}

export interface GroupMappingsReader {
  find(organisationId: string, id: string): Promise<GroupMappingRecord | undefined>;
  /** Oldest first. */
  list(organisationId: string, filter: GroupMappingFilter, page: Page): Promise<Paged<GroupMappingRecord>>;
}

export interface GroupMappingsWriter {
  /** Rejects with `already_exists` when the group is mapped to the workspace. */
  insert(record: GroupMappingRecord): Promise<void>;
  /** False when there is none. */
  remove(organisationId: string, id: string): Promise<boolean>;
}
