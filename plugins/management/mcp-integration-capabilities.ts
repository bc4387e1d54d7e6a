import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { McpCapability } from '../../core/ports/record-kinds.ts';
import { changedRecord } from './changed-record.ts';
import { CapabilitiesBody, capabilityKey, givenCapabilities } from './mcp-capability-body.ts';
import {
  capabilityExample,
  capabilityListReply,
  capabilityPage,
  CapabilityQuery,
  countsExample,
  SharedCapability,
  showDescribed,
} from './mcp-capability-record.ts';
import { mcpIntegrationAccess as access } from './mcp-integration-access.ts';
import { numberedPageOf } from './page-query.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier } from './text-schema.ts';

const path = '/mcp-integrations/{mcpIntegrationId}/capabilities';
const Params = Type.Object({ mcpIntegrationId: Identifier });
const CapabilityReply = Type.Object({
  ...SharedCapability.properties,
  created_at: Type.String({ description: 'When the server was first seen to offer it.' }),
  last_updated_at: Type.String({ description: 'When it was last seen different, or switched on or off.' }),
});
const times = { created_at: '2026-11-22T09:00:00.000Z', last_updated_at: '2026-11-22T09:00:00.000Z' };

/** The routes of what the server of an MCP integration offers. */
export function mcpIntegrationCapabilityRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(), updateRoute(scope)];
}

function listRoute(): RouteDefinition {
  return defineRoute({
    id: 'mcp_integration_capabilities.list',
    method: 'GET',
    path,
    summary: 'What the server offered when it was last asked (see its metadata), in its order',
    scope: access.scopes('read'),
    // Reads only.
    audit: null,
    params: Params,
    query: CapabilityQuery,
    reply: Type.Object({ ...capabilityListReply, data: Type.Array(CapabilityReply) }),
    examples: {
      response: {
        ...{ object: 'list', total: 1, has_more: false, data: [{ ...capabilityExample, ...times }] },
        counts: countsExample,
      },
    },
    async handle({ params, query, key, read, sendVersion }) {
      const { type, ...asked } = query;
      const page = numberedPageOf(asked);
      const named = { slug: params.mcpIntegrationId };
      const record = await read((reader) => access.visible(reader, key, named, 'read'));
      sendVersion(record.version);
      return capabilityPage(record.data.capabilities, { page, type }, (one) => ({
        ...showDescribed(one),
        created_at: new Date(one.createdAt).toISOString(),
        last_updated_at: new Date(one.updatedAt).toISOString(),
      }));
    },
  });
}

function updateRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_integration_capabilities.update',
    method: 'PUT',
    path,
    summary: 'Switches what the server offers on or off, for every workspace',
    scope: access.scopes('update'),
    audit: 'update',
    params: Params,
    body: CapabilitiesBody,
    reply: Type.Object({ success: Type.Boolean() }),
    examples: {
      request: { capabilities: [{ name: 'delete_ticket', type: 'tool', enabled: false }] },
      response: { success: true },
    },
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const now = clock.now();
      const version = await write(async (writer) => {
        const before = await access.visible(writer, key, { slug: params.mcpIntegrationId }, 'update');
        requireVersion(before.version);
        const said = givenCapabilities(body.capabilities, before.data.capabilities);
        const capabilities = before.data.capabilities.map((one): McpCapability => {
          const enabled = said.get(capabilityKey(one)) ?? one.enabled;
          return enabled === one.enabled ? one : { ...one, enabled, updatedAt: now };
        });
        const after = changedRecord(before, { data: { ...before.data, capabilities } }, key, now);
        if (!(await writer.records.replace(after))) throw staleVersion();
        return { id: after.id, workspaceId: after.workspaceId, result: after.version };
      });
      sendVersion(version);
      return { success: true };
    },
  });
}
