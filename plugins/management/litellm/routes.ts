import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import { budgetRoutes, requireBudget } from './budgets.ts';
import { foreign, litellmBodies, litellmFields } from './fields.ts';
import { idIn, OwnRoutes, recordsIn } from './own-routes.ts';
import { randomUUID } from 'node:crypto';
import { sha256 } from '../../../core/base/bytes.ts';
import { refusedBody, strict } from '../shared/fields.ts';
import type { JsonObject } from '../../../core/base/json.ts';

/** Paths of LiteLLM without a counterpart of their own here, and what to call instead. */
const elsewhere: readonly (readonly [method: RouteDefinition['method'], path: string, instead: string])[] = [
  ['POST', '/key/block', 'PUT /api-keys/{id} with expires_at'],
  ['POST', '/key/unblock', 'PUT /api-keys/{id} with expires_at'],
  ['POST', '/user/new', 'POST /admin/users/invites'],
  ['GET', '/user/info', 'GET /admin/users/{userId}'],
  ['GET', '/user/list', 'GET /admin/users'],
  ['POST', '/user/update', 'PUT /admin/users/{userId}'],
  ['POST', '/user/delete', 'DELETE /admin/users/{userId}'],
  ['POST', '/team/member_add', 'POST /admin/workspaces/{workspaceId}/users'],
  ['POST', '/model/new', 'POST /integrations, or the configuration file'],
  ['POST', '/model/update', 'PUT /integrations/{slug}, or the configuration file'],
  ['POST', '/model/delete', 'DELETE /integrations/{slug}, or the configuration file'],
  ['POST', '/customer/new', 'POST /policies/usage-limits with group_by metadata'],
  ['GET', '/spend/logs', 'GET /logs'],
  ['GET', '/global/spend', 'GET /analytics/graphs/cost'],
  ['GET', '/global/spend/report', 'GET /analytics/groups/workspace'],
  ['GET', '/spend/keys', 'GET /analytics/groups/api-key'],
  ['GET', '/spend/tags', 'GET /analytics/groups/metadata'],
  ['GET', '/v2/user/info', 'GET /admin/users/{userId}'],
  ['GET', '/team/available', 'GET /team/list'],
  ['POST', '/team/member_delete', 'DELETE /admin/workspaces/{workspaceId}/users/{userId}'],
  ['GET', '/customer/info', 'GET /policies/usage-limits with group_by metadata'],
  ['POST', '/organization/new', 'no route: each organisation has a gateway of its own'],
  ['GET', '/credentials', 'GET /integrations'],
  ['POST', '/credentials', 'POST /integrations'],
];

/**
 * Paths of LiteLLM's proxy for keys, teams and budgets, over the same records as `/api-keys`, `/workspaces` and
 * `/policies/usage-limits`: each calls the route of the administration API that does the work.
 */
export function litellmRoutes(scope: Scope): readonly RouteDefinition[] {
  const routes = new OwnRoutes(scope);
  return [
    ...keyRoutes(routes, scope),
    ...teamRoutes(routes, scope),
    ...budgetRoutes(routes),
    ...elsewhere.map(([method, path, instead]) =>
      defineRoute({
        id: `litellm.${path.slice(1).replaceAll(/[^a-z]+/g, '_')}`,
        method,
        path,
        summary: `LiteLLM: refused; ${instead} does this here`,
        scope: [],
        // Changes nothing.
        audit: null,
        reply: litellmBodies.Shown,
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

// Keys of LiteLLM: a key is a service key of a workspace.

/** What a key of LiteLLM may do here: ask models, and call tools. */
const scopes = ['completions.write', 'mcp.invoke'];
const makeKey = 'api_keys.create_workspace_service';
/** Members of the defaults of a key that LiteLLM does not know. */
const ofKeys = ['config_id', 'allow_config_override', 'log_bodies'];

/** `/key/generate`, `/key/info`, `/key/list`, `/key/update`, `/key/regenerate` and `/key/delete`. */
function keyRoutes(routes: OwnRoutes, scope: Scope): readonly RouteDefinition[] {
  /** Id of a key: by its secret, or as it is. */
  const idOf = (named: string): string => {
    const found = scope.directory.keyByHash(sha256(named, 'base64'));
    if (found !== undefined) return found.id;
    if (!named.startsWith(scope.keyPrefix)) return named;
    // No message repeats a secret.
    throw new GatewayError(
      'resource_not_found',
      'No key has this secret. A key made a moment ago is known to every gateway after a second; its id ("token") works at once.',
      { param: 'key' },
    );
  };
  const now = (): number => scope.clock.now();

  return [
    defineRoute({
      id: 'api_keys.litellm_generate',
      method: 'POST',
      path: '/key/generate',
      summary: 'LiteLLM: creates a key of a workspace; only this answer contains its secret',
      scope: routes.scopeOf(makeKey),
      audit: 'create',
      body: litellmBodies.Generate,
      reply: litellmBodies.Shown,
      async handle(input) {
        const { body, key } = input;
        litellmFields.refuseForeign(body, foreign.key);
        if (typeof body.budget_id === 'string') await requireBudget(routes, input, body.budget_id);
        const workspace = body.team_id ?? (key.workspaceId || scope.directory.defaultWorkspaceId);
        const name = body.key_alias ?? `key-${randomUUID().slice(0, 8)}`;
        const made = await routes.run(makeKey, input, {
          body: { name, scopes, workspace_id: workspace, ...litellmFields.content(body, now()) },
        });
        const id = idIn(made);
        return {
          ...litellmFields.sent(body),
          key: made['key'] ?? null,
          token: id,
          token_id: id,
          key_name: name,
          key_alias: name,
          team_id: workspace,
          models: body.models ?? [],
          expires: litellmFields.end(body.duration, now()) ?? null,
        };
      },
    }),
    defineRoute({
      id: 'api_keys.litellm_info',
      method: 'GET',
      path: '/key/info',
      summary: 'LiteLLM: one key, by its secret or id; without either the key of the caller',
      scope: routes.scopeOf('api_keys.get'),
      // Reads only.
      audit: null,
      query: Type.Object({ key: Type.Optional(Type.String({ minLength: 1, maxLength: 512 })) }, strict),
      reply: litellmBodies.Shown,
      async handle(input) {
        const id = input.query.key === undefined ? input.key.id : idOf(input.query.key);
        const found = await routes.run('api_keys.get', input, { params: { id } });
        return { key: found['key'], info: litellmFields.info(found) };
      },
    }),
    defineRoute({
      id: 'api_keys.litellm_list',
      method: 'GET',
      path: '/key/list',
      summary: 'LiteLLM: the keys that the caller may see',
      scope: routes.scopeOf('api_keys.list'),
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
      reply: litellmBodies.Shown,
      async handle(input) {
        const { page = 1, size = 10, team_id: workspace, key_hash: id } = input.query;
        const isFull = input.query.return_full_object === true;
        const listed = await routes.run('api_keys.list', input, {
          query: {
            current_page: page - 1,
            page_size: size,
            ...(workspace !== undefined && { workspace_id: workspace }),
            ...(id !== undefined && { ids: idOf(id) }),
          },
        });
        const total = Number(listed['total']);
        return {
          keys: recordsIn(listed).map((one) => (isFull ? litellmFields.info(one) : idIn(one))),
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
      scope: routes.scopeOf('api_keys.update'),
      audit: 'update',
      body: litellmBodies.Update,
      reply: litellmBodies.Shown,
      async handle(input) {
        const { body } = input;
        litellmFields.refuseForeign(body, foreign.keyUpdate);
        const id = idOf(body.key);
        if (typeof body.budget_id === 'string') await requireBudget(routes, input, body.budget_id);
        const before = await routes.run('api_keys.get', input, { params: { id } });
        if (
          typeof body.team_id === 'string' &&
          body.team_id !== '' &&
          before['workspace_id'] !== body.team_id
        )
          throw refusedBody([
            { path: '/team_id', message: 'a key stays in its workspace: make another there' },
          ]);
        const { defaults, ...content } = litellmFields.content(body, now());
        const changed = await routes.run('api_keys.update', input, {
          params: { id },
          body: {
            ...(typeof body.key_alias === 'string' && { name: body.key_alias }),
            ...content,
            ...(defaults && { defaults: litellmFields.changedDefaults(before, defaults, ofKeys) }),
          },
        });
        return litellmFields.info(changed);
      },
    }),
    defineRoute({
      id: 'api_keys.litellm_delete',
      method: 'POST',
      path: '/key/delete',
      summary: 'LiteLLM: deletes keys, by their secrets or ids',
      scope: routes.scopeOf('api_keys.delete'),
      audit: 'delete',
      body: litellmBodies.Delete,
      reply: litellmBodies.Shown,
      async handle(input) {
        for (const one of input.body.keys)
          await routes.run('api_keys.delete', input, { params: { id: idOf(one) } });
        return { deleted_keys: input.body.keys };
      },
    }),
    defineRoute({
      id: 'api_keys.litellm_regenerate',
      method: 'POST',
      path: '/key/regenerate',
      summary: 'LiteLLM: a new secret for a key; the previous one stays valid for 30 minutes',
      scope: routes.scopeOf('api_keys.rotate'),
      audit: 'rotate',
      body: litellmBodies.Regenerate,
      reply: litellmBodies.Shown,
      async handle(input) {
        const id = idOf(input.body.key);
        const rotated = await routes.run('api_keys.rotate', input, { params: { id } });
        const shown = await routes.run('api_keys.get', input, { params: { id } });
        return { ...litellmFields.info(shown), key: rotated['key'] ?? null, token_id: id };
      },
    }),
  ];
}

// Teams of LiteLLM: a team is a workspace.

const Id = Type.String({ minLength: 1, maxLength: 255, description: 'Id or slug of a workspace.' });

/** `/team/new`, `/team/info`, `/team/list`, `/team/update` and `/team/delete`. */
function teamRoutes(routes: OwnRoutes, { clock }: Pick<Scope, 'clock'>): readonly RouteDefinition[] {
  return [
    defineRoute({
      id: 'workspaces.litellm_new_team',
      method: 'POST',
      path: '/team/new',
      summary: 'LiteLLM: creates a workspace',
      scope: routes.scopeOf('workspaces.create'),
      audit: 'create',
      body: litellmBodies.Team,
      reply: litellmBodies.Shown,
      async handle(input) {
        const { body } = input;
        litellmFields.refuseForeign(body, foreign.team);
        const made = await routes.run('workspaces.create', input, {
          body: { name: body.team_alias, ...ofWorkspace(litellmFields.content(body, clock.now())) },
        });
        const { models } = litellmFields.team(made);
        return {
          ...litellmFields.sent(body),
          team_alias: body.team_alias,
          team_id: idIn(made),
          models: models ?? [],
        };
      },
    }),
    defineRoute({
      id: 'workspaces.litellm_team_info',
      method: 'GET',
      path: '/team/info',
      summary: 'LiteLLM: one workspace',
      scope: routes.scopeOf('workspaces.get'),
      // Reads only.
      audit: null,
      query: Type.Object({ team_id: Id }, strict),
      reply: litellmBodies.Shown,
      async handle(input) {
        const { team_id: workspaceId } = input.query;
        const found = await routes.run('workspaces.get', input, { params: { workspaceId } });
        return { team_id: idIn(found), team_info: litellmFields.team(found), keys: [], team_memberships: [] };
      },
    }),
    defineRoute({
      id: 'workspaces.litellm_team_list',
      method: 'GET',
      path: '/team/list',
      summary: 'LiteLLM: the workspaces that the caller may see, the first 100',
      scope: routes.scopeOf('workspaces.list'),
      // Reads only.
      audit: null,
      query: Type.Object({}, strict),
      reply: Type.Array(litellmBodies.Shown),
      async handle(input) {
        return (await routes.list('workspaces.list', input, { page_size: 100 })).map(litellmFields.team);
      },
    }),
    defineRoute({
      id: 'workspaces.litellm_team_pages',
      method: 'GET',
      path: '/v2/team/list',
      summary: 'LiteLLM: the workspaces that the caller may see, oldest first, in pages',
      scope: routes.scopeOf('workspaces.list'),
      // Reads only.
      audit: null,
      query: Type.Object(
        {
          page: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000, default: 1 })),
          page_size: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 10 })),
          team_alias: Type.Optional(
            Type.String({ minLength: 1, maxLength: 255, description: 'Part of the name.' }),
          ),
          sort_order: Type.Optional(
            Type.Union([Type.Literal('asc'), Type.Literal('desc')], { description: 'Changes nothing.' }),
          ),
        },
        strict,
      ),
      reply: litellmBodies.Shown,
      async handle(input) {
        const { page = 1, page_size: size = 10, team_alias: name } = input.query;
        const listed = await routes.run('workspaces.list', input, {
          query: { current_page: page - 1, page_size: size, ...(name !== undefined && { name }) },
        });
        const total = Number(listed['total']);
        return {
          teams: recordsIn(listed).map(litellmFields.team),
          ...{ total, page, page_size: size, total_pages: Math.ceil(total / size) },
        };
      },
    }),
    defineRoute({
      id: 'workspaces.litellm_team_update',
      method: 'POST',
      path: '/team/update',
      summary: 'LiteLLM: updates a workspace; omitted fields stay unchanged',
      scope: routes.scopeOf('workspaces.update'),
      audit: 'update',
      body: litellmBodies.TeamUpdate,
      reply: litellmBodies.Shown,
      async handle(input) {
        const { body } = input;
        litellmFields.refuseForeign(body, foreign.teamUpdate);
        const params = { workspaceId: body.team_id };
        const { defaults, ...content } = litellmFields.content(body, clock.now());
        const before = defaults && (await routes.run('workspaces.get', input, { params }));
        const changed = await routes.run('workspaces.update', input, {
          params,
          body: {
            ...(typeof body.team_alias === 'string' && { name: body.team_alias }),
            ...ofWorkspace(content),
            ...(before && { defaults: litellmFields.changedDefaults(before, defaults, ['config_id']) }),
          },
        });
        return { team_id: idIn(changed), data: litellmFields.team(changed) };
      },
    }),
    defineRoute({
      id: 'workspaces.litellm_team_delete',
      method: 'POST',
      path: '/team/delete',
      summary: 'LiteLLM: archives workspaces; their keys are refused from then on',
      scope: routes.scopeOf('workspaces.delete'),
      audit: 'delete',
      body: Type.Object({ team_ids: Type.Array(Id, { minItems: 1, maxItems: 100 }) }, strict),
      reply: litellmBodies.Shown,
      async handle(input) {
        const { team_ids: ids } = input.body;
        for (const workspaceId of ids)
          await routes.run('workspaces.delete', input, { params: { workspaceId } });
        return { deleted_teams: ids };
      },
    }),
  ];
}

/** A workspace has several budgets and no end. */
function ofWorkspace({
  usage_limits: usage,
  rate_limits: rates,
  defaults,
}: ReturnType<typeof litellmFields.content>): JsonObject {
  return {
    ...(usage !== undefined && { usage_limits: usage === null ? [] : [usage] }),
    ...(rates !== undefined && { rate_limits: rates }),
    ...(defaults !== undefined && { defaults }),
  };
}
