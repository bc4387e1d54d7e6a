import type { RecordKinds } from './record-kinds.ts';
import type { Page, Paged } from './page.ts';

export type RecordKind = keyof RecordKinds;

/**
 * A configurable object: a config, an integration, a prompt … All kinds share this envelope; `data` is specific to the
 * kind.
 */
export interface StoredRecord<K extends RecordKind = RecordKind> {
  readonly kind: K;
  /** UUID. */
  readonly id: string;
  readonly organisationId: string;
  /** Undefined for a record of the organisation. */
  readonly workspaceId: string | undefined;
  /** Unique among the records of a kind in their workspace, or in the organisation. Matches `^[a-zA-Z0-9_-]{1,255}$`. */
  readonly slug: string;
  readonly name: string;
  readonly status: 'active' | 'archived';
  /** Id of the parent record (a provider's integration, a prompt's collection); empty for none. */
  readonly parentId: string;
  /**
   * Plain JSON, 1 MiB at the most (`body_too_large`); the order of members is kept. Integers beyond 2^53 do not occur.
   * Members that are undefined are absent after a read.
   */
  readonly data: RecordKinds[K];
  /** Encrypted values by field; see `SecretBox`. They never leave the gateway. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Id of the user or key that created it. */
  readonly createdBy: string;
  readonly updatedBy: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly version: number;
  /** `file` for a record of the configuration; absent for one of the store. */
  readonly managedBy?: 'file';
}

/** A historical state of a record. Immutable except for its label. */
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

/** Scope of a look-up: records of the workspace come first, then those of the organisation. */
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
   * For the directory: present state of the records of these kinds that the organisation's changes after number
   * `afterChange` stored, in pages by id: those after `afterId`, at most 1,000 and about 16 MiB. Only an empty page is
   * the last. A new version or a moved label of a record counts as a change of it.
   */
  changedSince(
    organisationId: string,
    afterChange: number,
    kinds: readonly RecordKind[],
    afterId: string,
  ): Promise<readonly StoredRecord[]>;
  /** For the directory: ids of records that changes after this one removed. Kept for at least a day. */
  removedSince(organisationId: string, afterChange: number): Promise<readonly string[]>;
  /** All records with secrets, over all organisations, for a change of the key. In pages like those of `changedSince`. */
  withSecrets(afterId: string): Promise<readonly StoredRecord[]>;
}

export interface RecordsWriter {
  /** Rejects with `already_exists` when the slug is taken. */
  insert<K extends RecordKind>(record: StoredRecord<K>): Promise<void>;
  /** Stores the record when the stored version is the previous one; false when it is another one, or the record is gone. */
  replace<K extends RecordKind>(record: StoredRecord<K>): Promise<boolean>;
  /** Removes a record and its versions. False when there is none. */
  remove(kind: RecordKind, organisationId: string, id: string): Promise<boolean>;
  /**
   * Appends a version with the next number of the record. Removes its label from the version that had it. Rejects with
   * `resource_not_found` when there is no such record.
   */
  addVersion<K extends RecordKind>(
    kind: K,
    organisationId: string,
    version: Omit<RecordVersion<K>, 'number'>,
  ): Promise<RecordVersion<K>>;
  /**
   * Moves a label to a version, from the version of the record that had it; an empty id removes the version's label.
   * False when there is no such version.
   */
  label(kind: RecordKind, organisationId: string, versionId: string, labelId: string): Promise<boolean>;
}
