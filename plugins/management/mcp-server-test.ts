import { isUsableIn } from '../../core/access/integration-access.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import { withReferences } from './mcp-address.ts';
import { shakeHands, type Handshake } from './mcp-handshake.ts';
import { Identifier, orNull, strict } from './text-schema.ts';
import { visibleServer } from './visible-mcp-server.ts';

/** `POST /mcp-servers/{mcpServerId}/test`: whether the server answers. */
export function mcpServerTestRoute(scope: Scope): RouteDefinition {
  const { clock, mcp } = scope;
  return defineRoute({
    id: 'mcp_server_test.run',
    method: 'POST',
    path: '/mcp-servers/{mcpServerId}/test',
    summary: 'Shakes hands with an MCP server now; that it fails is an answer, too',
    scope: 'mcp_servers.read',
    // Changes nothing.
    audit: null,
    params: Type.Object({ mcpServerId: Identifier }),
    body: Type.Object({}, strict),
    reply: Type.Object({
      success: Type.Boolean(),
      status_code: orNull(Type.Integer({ description: 'HTTP status of its answer, where there was one.' })),
      response_time_ms: orNull(Type.Integer()),
      url: Type.String(),
      server_name: Type.String({
        description: 'What it calls itself; the name of the record when it fails.',
      }),
      error: orNull(Type.String()),
    }),
    examples: {
      request: {},
      response: {
        ...{ success: true, status_code: 200, response_time_ms: 87, server_name: 'tickets', error: null },
        url: 'https://tickets.example.com/mcp',
      },
    },
    async handle({ params, key, read }) {
      const { server, integration } = await read(async (reader) => {
        const { server, integration } = await visibleServer(reader, key, { idOrSlug: params.mcpServerId });
        return { server, integration: await withReferences(reader, integration) };
      });
      const workspaceId = server.workspaceId ?? '';
      const { url } = integration.record.data;
      const startedAt = clock.monotonic();
      const greeting: Handshake<{ readonly serverName: string }> = isUsableIn(integration.record, workspaceId)
        ? await shakeHands(scope, integration, workspaceId, (address) => mcp.greet(address))
        : { failure: 'The workspace may not use the MCP integration any more.', status: undefined };
      const response_time_ms = Math.round(clock.monotonic() - startedAt);
      if ('value' in greeting) {
        const { serverName } = greeting.value;
        return {
          success: true,
          status_code: 200,
          response_time_ms,
          url,
          server_name: serverName,
          error: null,
        };
      }
      return {
        ...{ success: false, status_code: greeting.status ?? null, response_time_ms, url },
        ...{ server_name: server.name, error: greeting.failure },
      };
    },
  });
}
