// Teams of LiteLLM: a team is a workspace.
import type { JsonObject } from '../../../core/base/json.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import { strict } from '../shared/fields.ts';
import {
  changedDefaults,
  contentOf,
  foreign,
  refuseForeign,
  sent,
  Shown,
  TeamBody,
  teamOf,
  TeamUpdateBody,
} from './fields.ts';
import { idIn, type OwnRoutes, recordsIn } from './own-routes.ts';

const Id = Type.String({ minLength: 1, maxLength: 255, description: 'Id or slug of a workspace.' });

/** `/team/new`, `/team/info`, `/team/list`, `/team/update` and `/team/delete`. */
export function teamRoutes(routes: OwnRoutes, { clock }: Pick<Scope, 'clock'>): readonly RouteDefinition[] {
  return [
    defineRoute({
      id: 'workspaces.litellm_new_team',
      method: 'POST',
      path: '/team/new',
      summary: 'LiteLLM: creates a workspace',
      scope: routes.scopeOf('workspaces.create'),
      audit: 'create',
      body: TeamBody,
      reply: Shown,
      async handle(input) {
        const { body } = input;
        refuseForeign(body, foreign.team);
        const made = await routes.run('workspaces.create', input, {
          body: { name: body.team_alias, ...ofWorkspace(contentOf(body, clock.now())) },
        });
        const { models } = teamOf(made);
        return { ...sent(body), team_alias: body.team_alias, team_id: idIn(made), models: models ?? [] };
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
      reply: Shown,
      async handle(input) {
        const { team_id: workspaceId } = input.query;
        const found = await routes.run('workspaces.get', input, { params: { workspaceId } });
        return { team_id: idIn(found), team_info: teamOf(found), keys: [], team_memberships: [] };
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
      reply: Type.Array(Shown),
      async handle(input) {
        return (await routes.list('workspaces.list', input, { page_size: 100 })).map(teamOf);
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
      reply: Shown,
      async handle(input) {
        const { page = 1, page_size: size = 10, team_alias: name } = input.query;
        const listed = await routes.run('workspaces.list', input, {
          query: { current_page: page - 1, page_size: size, ...(name !== undefined && { name }) },
        });
        const total = Number(listed['total']);
        return {
          teams: recordsIn(listed).map(teamOf),
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
      body: TeamUpdateBody,
      reply: Shown,
      async handle(input) {
        const { body } = input;
        refuseForeign(body, foreign.teamUpdate);
        const params = { workspaceId: body.team_id };
        const { defaults, ...content } = contentOf(body, clock.now());
        const before = defaults && (await routes.run('workspaces.get', input, { params }));
        const changed = await routes.run('workspaces.update', input, {
          params,
          body: {
            ...(typeof body.team_alias === 'string' && { name: body.team_alias }),
            ...ofWorkspace(content),
            ...(before && { defaults: changedDefaults(before, defaults, ['config_id']) }),
          },
        });
        return { team_id: idIn(changed), data: teamOf(changed) };
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
      reply: Shown,
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
}: ReturnType<typeof contentOf>): JsonObject {
  return {
    ...(usage !== undefined && { usage_limits: usage === null ? [] : [usage] }),
    ...(rates !== undefined && { rate_limits: rates }),
    ...(defaults !== undefined && { defaults }),
  };
}
