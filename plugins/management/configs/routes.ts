import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { RecordVersion, StoredRecord } from '../../../core/ports/records.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { places, storedRecords } from '../shared/records.ts';
import { Identifier, ManagedBy, Name, orNull, plainObject, refusedBody, strict } from '../shared/fields.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { ResourcesReader, ResourcesWriter } from '../../../core/ports/resources.ts';
import { requireSamePath } from '../users/record.ts';
import { parseJson } from '../../../core/base/json.ts';
import type { ConfigData } from '../../../core/ports/record-kinds.ts';
import { Config, configText, explainConfigRoute, schemaRoute } from './explain.ts';
import { configUses } from './uses.ts';

const IsDefault = Type.Optional(
  Type.Union([Type.Literal(0), Type.Literal(1), Type.Boolean()], {
    description:
      'Whether it is the default config for requests of the workspace. A workspace has at most one default config; a new one replaces the previous one.',
  }),
);
const ConfigName = Name('For people.');
/** Some clients write `isDefault` as `is_default`. */
const defaults = { isDefault: IsDefault, is_default: IsDefault };

/** Body that creates a config. */
const CreateConfig = Type.Object(
  {
    name: ConfigName,
    config: Config,
    ...defaults,
    workspace_id: Type.Optional(
      Name(
        'Id or slug of its workspace. Needed with keys of the organisation; others make configs of their own.',
      ),
    ),
  },
  strict,
);

/** Body that changes a config; absent members stay unchanged. */
const UpdateConfig = Type.Object(
  {
    slug: Type.Optional(Name('As in the path: some clients say it here as well.')),
    name: Type.Optional(ConfigName),
    config: Type.Optional(Config),
    ...defaults,
    status: Type.Optional(
      Type.Union([Type.Literal('active'), Type.Literal('archived')], {
        description: '`archived` has the effect of DELETE; `active` restores the config.',
      }),
    ),
  },
  strict,
);

/** Default flag of the body; undefined when absent. Throws when its two spellings contradict each other. */
function readDefaultFlag({ isDefault, is_default: other }: Static<typeof UpdateConfig>): boolean | undefined {
  const said = isDefault ?? other;
  if (isDefault !== undefined && other !== undefined && Boolean(isDefault) !== Boolean(other))
    throw refusedBody([{ path: '/isDefault', message: 'is not what is_default says; give it once' }]);
  return said === undefined ? undefined : Boolean(said);
}

const own = {
  id: Type.String(),
  name: Type.String(),
  slug: Type.String({ description: 'Name in requests and defaults.' }),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String()),
  is_default: Type.Integer({ description: '1 for the default of its workspace.' }),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  owner_id: Type.String({ description: 'User or key that created it.' }),
  updated_by: Type.String(),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  managed_by: ManagedBy,
  object: Type.Literal('config'),
};
const said = {
  format: Type.Literal('json'),
  type: Type.Literal('WORKSPACE_CONFIG'),
  version_id: Type.String(),
};

/** A config in a list. */
const ConfigReply = Type.Object(own);

/** One config with its current content. */
const ConfigDetail = Type.Object({
  ...own,
  config: Type.Record(Type.String(), Type.Unknown()),
  ...said,
});

/** One version of a config. */
const ConfigVersionReply = Type.Object({
  ...own,
  config: Type.String({ description: 'JSON.' }),
  ...said,
  version: Type.Integer({ description: 'From 1.' }),
});

/** Converts a stored config to its shape in lists. */
function showConfig(record: StoredRecord<'config'>): Static<typeof ConfigReply> {
  return {
    id: record.id,
    name: record.name,
    slug: record.slug,
    organisation_id: record.organisationId,
    workspace_id: record.workspaceId ?? null,
    is_default: record.data.isDefault ? 1 : 0,
    status: record.status,
    owner_id: record.createdBy,
    updated_by: record.updatedBy,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    managed_by: record.managedBy ?? 'api',
    object: 'config',
  };
}

/** The same with its content; `versionId` names its newest version. */
function showWholeConfig(record: StoredRecord<'config'>, versionId: string): Static<typeof ConfigDetail> {
  return { ...showConfig(record), config: { ...record.data.config }, ...versionReply(versionId) };
}

/** Converts a version of a config to the API's shape; members that have no versions show their current values. */
function showConfigVersion(
  record: StoredRecord<'config'>,
  version: RecordVersion<'config'>,
): Static<typeof ConfigVersionReply> {
  return {
    ...showConfig(record),
    name: version.name,
    is_default: version.data.isDefault ? 1 : 0,
    updated_by: version.createdBy,
    last_updated_at: new Date(version.createdAt).toISOString(),
    config: JSON.stringify(version.data.config),
    ...versionReply(version.id),
    version: version.number,
  };
}

function versionReply(versionId: string) {
  return { format: 'json' as const, type: 'WORKSPACE_CONFIG' as const, version_id: versionId };
}

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
  return storedRecords.visible(reader, key, { ...named, workspace: query.workspace_id });
}

/** Clears the default flag of all other configs in the workspace of `heir`, the new default. */
async function takeDefault(
  writer: Pick<ResourcesWriter, 'records'>,
  heir: StoredRecord<'config'>,
): Promise<void> {
  const { organisationId, workspaceId, updatedAt, updatedBy } = heir;
  const filter = workspaceId === undefined ? { ofOrganisation: true as const } : { workspaceId };
  for await (const record of storedRecords.each(writer, 'config', organisationId, filter)) {
    if (record.id === heir.id || !record.data.isDefault) continue;
    const data = { ...record.data, isDefault: false };
    const after = { ...record, data, updatedAt, updatedBy, version: record.version + 1 };
    if (!(await writer.records.replace(after))) throw storedRecords.stale();
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
      configUses.requireAccess({ key, role }, directory, 'write');
      const text = configText(body.config);
      const isDefault = readDefaultFlag(body) ?? false;
      const slug = storedRecords.newSlug('pc-', body.name);
      const id = randomUUID();
      const now = clock.now();
      const versionId = await write(async (writer) => {
        const { organisationId, id: workspaceId } = await places.required(writer, key, body.workspace_id);
        router.checkConfig({ text, slug, place: { organisationId, workspaceId } });
        const record: StoredRecord<'config'> = storedRecords.create(
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
        const version = await storedRecords.keepVersion(writer, record);
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
        ...paging.query,
        ...configQuery,
        search: Type.Optional(Name('Part of the name or of the slug, in any case.')),
        status: Type.Optional(
          Type.Union([Type.Literal('active'), Type.Literal('archived')], { default: 'active' }),
        ),
      },
      strict,
    ),
    reply: Type.Object({ success, ...listReplies.of, data: Type.Array(ConfigReply) }),
    async handle({ query, key, role, read }) {
      configUses.requireAccess({ key, role }, directory, 'view');
      const page = paging.of(query);
      const { total, data } = await read(async (reader) => {
        const { organisationId, workspaceId } = await places.ofList(reader, key, query.workspace_id);
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
      configUses.requireAccess({ key, role }, directory, 'view');
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
    query: Type.Object({ ...paging.query, ...configQuery }, strict),
    reply: Type.Object({ success, ...listReplies.of, data: Type.Array(ConfigVersionReply) }),
    async handle({ params, query, key, role, read }) {
      configUses.requireAccess({ key, role }, directory, 'view');
      const page = paging.of(query);
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
      configUses.requireAccess({ key, role }, scope.directory, 'write');
      if (body.slug !== undefined) requireSamePath({ slug: body.slug }, params);
      const { record, versionId } = await write(async (writer) => {
        const before = await visibleConfig(writer, key, { params, query });
        places.requireOwn(key, before, 'config');
        requireVersion(before.version);
        const after = changed(body, before, key, scope);
        if (after.status === 'archived') await configUses.requireUnused(writer, before, after.updatedAt);
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
  return storedRecords.changed(before, { name: body.name ?? before.name, status, data }, key, clock.now());
}

/** Stores the changed config. Returns the id of its newest version, a new one unless only its status changed. */
async function store(
  writer: Pick<ResourcesWriter, 'records'>,
  body: Body,
  after: StoredRecord<'config'>,
): Promise<string> {
  if (after.data.isDefault) await takeDefault(writer, after);
  if (!(await writer.records.replace(after))) throw storedRecords.stale();
  const saysMore =
    body.name !== undefined || body.config !== undefined || readDefaultFlag(body) !== undefined;
  if (saysMore) return (await storedRecords.keepVersion(writer, after)).id;
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
      configUses.requireAccess({ key, role }, directory, 'write');
      await write(async (writer) => {
        const before = await visibleConfig(writer, key, { params, query });
        places.requireOwn(key, before, 'config');
        requireVersion(before.version);
        const { id, workspaceId } = before;
        if (before.status === 'archived') return { id, workspaceId, result: undefined };
        const now = clock.now();
        await configUses.requireUnused(writer, before, now);
        const data = { ...before.data, isDefault: false };
        await storedRecords.change(writer, before, { status: 'archived', data }, key, now);
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
