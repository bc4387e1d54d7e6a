import { randomUUID } from 'node:crypto';
import { sha256 } from '../../core/base/bytes.ts';
import type { JsonObject } from '../../core/base/json.ts';
import { isJsonObject } from '../../core/base/json.ts';
import type { RouteDefinition, RouteInput } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../core/pipeline/plugin.ts';
import { apiKeyRoutes } from './api-keys/routes.ts';
import {
  liteLLMDuration,
  liteLLMEnd,
  liteLLMPeriod,
  type LiteLLMReset,
  liteLLMReset,
} from './litellm-durations.ts';
import { refusedBody, strict } from './shared/fields.ts';
import { workspaceRoutes } from './workspaces/routes.ts';

type Input = RouteInput<unknown, unknown, unknown>;

/** What a key of LiteLLM may do here: ask models, and call tools. */
const scopes = ['completions.write', 'mcp.invoke'];
const Duration = Type.String({
  pattern: liteLLMDuration,
  'x-expected': 'a time like 30d, 24h or 1mo',
});
const optional = <S extends Parameters<typeof Type.Optional>[0]>(schema: S) =>
  Type.Optional(Type.Union([schema, Type.Null()]));
const limits = {
  max_budget: optional(Type.Number({ minimum: 1, description: 'US dollars: `usage_limits` of a key here.' })),
  budget_duration: optional(Duration),
  rpm_limit: optional(Type.Integer({ minimum: 0, description: '`rate_limits` here.' })),
  tpm_limit: optional(Type.Integer({ minimum: 0, description: '`rate_limits` here.' })),
};
const fields = {
  key_alias: optional(Type.String({ minLength: 1, maxLength: 255, description: '`name` of a key here.' })),
  duration: optional(Duration),
  ...limits,
  user_id: optional(Type.String({ maxLength: 128, description: 'Goes into the metadata of its requests.' })),
  metadata: optional(
    Type.Object({}, { additionalProperties: true, description: 'Texts, numbers and booleans.' }),
  ),
  models: optional(
    Type.Array(Type.String(), {
      maxItems: 0,
      description: 'Empty: a config of the key (`defaults.config_id`) bounds its models.',
    }),
  ),
};
const GenerateBody = Type.Object(
  {
    ...fields,
    team_id: optional(Type.String({ maxLength: 255, description: 'Id or slug of a workspace.' })),
  },
  strict,
);
const UpdateBody = Type.Object({ ...fields, key: Type.String({ minLength: 1, maxLength: 512 }) }, strict);
const DeleteBody = Type.Object(
  { keys: Type.Array(Type.String({ minLength: 1, maxLength: 512 }), { minItems: 1, maxItems: 100 }) },
  strict,
);
const TeamBody = Type.Object(
  {
    team_alias: Type.String({ minLength: 1, maxLength: 255 }),
    ...limits,
    metadata: fields.metadata,
    models: fields.models,
  },
  strict,
);
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
  ['GET', '/team/info', 'GET /admin/workspaces/{workspaceId}'],
  ['GET', '/team/list', 'GET /admin/workspaces'],
  ['POST', '/team/update', 'PUT /admin/workspaces/{workspaceId}'],
  ['POST', '/team/delete', 'DELETE /admin/workspaces/{workspaceId}'],
  ['POST', '/team/member_add', 'POST /admin/workspaces/{workspaceId}/users'],
  ['POST', '/model/new', 'POST /integrations, or the configuration file'],
  ['POST', '/model/update', 'PUT /integrations/{slug}, or the configuration file'],
  ['POST', '/model/delete', 'DELETE /integrations/{slug}, or the configuration file'],
  ['POST', '/budget/new', 'POST /policies/usage-limits'],
  ['POST', '/customer/new', 'POST /policies/usage-limits with group_by metadata'],
  ['GET', '/spend/logs', 'GET /logs'],
  ['GET', '/global/spend', 'GET /analytics/graphs/cost'],
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
        const workspace = body.team_id ?? (key.workspaceId || scope.directory.defaultWorkspaceId);
        const name = body.key_alias ?? `key-${randomUUID().slice(0, 8)}`;
        const made = await run('api_keys.create_workspace_service', input, {
          body: { name, scopes, workspace_id: workspace, ...contentOf(body, now()) },
        });
        const id = idIn(made);
        return {
          ...body,
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
          return_full_object: Type.Optional(Type.Boolean()),
        },
        strict,
      ),
      reply: Shown,
      async handle(input) {
        const { page = 1, size = 10, team_id: workspace, return_full_object: isFull = false } = input.query;
        const listed = await run('api_keys.list', input, {
          query: {
            current_page: page - 1,
            page_size: size,
            ...(workspace !== undefined && { workspace_id: workspace }),
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
        const content = contentOf(body, now());
        const name = typeof body.key_alias === 'string' ? { name: body.key_alias } : {};
        const changed = await run('api_keys.update', input, {
          params: { id: idOf(body.key) },
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
        const { usage_limits: usage, rate_limits: rates, defaults } = contentOf(body, now());
        const made = await run('workspaces.create', input, {
          body: {
            name: body.team_alias,
            ...(usage !== undefined && usage !== null && { usage_limits: [usage] }),
            ...(rates !== undefined && { rate_limits: rates }),
            ...(defaults !== undefined && { defaults }),
          },
        });
        return { ...body, team_id: idIn(made), models: [] };
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

type Content = Partial<Static<typeof GenerateBody>>;

/** Members of a key here. Throws `invalid_request` for a budget of less than a day. */
function contentOf(
  body: Content,
  now: number,
): {
  usage_limits?: JsonObject | null;
  rate_limits?: JsonObject[];
  defaults?: JsonObject;
  expires_at?: string;
} {
  const { max_budget: budget, budget_duration: period, rpm_limit: rpm, tpm_limit: tpm } = body;
  const expires = endOf(body.duration, now);
  const rates = [
    ...(typeof rpm === 'number' ? [{ type: 'requests', unit: 'rpm', value: rpm }] : []),
    ...(typeof tpm === 'number' ? [{ type: 'tokens', unit: 'rpm', value: tpm }] : []),
  ];
  const metadata: Record<string, string> = {};
  for (const [name, value] of Object.entries(body.metadata ?? {}))
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
      metadata[name] = String(value);
    else
      throw refusedBody([
        {
          path: `/metadata/${name}`,
          message: 'must be a text, number or boolean: metadata of a key are texts',
        },
      ]);
  if (typeof body.user_id === 'string' && body.user_id !== '') metadata['user_id'] = body.user_id;
  return {
    ...(typeof budget === 'number' && {
      usage_limits: { type: 'cost', credit_limit: budget, ...periodOf(period) },
    }),
    ...(budget === null && { usage_limits: null }),
    ...((rpm !== undefined || tpm !== undefined) && { rate_limits: rates }),
    ...(Object.keys(metadata).length > 0 && { defaults: { metadata } }),
    ...(expires !== undefined && { expires_at: expires }),
  };
}

function periodOf(duration: string | null | undefined): LiteLLMReset {
  if (typeof duration !== 'string') return {};
  const reset = liteLLMReset(duration);
  if (reset !== undefined) return reset;
  throw refusedBody([{ path: '/budget_duration', message: 'must be whole days, from 1d to 365d, or 1mo' }]);
}

function endOf(duration: string | null | undefined, now: number): string | undefined {
  if (typeof duration !== 'string') return undefined;
  const end = liteLLMEnd(duration, now);
  if (end !== undefined) return new Date(end).toISOString();
  throw refusedBody([{ path: '/duration', message: 'must end before the year 10000' }]);
}

/** A key as LiteLLM shows one. */
function infoOf(key: JsonObject): JsonObject {
  const usage = isJsonObject(key['usage_limits']) ? key['usage_limits'] : {};
  const rates = Array.isArray(key['rate_limits']) ? key['rate_limits'].filter(isJsonObject) : [];
  const rate = (type: string) =>
    rates.find((one) => one['type'] === type && one['unit'] === 'rpm')?.['value'] ?? null;
  const defaults = isJsonObject(key['defaults']) ? key['defaults'] : {};
  return {
    token: key['id'] ?? null,
    key_name: key['key'] ?? null,
    key_alias: key['name'] ?? null,
    team_id: key['workspace_id'] ?? null,
    user_id: key['user_id'] ?? null,
    spend: usage['current_usage'] ?? 0,
    max_budget: usage['credit_limit'] ?? null,
    budget_duration: liteLLMPeriod(usage),
    budget_reset_at: key['next_usage_reset_at'] ?? null,
    rpm_limit: rate('requests'),
    tpm_limit: rate('tokens'),
    expires: key['expires_at'] ?? null,
    metadata: defaults['metadata'] ?? {},
    models: [],
    blocked: key['status'] !== 'active',
    created_at: key['created_at'] ?? null,
  };
}
