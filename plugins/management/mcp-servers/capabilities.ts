import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope } from '../../../core/pipeline/plugin.ts';
import type { McpServerData } from '../../../core/ports/record-kinds.ts';
import { changeRecord } from '../shared/records.ts';
import {
  CapabilitiesBody,
  capabilityExample,
  capabilityKey,
  capabilityListReply,
  capabilityPage,
  CapabilityQuery,
  countsExample,
  givenCapabilities,
  SharedCapability,
  showDescribed,
} from '../mcp-integrations/capabilities.ts';
import { numberedPageOf } from '../shared/replies.ts';
import { Identifier } from '../shared/fields.ts';
import { mergedCapabilities, visibleServer } from './record.ts';

const path = '/mcp-servers/{mcpServerId}/capabilities';
const Params = Type.Object({ mcpServerId: Identifier });
const CapabilityReply = Type.Object({
  ...SharedCapability.properties,
  integration_enabled: Type.Boolean({
    description: 'A capability that is off in the integration is off everywhere.',
  }),
});

/** The routes of an MCP server's capabilities in its workspace. */
export function mcpServerCapabilityRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(), updateRoute(scope)];
}

function listRoute(): RouteDefinition {
  return defineRoute({
    id: 'mcp_server_capabilities.list',
    method: 'GET',
    path,
    summary:
      'Capabilities of an MCP server; each is on unless the integration or the workspace switched it off',
    scope: 'mcp_servers.read',
    // Reads only.
    audit: null,
    params: Params,
    query: CapabilityQuery,
    reply: Type.Object({ ...capabilityListReply, data: Type.Array(CapabilityReply) }),
    examples: {
      response: {
        object: 'list',
        total: 1,
        has_more: false,
        counts: countsExample,
        data: [{ ...capabilityExample, integration_enabled: true }],
      },
    },
    async handle({ params, query, key, read, sendVersion }) {
      const { type, ...asked } = query;
      const page = numberedPageOf(asked);
      const { server, integration } = await read((reader) =>
        visibleServer(reader, key, { idOrSlug: params.mcpServerId }),
      );
      sendVersion(server.version);
      return capabilityPage(mergedCapabilities(server, integration), { page, type }, (one) => ({
        ...showDescribed(one),
        integration_enabled: one.integrationEnabled,
      }));
    },
  });
}

function updateRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_server_capabilities.update',
    method: 'PUT',
    path,
    summary: 'Switches capabilities of an MCP server on or off, for its workspace',
    scope: 'mcp_servers.update',
    audit: 'update',
    params: Params,
    body: CapabilitiesBody,
    reply: Type.Object({ success: Type.Boolean() }),
    examples: {
      request: { capabilities: [{ name: 'delete_ticket', type: 'tool', enabled: false }] },
      response: { success: true },
    },
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const version = await write(async (writer) => {
        const { server: before, integration } = await visibleServer(writer, key, {
          idOrSlug: params.mcpServerId,
        });
        requireVersion(before.version);
        const said = givenCapabilities(body.capabilities, integration.data.capabilities, (one, offered) =>
          one.enabled && !offered.enabled
            ? `cannot be true: the integration "${integration.slug}" has switched it off for every workspace`
            : undefined,
        );
        // Enabled capabilities follow the integration, so only disabled ones are stored.
        const kept = before.data.capabilities.filter((one) => !said.has(capabilityKey(one)));
        const off = body.capabilities
          .filter(({ enabled }) => !enabled)
          .map(({ type, name }) => ({ type, name, enabled: false }));
        const data: McpServerData = { ...before.data, capabilities: [...kept, ...off] };
        const after = await changeRecord(writer, before, { data }, key, clock.now());
        return { id: after.id, workspaceId: after.workspaceId, result: after.version };
      });
      sendVersion(version);
      return { success: true };
    },
  });
}
