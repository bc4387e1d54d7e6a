import type { Directory, DirectoryStanding, DirectoryUser, KeyRecord } from '../../ports/directory.ts';
import type { SecuritySettings } from '../../ports/organisation-settings.ts';
import type { WorkspaceRole } from '../../ports/people.ts';
import type { RecordKind, RecordPlace, StoredRecord } from '../../ports/records.ts';
import type { Resources } from '../../ports/resources.ts';
import { KeyTable } from './key-table.ts';
import { OrganisationTable } from './organisation-table.ts';
import { type Known, readAllKeys, readChanged } from './read-changes.ts';

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

/** What is in a store now. It does not follow later changes. */
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
