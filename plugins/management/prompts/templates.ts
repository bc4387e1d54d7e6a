import type { TArray, TSchema } from 'typebox';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { Directory, KeyRecord } from '../../../core/ports/directory.ts';
import type { RecordKind, RecordPlace, RecordVersion, StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import {
  labelSlug,
  readReference,
  referencePattern,
  type WantedVersion,
  includedPartials,
} from '../../../core/administration/prompts/find-prompt.ts';
import { storedSource, type TemplateKind } from '../../../core/administration/prompts/prompt-source.ts';
import { storedRecords } from '../shared/records.ts';
import type { Actor } from '../api-keys/access.ts';
import { settingsFor } from '../shared/data-visibility.ts';
import type { RouteDefinition, RouteInput } from '../../../core/pipeline/define-route.ts';
import { Identifier, refusedBody, strict } from '../shared/fields.ts';
import { compilePrompt } from '../../../core/administration/prompts/prompt-template.ts';
import { compileTemplate, TemplateError } from '../../../core/administration/prompts/template.ts';
import { withoutFullStop } from '../../../core/errors/gateway-error.ts';

/** What prompts and partials have in common. */
export const promptTemplates = {
  requireUnusedPartial,
  requireUnusedLabel,
  routes: templateRoutes,
  visible: visibleTemplate,
  referenced: referencedTemplate,
  latestVersion,
  noSuchVersion,
  requireAccess: requirePrompts,
  check: checkTemplate,
};

const maxNamed = 10;

type Reader = Pick<ResourcesReader, 'records'>;

/** Predicate: a version of a prompt or of a partial uses the label or partial. */
type Uses = (version: Pick<RecordVersion<TemplateKind>, 'data' | 'labelId'>, kind: TemplateKind) => boolean;

/**
 * Throws `resource_conflict`, listing up to 10 users, when prompts or partials include the partial in their default
 * version, their latest one, or a labelled one. Other versions do not count.
 */
async function requireUnusedPartial(reader: Reader, partial: StoredRecord<'prompt_partial'>): Promise<void> {
  const names = ({ data }: { readonly data: { readonly template: string } }, kind: TemplateKind): boolean => {
    const { partials } = kind === 'prompt' ? compilePrompt(data.template) : compileTemplate(data.template);
    return partials.some((name) => {
      const named = readReference(name)?.idOrSlug;
      return named === partial.id || named === partial.slug;
    });
  };
  await requireUnused(reader, partial, names);
}

/** Throws `resource_conflict`, listing up to 10 users, when versions of prompts or of partials have the label. */
async function requireUnusedLabel(reader: Reader, label: StoredRecord<'label'>): Promise<void> {
  await requireUnused(reader, label, ({ labelId }) => labelId === label.id);
}

async function requireUnused(
  reader: Reader,
  used: StoredRecord<'label' | 'prompt_partial'>,
  uses: Uses,
): Promise<void> {
  const { organisationId, workspaceId } = used;
  const filter = { status: 'active' as const, ...(workspaceId !== undefined && { workspaceId }) };
  const users: string[] = [];
  for (const kind of ['prompt', 'prompt_partial'] as const) {
    for await (const record of storedRecords.each(reader, kind, organisationId, filter)) {
      if (users.length === maxNamed) break;
      if (record.id !== used.id && (await isUser(reader, record, uses)))
        users.push(`${nounOf(kind)} "${record.slug}"`);
    }
  }
  if (users.length === 0) return;
  throw new GatewayError(
    'resource_conflict',
    `The ${nounOf(used.kind)} "${used.name}" is in use by ${users.join(', ')}. Change them first.`,
  );
}

function nounOf(kind: RecordKind): string {
  return kind === 'prompt_partial' ? 'partial' : kind;
}

async function isUser({ records }: Reader, record: StoredRecord<TemplateKind>, uses: Uses): Promise<boolean> {
  const { kind, organisationId, id } = record;
  if (uses({ data: record.data, labelId: '' }, kind)) return true;
  let isNewest = true;
  for await (const one of storedRecords.eachOf((page) => records.versions(kind, organisationId, id, page))) {
    if ((isNewest || one.labelId !== '') && uses(one, kind)) return true;
    isNewest = false;
  }
  return false;
}

/** The number of a version in a body. */
const VersionNumber = Type.Integer({
  minimum: 1,
  maximum: 2_147_483_647,
  description: 'Number of the version.',
});

/** Prompt or partial, and its new default version. */
interface Publication {
  readonly idOrSlug: string;
  readonly number: number;
}

/**
 * Makes a version the default one. Throws `invalid_request` when its template cannot be rendered any more (a partial
 * that it includes is deleted, or includes it in turn), and `resource_not_found`.
 */
async function publishTemplate<K extends TemplateKind>(
  kind: K,
  { idOrSlug, number }: Publication,
  call: Pick<
    RouteInput<unknown, unknown, unknown>,
    'key' | 'role' | 'write' | 'requireVersion' | 'sendVersion'
  >,
  { clock, directory }: Pick<Scope, 'clock' | 'directory'>,
): Promise<void> {
  const { key, role, write, requireVersion, sendVersion } = call;
  requirePrompts({ key, role }, directory, 'Write');
  const record = await write(async (writer) => {
    const before = await visibleTemplate(writer, key, kind, idOrSlug);
    requireVersion(before.version);
    const { organisationId, workspaceId, id, slug } = before;
    const version = await writer.records.version(kind, organisationId, id, { number });
    if (version === undefined) {
      const message = `is ${number}, and "${slug}" has no version of that number`;
      throw refusedBody([{ path: '/version', message }]);
    }
    const place = { organisationId, workspaceId };
    const draft = { template: version.data.template, place, pointer: '/version' };
    await checkTemplate(writer, kind === 'prompt' ? draft : { ...draft, partial: { id, slug } });
    const data: StoredRecord<K>['data'] = { ...version.data, defaultVersion: number };
    const after = await storedRecords.change<K>(writer, before, { data }, key, clock.now());
    return { id, workspaceId, result: after };
  });
  sendVersion(record.version);
}

/** Differences between the routes of prompts and of partials. */
interface TemplateRoutes<K extends TemplateKind, E extends TSchema> {
  readonly kind: K;
  /** First part of the operation ids: `prompts`. */
  readonly operations: string;
  /** Path of one record, with `{parameter}` in it. */
  readonly onePath: string;
  readonly parameter: string;
  /** The summaries of the routes. */
  readonly summaries: Readonly<Record<'archive' | 'versions' | 'publish', string>>;
  /** Schema of a version in a list. */
  readonly entry: E;
  show(record: StoredRecord<K>, version: RecordVersion<K>): Static<E>;
  /** Throws `resource_conflict` for a record in use. */
  requireUnused?(reader: Reader, record: StoredRecord<K>): Promise<void>;
}

/** The routes that prompts and partials share: archive, list versions, set the default version. */
function templateRoutes<K extends TemplateKind, E extends TSchema>(
  scope: Scope,
  { kind, operations, onePath, parameter, summaries, entry, show, requireUnused }: TemplateRoutes<K, E>,
): readonly RouteDefinition[] {
  const { clock, directory } = scope;
  const params = Type.Object({ [parameter]: Identifier });
  return [
    defineRoute({
      id: `${operations}.delete`,
      method: 'DELETE',
      path: onePath,
      summary: summaries.archive,
      scope: 'prompts.delete',
      audit: 'delete',
      params,
      reply: Type.Object({}),
      async handle({ params, key, role, write, requireVersion }) {
        requirePrompts({ key, role }, directory, 'Write');
        await write(async (writer) => {
          const before = await visibleTemplate(writer, key, kind, params[parameter] ?? '');
          requireVersion(before.version);
          await requireUnused?.(writer, before);
          const { id, workspaceId } = before;
          await storedRecords.change<K>(writer, before, { status: 'archived' }, key, clock.now());
          return { id, workspaceId, result: undefined };
        });
        return {};
      },
    }),
    defineRoute<TArray<E>, typeof params>({
      id: `${operations}.versions`,
      method: 'GET',
      path: `${onePath}/versions`,
      summary: summaries.versions,
      scope: 'prompts.read',
      // Reads only.
      audit: null,
      params,
      reply: Type.Array(entry),
      async handle({ params, key, role, read }) {
        requirePrompts({ key, role }, directory, 'View');
        return read(async (reader) => {
          const record = await visibleTemplate(reader, key, kind, params[parameter] ?? '');
          return (await everyVersion(reader, record)).map((version) => show(record, version));
        });
      },
    }),
    defineRoute({
      id: `${operations}.publish`,
      method: 'PUT',
      path: `${onePath}/makeDefault`,
      summary: summaries.publish,
      scope: 'prompts.publish',
      audit: 'publish',
      params,
      body: Type.Object({ version: VersionNumber }, strict),
      reply: Type.Object({}),
      async handle(input) {
        const publication = { idOrSlug: input.params[parameter] ?? '', number: input.body.version };
        await publishTemplate(kind, publication, input, scope);
        return {};
      },
    }),
  ];
}

type RecordsAndWorkspaces = Pick<ResourcesReader, 'records' | 'workspaces'>;

const nouns = { prompt: 'prompt', prompt_partial: 'partial' } as const;

/** A prompt in a path: `id`, `slug`, `id@12`, `id@latest` or `id@<label>`. */
export const PromptReferenceParam = Type.String({
  maxLength: 511,
  pattern: referencePattern,
  description: 'Id or slug; a suffix `@12`, `@latest` or `@<label>` selects a version.',
});

/** The active prompt or partial of this id or slug. Throws `resource_not_found`. */
async function visibleTemplate<K extends TemplateKind>(
  reader: RecordsAndWorkspaces,
  key: KeyRecord,
  kind: K,
  idOrSlug: string,
): Promise<StoredRecord<K>> {
  const record = await storedRecords.visible(reader, key, { kind, noun: nouns[kind], idOrSlug });
  if (record.status === 'active') return record;
  throw storedRecords.noSuch(nouns[kind], idOrSlug);
}

/** A prompt or a partial with the version that a reference names. Throws `resource_not_found`. */
async function referencedTemplate<K extends TemplateKind>(
  reader: RecordsAndWorkspaces,
  key: KeyRecord,
  kind: K,
  reference: string,
): Promise<{ readonly record: StoredRecord<K>; readonly version: RecordVersion<K> }> {
  const wanted = readReference(reference);
  if (wanted === undefined) throw storedRecords.noSuch(nouns[kind], reference);
  const record = await visibleTemplate(reader, key, kind, wanted.idOrSlug);
  const version = await versionOf(reader, record, wanted.version);
  if (version !== undefined) return { record, version };
  throw noSuchVersion(record, reference);
}

async function versionOf<K extends TemplateKind>(
  { records }: RecordsAndWorkspaces,
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
async function latestVersion<K extends TemplateKind>(
  { records }: Pick<ResourcesReader, 'records'>,
  { kind, organisationId, id }: StoredRecord<K>,
): Promise<RecordVersion<K> | undefined> {
  const page = { offset: 0, limit: 1 };
  return (await records.versions(kind, organisationId, id, page)).data[0];
}

/** Every version, newest first. */
async function everyVersion<K extends TemplateKind>(
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

/** `resource_not_found` for a version, with the requested name. */
function noSuchVersion({ slug }: StoredRecord, wanted: string): GatewayError {
  return new GatewayError(
    'resource_not_found',
    `"${slug}" has no version that "${wanted.slice(0, 64)}" names. List its versions to see which there are.`,
  );
}

/**
 * Throws `scope_missing`, naming the setting, when the caller's role may not view or edit the prompts of its workspace,
 * including collections, partials and labels.
 */
function requirePrompts(
  actor: Actor,
  directory: Pick<Directory, 'settingsIn' | 'user'>,
  what: 'View' | 'Write',
): void {
  const settings = settingsFor(actor, directory)?.prompts;
  if (settings === undefined) return;
  const who = actor.role === 'manager' ? 'managers' : 'members';
  const name = `${who}${what}Prompts` as const;
  if (settings[name]) return;
  throw new GatewayError(
    'scope_missing',
    `The key "${actor.key.name}" acts as ${actor.role}, and ${who} of its workspace may not ${what === 'View' ? 'see' : 'edit'} prompts: the setting ${name} is off. An owner or admin of the organisation changes it.`,
  );
}

/** A template before it is saved or becomes the default. */
interface TemplateDraft {
  readonly template: string;
  /** The workspace whose partials it may include. */
  readonly place: RecordPlace;
  /** Set for a partial: it must not include itself. */
  readonly partial?: { readonly id: string; readonly slug: string };
  /** Field of the body at fault. Default `/string`. */
  readonly pointer?: string;
}

/**
 * Throws `invalid_request` for a template with a syntax error (with line and column), with an unknown partial, or that
 * includes itself (with the cycle).
 */
async function checkTemplate(
  reader: Pick<ResourcesReader, 'records'>,
  { template, place, partial, pointer = '/string' }: TemplateDraft,
): Promise<void> {
  try {
    const source = storedSource(reader);
    if (partial === undefined) {
      await includedPartials(source, place, compilePrompt(template).partials);
      return;
    }
    const compiled = compileTemplate(template);
    await includedPartials(source, place, compiled.partials, { ...partial, template: compiled });
  } catch (error) {
    if (error instanceof TemplateError)
      throw refusedBody([{ path: pointer, message: `is no template: ${error.message}` }]);
    if (GatewayError.is(error) && error.code === 'invalid_request')
      throw refusedBody([{ path: pointer, message: `is refused: ${withoutFullStop(error.message)}` }]);
    throw error;
  }
}
