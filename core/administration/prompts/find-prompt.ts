import { directoryBehind } from '../../errors/directory-behind.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { PromptData } from '../../ports/record-kinds.ts';
import type { RecordPlace, StoredRecord } from '../../ports/records.ts';
import { labelSlug, readReference, type WantedVersion } from './prompt-reference.ts';
import type { PromptSource, TemplateKind } from './prompt-source.ts';

/** A version of a prompt. */
export interface FoundPrompt {
  readonly record: StoredRecord<'prompt'>;
  readonly data: PromptData;
  /** Its number. */
  readonly version: number;
}

/** The active prompt in this place, and the version of it, that a reference names. Throws `resource_not_found`, and `store_unavailable` while that cannot be known. */
export async function findPrompt(
  source: PromptSource,
  place: RecordPlace,
  reference: string,
): Promise<FoundPrompt> {
  const wanted = readReference(reference);
  const record = wanted && (await source.record('prompt', place, wanted.idOrSlug));
  if (wanted === undefined || record === undefined) {
    if (wanted !== undefined && source.isBehind)
      throw directoryBehind(`prompt ${JSON.stringify(reference.slice(0, 64))}`);
    throw new GatewayError(
      'resource_not_found',
      `No prompt "${reference.slice(0, 64)}" is visible to this key. Check its id or slug.`,
    );
  }
  return { record, ...(await foundVersion(source, record, wanted.version)) };
}

/** What a version of a prompt or of a partial says. Throws `resource_not_found` when there is no such version, or `store_unavailable`. */
export async function versionData<K extends TemplateKind>(
  source: PromptSource,
  record: StoredRecord<K>,
  wanted: WantedVersion,
): Promise<StoredRecord<K>['data']> {
  return (await foundVersion(source, record, wanted)).data;
}

async function foundVersion<K extends TemplateKind>(
  source: PromptSource,
  record: StoredRecord<K>,
  wanted: WantedVersion,
): Promise<{ readonly data: StoredRecord<K>['data']; readonly version: number }> {
  const { data } = record;
  const { defaultVersion: version } = data;
  if (wanted.kind === 'default' || (wanted.kind === 'number' && wanted.number === version))
    return { data, version };
  const found = await source.version(record, await selector(source, record, wanted));
  if (found !== undefined) return { data: found.data, version: found.number };
  throw noVersion(source, record, wanted);
}

type Selected = Exclude<WantedVersion, { readonly kind: 'default' }>;

async function selector(source: PromptSource, record: StoredRecord<TemplateKind>, wanted: Selected) {
  if (wanted.kind === 'latest') return 'latest';
  if (wanted.kind === 'number') return { number: wanted.number };
  const { organisationId, workspaceId } = record;
  const label = await source.record('label', { organisationId, workspaceId }, labelSlug(wanted.label));
  if (label === undefined) throw noVersion(source, record, wanted);
  return { labelId: label.id };
}

function noVersion({ isBehind }: PromptSource, { slug }: StoredRecord, wanted: Selected): GatewayError {
  const named =
    wanted.kind === 'number'
      ? `number ${wanted.number}`
      : `"${wanted.kind === 'label' ? wanted.label.slice(0, 64) : 'latest'}"`;
  if (isBehind) return directoryBehind(`version ${named} of "${slug}"`);
  return new GatewayError(
    'resource_not_found',
    `"${slug}" has no version ${named}. Name one of its versions by number, by a label that is on it, or as "latest".`,
  );
}
