import type { Directory, DirectoryStanding, KeyRecord } from '../../ports/directory.ts';
import type { OrganisationDefaults } from '../../ports/organisation-settings.ts';
import type { RecordKind, RecordPlace, StoredRecord } from '../../ports/records.ts';
import type { FileRecords } from './file-records.ts';
import { JoinedLists } from './joined-lists.ts';
import { mergeDefaults } from './merge-defaults.ts';

/**
 * The directory with what the configuration owns: its keys (behind the owner's own, before those of the store),
 * workspaces, defaults and records. `current` is asked for every look-up, so that a reload is seen at once.
 */
export function directoryWithFile(base: Directory, current: () => FileRecords): Directory {
  return new FileDirectory(base, current);
}

/** Defaults that have been merged, and of what. */
interface Merged {
  readonly own: OrganisationDefaults;
  readonly below: OrganisationDefaults;
  readonly defaults: OrganisationDefaults;
}

class FileDirectory implements Directory {
  readonly defaultOrganisationId: string;
  readonly defaultWorkspaceId: string;
  readonly #base: Directory;
  readonly #current: () => FileRecords;
  /** By workspace; of `#mergedOf` alone. */
  readonly #merged = new Map<string, Merged>();
  #mergedOf: FileRecords | undefined;
  readonly #joined = new JoinedLists();

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
    // Nothing in the file may lock the owner out.
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

  defaultsOf(organisationId: string, workspaceId: string): OrganisationDefaults {
    const records = this.#current();
    const stored = this.#base.defaultsOf(organisationId, workspaceId);
    if (organisationId !== records.organisationId) return stored;
    const own = records.workspace(organisationId, workspaceId);
    if (records.defaults === undefined) {
      return own === undefined ? stored : this.#mergedOnce(records, workspaceId, own.defaults, stored);
    }
    if (own !== undefined) return this.#mergedOnce(records, workspaceId, own.defaults, records.defaults);
    // What the store says of the organisation does not count; a workspace without defaults of its own says the same.
    if (stored === this.#base.defaultsOf(organisationId, '')) return records.defaults;
    return this.#mergedOnce(records, workspaceId, stored, records.defaults);
  }

  rateLimitsOf(organisationId: string, workspaceId: string): ReturnType<Directory['rateLimitsOf']> {
    const own = this.#current().workspace(organisationId, workspaceId);
    if (own === undefined) return this.#base.rateLimitsOf(organisationId, workspaceId);
    return own.rateLimits.length === 0 ? undefined : own.rateLimits;
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
    own: OrganisationDefaults,
    below: OrganisationDefaults,
  ): OrganisationDefaults {
    if (this.#mergedOf !== records) {
      this.#merged.clear();
      this.#mergedOf = records;
    }
    const known = this.#merged.get(workspaceId);
    if (known !== undefined && known.own === own && known.below === below) return known.defaults;
    const defaults = mergeDefaults(own, below);
    this.#merged.set(workspaceId, { own, below, defaults });
    return defaults;
  }
}
