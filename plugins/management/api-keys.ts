import { holds, reachOf } from '../../core/access/access.ts';
import type { RouteDefinition } from '../../core/http/define-route.ts';
import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { ApiKeyFilter } from '../../core/ports/resources.ts';
import { apiKeyTypes, keyScope, keyScopes, readScopes, visibleKey } from './api-key-access.ts';
import { changedKey, UpdateKey } from './api-key-body.ts';
import { ApiKeyReply, showApiKey } from './api-key-record.ts';
import { createApiKeyRoutes } from './create-api-key.ts';
import { listReply, pageOf, pageQuery } from './page-query.ts';
import { rotateApiKeyRoute } from './rotate-api-key.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier, strict } from './text-schema.ts';
import { visibleWorkspace } from './visible-workspace.ts';

const Params = Type.Object({ id: Identifier });
const maxIds = 100;

/** The routes of service keys. */
export function apiKeyRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    ...createApiKeyRoutes(scope),
    listRoute(scope),
    getRoute(scope),
    updateRoute(scope),
    deleteRoute(),
    rotateApiKeyRoute(scope),
  ];
}

function listRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'api_keys.list',
    method: 'GET',
    path: '/api-keys',
    summary: 'The keys that the caller may see, oldest first, their secrets masked',
    scope: keyScopes('list'),
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...pageQuery,
        workspace_id: Type.Optional(Identifier),
        ids: Type.Optional(
          Type.String({
            maxLength: 4096,
            description: `Only these, with commas between them: at most ${maxIds}.`,
          }),
        ),
      },
      strict,
    ),
    reply: Type.Object({ ...listReply, data: Type.Array(ApiKeyReply) }),
    async handle({ query, key, read }) {
      const page = pageOf(query);
      const { organisationId, workspaceId: reach } = reachOf(key);
      const types = apiKeyTypes.filter((type) => holds(key, keyScope(type, 'list')));
      const { total, data } = await read(async (reader) => {
        const named = query.workspace_id;
        const workspaceId = named === undefined ? reach : (await visibleWorkspace(reader, key, named)).id;
        const filter: ApiKeyFilter = {
          types,
          ...(workspaceId !== undefined && { workspaceId }),
          ...(query.ids !== undefined && { ids: query.ids.split(',').slice(0, maxIds) }),
        };
        return reader.apiKeys.list(organisationId, filter, page);
      });
      const now = clock.now();
      return { object: 'list' as const, total, data: data.map((record) => showApiKey(record, now)) };
    },
  });
}

function getRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'api_keys.get',
    method: 'GET',
    path: '/api-keys/{id}',
    summary: 'One key, its secret masked',
    scope: keyScopes('read'),
    // Reads only.
    audit: null,
    params: Params,
    reply: ApiKeyReply,
    async handle({ params, key, role, read, sendVersion }) {
      const record = await read((reader) => visibleKey(reader, { key, role }, params.id, 'read'));
      sendVersion(record.version);
      return showApiKey(record, clock.now());
    },
  });
}

function updateRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'api_keys.update',
    method: 'PUT',
    path: '/api-keys/{id}',
    summary: 'Changes a key; what is not given stays',
    scope: keyScopes('update'),
    audit: 'update',
    params: Params,
    body: UpdateKey,
    reply: ApiKeyReply,
    async handle({ params, body, key, role, write, requireVersion, sendVersion }) {
      const now = scope.clock.now();
      const record = await write(async (writer) => {
        const before = await visibleKey(writer, { key, role }, params.id, 'update');
        requireVersion(before.version);
        const after = {
          ...before,
          ...changedKey(body, before, scope),
          scopes: body.scopes === undefined ? before.scopes : readScopes(key, before.type, body.scopes),
          ...{ updatedAt: now, version: before.version + 1 },
        };
        if (!(await writer.apiKeys.replace(after))) throw staleVersion();
        return { id: after.id, workspaceId: after.workspaceId, result: after };
      });
      sendVersion(record.version);
      return showApiKey(record, now);
    },
  });
}

function deleteRoute(): RouteDefinition {
  return defineRoute({
    id: 'api_keys.delete',
    method: 'DELETE',
    path: '/api-keys/{id}',
    summary: 'Deletes a key: it is refused from then on',
    scope: keyScopes('delete'),
    audit: 'delete',
    params: Params,
    reply: Type.Object({}),
    async handle({ params, key, role, write, requireVersion }) {
      await write(async (writer) => {
        const before = await visibleKey(writer, { key, role }, params.id, 'delete');
        requireVersion(before.version);
        if (!(await writer.apiKeys.remove(before.organisationId, before.id))) throw staleVersion();
        return { id: before.id, workspaceId: before.workspaceId, result: undefined };
      });
      return {};
    },
  });
}
