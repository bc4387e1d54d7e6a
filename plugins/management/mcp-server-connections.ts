import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type } from '../../core/pipeline/plugin.ts';
import { longList, longListReply, longPageOf, longPageQuery } from './page-query.ts';
import { Identifier, Name, strict } from './text-schema.ts';
import { visibleServer } from './visible-mcp-server.ts';

const path = '/mcp-servers/{mcpServerId}/connections';
const Params = Type.Object({ mcpServerId: Identifier });
const whose = {
  user_id: Type.Optional(Name('Only those of this user.')),
  workspace_id: Type.Optional(Identifier),
};
const ConnectionReply = Type.Object({
  user_id: Type.String(),
  connected: Type.Boolean(),
  created_at: Type.String(),
  last_updated_at: Type.String(),
});

/** The routes of connections to MCP servers. The gateway passes nothing on to servers yet, so there are none. */
export function mcpServerConnectionRoutes(): readonly RouteDefinition[] {
  return [listRoute(), deleteRoute()];
}

function listRoute(): RouteDefinition {
  return defineRoute({
    id: 'mcp_server_connections.list',
    method: 'GET',
    path,
    summary: 'Who is connected to an MCP server: nobody yet, as nothing is passed on to servers',
    scope: 'mcp_servers.read',
    // Reads only.
    audit: null,
    params: Params,
    query: Type.Object({ ...longPageQuery(500), ...whose }, strict),
    reply: Type.Object({ ...longListReply, data: Type.Array(ConnectionReply) }),
    examples: { response: { object: 'list', total: 0, has_more: false, data: [] } },
    async handle({ params, query, key, read }) {
      const page = longPageOf(query);
      const named = { idOrSlug: params.mcpServerId, workspace: query.workspace_id };
      await read((reader) => visibleServer(reader, key, named));
      return longList(page, { total: 0, data: [] }, []);
    },
  });
}

function deleteRoute(): RouteDefinition {
  return defineRoute({
    id: 'mcp_server_connections.delete',
    method: 'DELETE',
    path,
    summary: 'Ends the connections to an MCP server: there are none yet',
    scope: 'mcp_servers.update',
    audit: 'delete',
    params: Params,
    query: Type.Object(whose, strict),
    reply: Type.Object({ success: Type.Boolean() }),
    examples: { response: { success: true } },
    async handle({ params, query, key, write }) {
      const named = { idOrSlug: params.mcpServerId, workspace: query.workspace_id };
      await write(async (writer) => {
        const { id, workspaceId } = (await visibleServer(writer, key, named)).server;
        return { id, workspaceId, result: undefined };
      });
      return { success: true };
    },
  });
}
