// Keys of LiteLLM: a key is a service key of a workspace.
import { randomUUID } from 'node:crypto';
import { sha256 } from '../../../core/base/bytes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import { refusedBody, strict } from '../shared/fields.ts';
import { requireBudget } from './budgets.ts';
import {
  changedDefaults,
  contentOf,
  DeleteBody,
  endOf,
  foreign,
  GenerateBody,
  infoOf,
  refuseForeign,
  RegenerateBody,
  sent,
  Shown,
  UpdateBody,
} from './fields.ts';
import { idIn, type OwnRoutes, recordsIn } from './own-routes.ts';

/** What a key of LiteLLM may do here: ask models, and call tools. */
const scopes = ['completions.write', 'mcp.invoke'];
const makeKey = 'api_keys.create_workspace_service';
/** Members of the defaults of a key that LiteLLM does not know. */
const ofKeys = ['config_id', 'allow_config_override', 'log_bodies'];

/** `/key/generate`, `/key/info`, `/key/list`, `/key/update`, `/key/regenerate` and `/key/delete`. */
export function keyRoutes(routes: OwnRoutes, scope: Scope): readonly RouteDefinition[] {
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
      body: GenerateBody,
      reply: Shown,
      async handle(input) {
        const { body, key } = input;
        refuseForeign(body, foreign.key);
        if (typeof body.budget_id === 'string') await requireBudget(routes, input, body.budget_id);
        const workspace = body.team_id ?? (key.workspaceId || scope.directory.defaultWorkspaceId);
        const name = body.key_alias ?? `key-${randomUUID().slice(0, 8)}`;
        const made = await routes.run(makeKey, input, {
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
          models: body.models ?? [],
          expires: endOf(body.duration, now()) ?? null,
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
      reply: Shown,
      async handle(input) {
        const id = input.query.key === undefined ? input.key.id : idOf(input.query.key);
        const found = await routes.run('api_keys.get', input, { params: { id } });
        return { key: found['key'], info: infoOf(found) };
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
      reply: Shown,
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
          keys: recordsIn(listed).map((one) => (isFull ? infoOf(one) : idIn(one))),
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
      body: UpdateBody,
      reply: Shown,
      async handle(input) {
        const { body } = input;
        refuseForeign(body, foreign.keyUpdate);
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
        const { defaults, ...content } = contentOf(body, now());
        const changed = await routes.run('api_keys.update', input, {
          params: { id },
          body: {
            ...(typeof body.key_alias === 'string' && { name: body.key_alias }),
            ...content,
            ...(defaults && { defaults: changedDefaults(before, defaults, ofKeys) }),
          },
        });
        return infoOf(changed);
      },
    }),
    defineRoute({
      id: 'api_keys.litellm_delete',
      method: 'POST',
      path: '/key/delete',
      summary: 'LiteLLM: deletes keys, by their secrets or ids',
      scope: routes.scopeOf('api_keys.delete'),
      audit: 'delete',
      body: DeleteBody,
      reply: Shown,
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
      body: RegenerateBody,
      reply: Shown,
      async handle(input) {
        const id = idOf(input.body.key);
        const rotated = await routes.run('api_keys.rotate', input, { params: { id } });
        const shown = await routes.run('api_keys.get', input, { params: { id } });
        return { ...infoOf(shown), key: rotated['key'] ?? null, token_id: id };
      },
    }),
  ];
}
