import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope } from '../../../core/pipeline/plugin.ts';
import { budgetRoutes } from './budgets.ts';
import { Shown } from './fields.ts';
import { keyRoutes } from './keys.ts';
import { OwnRoutes } from './own-routes.ts';
import { teamRoutes } from './teams.ts';

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
