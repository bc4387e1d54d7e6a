/** Records of MCP servers for tests of the request path, in the table that a gateway with a store has. */
import { RecordTable } from '../../core/administration/directory/organisation-table.ts';
import type { Directory } from '../../core/ports/directory.ts';
import type {
  McpCapability,
  McpIntegrationData,
  McpServerData,
  McpVirtualServerData,
} from '../../core/ports/record-kinds.ts';
import type { RecordKind, RecordPlace, StoredRecord } from '../../core/ports/records.ts';
import { testStart } from './plugin-kit.ts';

/** An integration before it is a record. */
export interface PlannedIntegration extends Partial<Pick<McpIntegrationData, 'globalAccess' | 'workspaces'>> {
  readonly id: string;
  readonly organisationId: string;
  /** Undefined for one of the organisation. */
  readonly workspaceId: string | undefined;
  readonly url: string;
  readonly capabilities?: readonly Partial<McpCapability>[];
}

/** A server before it is a record. */
export interface PlannedServer extends Partial<Omit<McpServerData, 'description'>> {
  readonly id: string;
  readonly slug: string;
  readonly organisationId: string;
  readonly workspaceId: string;
  readonly integrationId: string;
}

/** A virtual server before it is a record. */
export interface PlannedVirtualServer extends Partial<McpVirtualServerData> {
  readonly id: string;
  readonly slug: string;
  readonly organisationId: string;
  readonly workspaceId: string;
}

const times = { createdBy: 'k', updatedBy: 'k', createdAt: testStart, updatedAt: testStart, version: 1 };
const shared = { status: 'active', secrets: {}, ...times } as const;

function capability(one: Partial<McpCapability>): McpCapability {
  const { createdAt, updatedAt } = times;
  return { type: 'tool', name: 'tool', described: {}, enabled: true, createdAt, updatedAt, ...one };
}

function integrationRecord(planned: PlannedIntegration): StoredRecord<'mcp_integration'> {
  const { id, organisationId, workspaceId, url, capabilities = [] } = planned;
  return {
    ...{
      ...shared,
      kind: 'mcp_integration',
      id,
      organisationId,
      workspaceId,
      slug: id,
      name: id,
      parentId: '',
    },
    data: {
      ...{ description: '', url, authType: 'none', transport: 'http', customHeaders: [] },
      ...{ passthroughHeader: {}, secretMappings: [], server: undefined, syncError: '' },
      globalAccess: planned.globalAccess ?? { enabled: true },
      workspaces: planned.workspaces ?? {},
      capabilities: capabilities.map(capability),
    },
  };
}

function serverRecord(planned: PlannedServer): StoredRecord<'mcp_server'> {
  const { id, slug, organisationId, workspaceId, integrationId } = planned;
  const { capabilities = [], defaultUserAccess = 'allow', userAccess = {} } = planned;
  return {
    ...{ ...shared, kind: 'mcp_server', id, organisationId, workspaceId, slug, name: slug },
    parentId: integrationId,
    data: { description: '', capabilities, defaultUserAccess, userAccess },
  };
}

function virtualRecord({
  id,
  slug,
  organisationId,
  workspaceId,
  ...planned
}: PlannedVirtualServer): StoredRecord<'mcp_virtual_server'> {
  const { servers, tools, mode = 'list', instructions = '' } = planned;
  return {
    ...{
      ...shared,
      kind: 'mcp_virtual_server',
      id,
      organisationId,
      workspaceId,
      slug,
      name: slug,
      parentId: '',
    },
    data: { description: '', instructions, mode, servers, tools },
  };
}

/** A directory that serves these records. */
export function plantedWorld(
  integrations: readonly PlannedIntegration[],
  servers: readonly PlannedServer[],
  virtual: readonly PlannedVirtualServer[] = [],
): Pick<Directory, 'record' | 'records'> {
  const tables = new Map<string, RecordTable>();
  const put = <K extends RecordKind>(record: StoredRecord<K>): void => {
    const table = tables.get(record.organisationId) ?? new RecordTable();
    tables.set(record.organisationId, table);
    table.put(record);
  };
  for (const one of integrations) put(integrationRecord(one));
  for (const one of servers) put(serverRecord(one));
  for (const one of virtual) put(virtualRecord(one));
  return {
    record: <K extends RecordKind>(kind: K, place: RecordPlace, idOrSlug: string) =>
      tables.get(place.organisationId)?.find(kind, place.workspaceId, idOrSlug),
    records: <K extends RecordKind>(kind: K, place: RecordPlace) =>
      tables.get(place.organisationId)?.list(kind, place.workspaceId) ?? [],
  };
}

/** A directory with one server, of the workspace of `testKey`. */
export function plantedServer({
  slug,
  url,
  capabilities,
}: Pick<PlannedServer, 'slug'> & Pick<PlannedIntegration, 'url' | 'capabilities'>) {
  const place = { organisationId: 'org-1', workspaceId: 'ws-1' };
  const integration = { id: 'integration', ...place, url, ...(capabilities && { capabilities }) };
  return plantedWorld([integration], [{ id: 'server', slug, ...place, integrationId: 'integration' }]);
}
