import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { McpIntegrationData } from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import { SecretMappingSchema, showMapping } from './integration-mappings.ts';
import { headersOf, maskedHeaders, type PlainSecrets } from './integration-secrets.ts';
import { customHeadersField } from './mcp-headers.ts';
import { orNull } from './text-schema.ts';

/** How a server learns who speaks to it, as answers say it. */
export const McpAuthType = Type.Union([
  Type.Literal('oauth_auto'),
  Type.Literal('oauth_client_credentials'),
  Type.Literal('headers'),
  Type.Literal('none'),
]);

/** How it is spoken to. */
export const McpTransport = Type.Union([Type.Literal('http'), Type.Literal('sse')]);

/** What is sent to a server beside the protocol, as answers show it. */
export const McpConfigurationsReply = Type.Object(
  {
    custom_headers: Type.Optional(Type.Record(Type.String(), Type.String())),
    passthrough_header: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  },
  { description: 'The values of headers are masked.' },
);

/** An MCP integration as the API shows it. */
export const McpIntegrationReply = Type.Object({
  id: Type.String(),
  slug: Type.String(),
  name: Type.String(),
  description: orNull(Type.String()),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String()),
  type: Type.Union([Type.Literal('workspace'), Type.Literal('organisation')]),
  url: Type.String(),
  auth_type: McpAuthType,
  transport: McpTransport,
  configurations: McpConfigurationsReply,
  secret_mappings: Type.Array(SecretMappingSchema),
  global_workspace_access: Type.Object(
    { enabled: Type.Boolean() },
    { description: 'What workspaces may that are not named.' },
  ),
  workspaces_count: Type.Integer({ description: 'Workspaces that it names and allows.' }),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  owner_id: Type.String({ description: 'The key or the user that made it.' }),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  object: Type.Literal('mcp-integration'),
});

type McpIntegration = StoredRecord<'mcp_integration'>;

/** Puts an MCP integration, its secrets opened, into the shape of the API: they are masked in it. */
export function showMcpIntegration(
  record: McpIntegration,
  plain: PlainSecrets,
): Static<typeof McpIntegrationReply> {
  const { data, workspaceId } = record;
  return {
    ...{ id: record.id, slug: record.slug, name: record.name },
    description: data.description === '' ? null : data.description,
    ...{ organisation_id: record.organisationId, workspace_id: workspaceId ?? null },
    type: workspaceId === undefined ? 'organisation' : 'workspace',
    ...{ url: data.url, auth_type: data.authType, transport: data.transport },
    configurations: showMcpConfigurations(data, plain),
    secret_mappings: data.secretMappings.map((mapping) => showMapping(mapping)),
    global_workspace_access: { enabled: data.globalAccess.enabled },
    workspaces_count:
      workspaceId === undefined ? Object.values(data.workspaces).filter(({ enabled }) => enabled).length : 1,
    ...{ status: record.status, owner_id: record.createdBy },
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    object: 'mcp-integration',
  };
}

/** What is sent to the server, the values of headers masked. */
export function showMcpConfigurations(
  { passthroughHeader }: Pick<McpIntegrationData, 'passthroughHeader'>,
  plain: PlainSecrets,
): Static<typeof McpConfigurationsReply> {
  const headers = maskedHeaders(headersOf(plain[customHeadersField]));
  return {
    ...(Object.keys(headers).length > 0 && { custom_headers: headers }),
    ...(Object.keys(passthroughHeader).length > 0 && { passthrough_header: { ...passthroughHeader } }),
  };
}

/** For the reference. */
export const mcpIntegrationExample: Static<typeof McpIntegrationReply> = {
  ...{ id: '6b1f0f8e-2f0a-4d57-8a53-51c1d0d6a7e4', slug: 'tickets', name: 'Tickets', description: null },
  ...{ organisation_id: '0b0ad9c2-5d0c-4d8a-a6d0-5b6d1a2f8c11', workspace_id: null, type: 'organisation' },
  ...{ url: 'https://tickets.example.com/mcp', auth_type: 'headers', transport: 'http' },
  configurations: { custom_headers: { 'x-api-key': 'tk…9Q' } },
  ...{ secret_mappings: [], global_workspace_access: { enabled: true }, workspaces_count: 0 },
  ...{ status: 'active', owner_id: '9f5a4d7c-6c0b-4b0e-8a53-6f0f4c1f2b13', object: 'mcp-integration' },
  ...{ created_at: '2026-11-22T09:00:00.000Z', last_updated_at: '2026-11-22T09:00:00.000Z' },
};
