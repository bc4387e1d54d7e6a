import { directoryBehind, GatewayError } from '../../errors/gateway-error.ts';
import type { PromptData } from '../../ports/record-kinds.ts';
import type { RecordPlace, StoredRecord } from '../../ports/records.ts';
import type { PromptSource, TemplateKind } from './prompt-source.ts';

/** Wanted version of a record. */
export type WantedVersion =
  | { readonly kind: 'default' }
  | { readonly kind: 'latest' }
  | { readonly kind: 'number'; readonly number: number }
  /** By the label's name, or by its id. */
  | { readonly kind: 'label'; readonly label: string };

/** Parsed `id`, `slug`, `id@12`, `id@latest` or `id@<label>`. */
interface PromptReference {
  readonly idOrSlug: string;
  readonly version: WantedVersion;
}

/** Pattern of a reference to a prompt. */
export const referencePattern = '^[a-zA-Z0-9_.:-]{1,255}(?:@[^@\\s]{1,255})?$';
const reference = new RegExp(referencePattern);

/** Parses a reference to a prompt or a partial; undefined when invalid. */
export function readReference(text: string): PromptReference | undefined {
  if (!reference.test(text)) return undefined;
  const at = text.indexOf('@');
  if (at === -1) return { idOrSlug: text, version: { kind: 'default' } };
  return { idOrSlug: text.slice(0, at), version: versionOf(text.slice(at + 1)) };
}

function versionOf(said: string): WantedVersion {
  if (said === 'latest') return { kind: 'latest' };
  if (said === 'default') return { kind: 'default' };
  if (!/^\d+$/.test(said)) return { kind: 'label', label: said };
  return { kind: 'number', number: Math.min(Number(said), 2_147_483_647) };
}

/** Slug of the label with this name; escapes characters that slugs exclude. */
export function labelSlug(name: string): string {
  return name.replace(/[^a-zA-Z0-9_-]/gu, (one) => `-u${one.codePointAt(0)?.toString(16) ?? ''}-`);
}

/** A version of a prompt. */
export interface FoundPrompt {
  readonly record: StoredRecord<'prompt'>;
  readonly data: PromptData;
  /** Version number. */
  readonly version: number;
}

/**
 * Finds the active prompt of a reference, and its version. Throws `resource_not_found`, or `store_unavailable` while
 * its existence cannot be determined.
 */
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
  return { record, ...(await findVersion(source, record, wanted.version)) };
}

/**
 * Data of a version of a prompt or partial. Throws `resource_not_found` when there is no such version, or
 * `store_unavailable`.
 */
export async function versionData<K extends TemplateKind>(
  source: PromptSource,
  record: StoredRecord<K>,
  wanted: WantedVersion,
): Promise<StoredRecord<K>['data']> {
  return (await findVersion(source, record, wanted)).data;
}

async function findVersion<K extends TemplateKind>(
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
