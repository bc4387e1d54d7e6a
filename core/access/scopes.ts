import type { ApiKeyRecord } from '../ports/resources.ts';

/** The types of keys that the administration API creates. */
export type ApiKeyType = ApiKeyRecord['type'];

const five = ['create', 'read', 'update', 'delete', 'list'] as const;
const six = [...five, 'rotate'] as const;

function scopesOf(resource: string, actions: readonly string[]): readonly string[] {
  return actions.map((action) => `${resource}.${action}`);
}

/** Resources that belong to a workspace: keys of both kinds may hold these. */
const ofResources: readonly string[] = [
  ...scopesOf('workspace_service_api_keys', six),
  ...scopesOf('workspace_user_api_keys', six),
  ...scopesOf('workspaces', ['read', 'list']),
  ...scopesOf('workspace_users', five),
  ...scopesOf('prompts', [...five, 'publish', 'render']),
  ...scopesOf('configs', five),
  ...scopesOf('guardrails', five),
  ...scopesOf('virtual_keys', [...five, 'duplicate', 'copy']),
  ...scopesOf('providers', five),
  ...scopesOf('policies', five),
  ...scopesOf('workspace_integrations', five),
  ...scopesOf('organisation_integrations', ['list']),
  ...scopesOf('workspace_mcp_integrations', five),
  ...scopesOf('organisation_mcp_integrations', ['list']),
  ...scopesOf('mcp_servers', five),
  ...scopesOf('workspace_agent_integrations', five),
  ...scopesOf('organisation_agent_integrations', ['list']),
  ...scopesOf('agent_servers', five),
  ...scopesOf('agent_server_skills', five),
  ...scopesOf('agent_integration_skills', five),
  ...scopesOf('agent_server_user_access', five),
  ...scopesOf('analytics', ['view']),
  ...scopesOf('logs', ['export', 'list', 'view', 'read']),
  ...scopesOf('models', ['list', 'delete']),
  ...scopesOf('feedbacks', ['read']),
  ...scopesOf('cache', ['delete']),
];

/** Sending requests and what belongs to them: an organisation's key has no workspace to do it in. */
const ofWorkspacesAlone: readonly string[] = [
  ...scopesOf('completions', ['write', 'read']),
  ...scopesOf('guardrails', ['invoke']),
  ...scopesOf('mcp', ['invoke']),
  ...scopesOf('agents', ['invoke']),
  ...scopesOf('logs', ['write']),
  ...scopesOf('feedbacks', ['write']),
];

/** The organisation, its people and its workspaces: a workspace's key cannot manage these. */
const ofOrganisationsAlone: readonly string[] = [
  ...scopesOf('organisation_users', five),
  ...scopesOf('organisation_service_api_keys', six),
  ...scopesOf('organisation_settings', ['read', 'update']),
  ...scopesOf('organisation_guardrails', five),
  ...scopesOf('organisation_exclusions', ['update', 'list']),
  ...scopesOf('organisation_integrations', ['create', 'read', 'update', 'delete']),
  ...scopesOf('organisation_mcp_integrations', ['create', 'read', 'update', 'delete']),
  ...scopesOf('organisation_agent_integrations', ['create', 'read', 'update', 'delete']),
  ...scopesOf('audit_logs', ['list']),
  ...scopesOf('plugins', ['create', 'update', 'list']),
  ...scopesOf('deployments', five),
  ...scopesOf('secret_references', five),
  ...scopesOf('workspaces', ['create', 'update', 'delete']),
];

const ofWorkspaceKeys: ReadonlySet<string> = new Set([...ofResources, ...ofWorkspacesAlone]);

/** Which scopes each type of key may hold. `*` is not among them: only an owner's key has it. */
export const scopesByType: Readonly<Record<ApiKeyType, ReadonlySet<string>>> = {
  'organisation-service': new Set([...ofResources, ...ofOrganisationsAlone]),
  'workspace-service': ofWorkspaceKeys,
  'workspace-user': ofWorkspaceKeys,
};

/** Every scope that this gateway knows by name; a plugin's own routes may ask for others. */
export const knownScopes: ReadonlySet<string> = new Set([
  ...ofResources,
  ...ofWorkspacesAlone,
  ...ofOrganisationsAlone,
]);

/** A scope in its own spelling: `deployments:create` is `deployments.create`. */
export function canonicalScope(scope: string): string {
  return scope.replace(':', '.');
}
