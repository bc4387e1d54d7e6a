import { directoryBehind, GatewayError } from '../../errors/gateway-error.ts';
import type { PromptData, PromptPartialData } from '../../ports/record-kinds.ts';
import type { RecordPlace, StoredRecord } from '../../ports/records.ts';
import type { PromptSource, TemplateKind } from './prompt-source.ts';
import { compileTemplate, type Template } from './template.ts';

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
async function versionData<K extends TemplateKind>(
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

const maxDepth = 10;

const maxPartials = 100;

/** Compiled templates by their data; released together with the directory's records. */
const compiled = new WeakMap<PromptPartialData, Template>();

/** A partial whose text is not stored yet, or not the default yet; cycles are detected as if it were. */
interface ProspectivePartial {
  readonly id: string;
  readonly slug: string;
  readonly template: Template;
}

interface Walk {
  readonly source: PromptSource;
  readonly place: RecordPlace;
  readonly self: ProspectivePartial | undefined;
  readonly found: Map<string, Template>;
  /** Id and version, and name, of the partials on the current path. */
  readonly open: { readonly key: string; readonly name: string }[];
  /** Finished partials, by id and version. */
  readonly done: Set<string>;
}

/**
 * Templates of these partials and of the partials that they include, by the names in their tags. Throws
 * `invalid_request` for a missing one, for cycles (naming them), for more than 10 levels and for more than 100
 * partials.
 */
export async function includedPartials(
  source: PromptSource,
  place: RecordPlace,
  names: readonly string[],
  self?: ProspectivePartial,
): Promise<ReadonlyMap<string, Template>> {
  const open = self === undefined ? [] : [{ key: self.id, name: self.slug }];
  const walk: Walk = { source, place, self, found: new Map(), open, done: new Set() };
  if (names.length > 0) await include(names, walk);
  return walk.found;
}

async function include(names: readonly string[], walk: Walk): Promise<void> {
  const { found, open, done } = walk;
  for (const name of names) {
    const { key, template } = await templateOf(name, walk);
    const circle = open.findIndex((one) => one.key === key);
    if (circle !== -1) {
      const shown = [...open.slice(circle).map((one) => one.name), name].join(' → ');
      throw renderError(`the partials include each other in a circle: ${shown}`);
    }
    found.set(name, template);
    if (found.size > maxPartials) throw renderError(`more than ${maxPartials} partials are included`);
    if (done.has(key)) continue;
    open.push({ key, name });
    if (open.length > maxDepth) throw renderError(`partials are included more than ${maxDepth} deep`);
    await include(template.partials, walk);
    open.pop();
    done.add(key);
  }
}

async function templateOf(
  name: string,
  { source, place, self }: Walk,
): Promise<{ readonly key: string; readonly template: Template }> {
  const reference = readReference(name);
  if (reference === undefined || reference.version.kind === 'label' || reference.version.kind === 'latest')
    throw renderError(`{{>${name}}} names no partial: write {{>slug}}, or {{>slug@5}} for a version`);
  const { idOrSlug, version } = reference;
  if (self !== undefined && version.kind === 'default' && (idOrSlug === self.id || idOrSlug === self.slug))
    return { key: self.id, template: self.template };
  const record = await source.record('prompt_partial', place, idOrSlug);
  if (record === undefined && source.isBehind) throw directoryBehind(`partial ${JSON.stringify(idOrSlug)}`);
  if (record === undefined) throw renderError(`there is no partial "${idOrSlug}"`);
  const isDefault = version.kind === 'default';
  const data = isDefault ? record.data : await versionOrRefusal(source, record, version);
  const key = isDefault ? record.id : `${record.id}@${version.number}`;
  let template = compiled.get(data);
  if (template === undefined) compiled.set(data, (template = compileTemplate(data.template)));
  return { key, template };
}

async function versionOrRefusal(
  source: PromptSource,
  record: StoredRecord<'prompt_partial'>,
  version: { readonly kind: 'number'; readonly number: number },
): Promise<PromptPartialData> {
  try {
    return await versionData(source, record, version);
  } catch (error) {
    if (GatewayError.is(error) && error.code === 'resource_not_found') throw renderError(error.message);
    throw error;
  }
}

function renderError(what: string): GatewayError {
  return new GatewayError('invalid_request', `The template cannot be rendered: ${what}.`);
}
