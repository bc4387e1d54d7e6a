import { heldScopes } from '../../core/access/scopes.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, Type } from '../../core/pipeline/plugin.ts';

const Caller = Type.Object({
  object: Type.Literal('caller'),
  id: Type.String({ description: 'Id of the key; of a token, its subject.' }),
  name: Type.String(),
  type: Type.String({
    description: '`owner`, `organisation-service`, `workspace-service` or `workspace-user`.',
  }),
  is_token: Type.Boolean({ description: 'True for a JSON Web Token.' }),
  organisation_id: Type.String(),
  workspace_id: Type.String({ description: 'Workspace in which its requests are logged.' }),
  user_id: Type.String({ description: 'Empty for keys of services.' }),
  role: Type.String({ description: '`owner`, `admin`, `manager` or `member`.' }),
  scopes: Type.Array(Type.String(), { description: 'Each scope that the caller holds, by its own name.' }),
  expires_at: Type.Union([Type.String(), Type.Null()]),
  features_off: Type.Array(Type.String(), {
    description: 'Features that the operator of this gateway has switched off.',
  }),
});

/** `GET /me`: who calls, and with which rights. Every caller may ask. */
export function callerRoute({ features }: Pick<Scope, 'features'>): RouteDefinition {
  return defineRoute({
    id: 'caller.get',
    method: 'GET',
    path: '/me',
    summary: 'Get the caller: its key, role and scopes',
    scope: [],
    audit: null,
    reply: Caller,
    handle: ({ key, role }) => ({
      object: 'caller' as const,
      ...{ id: key.id, name: key.name, type: key.kind, is_token: key.isToken === true },
      ...{ organisation_id: key.organisationId, workspace_id: key.workspaceId, user_id: key.userId },
      role,
      scopes: [...heldScopes(key)],
      expires_at: key.expiresAt === null ? null : new Date(key.expiresAt).toISOString(),
      features_off: [...features.off],
    }),
  });
}
