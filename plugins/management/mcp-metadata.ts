import { reachOf } from '../../core/access/access.ts';
import { isUsableIn } from '../../core/access/integration-access.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { McpCapability, McpIntegrationData } from '../../core/ports/record-kinds.ts';
import { withReferences } from './mcp-address.ts';
import { CapabilityCounts, countCapabilities, countsExample } from './mcp-capability-record.ts';
import { mcpIntegrationAccess as access } from './mcp-integration-access.ts';
import { McpSync } from './mcp-sync.ts';
import { Identifier, orNull, strict } from './text-schema.ts';
import { mergedCapabilities, visibleServer } from './visible-mcp-server.ts';
import { visibleWorkspace } from './visible-workspace.ts';

const Text = orNull(Type.String());
const Reply = Type.Object({
  server_name: Text,
  server_version: Text,
  protocol_version: Text,
  capability_flags: orNull(Type.Record(Type.String(), Type.Unknown())),
  sync_status: Type.Union([Type.Literal('synced'), Type.Literal('failed'), Type.Literal('never')]),
  last_synced_at: orNull(Type.String({ description: 'When a handshake last succeeded.' })),
  sync_error: orNull(Type.String({ description: 'Why the last handshake failed.' })),
  counts: CapabilityCounts,
});
const refresh = Type.Optional(
  Type.Boolean({ description: 'Ask the server now. Default: when it was not asked for five minutes.' }),
);
const example: Static<typeof Reply> = {
  ...{ server_name: 'tickets', server_version: '1.4.0', protocol_version: '2025-06-18' },
  ...{ capability_flags: { tools: { listChanged: true } }, sync_status: 'synced' },
  ...{ last_synced_at: '2026-11-22T09:00:00.000Z', sync_error: null, counts: countsExample },
};

/** The routes that say what an MCP server is, and ask it. */
export function mcpMetadataRoutes(scope: Scope): readonly RouteDefinition[] {
  const sync = new McpSync(scope);
  return [ofIntegrationRoute(sync), ofServerRoute(sync)];
}

function ofIntegrationRoute(sync: McpSync): RouteDefinition {
  return defineRoute({
    id: 'mcp_integration_metadata.get',
    method: 'GET',
    path: '/mcp-integrations/{mcpIntegrationId}/metadata',
    summary:
      'What the server of an MCP integration says of itself; asks it when that is older than five minutes',
    scope: access.scopes('read'),
    // What a server says is looked up, and kept: whoever asks changes nothing of their own.
    audit: null,
    params: Type.Object({ mcpIntegrationId: Identifier }),
    query: Type.Object(
      {
        refresh,
        workspace_id: Type.Optional(
          Type.String({
            ...{ minLength: 1, maxLength: 255 },
            description: 'For whom it is asked, where its secrets are not for all workspaces.',
          }),
        ),
      },
      strict,
    ),
    reply: Reply,
    examples: { response: example },
    async handle({ params, query, key, read, sendVersion }) {
      const { workspace_id: workspace, refresh = false } = query;
      const { integration, workspaceId } = await read(async (reader) => {
        const named = { slug: params.mcpIntegrationId, workspace };
        const record = await access.visible(reader, key, named, 'read');
        const said =
          workspace === undefined ? undefined : (await visibleWorkspace(reader, key, workspace)).id;
        return {
          integration: await withReferences(reader, record),
          workspaceId: said ?? record.workspaceId ?? reachOf(key).workspaceId,
        };
      });
      const record = await sync.synced(integration, { workspaceId, refresh });
      sendVersion(record.version);
      return showMetadata(record.data, record.data.capabilities);
    },
  });
}

function ofServerRoute(sync: McpSync): RouteDefinition {
  return defineRoute({
    id: 'mcp_server_metadata.get',
    method: 'GET',
    path: '/mcp-servers/{mcpServerId}/metadata',
    summary: 'What an MCP server says of itself; asks it when that is older than five minutes',
    scope: 'mcp_servers.read',
    // What a server says is looked up, and kept: whoever asks changes nothing of their own.
    audit: null,
    params: Type.Object({ mcpServerId: Identifier }),
    query: Type.Object({ refresh, workspace_id: Type.Optional(Identifier) }, strict),
    reply: Reply,
    examples: { response: example },
    async handle({ params, query, key, read }) {
      const { refresh = false, workspace_id: workspace } = query;
      const named = { idOrSlug: params.mcpServerId, workspace };
      const { server, integration } = await read(async (reader) => {
        const { server, integration } = await visibleServer(reader, key, named);
        return { server, integration: await withReferences(reader, integration) };
      });
      const workspaceId = server.workspaceId ?? '';
      // A workspace that may not use it any more makes nobody speak to it.
      const record = isUsableIn(integration.record, workspaceId)
        ? await sync.synced(integration, { workspaceId, refresh })
        : integration.record;
      return showMetadata(record.data, mergedCapabilities(server, record));
    },
  });
}

function showMetadata(
  { server, syncError }: McpIntegrationData,
  capabilities: readonly Pick<McpCapability, 'type' | 'enabled'>[],
): Static<typeof Reply> {
  return {
    server_name: server?.name ?? null,
    server_version: server?.version ?? null,
    protocol_version: server?.protocolVersion ?? null,
    capability_flags: server === undefined ? null : { ...server.capabilityFlags },
    sync_status: syncError !== '' ? 'failed' : server === undefined ? 'never' : 'synced',
    last_synced_at: server === undefined ? null : new Date(server.syncedAt).toISOString(),
    sync_error: syncError === '' ? null : syncError,
    counts: countCapabilities(capabilities),
  };
}
