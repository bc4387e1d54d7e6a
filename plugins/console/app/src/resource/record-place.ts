import type { Search } from '@/lib/address';

/** Where a record is shown. */
interface RecordPlace {
  readonly to: string;
  readonly search: Search;
}

/** Pages of lists that open one of their records, with what chooses the list there, by kinds of the audit trail. */
const lists: Readonly<Record<string, readonly [path: string, search?: Search]>> = {
  api_keys: ['/keys'],
  guardrails: ['/guardrails'],
  integration_models: ['/integrations'],
  integration_workspaces: ['/integrations'],
  integrations: ['/integrations'],
  mcp_integration_capabilities: ['/mcp', { view: 'integrations' }],
  mcp_integration_workspaces: ['/mcp', { view: 'integrations' }],
  mcp_integrations: ['/mcp', { view: 'integrations' }],
  mcp_server_capabilities: ['/mcp'],
  mcp_server_connections: ['/mcp'],
  mcp_server_user_access: ['/mcp'],
  mcp_servers: ['/mcp'],
  mcp_virtual_servers: ['/mcp', { view: 'virtual' }],
  providers: ['/providers'],
  rate_limit_policies: ['/limits', { show: 'rates' }],
  secret_references: ['/secrets'],
  usage_limit_policies: ['/limits', { show: 'usage' }],
  users: ['/people'],
  workspace_settings: ['/workspaces'],
  workspaces: ['/workspaces'],
};

/** The place of a record by its kind in the audit trail and its id; undefined for kinds without one. */
export function recordPlace(kind: string, id: string): RecordPlace | undefined {
  if (kind === 'configs' || kind === 'prompts')
    return { to: `/${kind}/${encodeURIComponent(id)}`, search: {} };
  const [to, search = {}] = (Object.hasOwn(lists, kind) ? lists[kind] : undefined) ?? [];
  return to === undefined ? undefined : { to, search: { ...search, open: id } };
}
