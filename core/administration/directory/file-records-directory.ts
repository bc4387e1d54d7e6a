import type { OwnedUsageLimit } from '../../ports/budgets.ts';
import type {
  Directory,
  DirectoryDefaults,
  DirectoryStanding,
  KeyRecord,
  DirectoryUser,
} from '../../ports/directory.ts';
import type { SecuritySettings } from '../../ports/organisation-settings.ts';
import type { WorkspaceRole } from '../../ports/people.ts';
import type { RecordKind, RecordPlace, StoredRecord } from '../../ports/records.ts';
import type { FileRecords } from './file-records.ts';
import { KeyTable } from './key-table.ts';
import { defaultsIn, mergeDefaults, OrganisationTable } from './organisation-table.ts';
import type {
  Resources,
  ResourcesReader,
  WorkspaceDefaults,
  WorkspaceRecord,
} from '../../ports/resources.ts';
import type { Page, Paged } from '../../ports/page.ts';
import { defaultWorkspace } from './default-records.ts';
import { readerWithFile } from './file-records-resources.ts';
import { noStore, readerWithoutStore } from '../../organisation/without-store.ts';
import { type Known, readAllKeys, readChanged } from './read-changes.ts';

/**
 * Reader of the records that the configuration owns, for a gateway without a store. It has no people; settings, invites
 * and the audit trail reject with `not_supported`.
 */
export function fileRecordsOnly(
  current: () => FileRecords,
  place: Pick<Directory, 'defaultOrganisationId' | 'defaultWorkspaceId'>,
): Pick<Resources, 'read'> {
  const reader = emptyReader(place);
  return { read: async (work) => work(readerWithFile(reader, current())) };
}

const findNothing = () => Promise.resolve(undefined);

const noList = <T>(): Promise<Paged<T>> => Promise.resolve({ total: 0, data: [] });

function emptyReader({
  defaultOrganisationId: organisationId,
  defaultWorkspaceId,
}: Pick<Directory, 'defaultOrganisationId' | 'defaultWorkspaceId'>): ResourcesReader {
  const absent = readerWithoutStore(noStore());
  const organisation = { id: organisationId, name: 'Default organisation', createdAt: 0 };
  const workspace = defaultWorkspace(organisationId, defaultWorkspaceId, 0);
  return {
    ...absent,
    organisations: {
      byId: (id) => Promise.resolve(id === organisationId ? organisation : undefined),
      list: () => Promise.resolve([organisation]),
    },
    workspaces: {
      find(ofOrganisation, idOrSlug) {
        const isMeant = idOrSlug === workspace.id || idOrSlug === workspace.slug;
        return Promise.resolve(ofOrganisation === organisationId && isMeant ? workspace : undefined);
      },
      list(ofOrganisation, { name, exactName, statuses }, { offset, limit }: Page) {
        const isWanted =
          ofOrganisation === organisationId &&
          (statuses === undefined || statuses.includes('active')) &&
          (exactName === undefined || exactName === workspace.name) &&
          (name === undefined || workspace.name.toLowerCase().includes(name.toLowerCase()));
        const data = isWanted ? [workspace] : [];
        return Promise.resolve({ total: data.length, data: data.slice(offset, offset + limit) });
      },
    },
    apiKeys: { ...absent.apiKeys, find: findNothing, list: noList },
    users: { ...absent.users, find: findNothing, byEmail: findNothing, list: noList },
    members: { ...absent.members, find: findNothing, list: noList },
    records: { ...absent.records, find: findNothing, list: noList, versions: noList, version: findNothing },
  };
}

type Records = readonly StoredRecord[];

/** File lists followed by the store's; the same list as long as both are unchanged. */
class JoinedLists {
  readonly #known = new WeakMap<Records, WeakMap<Records, Records>>();

  of<K extends RecordKind>(
    own: readonly StoredRecord<K>[],
    stored: readonly StoredRecord<K>[],
  ): readonly StoredRecord<K>[] {
    let behind = this.#known.get(own);
    if (behind === undefined) this.#known.set(own, (behind = new WeakMap()));
    const known = behind.get(stored) as readonly StoredRecord<K>[] | undefined;
    if (known !== undefined) return known;
    const joined = own.concat(stored);
    behind.set(stored, joined);
    return joined;
  }
}

/**
 * The directory with the records that the configuration owns: keys (after the owner's, before the store's), workspaces,
 * defaults and records. `current` is called for every look-up, so that a reload takes effect at once.
 */
export function directoryWithFile(base: Directory, current: () => FileRecords): Directory {
  return new FileDirectory(base, current);
}

/** Merged defaults with their sources. */
interface Merged {
  readonly own: WorkspaceDefaults | undefined;
  readonly stored: DirectoryDefaults;
  readonly defaults: DirectoryDefaults;
}

class FileDirectory implements Directory {
  readonly defaultOrganisationId: string;
  readonly defaultWorkspaceId: string;
  readonly #base: Directory;
  readonly #current: () => FileRecords;
  /** By workspace; valid for `#mergedOf` only. */
  readonly #merged = new Map<string, Merged>();
  #mergedOf: FileRecords | undefined;
  readonly #joined = new JoinedLists();
  readonly #usageLimits = new WeakMap<WorkspaceRecord, readonly OwnedUsageLimit[]>();

  constructor(base: Directory, current: () => FileRecords) {
    this.defaultOrganisationId = base.defaultOrganisationId;
    this.defaultWorkspaceId = base.defaultWorkspaceId;
    this.#base = base;
    this.#current = current;
  }

  standing(): DirectoryStanding {
    return this.#base.standing();
  }

  keyByHash(hash: string): KeyRecord | undefined {
    const known = this.#base.keyByHash(hash);
    // The file must not lock the owner out.
    return known?.kind === 'owner' ? known : (this.#current().keyByHash(hash) ?? known);
  }

  keyById(id: string): KeyRecord | undefined {
    return this.#current().keyById(id) ?? this.#base.keyById(id);
  }

  isArchived(workspaceId: string): boolean {
    return this.#base.isArchived(workspaceId);
  }

  workspaceId(organisationId: string, idOrSlug: string): string | undefined {
    const own = this.#current().workspace(organisationId, idOrSlug);
    return own === undefined ? this.#base.workspaceId(organisationId, idOrSlug) : own.id;
  }

  defaultsOf(organisationId: string, workspaceId: string): DirectoryDefaults {
    const records = this.#current();
    const stored = this.#base.defaultsOf(organisationId, workspaceId);
    if (organisationId !== records.organisationId) return stored;
    const own = records.workspace(organisationId, workspaceId)?.defaults;
    if (records.defaults === undefined && own === undefined) return stored;
    return this.#mergedOnce(records, workspaceId, own, stored);
  }

  rateLimitsOf(organisationId: string, workspaceId: string): ReturnType<Directory['rateLimitsOf']> {
    const own = this.#current().workspace(organisationId, workspaceId);
    if (own === undefined) return this.#base.rateLimitsOf(organisationId, workspaceId);
    return own.rateLimits.length === 0 ? undefined : own.rateLimits;
  }

  usageLimitsOf(organisationId: string, workspaceId: string): ReturnType<Directory['usageLimitsOf']> {
    const records = this.#current();
    const own = records.workspace(organisationId, workspaceId);
    if (own === undefined) return this.#base.usageLimitsOf(organisationId, workspaceId);
    return own.usageLimits.length === 0 ? undefined : this.#usageLimitsOnce(own);
  }

  /** The same list for the same record. */
  #usageLimitsOnce(own: WorkspaceRecord): readonly OwnedUsageLimit[] {
    let made = this.#usageLimits.get(own);
    if (made === undefined) {
      made = own.usageLimits.map((limit) => ({ limit, createdAt: own.createdAt }));
      this.#usageLimits.set(own, made);
    }
    return made;
  }

  settingsIn(organisationId: string, workspaceId: string): ReturnType<Directory['settingsIn']> {
    return this.#base.settingsIn(organisationId, workspaceId);
  }

  user(organisationId: string, idOrEmail: string): ReturnType<Directory['user']> {
    return this.#base.user(organisationId, idOrEmail);
  }

  memberRole(workspaceId: string, userId: string): ReturnType<Directory['memberRole']> {
    return this.#base.memberRole(workspaceId, userId);
  }

  record<K extends RecordKind>(kind: K, place: RecordPlace, idOrSlug: string): StoredRecord<K> | undefined {
    const { organisationId, resources } = this.#current();
    const own =
      place.organisationId === organisationId
        ? resources.table.find(kind, place.workspaceId, idOrSlug)
        : undefined;
    return own ?? this.#base.record(kind, place, idOrSlug);
  }

  records<K extends RecordKind>(kind: K, place: RecordPlace): readonly StoredRecord<K>[] {
    const stored = this.#base.records(kind, place);
    const { organisationId, resources } = this.#current();
    if (place.organisationId !== organisationId) return stored;
    const own = resources.table.list(kind, place.workspaceId);
    if (own.length === 0) return stored;
    return stored.length === 0 ? own : this.#joined.of(own, stored);
  }

  #mergedOnce(
    records: FileRecords,
    workspaceId: string,
    own: WorkspaceDefaults | undefined,
    stored: DirectoryDefaults,
  ): DirectoryDefaults {
    if (this.#mergedOf !== records) {
      this.#merged.clear();
      this.#mergedOf = records;
    }
    const known = this.#merged.get(workspaceId);
    if (known?.own === own && known?.stored === stored) return known.defaults;
    const below = records.defaults === undefined ? stored : defaultsIn(records.defaults, workspaceId);
    const defaults = mergeDefaults(own ?? stored.own ?? {}, below);
    this.#merged.set(workspaceId, { own, stored, defaults });
    return defaults;
  }
}

/** Tables without content, for the organisation of `base`. */
export function nothingKnown({
  defaultOrganisationId,
  defaultWorkspaceId,
}: Pick<Directory, 'defaultOrganisationId' | 'defaultWorkspaceId'>): Known {
  const keys = new KeyTable((organisationId) =>
    organisationId === defaultOrganisationId ? defaultWorkspaceId : '',
  );
  return { keys, organisations: new OrganisationTable() };
}

/** A directory whose data are in memory. Keys of `base` come first. */
export class KnownDirectory implements Directory {
  readonly defaultOrganisationId: string;
  readonly defaultWorkspaceId: string;
  protected known: Known;
  readonly #base: Directory;

  constructor(base: Directory) {
    this.defaultOrganisationId = base.defaultOrganisationId;
    this.defaultWorkspaceId = base.defaultWorkspaceId;
    this.#base = base;
    this.known = nothingKnown(base);
  }

  standing(): DirectoryStanding {
    return 'current';
  }

  keyByHash(sha256: string): KeyRecord | undefined {
    const own = this.#base.keyByHash(sha256);
    if (own !== undefined || this.standing() === 'unknown') return own;
    return this.known.keys.find(sha256);
  }

  keyById(id: string): KeyRecord | undefined {
    return this.#base.keyById(id) ?? this.known.keys.findById(id);
  }

  isArchived(workspaceId: string): boolean {
    return this.known.organisations.isArchived(workspaceId);
  }

  workspaceId(organisationId: string, idOrSlug: string): string | undefined {
    return this.known.organisations.workspaceId(organisationId, idOrSlug);
  }

  defaultsOf(organisationId: string, workspaceId: string): ReturnType<Directory['defaultsOf']> {
    return this.known.organisations.defaultsOf(organisationId, workspaceId);
  }

  rateLimitsOf(organisationId: string, workspaceId: string): ReturnType<Directory['rateLimitsOf']> {
    return this.known.organisations.rateLimitsOf(organisationId, workspaceId);
  }

  usageLimitsOf(organisationId: string, workspaceId: string): ReturnType<Directory['usageLimitsOf']> {
    return this.known.organisations.usageLimitsOf(organisationId, workspaceId);
  }

  settingsIn(organisationId: string, workspaceId: string): SecuritySettings {
    return this.known.organisations.settingsIn(organisationId, workspaceId);
  }

  user(organisationId: string, idOrEmail: string): DirectoryUser | undefined {
    return this.known.organisations.user(organisationId, idOrEmail);
  }

  memberRole(workspaceId: string, userId: string): WorkspaceRole | undefined {
    return this.known.organisations.memberRole(workspaceId, userId);
  }

  record<K extends RecordKind>(kind: K, place: RecordPlace, idOrSlug: string): StoredRecord<K> | undefined {
    return this.known.organisations.record(kind, place, idOrSlug);
  }

  records<K extends RecordKind>(kind: K, place: RecordPlace): readonly StoredRecord<K>[] {
    return this.known.organisations.records(kind, place);
  }
}

/** The records of a store now. It does not follow later changes. */
class ReadDirectory extends KnownDirectory {
  /** Reads these organisations. Resolves to the number of those that the store has. */
  async read(
    store: Pick<Resources, 'read' | 'changes'>,
    organisations: ReadonlySet<string>,
  ): Promise<number> {
    const { known } = this;
    const numbers = [...(await store.changes())].filter(([id]) => organisations.has(id));
    await readAllKeys(store, (key) => {
      if (organisations.has(key.organisationId)) known.keys.put(key);
    });
    for (const [organisationId, after] of numbers)
      await readChanged(store, { organisationId, after, known, isWanted: () => true });
    return numbers.length;
  }
}

/**
 * Reads the records of these organisations once, for a command: nothing is written, and later changes are not seen.
 * Undefined when the store has none of them. Rejects when it cannot be read.
 */
export async function readDirectory(
  base: Directory,
  store: Pick<Resources, 'read' | 'changes'>,
  organisations: ReadonlySet<string>,
): Promise<Directory | undefined> {
  const directory = new ReadDirectory(base);
  return (await directory.read(store, organisations)) === 0 ? undefined : directory;
}
