import type { MaybePromise } from '../../pipeline/context.ts';
import type { Directory } from '../../ports/directory.ts';
import { RecentMap } from '../../base/recent-map.ts';
import type { RecordPlace, RecordsReader, RecordVersion, StoredRecord } from '../../ports/records.ts';
import type { Resources } from '../../ports/resources.ts';

/** The kinds of records that have templates. */
export type TemplateKind = 'prompt' | 'prompt_partial';

/** Where prompts, partials and labels are looked up. */
export interface PromptSource {
  record<K extends TemplateKind | 'label'>(
    kind: K,
    place: RecordPlace,
    idOrSlug: string,
  ): MaybePromise<StoredRecord<K> | undefined>;
  /** A record that is not found may exist all the same: the store that may know it cannot be read now. */
  readonly isBehind: boolean;
  version<K extends TemplateKind>(
    record: StoredRecord<K>,
    wanted: { readonly number: number } | { readonly labelId: string } | 'latest',
  ): MaybePromise<RecordVersion<K> | undefined>;
}

/** What is stored, as one transaction sees it. */
export function storedSource({ records }: { readonly records: RecordsReader }): PromptSource {
  return {
    isBehind: false,
    async record(kind, place, idOrSlug) {
      const found = await records.find(kind, place, idOrSlug);
      return found?.status === 'active' ? found : undefined;
    },
    version: (record, wanted) => storedVersion(records, record, wanted),
  };
}

async function storedVersion<K extends TemplateKind>(
  records: RecordsReader,
  { kind, organisationId, id }: StoredRecord<K>,
  wanted: { readonly number: number } | { readonly labelId: string } | 'latest',
): Promise<RecordVersion<K> | undefined> {
  if (wanted !== 'latest') return records.version(kind, organisationId, id, wanted);
  const { data } = await records.versions(kind, organisationId, id, { offset: 0, limit: 1 });
  return data[0];
}

/** Enough for what is asked for again and again; a version has 1 MiB at the most and mostly a thousandth of it. */
const maxVersions = 1_000;

/**
 * What the request path knows: records come from the directory, versions that are no default ones are read once and kept
 * (1,000 of them). Which version is the latest or has a label is asked again when the record has changed.
 */
export class DirectorySource implements PromptSource {
  readonly #directory: Pick<Directory, 'record' | 'standing'>;
  readonly #resources: Resources | undefined;
  readonly #kept = new RecentMap<Promise<RecordVersion | undefined>>(maxVersions);

  constructor(directory: Pick<Directory, 'record' | 'standing'>, resources: Resources | undefined) {
    this.#directory = directory;
    this.#resources = resources;
  }

  get isBehind(): boolean {
    return this.#directory.standing() !== 'current';
  }

  record<K extends TemplateKind | 'label'>(
    kind: K,
    place: RecordPlace,
    idOrSlug: string,
  ): StoredRecord<K> | undefined {
    return this.#directory.record(kind, place, idOrSlug);
  }

  async version<K extends TemplateKind>(
    record: StoredRecord<K>,
    wanted: { readonly number: number } | { readonly labelId: string } | 'latest',
  ): Promise<RecordVersion<K> | undefined> {
    const key = keyOf(record, wanted);
    const kept = this.#kept.touch(key);
    // The entry under the key of a record is a version of that record.
    if (kept !== undefined) return kept as Promise<RecordVersion<K> | undefined>;
    const reading = this.#read(record, wanted);
    this.#kept.set(key, reading);
    try {
      const found = await reading;
      if (found === undefined) this.#kept.delete(key);
      return found;
    } catch (error) {
      this.#kept.delete(key);
      throw error;
    }
  }

  async #read<K extends TemplateKind>(
    record: StoredRecord<K>,
    wanted: { readonly number: number } | { readonly labelId: string } | 'latest',
  ): Promise<RecordVersion<K> | undefined> {
    return this.#resources?.read(({ records }) => storedVersion(records, record, wanted));
  }
}

function keyOf(
  { kind, id, version }: StoredRecord,
  wanted: { readonly number: number } | { readonly labelId: string } | 'latest',
): string {
  if (wanted === 'latest') return `${kind}|${id}|latest|${version}`;
  if ('number' in wanted) return `${kind}|${id}|${wanted.number}`;
  return `${kind}|${id}|label|${version}|${wanted.labelId}`;
}
