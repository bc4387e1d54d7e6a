import { randomUUID } from 'node:crypto';
import { sha256 } from '../../core/base/bytes.ts';
import type { JsonObject } from '../../core/base/json.ts';
import { isJsonObject } from '../../core/base/json.ts';
import type { RouteDefinition, RouteInput } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, Type } from '../../core/pipeline/plugin.ts';
import { apiKeyRoutes } from './api-keys/routes.ts';
import {
  contentOf,
  DeleteBody,
  endOf,
  foreign,
  GenerateBody,
  infoOf,
  refuseForeign,
  TeamBody,
  teamOf,
  TeamUpdateBody,
  UpdateBody,
} from './litellm-fields.ts';
import { refusedBody, strict } from './shared/fields.ts';
import { workspaceRoutes } from './workspaces/routes.ts';

type Input = RouteInput<unknown, unknown, unknown>;

/** What a key of LiteLLM may do here: ask models, and call tools. */
const scopes = ['completions.write', 'mcp.invoke'];
const Shown = Type.Object({}, { additionalProperties: true });

/** Paths of LiteLLM without a counterpart of their own here, and what to call instead. */
const elsewhere: readonly (readonly [method: RouteDefinition['method'], path: string, instead: string])[] = [
  ['POST', '/key/regenerate', 'POST /api-keys/{id}/rotate'],
  ['POST', '/key/block', 'PUT /api-keys/{id} with expires_at'],
  ['POST', '/key/unblock', 'PUT /api-keys/{id} with expires_at'],
  ['POST', '/user/new', 'POST /admin/users/invites'],
  ['GET', '/user/info', 'GET /admin/users/{userId}'],
  ['GET', '/user/list', 'GET /admin/users'],
  ['POST', '/user/update', 'PUT /admin/users/{userId}'],
  ['POST', '/user/delete', 'DELETE /admin/users/{userId}'],
  ['POST', '/team/delete', 'DELETE /admin/workspaces/{workspaceId}'],
  ['POST', '/team/member_add', 'POST /admin/workspaces/{workspaceId}/users'],
  ['POST', '/model/new', 'POST /integrations, or the configuration file'],
  ['POST', '/model/update', 'PUT /integrations/{slug}, or the configuration file'],
  ['POST', '/model/delete', 'DELETE /integrations/{slug}, or the configuration file'],
  ['POST', '/budget/new', 'POST /policies/usage-limits'],
  ['POST', '/customer/new', 'POST /policies/usage-limits with group_by metadata'],
  ['GET', '/spend/logs', 'GET /logs'],
  ['GET', '/global/spend', 'GET /analytics/graphs/cost'],
  ['GET', '/global/spend/report', 'GET /analytics/groups/workspace'],
  ['GET', '/spend/keys', 'GET /analytics/groups/api-key'],
  ['GET', '/spend/tags', 'GET /analytics/groups/metadata'],
  ['GET', '/v2/user/info', 'GET /admin/users/{userId}'],
  ['GET', '/v2/team/list', 'GET /team/list'],
  ['GET', '/team/available', 'GET /team/list'],
  ['POST', '/team/member_delete', 'DELETE /admin/workspaces/{workspaceId}/users/{userId}'],
  ['GET', '/budget/list', 'GET /policies/usage-limits'],
  ['POST', '/budget/info', 'GET /policies/usage-limits/{policyUsageLimitsId}'],
  ['POST', '/budget/update', 'PUT /policies/usage-limits/{policyUsageLimitsId}'],
  ['POST', '/budget/delete', 'DELETE /policies/usage-limits/{policyUsageLimitsId}'],
  ['GET', '/customer/info', 'GET /policies/usage-limits with group_by metadata'],
  ['POST', '/organization/new', 'no route: each organisation has a gateway of its own'],
  ['GET', '/credentials', 'GET /integrations'],
  ['POST', '/credentials', 'POST /integrations'],
];

/**
 * Paths of LiteLLM's proxy for keys and teams, over the same records as `/api-keys` and `/workspaces`: each calls the route
 * of the administration API that does the work.
 */
export function litellmRoutes(scope: Scope): readonly RouteDefinition[] {
  const routes = new Map(
    [...apiKeyRoutes(scope), ...workspaceRoutes(scope)].map((route) => [route.id, route]),
  );
  const route = (id: string): RouteDefinition => {
    const found = routes.get(id);
    if (found === undefined) throw new GatewayError('internal', `There is no route "${id}".`);
    return found;
  };
  const run = async (
    id: string,
    input: Input,
    parts: Partial<Pick<Input, 'params' | 'query' | 'body'>>,
  ): Promise<JsonObject> => {
    const { key, role, context, read, write, requireVersion, sendVersion } = input;
    const shared = { key, role, context, read, write, requireVersion, sendVersion };
    const answer: unknown = await route(id).handle({ params: {}, query: {}, body: {}, ...parts, ...shared });
    return isJsonObject(answer) ? answer : {};
  };
  /** Id of a key: by its secret, or as it is. */
  const idOf = (named: string): string => scope.directory.keyByHash(sha256(named, 'base64'))?.id ?? named;
  const now = (): number => scope.clock.now();
  const show = route('api_keys.get');
  const make = route('api_keys.create_workspace_service');

  return [
    defineRoute({
      id: 'api_keys.litellm_generate',
      method: 'POST',
      path: '/key/generate',
      summary: 'LiteLLM: creates a key of a workspace; only this answer contains its secret',
      scope: make.scope,
      audit: 'create',
      body: GenerateBody,
      reply: Shown,
      async handle(input) {
        const { body, key } = input;
        refuseForeign(body, foreign.key);
        const workspace = body.team_id ?? (key.workspaceId || scope.directory.defaultWorkspaceId);
        const name = body.key_alias ?? `key-${randomUUID().slice(0, 8)}`;
        const made = await run('api_keys.create_workspace_service', input, {
          body: { name, scopes, workspace_id: workspace, ...contentOf(body, now()) },
        });
        const id = idIn(made);
        return {
          ...sent(body),
          key: made['key'] ?? null,
          token: id,
          token_id: id,
          key_name: name,
          key_alias: name,
          team_id: workspace,
          models: [],
          expires: endOf(body.duration, now()) ?? null,
        };
      },
    }),
    defineRoute({
      id: 'api_keys.litellm_info',
      method: 'GET',
      path: '/key/info',
      summary: 'LiteLLM: one key, by its secret or id; without either the key of the caller',
      scope: show.scope,
      // Reads only.
      audit: null,
      query: Type.Object({ key: Type.Optional(Type.String({ minLength: 1, maxLength: 512 })) }, strict),
      reply: Shown,
      async handle(input) {
        const id = input.query.key === undefined ? input.key.id : idOf(input.query.key);
        const found = await run('api_keys.get', input, { params: { id } });
        return { key: found['key'], info: infoOf(found) };
      },
    }),
    defineRoute({
      id: 'api_keys.litellm_list',
      method: 'GET',
      path: '/key/list',
      summary: 'LiteLLM: the keys that the caller may see',
      scope: route('api_keys.list').scope,
      // Reads only.
      audit: null,
      query: Type.Object(
        {
          page: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000, default: 1 })),
          size: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 10 })),
          team_id: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
          key_hash: Type.Optional(Type.String({ minLength: 1, maxLength: 512, description: 'Id of a key.' })),
          return_full_object: Type.Optional(Type.Boolean()),
          include_team_keys: Type.Optional(
            Type.Boolean({ description: 'Changes nothing: each key is of a workspace.' }),
          ),
        },
        strict,
      ),
      reply: Shown,
      async handle(input) {
        const { page = 1, size = 10, team_id: workspace, key_hash: id } = input.query;
        const isFull = input.query.return_full_object === true;
        const listed = await run('api_keys.list', input, {
          query: {
            current_page: page - 1,
            page_size: size,
            ...(workspace !== undefined && { workspace_id: workspace }),
            ...(id !== undefined && { ids: idOf(id) }),
          },
        });
        const data = Array.isArray(listed['data']) ? listed['data'].filter(isJsonObject) : [];
        const total = Number(listed['total']);
        return {
          keys: data.map((one) => (isFull ? infoOf(one) : idIn(one))),
          total_count: total,
          current_page: page,
          total_pages: Math.ceil(total / size),
        };
      },
    }),
    defineRoute({
      id: 'api_keys.litellm_update',
      method: 'POST',
      path: '/key/update',
      summary: 'LiteLLM: updates a key; omitted fields stay unchanged',
      scope: route('api_keys.update').scope,
      audit: 'update',
      body: UpdateBody,
      reply: Shown,
      async handle(input) {
        const { body } = input;
        refuseForeign(body, foreign.keyUpdate);
        const id = idOf(body.key);
        if (typeof body.team_id === 'string' && body.team_id !== '') {
          const { workspace_id: own } = await run('api_keys.get', input, { params: { id } });
          if (own !== body.team_id)
            throw refusedBody([
              { path: '/team_id', message: 'a key stays in its workspace: make another there' },
            ]);
        }
        const content = contentOf(body, now());
        const name = typeof body.key_alias === 'string' ? { name: body.key_alias } : {};
        const changed = await run('api_keys.update', input, {
          params: { id },
          body: { ...name, ...content },
        });
        return infoOf(changed);
      },
    }),
    defineRoute({
      id: 'api_keys.litellm_delete',
      method: 'POST',
      path: '/key/delete',
      summary: 'LiteLLM: deletes keys, by their secrets or ids',
      scope: route('api_keys.delete').scope,
      audit: 'delete',
      body: DeleteBody,
      reply: Shown,
      async handle(input) {
        for (const one of input.body.keys) await run('api_keys.delete', input, { params: { id: idOf(one) } });
        return { deleted_keys: input.body.keys };
      },
    }),
    defineRoute({
      id: 'workspaces.litellm_new_team',
      method: 'POST',
      path: '/team/new',
      summary: 'LiteLLM: creates a workspace',
      scope: 'workspaces.create',
      audit: 'create',
      body: TeamBody,
      reply: Shown,
      async handle(input) {
        const { body } = input;
        refuseForeign(body, foreign.team);
        const made = await run('workspaces.create', input, {
          body: { name: body.team_alias, ...ofWorkspace(contentOf(body, now())) },
        });
        return { ...sent(body), team_alias: body.team_alias, team_id: idIn(made), models: [] };
      },
    }),
    defineRoute({
      id: 'workspaces.litellm_team_info',
      method: 'GET',
      path: '/team/info',
      summary: 'LiteLLM: one workspace',
      scope: route('workspaces.get').scope,
      // Reads only.
      audit: null,
      query: Type.Object({ team_id: Type.String({ minLength: 1, maxLength: 255 }) }, strict),
      reply: Shown,
      async handle(input) {
        const { team_id: workspaceId } = input.query;
        const found = await run('workspaces.get', input, { params: { workspaceId } });
        return { team_id: idIn(found), team_info: teamOf(found), keys: [], team_memberships: [] };
      },
    }),
    defineRoute({
      id: 'workspaces.litellm_team_list',
      method: 'GET',
      path: '/team/list',
      summary: 'LiteLLM: the workspaces that the caller may see, the first 100',
      scope: route('workspaces.list').scope,
      // Reads only.
      audit: null,
      query: Type.Object({}, strict),
      reply: Type.Array(Shown),
      async handle(input) {
        const listed = await run('workspaces.list', input, { query: { page_size: 100 } });
        const data = Array.isArray(listed['data']) ? listed['data'].filter(isJsonObject) : [];
        return data.map(teamOf);
      },
    }),
    defineRoute({
      id: 'workspaces.litellm_team_update',
      method: 'POST',
      path: '/team/update',
      summary: 'LiteLLM: updates a workspace; omitted fields stay unchanged',
      scope: route('workspaces.update').scope,
      audit: 'update',
      body: TeamUpdateBody,
      reply: Shown,
      async handle(input) {
        const { body } = input;
        refuseForeign(body, foreign.teamUpdate);
        const changed = await run('workspaces.update', input, {
          params: { workspaceId: body.team_id },
          body: {
            ...(typeof body.team_alias === 'string' && { name: body.team_alias }),
            ...ofWorkspace(contentOf(body, now())),
          },
        });
        return { team_id: idIn(changed), data: teamOf(changed) };
      },
    }),
    ...elsewhere.map(([method, path, instead]) =>
      defineRoute({
        id: `litellm.${path.slice(1).replaceAll(/[^a-z]+/g, '_')}`,
        method,
        path,
        summary: `LiteLLM: refused; ${instead} does this here`,
        scope: [],
        // Changes nothing.
        audit: null,
        reply: Shown,
        handle() {
          throw new GatewayError(
            'not_supported',
            `${method} ${path} of LiteLLM is not answered here. Call ${instead}.`,
          );
        },
      }),
    ),
  ];
}

/** Id of a record as answers show it. */
function idIn({ id }: JsonObject): string {
  return typeof id === 'string' ? id : '';
}

/** What was asked for, as answers repeat it. */
function sent(body: Parameters<typeof contentOf>[0]): JsonObject {
  return {
    duration: body.duration ?? null,
    max_budget: body.max_budget ?? null,
    budget_duration: body.budget_duration ?? null,
    rpm_limit: body.rpm_limit ?? null,
    tpm_limit: body.tpm_limit ?? null,
    user_id: body.user_id ?? null,
    metadata: (body.metadata ?? {}) as JsonObject,
  };
}

/** A workspace has several budgets and no end. */
function ofWorkspace({
  usage_limits: usage,
  rate_limits: rates,
  defaults,
}: ReturnType<typeof contentOf>): JsonObject {
  return {
    ...(usage !== undefined && { usage_limits: usage === null ? [] : [usage] }),
    ...(rates !== undefined && { rate_limits: rates }),
    ...(defaults !== undefined && { defaults }),
  };
}
