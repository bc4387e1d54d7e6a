import type { MaybePromise } from '../../pipeline/context.ts';
import type { Directory } from '../../ports/directory.ts';
import { RecentMap } from '../../base/recent-map.ts';
import type { RecordPlace, RecordsReader, RecordVersion, StoredRecord } from '../../ports/records.ts';
import type { Resources } from '../../ports/resources.ts';

/** Kinds of records that have templates. */
export type TemplateKind = 'prompt' | 'prompt_partial';

/** Look-up of prompts, partials and labels. */
export interface PromptSource {
  record<K extends TemplateKind | 'label'>(
    kind: K,
    place: RecordPlace,
    idOrSlug: string,
  ): MaybePromise<StoredRecord<K> | undefined>;
  /** True while the store cannot be read: a record that is not found may exist all the same. */
  readonly isBehind: boolean;
  version<K extends TemplateKind>(
    record: StoredRecord<K>,
    wanted: { readonly number: number } | { readonly labelId: string } | 'latest',
  ): MaybePromise<RecordVersion<K> | undefined>;
}

/** Source that reads the store, within one transaction. */
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

/** Enough for versions in regular use; a version has 1 MiB at most, typically 1 KiB. */
const maxVersions = 1_000;

/**
 * Source of the request path: records come from the directory; non-default versions are read once and cached (1,000 of
 * them). A change of the record invalidates its latest version and its labels.
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
    // An entry under the key of a record is a version of that record.
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
