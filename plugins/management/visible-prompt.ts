import { GatewayError, Type } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { RecordVersion, StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import {
  labelSlug,
  readReference,
  referencePattern,
  type WantedVersion,
} from '../../core/administration/prompts/prompt-reference.ts';
import type { TemplateKind } from '../../core/administration/prompts/prompt-source.ts';
import { noSuchRecord, visibleRecord } from './visible-record.ts';

type Reader = Pick<ResourcesReader, 'records' | 'workspaces'>;

const nouns = { prompt: 'prompt', prompt_partial: 'partial' } as const;

/** A prompt in a path: `id`, `slug`, `id@12`, `id@latest` or `id@<label>`. */
export const PromptReferenceParam = Type.String({
  ...{ maxLength: 511, pattern: referencePattern },
  description: 'Id or slug; `@12`, `@latest` or `@<label>` behind it names a version.',
});

/** The active prompt or partial of this id or slug. Throws `resource_not_found`. */
export async function visibleTemplate<K extends TemplateKind>(
  reader: Reader,
  key: KeyRecord,
  kind: K,
  idOrSlug: string,
): Promise<StoredRecord<K>> {
  const record = await visibleRecord(reader, key, { kind, noun: nouns[kind], idOrSlug });
  if (record.status === 'active') return record;
  throw noSuchRecord(nouns[kind], idOrSlug);
}

/** A prompt or a partial with the version that a reference names. Throws `resource_not_found`. */
export async function referencedTemplate<K extends TemplateKind>(
  reader: Reader,
  key: KeyRecord,
  kind: K,
  reference: string,
): Promise<{ readonly record: StoredRecord<K>; readonly version: RecordVersion<K> }> {
  const wanted = readReference(reference);
  if (wanted === undefined) throw noSuchRecord(nouns[kind], reference);
  const record = await visibleTemplate(reader, key, kind, wanted.idOrSlug);
  const version = await versionOf(reader, record, wanted.version);
  if (version !== undefined) return { record, version };
  throw noSuchVersion(record, reference);
}

async function versionOf<K extends TemplateKind>(
  { records }: Reader,
  record: StoredRecord<K>,
  wanted: WantedVersion,
): Promise<RecordVersion<K> | undefined> {
  const { organisationId, id } = record;
  const { kind } = record;
  if (wanted.kind === 'latest') return latestVersion({ records }, record);
  if (wanted.kind === 'label') {
    const label = await records.find('label', record, labelSlug(wanted.label));
    return label && records.version(kind, organisationId, id, { labelId: label.id });
  }
  const number = wanted.kind === 'default' ? record.data.defaultVersion : wanted.number;
  return records.version(kind, organisationId, id, { number });
}

/** The newest version. */
export async function latestVersion<K extends TemplateKind>(
  { records }: Pick<ResourcesReader, 'records'>,
  { kind, organisationId, id }: StoredRecord<K>,
): Promise<RecordVersion<K> | undefined> {
  const page = { offset: 0, limit: 1 };
  return (await records.versions(kind, organisationId, id, page)).data[0];
}

/** Every version, newest first. */
export async function everyVersion<K extends TemplateKind>(
  { records }: Pick<ResourcesReader, 'records'>,
  { kind, organisationId, id }: StoredRecord<K>,
): Promise<readonly RecordVersion<K>[]> {
  const found: RecordVersion<K>[] = [];
  for (const limit = 100; ;) {
    const page = { offset: found.length, limit };
    const { data } = await records.versions(kind, organisationId, id, page);
    found.push(...data);
    if (data.length < limit) return found;
  }
}

/** There is no such version: names what was asked for. */
export function noSuchVersion({ slug }: StoredRecord, wanted: string): GatewayError {
  return new GatewayError(
    'resource_not_found',
    `"${slug}" has no version that "${wanted.slice(0, 64)}" names. List its versions to see which there are.`,
  );
}
