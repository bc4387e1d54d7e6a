import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import {
  ConfigDetail,
  ConfigReply,
  configText,
  ConfigVersionReply,
  CreateConfig,
  readDefaultFlag,
  showConfig,
  showConfigVersion,
  showWholeConfig,
  UpdateConfig,
} from './record.ts';
import { listReply, pageOf, pageQuery } from '../shared/replies.ts';
import {
  changedRecord,
  changeRecord,
  eachOf,
  eachRecord,
  keepVersion,
  newRecord,
  newSlug,
  placeOfList,
  requiredWorkspace,
  requireNobody,
  requireOwn,
  staleVersion,
  visibleRecord,
} from '../shared/records.ts';
import { Identifier, Name, plainObject, strict } from '../shared/fields.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { ApiKeyFilter, ResourcesReader, ResourcesWriter } from '../../../core/ports/resources.ts';

import { requireSamePath } from '../users/record.ts';
import { parseJson } from '../../../core/base/json.ts';
import type { ConfigData } from '../../../core/ports/record-kinds.ts';
import { explainConfigRoute, schemaRoute } from './explain.ts';
import { requireConfigAccess, someNode } from './uses.ts';

/** The path of a config. */
const ConfigParams = Type.Object({ slug: Identifier });

/** Query parameter for the workspace of configs. */
const configQuery = {
  workspace_id: Type.Optional(Name('Id or slug of a workspace: its configs alone.')),
};

/** Request input that names a config. */
interface ConfigPath {
  readonly params: { readonly slug: string };
  readonly query: { readonly workspace_id?: string };
}

/** The config of the path. Throws `resource_not_found` when none is visible to the key. */
function visibleConfig(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: KeyRecord,
  { params, query }: ConfigPath,
): Promise<StoredRecord<'config'>> {
  const named = { kind: 'config', noun: 'config', idOrSlug: params.slug } as const;
  return visibleRecord(reader, key, { ...named, workspace: query.workspace_id });
}

/** Clears the default flag of all other configs in the workspace of `heir`, the new default. */
async function takeDefault(
  writer: Pick<ResourcesWriter, 'records'>,
  heir: StoredRecord<'config'>,
): Promise<void> {
  const { organisationId, workspaceId, updatedAt, updatedBy } = heir;
  const filter = workspaceId === undefined ? { ofOrganisation: true as const } : { workspaceId };
  for await (const record of eachRecord(writer, 'config', organisationId, filter)) {
    if (record.id === heir.id || !record.data.isDefault) continue;
    const data = { ...record.data, isDefault: false };
    const after = { ...record, data, updatedAt, updatedBy, version: record.version + 1 };
    if (!(await writer.records.replace(after))) throw staleVersion();
  }
}

const success = Type.Literal(true);

/** The routes of saved configs. */
export function configRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    createRoute(scope),
    listRoute(scope),
    schemaRoute(scope),
    explainConfigRoute(scope),
    getRoute(scope),
    updateConfigRoute(scope),
    archiveConfigRoute(scope),
    versionsRoute(scope),
  ];
}

function createRoute({ clock, directory, router }: Scope): RouteDefinition {
  return defineRoute({
    id: 'configs.create',
    method: 'POST',
    path: '/configs',
    summary: 'Creates a config that requests name by its slug',
    scope: 'configs.create',
    audit: 'create',
    body: CreateConfig,
    reply: Type.Object({
      success,
      data: Type.Object({
        id: Type.String(),
        slug: Type.String(),
        version_id: Type.String(),
        object: Type.Literal('config'),
      }),
    }),
    async handle({ body, key, role, write, sendVersion }) {
      requireConfigAccess({ key, role }, directory, 'write');
      const text = configText(body.config);
      const isDefault = readDefaultFlag(body) ?? false;
      const slug = newSlug('pc-', body.name);
      const id = randomUUID();
      const now = clock.now();
      const versionId = await write(async (writer) => {
        const { organisationId, id: workspaceId } = await requiredWorkspace(writer, key, body.workspace_id);
        router.checkConfig({ text, slug, place: { organisationId, workspaceId } });
        const record: StoredRecord<'config'> = newRecord(
          {
            kind: 'config',
            id,
            organisationId,
            workspaceId,
            slug,
            name: body.name,
            data: { config: storedConfig(text), isDefault },
          },
          key.userId || key.id,
          now,
        );
        if (isDefault) await takeDefault(writer, record);
        await writer.records.insert(record);
        const version = await keepVersion(writer, record);
        return { id, workspaceId, result: version.id };
      });
      sendVersion(1);
      return { success: true as const, data: { id, slug, version_id: versionId, object: 'config' as const } };
    },
  });
}

function listRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'configs.list',
    method: 'GET',
    path: '/configs',
    summary: 'Saved configs that the key may see, oldest first',
    scope: 'configs.list',
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...pageQuery,
        ...configQuery,
        search: Type.Optional(Name('Part of the name or of the slug, in any case.')),
        status: Type.Optional(
          Type.Union([Type.Literal('active'), Type.Literal('archived')], { default: 'active' }),
        ),
      },
      strict,
    ),
    reply: Type.Object({ success, ...listReply, data: Type.Array(ConfigReply) }),
    async handle({ query, key, role, read }) {
      requireConfigAccess({ key, role }, directory, 'view');
      const page = pageOf(query);
      const { total, data } = await read(async (reader) => {
        const { organisationId, workspaceId } = await placeOfList(reader, key, query.workspace_id);
        const filter = {
          status: query.status ?? 'active',
          ...(workspaceId !== undefined && { workspaceId }),
          ...(query.search !== undefined && { search: query.search }),
        };
        return reader.records.list('config', organisationId, filter, page);
      });
      return {
        success: true as const,
        object: 'list' as const,
        total,
        data: data.map((one) => showConfig(one)),
      };
    },
  });
}

function getRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'configs.get',
    method: 'GET',
    path: '/configs/{slug}',
    summary: 'One saved config, by its slug or id, in its current version',
    scope: 'configs.read',
    // Reads only.
    audit: null,
    params: ConfigParams,
    query: Type.Object(configQuery, strict),
    reply: Type.Object({ success, data: ConfigDetail }),
    async handle({ params, query, key, role, read, sendVersion }) {
      requireConfigAccess({ key, role }, directory, 'view');
      const { record, versionId } = await read(async (reader) => {
        const found = await visibleConfig(reader, key, { params, query });
        const page = { offset: 0, limit: 1 };
        const { data } = await reader.records.versions('config', found.organisationId, found.id, page);
        return { record: found, versionId: data[0]?.id ?? '' };
      });
      sendVersion(record.version);
      return { success: true as const, data: showWholeConfig(record, versionId) };
    },
  });
}

function versionsRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'configs.versions',
    method: 'GET',
    path: '/configs/{slug}/versions',
    summary: 'Versions of a saved config, newest first',
    scope: 'configs.read',
    // Reads only.
    audit: null,
    params: ConfigParams,
    query: Type.Object({ ...pageQuery, ...configQuery }, strict),
    reply: Type.Object({ success, ...listReply, data: Type.Array(ConfigVersionReply) }),
    async handle({ params, query, key, role, read }) {
      requireConfigAccess({ key, role }, directory, 'view');
      const page = pageOf(query);
      const { record, total, data } = await read(async (reader) => {
        const found = await visibleConfig(reader, key, { params, query });
        const versions = await reader.records.versions('config', found.organisationId, found.id, page);
        return { record: found, ...versions };
      });
      const shown = data.map((version) => showConfigVersion(record, version));
      return { success: true as const, object: 'list' as const, total, data: shown };
    },
  });
}

type Body = Static<typeof UpdateConfig>;

/** `PUT /configs/{slug}`. */
function updateConfigRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'configs.update',
    method: 'PUT',
    path: '/configs/{slug}',
    summary: 'Updates a saved config as a new version; omitted fields stay unchanged',
    scope: 'configs.update',
    audit: 'update',
    params: ConfigParams,
    query: Type.Object(configQuery, strict),
    body: UpdateConfig,
    reply: Type.Object({
      success,
      data: Type.Object({
        version_id: Type.String(),
        slug: Type.String(),
        object: Type.Literal('config'),
      }),
    }),
    async handle({ params, query, body, key, role, write, requireVersion, sendVersion }) {
      requireConfigAccess({ key, role }, scope.directory, 'write');
      if (body.slug !== undefined) requireSamePath({ slug: body.slug }, params);
      const { record, versionId } = await write(async (writer) => {
        const before = await visibleConfig(writer, key, { params, query });
        requireOwn(key, before, 'config');
        requireVersion(before.version);
        const after = changed(body, before, key, scope);
        if (after.status === 'archived') await requireUnused(writer, before, after.updatedAt);
        const result = { record: after, versionId: await store(writer, body, after) };
        return { id: after.id, workspaceId: after.workspaceId, result };
      });
      sendVersion(record.version);
      return {
        success: true as const,
        data: { version_id: versionId, slug: record.slug, object: 'config' as const },
      };
    },
  });
}

/** The config after the change by the body. Throws `invalid_config`, or `resource_conflict` when it stays archived. */
function changed(
  body: Body,
  before: StoredRecord<'config'>,
  key: KeyRecord,
  { clock, router }: Scope,
): StoredRecord<'config'> {
  const { slug, organisationId, workspaceId } = before;
  const status = body.status ?? before.status;
  if (status === 'archived' && before.status === 'archived')
    throw new GatewayError(
      'resource_conflict',
      `The config "${slug}" is archived. Bring it back first: PUT it with the status "active".`,
    );
  const text = configText(body.config ?? before.data.config);
  // An old config may have become invalid meanwhile; it can still be archived or renamed.
  if (body.config !== undefined || (status === 'active' && before.status !== status))
    router.checkConfig({ text, slug, place: { organisationId, workspaceId } });
  const isDefault = status === 'active' && (readDefaultFlag(body) ?? before.data.isDefault);
  const data = { config: storedConfig(text), isDefault };
  return changedRecord(before, { name: body.name ?? before.name, status, data }, key, clock.now());
}

/** Stores the changed config. Returns the id of its newest version, a new one unless only its status changed. */
async function store(
  writer: Pick<ResourcesWriter, 'records'>,
  body: Body,
  after: StoredRecord<'config'>,
): Promise<string> {
  if (after.data.isDefault) await takeDefault(writer, after);
  if (!(await writer.records.replace(after))) throw staleVersion();
  const saysMore =
    body.name !== undefined || body.config !== undefined || readDefaultFlag(body) !== undefined;
  if (saysMore) return (await keepVersion(writer, after)).id;
  const { organisationId, id } = after;
  const { data } = await writer.records.versions('config', organisationId, id, { offset: 0, limit: 1 });
  return data[0]?.id ?? '';
}

/** `DELETE /configs/{slug}`. */
function archiveConfigRoute({ clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'configs.delete',
    method: 'DELETE',
    path: '/configs/{slug}',
    summary: 'Archives a saved config; requests that name it are refused from then on',
    scope: 'configs.delete',
    audit: 'delete',
    params: ConfigParams,
    query: Type.Object(configQuery, strict),
    reply: Type.Object({}),
    async handle({ params, query, key, role, write, requireVersion }) {
      requireConfigAccess({ key, role }, directory, 'write');
      await write(async (writer) => {
        const before = await visibleConfig(writer, key, { params, query });
        requireOwn(key, before, 'config');
        requireVersion(before.version);
        const { id, workspaceId } = before;
        if (before.status === 'archived') return { id, workspaceId, result: undefined };
        const now = clock.now();
        await requireUnused(writer, before, now);
        const data = { ...before.data, isDefault: false };
        await changeRecord(writer, before, { status: 'archived', data }, key, now);
        return { id, workspaceId, result: undefined };
      });
      return {};
    },
  });
}

/** Stored form of a valid config's text. Throws `invalid_request` for whole numbers beyond 2^53. */
function storedConfig(text: string): ConfigData['config'] {
  return plainObject(parseJson(text) as Readonly<Record<string, unknown>>, '/config');
}

type Reader = Pick<ResourcesReader, 'apiKeys' | 'records' | 'settings' | 'workspaces'>;

/**
 * Throws `resource_conflict`, listing up to 10 uses, when keys, workspaces, the organisation or other configs of its
 * workspace name the config. Keys expired at `now` do not count.
 */
async function requireUnused(reader: Reader, record: StoredRecord<'config'>, now: number): Promise<void> {
  const users = usersOf(reader, record, now);
  await requireNobody(`The config "${record.slug}"`, users, 'Let them name another one first.');
}

async function* usersOf(reader: Reader, record: StoredRecord<'config'>, now: number): AsyncGenerator<string> {
  const { organisationId, workspaceId, id, slug } = record;
  const isMeant = (name: unknown): boolean => name === id || name === slug;
  const { defaults } = await reader.settings.ofOrganisation(organisationId);
  if (isMeant(defaults.configId)) yield 'the organisation';
  const workspace =
    workspaceId === undefined ? undefined : await reader.workspaces.find(organisationId, workspaceId);
  if (workspace !== undefined && isMeant(workspace.defaults.configId))
    yield `the workspace "${workspace.name}"`;
  const filters: readonly ApiKeyFilter[] = [
    { ...(workspaceId !== undefined && { workspaceId }), aliveAt: now },
    { types: ['organisation-service'], aliveAt: now },
  ];
  for (const filter of filters)
    for await (const { name, defaults } of eachOf((page) =>
      reader.apiKeys.list(organisationId, filter, page),
    ))
      if (isMeant(defaults.configId)) yield `the key "${name}"`;
  const alike = { ...(workspaceId !== undefined && { workspaceId }), status: 'active' as const };
  for await (const other of eachRecord(reader, 'config', organisationId, alike))
    if (other.id !== id && someNode(other.data.config, ({ config }) => isMeant(config)))
      yield `the config "${other.slug}"`;
}
