import { withoutStore } from '../../organisation/directory-without-store.ts';
import type { Directory } from '../../ports/directory.ts';
import type { WorkspaceRole } from '../../ports/people.ts';
import type { RecordKind, RecordPlace, StoredRecord } from '../../ports/records.ts';
import {
  OrganisationView,
  rolesOf,
  type DirectoryWorkspace,
  type KnownMember,
  type KnownUser,
} from './organisation-view.ts';

/** Everything of the store that the directory knows beside keys: workspaces, settings, people, records by organisation. */
export class OrganisationTable implements Pick<
  Directory,
  | 'isArchived'
  | 'workspaceId'
  | 'defaultsOf'
  | 'rateLimitsOf'
  | 'settingsIn'
  | 'user'
  | 'memberRole'
  | 'record'
  | 'records'
> {
  readonly #views = new Map<string, OrganisationView>();
  readonly #archived = new Set<string>();
  readonly #archivedOf = new Map<string, readonly string[]>();
  /** Of all organisations, by workspace and user. */
  readonly #roles = new Map<string, ReadonlyMap<string, WorkspaceRole>>();
  readonly #rolesIn = new Map<string, readonly string[]>();

  isArchived(workspaceId: string): boolean {
    return this.#archived.has(workspaceId);
  }

  workspaceId(organisationId: string, idOrSlug: string): string | undefined {
    return this.#views.get(organisationId)?.workspaceId(idOrSlug);
  }

  defaultsOf(organisationId: string, workspaceId: string): ReturnType<Directory['defaultsOf']> {
    return (this.#views.get(organisationId) ?? withoutView).defaultsOf(workspaceId);
  }

  rateLimitsOf(organisationId: string, workspaceId: string): ReturnType<Directory['rateLimitsOf']> {
    return this.#views.get(organisationId)?.rateLimitsOf(workspaceId);
  }

  settingsIn(organisationId: string, workspaceId: string): ReturnType<Directory['settingsIn']> {
    return (this.#views.get(organisationId) ?? withoutView).settingsIn(workspaceId);
  }

  user(organisationId: string, idOrEmail: string): ReturnType<Directory['user']> {
    return this.#views.get(organisationId)?.user(idOrEmail);
  }

  memberRole(workspaceId: string, userId: string): WorkspaceRole | undefined {
    return this.#roles.get(workspaceId)?.get(userId);
  }

  record<K extends RecordKind>(kind: K, place: RecordPlace, idOrSlug: string): StoredRecord<K> | undefined {
    return this.#views.get(place.organisationId)?.records.find(kind, place.workspaceId, idOrSlug);
  }

  records<K extends RecordKind>(kind: K, place: RecordPlace): readonly StoredRecord<K>[] {
    return this.#views.get(place.organisationId)?.records.list(kind, place.workspaceId) ?? none;
  }

  /** What is known of the organisation; nothing yet, when it has not been heard of. */
  view(organisationId: string): OrganisationView {
    let view = this.#views.get(organisationId);
    if (view === undefined) this.#views.set(organisationId, (view = new OrganisationView(organisationId)));
    return view;
  }

  /** What is known of every organisation that has been heard of, by its id. */
  all(): readonly (readonly [string, OrganisationView])[] {
    return [...this.#views];
  }

  /** The members of the organisation's workspaces. */
  members(organisationId: string): readonly KnownMember[] {
    return (this.#rolesIn.get(organisationId) ?? []).flatMap((workspaceId) =>
      [...(this.#roles.get(workspaceId) ?? [])].map(([userId, role]) => ({ workspaceId, userId, role })),
    );
  }

  /** All workspaces of the organisation, in the place of those that were known. */
  putWorkspaces(organisationId: string, workspaces: readonly DirectoryWorkspace[]): void {
    this.view(organisationId).putWorkspaces(workspaces);
    for (const id of this.#archivedOf.get(organisationId) ?? []) this.#archived.delete(id);
    const archived = workspaces.filter(({ status }) => status === 'archived').map(({ id }) => id);
    for (const id of archived) this.#archived.add(id);
    this.#archivedOf.set(organisationId, archived);
  }

  /** Everybody of the organisation and what they are in its workspaces, in the place of those who were known. */
  putPeople(organisationId: string, users: readonly KnownUser[], members: readonly KnownMember[]): void {
    this.view(organisationId).putUsers(users);
    for (const id of this.#rolesIn.get(organisationId) ?? []) this.#roles.delete(id);
    const roles = rolesOf(members);
    for (const [id, ofWorkspace] of roles) this.#roles.set(id, ofWorkspace);
    this.#rolesIn.set(organisationId, [...roles.keys()]);
  }
}

const none: readonly never[] = [];

/** An organisation of which nothing is known. */
const withoutView = {
  defaultsOf: (workspaceId: string) => withoutStore.defaultsOf('', workspaceId),
  settingsIn: (workspaceId: string) => withoutStore.settingsIn('', workspaceId),
};
