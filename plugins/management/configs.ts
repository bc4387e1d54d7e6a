import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import { requireConfigAccess } from './config-access.ts';
import { configText, CreateConfig, saysDefault, storedConfig } from './config-body.ts';
import { archiveConfigRoute, updateConfigRoute } from './config-changes.ts';
import {
  ConfigDetail,
  ConfigReply,
  ConfigVersionReply,
  showConfig,
  showConfigVersion,
  showWholeConfig,
} from './config-record.ts';
import { addConfigVersion, ConfigParams, configQuery, takeDefault, visibleConfig } from './config-store.ts';
import { listReply, pageOf, pageQuery } from './page-query.ts';
import { newSlug } from './record-slug.ts';
import { Name, strict } from './text-schema.ts';
import { requiredWorkspace } from './visible-record.ts';
import { placeOfList } from './visible-workspace.ts';

const success = Type.Literal(true);

/** The routes of saved configs. */
export function configRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    createRoute(scope),
    listRoute(scope),
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
    summary: 'Saves a config, by whose slug requests name it',
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
      const isDefault = saysDefault(body) ?? false;
      const slug = newSlug('pc-', body.name);
      const id = randomUUID();
      const maker = key.userId || key.id;
      const now = clock.now();
      const versionId = await write(async (writer) => {
        const { organisationId, id: workspaceId } = await requiredWorkspace(writer, key, body.workspace_id);
        router.checkConfig({ text, slug, place: { organisationId, workspaceId } });
        const record: StoredRecord<'config'> = {
          ...{ kind: 'config', id, organisationId, workspaceId, slug, name: body.name, status: 'active' },
          ...{ parentId: '', secrets: {}, createdBy: maker, updatedBy: maker },
          data: { config: storedConfig(text), isDefault },
          ...{ createdAt: now, updatedAt: now, version: 1 },
        };
        if (isDefault) await takeDefault(writer, record);
        await writer.records.insert(record);
        const version = await addConfigVersion(writer, record);
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
    summary: 'The saved configs that the key may see, oldest first',
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
    summary: 'One saved config, by its slug or id, with what it says now',
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
    summary: 'What a saved config said, newest first',
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
