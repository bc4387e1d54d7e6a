import { heldScopes } from '../../core/access/scopes.ts';
import type { Actor } from './api-keys/access.ts';
import { settingsFor, type SettingsSource } from './shared/data-visibility.ts';
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
  scopes: Type.Array(Type.String(), {
    description:
      'Each scope that the caller holds, by its own name, without those that the settings of its workspace take from its role.',
  }),
  expires_at: Type.Union([Type.String(), Type.Null()]),
  features_off: Type.Array(Type.String(), {
    description: 'Features that the operator of this gateway has switched off.',
  }),
});

/** `GET /me`: who calls, and with which rights. Every caller may ask. */
export function callerRoute({ features, directory }: Pick<Scope, 'features' | 'directory'>): RouteDefinition {
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
      scopes: usableScopes({ key, role }, directory),
      expires_at: key.expiresAt === null ? null : new Date(key.expiresAt).toISOString(),
      features_off: [...features.off],
    }),
  });
}

const changing: ReadonlySet<string> = new Set(['create', 'update', 'delete', 'publish']);

/** The scopes of the caller's key, without those that its role may not use by the settings in force. */
function usableScopes(actor: Actor, directory: SettingsSource): string[] {
  const held = [...heldScopes(actor.key)];
  const settings = settingsFor(actor, directory);
  if (settings === undefined) return held;
  const { configs, prompts, data_visibility: data } = settings;
  const who = actor.role === 'manager' ? 'managers' : 'members';
  const isUsable = (views: boolean, writes: boolean, action: string): boolean =>
    changing.has(action) ? writes : views;
  return held.filter((scope) => {
    const [subject, action = ''] = scope.split('.');
    if (subject === 'analytics') return data[`${who}ViewAnalytics`];
    if (subject === 'configs')
      return isUsable(configs[`${who}ViewConfigs`], configs[`${who}WriteConfigs`], action);
    // Rendering one is a part of sending a request.
    if (subject === 'prompts' && action !== 'render')
      return isUsable(prompts[`${who}ViewPrompts`], prompts[`${who}WritePrompts`], action);
    return true;
  });
}
