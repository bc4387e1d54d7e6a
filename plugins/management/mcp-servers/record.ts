import { GatewayError } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import { storedRecords } from '../shared/records.ts';

/** An MCP server with its integration. */
export interface ServerWithIntegration {
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
  const server = await storedRecords.visible(reader, key, {
    kind: 'mcp_server',
    noun: 'MCP server',
    ...named,
  });
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
