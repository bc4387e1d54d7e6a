import type { RecordKinds } from './record-kinds.ts';
import type { Page, Paged } from './page.ts';

/** What kind of thing a record is. */
export type RecordKind = keyof RecordKinds;

/**
 * Something that requests can be configured with: a config, an integration, a prompt … All kinds share this envelope;
 * what is special about a kind is in `data`.
 */
export interface StoredRecord<K extends RecordKind = RecordKind> {
  readonly kind: K;
  /** UUID. */
  readonly id: string;
  readonly organisationId: string;
  /** Undefined for what belongs to the organisation. */
  readonly workspaceId: string | undefined;
  /** Unique among the records of a kind in their workspace, or in the organisation. Matches `^[a-zA-Z0-9_-]{1,255}$`. */
  readonly slug: string;
  readonly name: string;
  readonly status: 'active' | 'archived';
  /** Id of the record that it belongs to (a provider's integration, a prompt's collection); empty for none. */
  readonly parentId: string;
  /**
   * Plain JSON, 1 MiB at the most (`body_too_large`); the order of members is kept. Integers beyond 2^53 do not occur.
   * Members that are undefined are absent when it is read.
   */
  readonly data: RecordKinds[K];
  /** Encrypted texts by the field that they are the value of; see `SecretBox`. Never leave the gateway. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Id of the user, or of the key, that made it. */
  readonly createdBy: string;
  readonly updatedBy: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly version: number;
  /** `file` for what the configuration owns; absent for what is stored. */
  readonly managedBy?: 'file';
}

/** What a record was at some time. Never changes, but for its label. */
export interface RecordVersion<K extends RecordKind = RecordKind> {
  /** UUID. */
  readonly id: string;
  readonly recordId: string;
  /** From 1, without gaps. */
  readonly number: number;
  readonly name: string;
  readonly data: RecordKinds[K];
  readonly description: string;
  /** Id of a label; empty for none. A label is on one version of a record at the most. */
  readonly labelId: string;
  readonly createdBy: string;
  readonly createdAt: number;
}

export interface RecordFilter {
  /** Only those of this workspace. */
  readonly workspaceId?: string;
  /** Only those that belong to the organisation itself. */
  readonly ofOrganisation?: true;
  readonly status?: StoredRecord['status'];
  readonly parentId?: string;
  /** Part of the name or of the slug, in any case. */
  readonly search?: string;
  readonly exactName?: string;
}

/** Where a record is looked for: those of the workspace come first, then those of the organisation. */
export interface RecordPlace {
  readonly organisationId: string;
  /** Undefined: in every workspace (by id), or in the organisation alone (by slug). */
  readonly workspaceId?: string | undefined;
}

export interface RecordsReader {
  /** By id, or by slug within the place; the id wins. Archived ones too. */
  find<K extends RecordKind>(
    kind: K,
    place: RecordPlace,
    idOrSlug: string,
  ): Promise<StoredRecord<K> | undefined>;
  /** Oldest first. */
  list<K extends RecordKind>(
    kind: K,
    organisationId: string,
    filter: RecordFilter,
    page: Page,
  ): Promise<Paged<StoredRecord<K>>>;
  /** Newest first. */
  versions<K extends RecordKind>(
    kind: K,
    organisationId: string,
    recordId: string,
    page: Page,
  ): Promise<Paged<RecordVersion<K>>>;
  /** By number, by id, or by the id of its label. */
  version<K extends RecordKind>(
    kind: K,
    organisationId: string,
    recordId: string,
    wanted: { readonly number: number } | { readonly id: string } | { readonly labelId: string },
  ): Promise<RecordVersion<K> | undefined>;
  /**
   * For the directory: records of these kinds that the organisation's changes after number `afterChange` stored, as
   * they are now, in pages by id: those after `afterId`, 1,000 and about 16 MiB at the most. Only an empty page is the
   * last. A new version or a moved label of a record counts as a change of it.
   */
  changedSince(
    organisationId: string,
    afterChange: number,
    kinds: readonly RecordKind[],
    afterId: string,
  ): Promise<readonly StoredRecord[]>;
  /** For the directory: ids of records that changes after this one removed. Remembered for a day at least. */
  removedSince(organisationId: string, afterChange: number): Promise<readonly string[]>;
  /** Every record of every organisation that has secrets, for changing the key. In pages like those of `changedSince`. */
  withSecrets(afterId: string): Promise<readonly StoredRecord[]>;
}

export interface RecordsWriter {
  /** Rejects with `already_exists` when the slug is taken. */
  insert<K extends RecordKind>(record: StoredRecord<K>): Promise<void>;
  /** Stores the record when the stored one has the version before; false when it has another one, or is gone. */
  replace<K extends RecordKind>(record: StoredRecord<K>): Promise<boolean>;
  /** Takes its versions along. False when there is none. */
  remove(kind: RecordKind, organisationId: string, id: string): Promise<boolean>;
  /**
   * Appends a version; its number is the next one of the record. Its label is taken off the version that had it. Rejects
   * with `resource_not_found` when there is no such record.
   */
  addVersion<K extends RecordKind>(
    kind: K,
    organisationId: string,
    version: Omit<RecordVersion<K>, 'number'>,
  ): Promise<RecordVersion<K>>;
  /**
   * Puts a label on a version, and takes it off the one of its record that had it; an empty one takes off what is there.
   * False when there is no such version.
   */
  label(kind: RecordKind, organisationId: string, versionId: string, labelId: string): Promise<boolean>;
}
