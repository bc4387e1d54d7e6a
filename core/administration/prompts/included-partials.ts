import { directoryBehind, GatewayError } from '../../errors/gateway-error.ts';
import type { PromptPartialData } from '../../ports/record-kinds.ts';
import type { RecordPlace, StoredRecord } from '../../ports/records.ts';
import { readReference, versionData } from './find-prompt.ts';
import type { PromptSource } from './prompt-source.ts';
import { compileTemplate, type Template } from './template.ts';

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
