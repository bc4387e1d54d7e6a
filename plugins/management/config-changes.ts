import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesWriter } from '../../core/ports/resources.ts';
import { changedRecord } from './changed-record.ts';
import { requireConfigAccess } from './config-access.ts';
import { configText, saysDefault, storedConfig, UpdateConfig } from './config-body.ts';
import { addConfigVersion, ConfigParams, configQuery, takeDefault, visibleConfig } from './config-store.ts';
import { requireUnused } from './config-uses.ts';
import { requireOwn } from './record-place.ts';
import { staleVersion } from './stale-version.ts';
import { strict } from './text-schema.ts';
import { requireSamePath } from './visible-member.ts';

type Body = Static<typeof UpdateConfig>;

const success = Type.Literal(true);

/** `PUT /configs/{slug}`. */
export function updateConfigRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'configs.update',
    method: 'PUT',
    path: '/configs/{slug}',
    summary: 'Changes a saved config: what it says becomes its newest version; what is not given stays',
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

/** What the body makes of the config. Throws `invalid_config`, or `resource_conflict` for one that stays archived. */
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
  // What it was before may have become invalid meanwhile, which is no reason not to archive or to rename it.
  if (body.config !== undefined || (status === 'active' && before.status !== status))
    router.checkConfig({ text, slug, place: { organisationId, workspaceId } });
  const isDefault = status === 'active' && (saysDefault(body) ?? before.data.isDefault);
  const data = { config: storedConfig(text), isDefault };
  return changedRecord(before, { name: body.name ?? before.name, status, data }, key, clock.now());
}

/** Stores the changed config; the id of its newest version, which is a new one unless only its status changed. */
async function store(
  writer: Pick<ResourcesWriter, 'records'>,
  body: Body,
  after: StoredRecord<'config'>,
): Promise<string> {
  if (after.data.isDefault) await takeDefault(writer, after);
  if (!(await writer.records.replace(after))) throw staleVersion();
  const saysMore = body.name !== undefined || body.config !== undefined || saysDefault(body) !== undefined;
  if (saysMore) return (await addConfigVersion(writer, after)).id;
  const { organisationId, id } = after;
  const { data } = await writer.records.versions('config', organisationId, id, { offset: 0, limit: 1 });
  return data[0]?.id ?? '';
}

/** `DELETE /configs/{slug}`. */
export function archiveConfigRoute({ clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'configs.delete',
    method: 'DELETE',
    path: '/configs/{slug}',
    summary: 'Archives a saved config: requests that name it are refused from then on',
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
        const after = changedRecord(before, { status: 'archived', data }, key, now);
        if (!(await writer.records.replace(after))) throw staleVersion();
        return { id, workspaceId, result: undefined };
      });
      return {};
    },
  });
}
