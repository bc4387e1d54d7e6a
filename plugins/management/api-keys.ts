import { holds } from '../../core/access/access.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { ApiKeyFilter, ApiKeyRecord, ResourcesReader } from '../../core/ports/resources.ts';
import { apiKeyTypes, keyScope, keyScopes, readScopes, visibleKey, visibleKeys } from './api-key-access.ts';
import { changedKey, UpdateKey } from './api-key-body.ts';
import { configNamesIn } from './config-names.ts';
import { apiKeyExample } from './api-key-examples.ts';
import { ApiKeyReply, showApiKey } from './api-key-record.ts';
import { usageOfKeys } from './api-key-usage.ts';
import { createApiKeyRoutes } from './create-api-key.ts';
import { listReply, pageOf, pageQuery } from './page-query.ts';
import { rotateApiKeyRoute } from './rotate-api-key.ts';
import { settingsInForce } from './settings-in-force.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier, strict } from './text-schema.ts';
import { endOfKey, requireNotAbove } from './user-key-rules.ts';
import { requireSamePath } from './visible-member.ts';
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

function listRoute(scope: Scope): RouteDefinition {
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
            maxLength: 8192,
            description: `Only these, with commas between them: at most ${maxIds}.`,
          }),
        ),
      },
      strict,
    ),
    reply: Type.Object({ ...listReply, data: Type.Array(ApiKeyReply) }),
    examples: { response: { object: 'list', total: 1, data: [apiKeyExample] } },
    async handle({ query, key, role, read }) {
      const page = pageOf(query);
      const { workspaceId: reach, ...visible } = visibleKeys({ key, role });
      const wanted = query.ids === undefined ? undefined : idsOf(query.ids);
      const types = apiKeyTypes.filter((type) => holds(key, keyScope(type, 'list')));
      const { total, data } = await read(async (reader) => {
        const named = query.workspace_id;
        const workspaceId = named === undefined ? reach : (await visibleWorkspace(reader, key, named)).id;
        const filter: ApiKeyFilter = {
          types,
          ...visible,
          ...(workspaceId !== undefined && { workspaceId }),
          ...(wanted !== undefined && { ids: wanted.filter((id) => visible.ids?.includes(id) ?? true) }),
        };
        return reader.apiKeys.list(key.organisationId, filter, page);
      });
      const usage = await usageOfKeys(data, key, scope);
      const now = scope.clock.now();
      return { object: 'list' as const, total, data: data.map((record) => showApiKey(record, now, usage)) };
    },
  });
}

function idsOf(list: string): readonly string[] {
  const ids = [...new Set(list.split(','))];
  if (ids.length <= maxIds) return ids;
  throw new GatewayError(
    'invalid_request',
    `"ids" names ${ids.length} keys, and ${maxIds} is the most. Ask for them in parts.`,
    { param: 'ids' },
  );
}

function getRoute(scope: Scope): RouteDefinition {
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
    examples: { response: apiKeyExample },
    async handle({ params, key, role, read, sendVersion }) {
      const record = await read((reader) => visibleKey(reader, { key, role }, params.id, 'read'));
      sendVersion(record.version);
      return showApiKey(record, scope.clock.now(), await usageOfKeys([record], key, scope));
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
    examples: { request: { name: 'nightly', scopes: ['logs.view'] }, response: apiKeyExample },
    async handle({ params, body, key, role, write, requireVersion, sendVersion }) {
      const now = scope.clock.now();
      const record = await write(async (writer) => {
        requireSamePath(body, params);
        const before = await visibleKey(writer, { key, role }, params.id, 'update');
        // A change may not touch a key that is above the caller's, as rotation may not.
        readScopes(key, before.type, before.scopes);
        await requireNotAbove(writer, { key, role }, before);
        requireVersion(before.version);
        const { organisationId, workspaceId = '' } = before;
        const router = configNamesIn(scope.router, { organisationId, workspaceId });
        const content = changedKey(body, before, { clock: scope.clock, router });
        const after = {
          ...before,
          ...content,
          expiresAt: await endFor(writer, before, body.expires_at, content.expiresAt),
          scopes: body.scopes === undefined ? before.scopes : readScopes(key, before.type, body.scopes),
          ...{ updatedAt: now, version: before.version + 1 },
        };
        if (!(await writer.apiKeys.replace(after))) throw staleVersion();
        return { id: after.id, workspaceId: after.workspaceId, result: after };
      });
      sendVersion(record.version);
      return showApiKey(record, now, await usageOfKeys([record], key, scope));
    },
  });
}

/** When the changed key ends: what the body says, within what the settings let keys of people live. */
async function endFor(
  reader: Pick<ResourcesReader, 'settings'>,
  before: ApiKeyRecord,
  given: string | null | undefined,
  read: number | undefined,
): Promise<number | undefined> {
  const { type, organisationId, workspaceId = '', createdAt } = before;
  if (given === undefined || type !== 'workspace-user') return read;
  const { user_api_keys: rules } = await settingsInForce(reader, organisationId, workspaceId);
  return endOfKey(read ?? null, rules, createdAt);
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
    examples: { response: {} },
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
