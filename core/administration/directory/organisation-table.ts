import { type DirectoryOfStore, withoutStore } from '../../organisation/without-store.ts';
import type { Directory, DirectoryDefaults, DirectoryUser } from '../../ports/directory.ts';
import type { MemberRecord, UserRecord, WorkspaceRole } from '../../ports/people.ts';
import type { RecordKind, RecordPlace, StoredRecord } from '../../ports/records.ts';
import { settingsIn } from '../../organisation/settings-in.ts';
import {
  defaultSettings,
  type OrganisationDefaults,
  type OrganisationSettings,
  type SecuritySettings,
  type WorkspaceSettings,
} from '../../ports/organisation-settings.ts';
import type { ChangeMarks, WorkspaceDefaults, WorkspaceRecord } from '../../ports/resources.ts';
import type { OwnedUsageLimit, RateLimit } from '../../ports/limits.ts';
import { RecordTable } from './record-table.ts';
import { SharedTexts } from './key-table.ts';

/** What the directory needs of a workspace. */
export type DirectoryWorkspace = Pick<
  WorkspaceRecord,
  'id' | 'slug' | 'status' | 'defaults' | 'rateLimits' | 'usageLimits' | 'createdAt'
>;
/** What it needs of somebody. */
export type KnownUser = Pick<UserRecord, 'id' | 'email' | 'role'>;
/** What it needs of a membership. */
export type KnownMember = Pick<MemberRecord, 'workspaceId' | 'userId' | 'role'>;
/** The roles of the members of workspaces, by workspace and user. */
type MemberRoles = ReadonlyMap<string, ReadonlyMap<string, WorkspaceRole>>;

const nothing = withoutStore.defaultsOf('', '');

/** What is known of one organisation beside its keys, laid out for look-ups that allocate nothing. */
class OrganisationView {
  /** The changes up to which each part is known; -1 for what has not been read. */
  readonly marks: { -readonly [K in keyof ChangeMarks]: number } = {
    workspaces: -1,
    people: -1,
    settings: -1,
    records: -1,
  };
  readonly records = new RecordTable();
  readonly #ids = new Map<string, string>();
  readonly #users = new Map<string, DirectoryUser>();
  readonly #byEmail = new Map<string, DirectoryUser>();
  #workspaces: readonly DirectoryWorkspace[] = [];
  #settings: OrganisationSettings;
  #overriding: readonly WorkspaceSettings[] = [];
  /** Of the workspaces in which something else holds than in the organisation. */
  readonly #securityIn = new Map<string, SecuritySettings>();
  #defaults: DirectoryDefaults = nothing;
  /** Of the workspaces that have defaults, or that guardrails of the organisation leave out. */
  readonly #defaultsIn = new Map<string, DirectoryDefaults>();
  /** Of the workspaces that have limits. */
  readonly #limitsIn = new Map<string, readonly RateLimit[]>();
  readonly #usageLimitsIn = new Map<string, readonly OwnedUsageLimit[]>();

  constructor(organisationId: string) {
    this.#settings = defaultSettings(organisationId);
  }

  workspaceId(idOrSlug: string): string | undefined {
    return this.#ids.get(idOrSlug);
  }

  defaultsOf(workspaceId: string): DirectoryDefaults {
    return this.#defaultsIn.get(workspaceId) ?? this.#defaults;
  }

  rateLimitsOf(workspaceId: string): readonly RateLimit[] | undefined {
    return this.#limitsIn.get(workspaceId);
  }

  usageLimitsOf(workspaceId: string): readonly OwnedUsageLimit[] | undefined {
    return this.#usageLimitsIn.get(workspaceId);
  }

  settingsIn(workspaceId: string): SecuritySettings {
    return this.#securityIn.get(workspaceId) ?? this.#settings.security;
  }

  user(idOrEmail: string): DirectoryUser | undefined {
    return this.#users.get(idOrEmail) ?? this.#byEmail.get(idOrEmail.toLowerCase());
  }

  /** All workspaces of the organisation, in the place of those that were known. */
  putWorkspaces(workspaces: readonly DirectoryWorkspace[]): void {
    this.#workspaces = workspaces;
    this.#ids.clear();
    for (const { id, slug } of workspaces) this.#ids.set(slug, id);
    for (const { id } of workspaces) this.#ids.set(id, id);
    this.#limitsIn.clear();
    for (const { id, rateLimits } of workspaces)
      if (rateLimits.length > 0) this.#limitsIn.set(id, rateLimits);
    this.#usageLimitsIn.clear();
    for (const { id, usageLimits, createdAt } of workspaces)
      if (usageLimits.length > 0)
        this.#usageLimitsIn.set(
          id,
          usageLimits.map((limit) => ({ limit, createdAt })),
        );
    this.#layOutDefaults();
  }

  /** The organisation's settings with what its workspaces override, in the place of those that were known. */
  putSettings(settings: OrganisationSettings, overriding: readonly WorkspaceSettings[]): void {
    this.#settings = settings;
    this.#overriding = overriding;
    this.#securityIn.clear();
    for (const { workspaceId, overrides } of overriding)
      if (settings.overridable.some((category) => overrides[category] !== undefined))
        this.#securityIn.set(workspaceId, settingsIn(settings, overrides));
    this.#layOutDefaults();
  }

  /** Everybody of the organisation, in the place of those who were known. */
  putUsers(users: readonly KnownUser[]): void {
    this.#users.clear();
    this.#byEmail.clear();
    for (const { id, email, role } of users) {
      const user = { id, role };
      this.#users.set(id, user);
      this.#byEmail.set(email, user);
    }
  }

  /** What was put here, as it came. */
  contents(): {
    readonly workspaces: readonly DirectoryWorkspace[];
    readonly settings: OrganisationSettings;
    readonly overriding: readonly WorkspaceSettings[];
    readonly users: readonly KnownUser[];
  } {
    const users = [...this.#byEmail].map(([email, user]) => ({ ...user, email }));
    return { workspaces: this.#workspaces, settings: this.#settings, overriding: this.#overriding, users };
  }

  #layOutDefaults(): void {
    const { defaults } = this.#settings;
    const { input = none, output = none } = defaults.excludedWorkspaces ?? {};
    this.#defaults = saysSomething(defaults) ? defaultsIn(defaults, '') : nothing;
    this.#defaultsIn.clear();
    for (const id of [...input, ...output]) this.#defaultsIn.set(id, defaultsIn(defaults, id));
    for (const { id, defaults: own } of this.#workspaces)
      if (saysSomething(own)) this.#defaultsIn.set(id, mergeDefaults(own, this.defaultsOf(id)));
  }
}

/** The members of an organisation by workspace and user. */
function rolesOf(members: readonly KnownMember[]): MemberRoles {
  const shared = new SharedTexts();
  const roles = new Map<string, Map<string, WorkspaceRole>>();
  for (const { workspaceId, userId, role } of members) {
    const known = roles.get(workspaceId);
    if (known === undefined) roles.set(workspaceId, new Map([[shared.text(userId), role]]));
    else known.set(shared.text(userId), role);
  }
  return roles;
}

function saysSomething({ metadata, configId, guardrails }: OrganisationDefaults): boolean {
  if (configId !== undefined || guardrails !== undefined) return true;
  return metadata !== undefined && Object.keys(metadata).length > 0;
}

/** What the organisation's defaults come to in a workspace that says nothing itself. */
export function defaultsIn(organisation: OrganisationDefaults, workspaceId: string): DirectoryDefaults {
  const { metadata, configId, guardrails, excludedWorkspaces: excluded } = organisation;
  const left = guardrails && {
    input: excluded?.input.includes(workspaceId) === true ? none : guardrails.input,
    output: excluded?.output.includes(workspaceId) === true ? none : guardrails.output,
  };
  return {
    ...(metadata !== undefined && { metadata }),
    ...(configId !== undefined && { configId }),
    ...(left !== undefined && { organisationGuardrails: left }),
  };
}

/**
 * What requests begin with where a workspace's `own` stands before `below`: metadata name by name, the config as a whole,
 * guardrails behind those of the organisation.
 */
export function mergeDefaults(own: WorkspaceDefaults, below: DirectoryDefaults): DirectoryDefaults {
  const metadata = { ...below.metadata, ...own.metadata };
  const configId = own.configId ?? below.configId;
  const { organisationGuardrails } = below;
  return {
    ...(Object.keys(metadata).length > 0 && { metadata }),
    ...(configId !== undefined && { configId }),
    ...(organisationGuardrails !== undefined && { organisationGuardrails }),
    ...(saysSomething(own) && { own }),
  };
}

/** Everything of the store that the directory knows beside keys: workspaces, settings, people, records by organisation. */
export class OrganisationTable implements Omit<DirectoryOfStore, 'standing' | 'keyById'> {
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

  /** How much the keys of a workspace may use together; undefined for no limit. */
  usageLimitsOf(organisationId: string, workspaceId: string): ReturnType<Directory['usageLimitsOf']> {
    return this.#views.get(organisationId)?.usageLimitsOf(workspaceId);
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
