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
import type { OwnedUsageLimit, RateLimit } from '../../ports/budgets.ts';
import { SharedTexts } from './key-table.ts';

/** Key for records of the organisation itself; no workspace has an empty id. */
const ofOrganisation = '';

/** Active records of one organisation, in a form whose look-ups allocate nothing. */
export class RecordTable {
  readonly #byId = new Map<string, StoredRecord>();
  readonly #kinds: { [K in RecordKind]?: RecordsOfKind<K> } = {};

  /** Active record of the workspace, or else of the organisation. */
  find<K extends RecordKind>(
    kind: K,
    workspaceId: string | undefined,
    idOrSlug: string,
  ): StoredRecord<K> | undefined {
    const known = this.#byId.get(idOrSlug);
    if (known !== undefined && isOfKind(kind, known) && isVisibleIn(known, workspaceId)) return known;
    return this.#kinds[kind]?.bySlug(workspaceId, idOrSlug);
  }

  /** Records of the workspace followed by those of the organisation; the same array until one changes. */
  list<K extends RecordKind>(kind: K, workspaceId: string | undefined): readonly StoredRecord<K>[] {
    return this.#kinds[kind]?.list(workspaceId ?? ofOrganisation) ?? none;
  }

  /** Every record, in no order. */
  all(): readonly StoredRecord[] {
    return [...this.#byId.values()];
  }

  /** Adds the record, or replaces the one with its id. An archived record is only removed. */
  put<K extends RecordKind>(record: StoredRecord<K>): void {
    this.remove(record.id);
    if (record.status !== 'active') return;
    this.#byId.set(record.id, record);
    this.#ofKind(record.kind).add(record);
  }

  /** Removes the record with this id, if present. */
  remove(id: string): void {
    const known = this.#byId.get(id);
    if (known === undefined) return;
    this.#byId.delete(id);
    this.#ofKind(known.kind).remove(known);
  }

  #ofKind<K extends RecordKind>(kind: K): RecordsOfKind<K> {
    const kinds: { [One in K]?: RecordsOfKind<One> } = this.#kinds;
    return (kinds[kind] ??= new RecordsOfKind());
  }
}

/** The records of one kind, by workspace. */
class RecordsOfKind<K extends RecordKind> {
  readonly #places = new Map<string, RecordsInPlace<K>>();
  /** Lists of workspaces that have records of their own, until one changes. */
  readonly #lists = new Map<string, readonly StoredRecord<K>[]>();

  bySlug(workspaceId: string | undefined, slug: string): StoredRecord<K> | undefined {
    const own = workspaceId === undefined ? undefined : this.#places.get(workspaceId)?.slugs.get(slug);
    return own ?? this.#places.get(ofOrganisation)?.slugs.get(slug);
  }

  list(place: string): readonly StoredRecord<K>[] {
    const shared = this.#places.get(ofOrganisation)?.inOrder() ?? none;
    const own = place === ofOrganisation ? undefined : this.#places.get(place)?.inOrder();
    if (own === undefined) return shared;
    if (shared.length === 0) return own;
    let list = this.#lists.get(place);
    if (list === undefined) this.#lists.set(place, (list = own.concat(shared)));
    return list;
  }

  add(record: StoredRecord<K>): void {
    const name = record.workspaceId ?? ofOrganisation;
    let place = this.#places.get(name);
    if (place === undefined) this.#places.set(name, (place = new RecordsInPlace<K>()));
    place.add(record);
    this.#forget(name);
  }

  remove(record: StoredRecord<K>): void {
    const name = record.workspaceId ?? ofOrganisation;
    const place = this.#places.get(name);
    place?.remove(record);
    if (place?.isEmpty === true) this.#places.delete(name);
    this.#forget(name);
  }

  #forget(place: string): void {
    if (place === ofOrganisation) this.#lists.clear();
    else this.#lists.delete(place);
  }
}

/** The records of one kind in one workspace, or in the organisation itself. */
class RecordsInPlace<K extends RecordKind> {
  readonly slugs = new Map<string, StoredRecord<K>>();
  readonly #records = new Set<StoredRecord<K>>();
  #order: readonly StoredRecord<K>[] | undefined;

  get isEmpty(): boolean {
    return this.#records.size === 0;
  }

  /** Oldest first. */
  inOrder(): readonly StoredRecord<K>[] {
    this.#order ??= [...this.#records].sort(byAge);
    return this.#order;
  }

  add(record: StoredRecord<K>): void {
    this.#records.add(record);
    this.slugs.set(record.slug, record);
    this.#order = undefined;
  }

  remove(record: StoredRecord<K>): void {
    this.#records.delete(record);
    // Another record takes over the slug when the changes arrive in that order.
    if (this.slugs.get(record.slug) === record) this.slugs.delete(record.slug);
    this.#order = undefined;
  }
}

function byAge(one: StoredRecord, other: StoredRecord): number {
  if (one.createdAt !== other.createdAt) return one.createdAt - other.createdAt;
  return one.id < other.id ? -1 : 1;
}

function isVisibleIn(record: StoredRecord, workspaceId: RecordPlace['workspaceId']): boolean {
  return workspaceId === undefined || record.workspaceId === undefined || record.workspaceId === workspaceId;
}

function isOfKind<K extends RecordKind>(kind: K, record: StoredRecord): record is StoredRecord<K> {
  return record.kind === kind;
}

/** Workspace fields that the directory needs. */
export type DirectoryWorkspace = Pick<
  WorkspaceRecord,
  'id' | 'slug' | 'status' | 'defaults' | 'rateLimits' | 'usageLimits' | 'createdAt'
>;

/** User fields that the directory needs. */
export type KnownUser = Pick<UserRecord, 'id' | 'email' | 'role'>;

/** Membership fields that the directory needs. */
export type KnownMember = Pick<MemberRecord, 'workspaceId' | 'userId' | 'role'>;

/** Roles of workspace members, by workspace and user. */
type MemberRoles = ReadonlyMap<string, ReadonlyMap<string, WorkspaceRole>>;

const nothing = withoutStore.defaultsOf('', '');

/** Data of one organisation except its keys, in a form whose look-ups allocate nothing. */
class OrganisationView {
  /** Change up to which each part is known; -1 for an unread part. */
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
  /** Workspaces whose settings differ from the organisation's. */
  readonly #securityIn = new Map<string, SecuritySettings>();
  #defaults: DirectoryDefaults = nothing;
  /** Workspaces with defaults of their own, or exempt from guardrails of the organisation. */
  readonly #defaultsIn = new Map<string, DirectoryDefaults>();
  /** Workspaces with limits. */
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

  /** Replaces all workspaces of the organisation. */
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

  /** Replaces the organisation's settings and the overrides of its workspaces. */
  putSettings(settings: OrganisationSettings, overriding: readonly WorkspaceSettings[]): void {
    this.#settings = settings;
    this.#overriding = overriding;
    this.#securityIn.clear();
    for (const { workspaceId, overrides } of overriding)
      if (settings.overridable.some((category) => overrides[category] !== undefined))
        this.#securityIn.set(workspaceId, settingsIn(settings, overrides));
    this.#layOutDefaults();
  }

  /** Replaces all users of the organisation. */
  putUsers(users: readonly KnownUser[]): void {
    this.#users.clear();
    this.#byEmail.clear();
    for (const { id, email, role } of users) {
      const user = { id, role };
      this.#users.set(id, user);
      this.#byEmail.set(email, user);
    }
  }

  /** The data as put here. */
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
    this.#defaults = hasDefaults(defaults) ? defaultsIn(defaults, '') : nothing;
    this.#defaultsIn.clear();
    for (const id of [...input, ...output]) this.#defaultsIn.set(id, defaultsIn(defaults, id));
    for (const { id, defaults: own } of this.#workspaces)
      if (hasDefaults(own)) this.#defaultsIn.set(id, mergeDefaults(own, this.defaultsOf(id)));
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

function hasDefaults({ metadata, configId, guardrails, allowedModels }: WorkspaceDefaults): boolean {
  if (configId !== undefined || guardrails !== undefined || allowedModels !== undefined) return true;
  return metadata !== undefined && Object.keys(metadata).length > 0;
}

/** The organisation's defaults in a workspace without its own. */
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
 * Request defaults of a workspace: `own` before `below`. Metadata merge by name, the config is taken whole, guardrails
 * follow those of the organisation.
 */
export function mergeDefaults(own: WorkspaceDefaults, below: DirectoryDefaults): DirectoryDefaults {
  const metadata = { ...below.metadata, ...own.metadata };
  const configId = own.configId ?? below.configId;
  const { organisationGuardrails } = below;
  return {
    ...(Object.keys(metadata).length > 0 && { metadata }),
    ...(configId !== undefined && { configId }),
    ...(organisationGuardrails !== undefined && { organisationGuardrails }),
    ...(hasDefaults(own) && { own }),
  };
}

/** Everything the directory knows of the store except keys: workspaces, settings, people, records by organisation. */
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

  /** Usage limits shared by the keys of a workspace; undefined for none. */
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

  /** Data of the organisation; empty for an unknown one. */
  view(organisationId: string): OrganisationView {
    let view = this.#views.get(organisationId);
    if (view === undefined) this.#views.set(organisationId, (view = new OrganisationView(organisationId)));
    return view;
  }

  /** Data of every known organisation, by its id. */
  all(): readonly (readonly [string, OrganisationView])[] {
    return [...this.#views];
  }

  /** The members of the organisation's workspaces. */
  members(organisationId: string): readonly KnownMember[] {
    return (this.#rolesIn.get(organisationId) ?? []).flatMap((workspaceId) =>
      [...(this.#roles.get(workspaceId) ?? [])].map(([userId, role]) => ({ workspaceId, userId, role })),
    );
  }

  /** Replaces all workspaces of the organisation. */
  putWorkspaces(organisationId: string, workspaces: readonly DirectoryWorkspace[]): void {
    this.view(organisationId).putWorkspaces(workspaces);
    for (const id of this.#archivedOf.get(organisationId) ?? []) this.#archived.delete(id);
    const archived = workspaces.filter(({ status }) => status === 'archived').map(({ id }) => id);
    for (const id of archived) this.#archived.add(id);
    this.#archivedOf.set(organisationId, archived);
  }

  /** Replaces all users of the organisation and their roles in its workspaces. */
  putPeople(organisationId: string, users: readonly KnownUser[], members: readonly KnownMember[]): void {
    this.view(organisationId).putUsers(users);
    for (const id of this.#rolesIn.get(organisationId) ?? []) this.#roles.delete(id);
    const roles = rolesOf(members);
    for (const [id, ofWorkspace] of roles) this.#roles.set(id, ofWorkspace);
    this.#rolesIn.set(organisationId, [...roles.keys()]);
  }
}

const none: readonly never[] = [];

/** Data of an unknown organisation. */
const withoutView = {
  defaultsOf: (workspaceId: string) => withoutStore.defaultsOf('', workspaceId),
  settingsIn: (workspaceId: string) => withoutStore.settingsIn('', workspaceId),
};
