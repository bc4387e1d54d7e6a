import { randomUUID } from 'node:crypto';
import { reachOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { RecordFilter, StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader, WorkspaceRecord } from '../../../core/ports/resources.ts';
import type { Page } from '../../../core/ports/page.ts';
import { places, storedRecords } from '../shared/records.ts';
import { serverConnections } from './connections.ts';
import { type PlainSecrets, sealedSecrets } from '../shared/sealed-secrets.ts';
import { mcpIntegrationAccess, mcpRecord, mcpSchemas } from '../mcp-integrations/record.ts';
import { mcpIntegrationExample } from '../mcp-integrations/routes.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { Identifier, Name, orNull, Place, strict } from '../shared/fields.ts';
import { requireNoVirtualServer } from '../mcp-virtual-servers/routes.ts';
import { isUsableIn } from '../../../core/access/integration-access.ts';
import { integrationOf, type ServerWithIntegration, visibleServer } from './record.ts';

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
const McpServerReply = Type.Object({
  ...shared,
  mcp_integration_slug: orNull(Type.String()),
  mcp_integration_url: orNull(Type.String()),
  auth_type: mcpSchemas.AuthType,
  workspace_name: orNull(Type.String()),
  workspace_slug: orNull(Type.String()),
});

/** One MCP server. */
const McpServerDetail = Type.Object({
  ...shared,
  mcp_integration_details: Type.Object({
    id: Type.String(),
    slug: Type.String(),
    status: Type.String(),
    configurations: mcpSchemas.ConfigurationsReply,
    url: Type.String(),
    transport: mcpSchemas.Transport,
    auth_type: mcpSchemas.AuthType,
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
function showMcpServer(
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
function showWholeMcpServer(
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
      configurations: mcpRecord.showConfigurations(data, plain),
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
const mcpServerExample: Static<typeof McpServerReply> = {
  ...sharedExample,
  mcp_integration_slug: 'tickets',
  auth_type: 'headers',
  mcp_integration_url: 'https://tickets.example.com/mcp',
  workspace_name: 'Research',
  workspace_slug: 'ws-research',
};

/** For the reference. */
const wholeMcpServerExample: Static<typeof McpServerDetail> = {
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

/** Status of a server: `disabled` while its workspace may not use the integration. */
function serverStatus({ server, integration }: ServerWithIntegration): 'active' | 'disabled' {
  return server.status === 'active' && isUsableIn(integration, server.workspaceId ?? '')
    ? 'active'
    : 'disabled';
}

const path = '/mcp-servers';
const onePath = `${path}/{mcpServerId}`;
const Params = Type.Object({ mcpServerId: Identifier });
const Description = Type.Optional(orNull(Type.String({ maxLength: 500, description: 'For people.' })));

/** The routes of MCP servers: MCP integrations within a workspace. */
export function mcpServerRoutes(scope: Scope): readonly RouteDefinition[] {
  return [createRoute(scope), listRoute(scope), getRoute(scope), updateRoute(scope), deleteRoute(scope)];
}

function createRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_servers.create',
    method: 'POST',
    path,
    summary: 'Creates an MCP server: lets a workspace use an MCP integration under its own slug',
    scope: 'mcp_servers.create',
    audit: 'create',
    body: Type.Object(
      {
        name: Name('For people.'),
        mcp_integration_id: Name('Id or slug of an MCP integration that the workspace may use.'),
        workspace_id: Type.Optional(Name('Id or slug. Default: the workspace of the key.')),
        description: Description,
        slug: Type.Optional(
          Type.String({
            minLength: 3,
            maxLength: 50,
            pattern: '^[a-zA-Z0-9_-]+$',
            description: 'Default: derived from the name.',
          }),
        ),
      },
      strict,
    ),
    reply: Type.Object({ id: Type.String(), slug: Type.String(), object: Type.Literal('mcp-server') }),
    examples: {
      request: { name: 'Tickets', mcp_integration_id: 'tickets', slug: 'tickets' },
      response: { id: mcpServerExample.id, slug: 'tickets', object: 'mcp-server' },
    },
    async handle({ body, key, write, sendVersion }) {
      const now = clock.now();
      const id = randomUUID();
      const by = key.userId || key.id;
      const slug = body.slug ?? storedRecords.newSlug('', body.name);
      await write(async (writer) => {
        const workspace = await places.required(writer, key, body.workspace_id);
        const at = '/mcp_integration_id';
        const parent = await mcpIntegrationAccess.usable(writer, workspace, body.mcp_integration_id, at);
        const place = { organisationId: key.organisationId, workspaceId: workspace.id };
        await requireNoVirtualServer(writer, workspace, slug);
        await writer.records.insert<'mcp_server'>(
          storedRecords.create(
            {
              kind: 'mcp_server',
              id,
              ...place,
              slug,
              name: body.name,
              data: {
                description: body.description ?? '',
                capabilities: [],
                defaultUserAccess: 'allow',
                userAccess: {},
              },
              parentId: parent.id,
            },
            by,
            now,
          ),
        );
        return { id, workspaceId: workspace.id, result: undefined };
      });
      sendVersion(1);
      return { id, slug, object: 'mcp-server' as const };
    },
  });
}

function listRoute({ publicUrl }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_servers.list',
    method: 'GET',
    path,
    summary:
      'MCP servers that the key may see, oldest first; their url is not served yet, and is null without server.public_url',
    scope: 'mcp_servers.list',
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...paging.longQuery(100),
        workspace_id: Type.Optional(Identifier),
        id: Type.Optional(Name('Id or slug of one of them.')),
        search: Type.Optional(Name('Part of the name or the slug, in any case.')),
      },
      strict,
    ),
    reply: Type.Object({ ...listReplies.longOf, data: Type.Array(McpServerReply) }),
    examples: { response: { object: 'list', total: 1, has_more: false, data: [mcpServerExample] } },
    async handle({ query, key, read }) {
      const page = paging.longOf(query);
      const { workspace_id: named, id, search } = query;
      return read(async (reader) => {
        const { workspaceId: reach } = reachOf(key);
        const workspaceId = named === undefined ? reach : (await places.visible(reader, key, named)).id;
        const filter = {
          ...(workspaceId !== undefined && { workspaceId }),
          ...(search !== undefined && { search }),
        };
        const found = await listServers(reader, key, { filter, id, page });
        const shown = [];
        for (const server of found.data) {
          const integration = await integrationOf(reader, server);
          const workspace = await reader.workspaces.find(key.organisationId, server.workspaceId ?? '');
          shown.push(showMcpServer({ server, integration }, workspace, publicUrl));
        }
        return listReplies.long(page, found, shown);
      });
    },
  });
}

interface ListedServers {
  readonly filter: RecordFilter;
  readonly id: string | undefined;
  readonly page: Page;
}

async function listServers(
  reader: Pick<ResourcesReader, 'records'>,
  { organisationId }: KeyRecord,
  { filter, id, page }: ListedServers,
) {
  if (id === undefined) return reader.records.list('mcp_server', organisationId, filter, page);
  const alike: StoredRecord<'mcp_server'>[] = [];
  for await (const one of storedRecords.each(reader, 'mcp_server', organisationId, filter))
    if (one.id === id || one.slug === id) alike.push(one);
  return { total: alike.length, data: alike.slice(page.offset, page.offset + page.limit) };
}

function getRoute({ secrets, publicUrl }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_servers.get',
    method: 'GET',
    path: onePath,
    summary:
      'One MCP server with its integration; its url is not served yet, and is null without server.public_url',
    scope: 'mcp_servers.read',
    // Reads only.
    audit: null,
    params: Params,
    query: Place,
    reply: McpServerDetail,
    examples: { response: wholeMcpServerExample },
    async handle({ params, query, key, read, sendVersion }) {
      const named = { idOrSlug: params.mcpServerId, workspace: query.workspace_id };
      const found = await read((reader) => visibleServer(reader, key, named));
      sendVersion(found.server.version);
      return showWholeMcpServer(found, sealedSecrets.open(secrets, found.integration), publicUrl);
    },
  });
}

function updateRoute({ clock, secrets, publicUrl }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_servers.update',
    method: 'PUT',
    path: onePath,
    summary: 'Updates the name and the description of an MCP server; omitted fields stay unchanged',
    scope: 'mcp_servers.update',
    audit: 'update',
    params: Params,
    query: Place,
    body: Type.Object(
      {
        name: Type.Optional(Name('For people.')),
        description: Description,
        workspace_id: Type.Optional(
          Name('Its workspace, for keys of the organisation that name it by slug.'),
        ),
      },
      strict,
    ),
    reply: McpServerDetail,
    examples: { request: { description: 'For the help desk' }, response: wholeMcpServerExample },
    async handle({ params, query, body, key, write, requireVersion, sendVersion }) {
      const named = { idOrSlug: params.mcpServerId, workspace: body.workspace_id ?? query.workspace_id };
      const changed = await write(async (writer) => {
        const { server: before, integration } = await visibleServer(writer, key, named);
        requireVersion(before.version);
        const description =
          body.description === undefined ? before.data.description : (body.description ?? '');
        const change = { name: body.name ?? before.name, data: { ...before.data, description } };
        const server = await storedRecords.change(writer, before, change, key, clock.now());
        return { id: server.id, workspaceId: server.workspaceId, result: { server, integration } };
      });
      sendVersion(changed.server.version);
      return showWholeMcpServer(changed, sealedSecrets.open(secrets, changed.integration), publicUrl);
    },
  });
}

function deleteRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_servers.delete',
    method: 'DELETE',
    path: onePath,
    summary: 'Deletes an MCP server with the connections of its users; its integration stays',
    scope: 'mcp_servers.delete',
    audit: 'delete',
    params: Params,
    query: Place,
    reply: Type.Object({}),
    examples: { response: {} },
    async handle({ params, query, key, write, requireVersion }) {
      const named = { idOrSlug: params.mcpServerId, workspace: query.workspace_id };
      const ended = await write(async (writer) => {
        const { server, integration } = await visibleServer(writer, key, named);
        requireVersion(server.version);
        const result = await serverConnections.end(writer, { server, integration }, undefined);
        const clients = await storedRecords.every(writer, 'mcp_client', server.organisationId, {
          parentId: server.id,
        });
        for (const { id } of clients) await writer.records.remove('mcp_client', server.organisationId, id);
        if (!(await writer.records.remove('mcp_server', server.organisationId, server.id)))
          throw storedRecords.stale();
        return { id: server.id, workspaceId: server.workspaceId, result };
      });
      await serverConnections.revokeEnded(scope, ended);
      return {};
    },
  });
}
