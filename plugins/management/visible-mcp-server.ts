import { isUsableIn } from '../../core/access/integration-access.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { McpCapability } from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { capabilityKey } from './mcp-capability-body.ts';
import { visibleRecord } from './visible-record.ts';

/** An MCP server with the integration that it belongs to. */
export interface ServerWithIntegration {
  readonly server: StoredRecord<'mcp_server'>;
  readonly integration: StoredRecord<'mcp_integration'>;
}

/** How a path names an MCP server, and the query or the body its workspace. */
export interface NamedServer {
  readonly idOrSlug: string;
  readonly workspace?: string | undefined;
}

/** The MCP server of this slug or id. Throws `resource_not_found` for one that is not within reach. */
export async function visibleServer(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: KeyRecord,
  named: NamedServer,
): Promise<ServerWithIntegration> {
  const server = await visibleRecord(reader, key, { kind: 'mcp_server', noun: 'MCP server', ...named });
  return { server, integration: await integrationOf(reader, server) };
}

/** The integration of a server: it cannot be deleted while there is one. */
export async function integrationOf(
  { records }: Pick<ResourcesReader, 'records'>,
  { organisationId, parentId, name }: StoredRecord<'mcp_server'>,
): Promise<StoredRecord<'mcp_integration'>> {
  const found = await records.find('mcp_integration', { organisationId }, parentId);
  if (found !== undefined) return found;
  throw new GatewayError(
    'resource_conflict',
    `The MCP integration of the server "${name}" is gone. Delete the server.`,
  );
}

/** Whether a server can be used: not while its workspace may not use the integration. */
export function serverStatus({ server, integration }: ServerWithIntegration): 'active' | 'disabled' {
  return server.status === 'active' && isUsableIn(integration, server.workspaceId ?? '')
    ? 'active'
    : 'disabled';
}

/** What a server offers, on as far as neither the integration nor the workspace switched it off. */
export function mergedCapabilities(
  { data }: StoredRecord<'mcp_server'>,
  integration: StoredRecord<'mcp_integration'>,
): readonly (McpCapability & { readonly integrationEnabled: boolean })[] {
  const own = new Map(data.capabilities.map((one) => [capabilityKey(one), one.enabled]));
  return integration.data.capabilities.map((one) => ({
    ...one,
    enabled: one.enabled && (own.get(capabilityKey(one)) ?? true),
    integrationEnabled: one.enabled,
  }));
}
