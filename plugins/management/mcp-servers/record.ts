import { GatewayError, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { ResourcesReader, WorkspaceRecord } from '../../../core/ports/resources.ts';
import type { PlainSecrets } from '../shared/sealed-secrets.ts';
import {
  McpAuthType,
  McpConfigurationsReply,
  mcpIntegrationExample,
  McpTransport,
  showMcpConfigurations,
} from '../mcp-integrations/record.ts';
import { orNull } from '../shared/fields.ts';
import { isUsableIn } from '../../../core/access/integration-access.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { visibleRecord } from '../shared/records.ts';

const shared = {
  id: Type.String(),
  slug: Type.String(),
  name: Type.String(),
  description: orNull(Type.String()),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String()),
  status: Type.Union([Type.Literal('active'), Type.Literal('disabled')], {
    description: '`disabled`: the workspace may no longer use the integration.',
  }),
  mcp_integration_id: Type.String(),
  url: orNull(Type.String({ description: 'URL of the server, below `server.public_url`; null without it.' })),
  owner_id: Type.String({ description: 'Key or user that created it.' }),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  object: Type.Literal('mcp-server'),
};

/** An MCP server in a list. */
export const McpServerReply = Type.Object({
  ...shared,
  mcp_integration_slug: orNull(Type.String()),
  mcp_integration_url: orNull(Type.String()),
  auth_type: McpAuthType,
  workspace_name: orNull(Type.String()),
  workspace_slug: orNull(Type.String()),
});

/** One MCP server. */
export const McpServerDetail = Type.Object({
  ...shared,
  mcp_integration_details: Type.Object({
    id: Type.String(),
    slug: Type.String(),
    status: Type.String(),
    configurations: McpConfigurationsReply,
    url: Type.String(),
    transport: McpTransport,
    auth_type: McpAuthType,
  }),
});

function showShared(found: ServerWithIntegration, publicUrl: string | undefined) {
  const { server, integration } = found;
  const { description } = server.data;
  return {
    id: server.id,
    slug: server.slug,
    name: server.name,
    description: description === '' ? null : description,
    organisation_id: server.organisationId,
    workspace_id: server.workspaceId ?? null,
    status: serverStatus(found),
    mcp_integration_id: integration.id,
    url: publicUrl === undefined ? null : `${publicUrl.replace(/\/+$/, '')}/${server.slug}/mcp`,
    owner_id: server.createdBy,
    created_at: new Date(server.createdAt).toISOString(),
    last_updated_at: new Date(server.updatedAt).toISOString(),
    object: 'mcp-server' as const,
  };
}

/** Converts an MCP server to its shape in lists. */
export function showMcpServer(
  found: ServerWithIntegration,
  workspace: WorkspaceRecord | undefined,
  publicUrl: string | undefined,
): Static<typeof McpServerReply> {
  const { slug, data } = found.integration;
  return {
    ...showShared(found, publicUrl),
    mcp_integration_slug: slug,
    mcp_integration_url: data.url,
    auth_type: data.authType,
    workspace_name: workspace?.name ?? null,
    workspace_slug: workspace?.slug ?? null,
  };
}

/** Converts one MCP server with its integration's opened secrets to the API's shape, with the secrets masked. */
export function showWholeMcpServer(
  found: ServerWithIntegration,
  plain: PlainSecrets,
  publicUrl: string | undefined,
): Static<typeof McpServerDetail> {
  const { id, slug, status, data } = found.integration;
  return {
    ...showShared(found, publicUrl),
    mcp_integration_details: {
      id,
      slug,
      status,
      configurations: showMcpConfigurations(data, plain),
      url: data.url,
      transport: data.transport,
      auth_type: data.authType,
    },
  };
}

const sharedExample = {
  id: '2c7f8a90-6a0e-4f4b-9a41-9d8f4f1b6e22',
  slug: 'tickets',
  name: 'Tickets',
  description: null,
  organisation_id: mcpIntegrationExample.organisation_id,
  mcp_integration_id: mcpIntegrationExample.id,
  workspace_id: '5a5b1f38-9a4f-4b40-8f1c-2b7d8a3c9d12',
  status: 'active' as const,
  url: 'https://weir.example.com/tickets/mcp',
  owner_id: mcpIntegrationExample.owner_id,
  created_at: '2026-11-22T09:00:00.000Z',
  last_updated_at: '2026-11-22T09:00:00.000Z',
  object: 'mcp-server' as const,
};

/** For the reference. */
export const mcpServerExample: Static<typeof McpServerReply> = {
  ...sharedExample,
  mcp_integration_slug: 'tickets',
  auth_type: 'headers',
  mcp_integration_url: 'https://tickets.example.com/mcp',
  workspace_name: 'Research',
  workspace_slug: 'ws-research',
};

/** For the reference. */
export const wholeMcpServerExample: Static<typeof McpServerDetail> = {
  ...sharedExample,
  mcp_integration_details: {
    id: mcpIntegrationExample.id,
    slug: 'tickets',
    status: 'active',
    transport: 'http',
    configurations: { custom_headers: { 'x-api-key': 'tk…9Q' } },
    auth_type: 'headers',
    url: 'https://tickets.example.com/mcp',
  },
};

/** An MCP server with its integration. */
interface ServerWithIntegration {
  readonly server: StoredRecord<'mcp_server'>;
  readonly integration: StoredRecord<'mcp_integration'>;
}

/** Name of an MCP server in a path, with its workspace from the query or the body. */
interface NamedServer {
  readonly idOrSlug: string;
  readonly workspace?: string | undefined;
}

/** The MCP server with this slug or id. Throws `resource_not_found` for one out of reach. */
export async function visibleServer(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: KeyRecord,
  named: NamedServer,
): Promise<ServerWithIntegration> {
  const server = await visibleRecord(reader, key, { kind: 'mcp_server', noun: 'MCP server', ...named });
  return { server, integration: await integrationOf(reader, server) };
}

/** The integration of a server. Throws `resource_conflict` without one; integrations with servers cannot be deleted. */
export async function integrationOf(
  { records }: Pick<ResourcesReader, 'records'>,
  { organisationId, parentId, name }: StoredRecord<'mcp_server'>,
): Promise<StoredRecord<'mcp_integration'>> {
  const found = await records.find('mcp_integration', { organisationId }, parentId);
  if (found !== undefined) return found;
  throw new GatewayError(
    'resource_conflict',
    `The MCP integration of the server "${name}" no longer exists. Delete the server.`,
  );
}

/** Status of a server: `disabled` while its workspace may not use the integration. */
function serverStatus({ server, integration }: ServerWithIntegration): 'active' | 'disabled' {
  return server.status === 'active' && isUsableIn(integration, server.workspaceId ?? '')
    ? 'active'
    : 'disabled';
}
