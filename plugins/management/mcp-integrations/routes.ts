import { reachOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import {
  everyRecord,
  newSlug,
  requireNoUsers,
  requireOrganisation,
  visibleWorkspace,
  workspaceOfBody,
} from '../shared/records.ts';
import { RecordResource } from '../shared/record-resource.ts';
import { openSecrets, sealSecrets } from '../shared/sealed-secrets.ts';
import {
  changedMcpIntegration,
  CreateMcpIntegration,
  emptyMcpIntegration,
  mcpIntegrationAccess as access,
  mcpIntegrationExample,
  mcpIntegrationNoun,
  McpIntegrationReply,
  showMcpIntegration,
  UpdateMcpIntegration,
} from './record.ts';
import { longList, longListReply, longPageOf, longPageQuery } from '../shared/replies.ts';
import { Identifier, Name, Place, strict } from '../shared/fields.ts';

const path = '/mcp-integrations';

/** The routes of MCP integrations: external servers of the Model Context Protocol. */
export function mcpIntegrationRoutes(scope: Scope): readonly RouteDefinition[] {
  const { secrets } = scope;
  const integrations = new RecordResource(scope, {
    kind: 'mcp_integration',
    noun: mcpIntegrationNoun,
    operations: 'mcp_integrations',
    path,
    parameter: 'mcpIntegrationId',
    scopes: (action) => access.scopes(action),
    find: (reader, key, { idOrSlug, workspace }, action) =>
      access.visible(reader, key, { slug: idOrSlug, workspace }, action),
  });
  const show = (record: StoredRecord<'mcp_integration'>) =>
    showMcpIntegration(record, openSecrets(secrets, record));
  return [
    integrations.create({
      summary:
        'Creates an MCP integration: the address of an MCP server, for the organisation or for one workspace',
      body: CreateMcpIntegration,
      reply: Type.Object({ id: Type.String(), slug: Type.String(), object: Type.Literal('mcp-integration') }),
      examples: {
        request: {
          name: 'Tickets',
          slug: 'tickets',
          url: 'https://tickets.example.com/mcp',
          auth_type: 'headers',
          transport: 'http',
          configurations: { custom_headers: { 'x-api-key': 'tk-…' } },
        },
        response: { id: mcpIntegrationExample.id, slug: 'tickets', object: 'mcp-integration' },
      },
      prepare: ({ key, body }) => requireOrganisation(key, body.organisation_id),
      async make(writer, { id, key, body }) {
        const workspaceId = (await workspaceOfBody(writer, key, body.workspace_id))?.id;
        access.require(key, 'create', workspaceId);
        const owner = { organisationId: key.organisationId, workspaceId };
        const empty = emptyMcpIntegration(body);
        const { plain, ...content } = await changedMcpIntegration(writer, body, empty, owner);
        const slug = body.slug ?? newSlug('', body.name);
        return { workspaceId, slug, ...content, secrets: sealSecrets(secrets, id, plain) };
      },
      show: ({ id, slug }) => ({ id, slug, object: 'mcp-integration' as const }),
    }),
    listRoute(scope),
    integrations.get({
      summary: 'One MCP integration, with masked header values',
      query: Place,
      reply: McpIntegrationReply,
      examples: { response: mcpIntegrationExample },
      show,
    }),
    integrations.update({
      summary: 'Updates an MCP integration; omitted fields stay unchanged',
      query: Place,
      body: UpdateMcpIntegration,
      reply: McpIntegrationReply,
      examples: { request: { name: 'Tickets, production' }, response: mcpIntegrationExample },
      async change(before, writer, { body }) {
        const opened = { name: before.name, data: before.data, plain: openSecrets(secrets, before) };
        const { plain, ...content } = await changedMcpIntegration(writer, body, opened, before);
        return { ...content, secrets: sealSecrets(secrets, before.id, plain) };
      },
      show,
    }),
    integrations.remove({
      summary: 'Deletes an MCP integration that no MCP server uses',
      query: Place,
      examples: { response: {} },
      async requireUnused(writer, { id, organisationId, name }) {
        const servers = await everyRecord(writer, 'mcp_server', organisationId, { parentId: id });
        const users = { 'MCP servers': servers.map(({ slug }) => slug) };
        requireNoUsers(`The ${mcpIntegrationNoun} "${name}"`, users, 'Delete them first.');
      },
    }),
  ];
}

function listRoute({ secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_integrations.list',
    method: 'GET',
    path,
    summary: 'MCP integrations that the key may see, oldest first',
    scope: access.scopes('list'),
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...longPageQuery(1000),
        organisation_id: Type.Optional(Name('That of the key; anything else is refused.')),
        workspace_id: Type.Optional(Identifier),
        type: Type.Optional(
          Type.Union([Type.Literal('workspace'), Type.Literal('organisation'), Type.Literal('all')], {
            description:
              'Those of workspaces, those of the organisation, or all (default). With `workspace_id`: those of that workspace, and those of the organisation that it may use.',
          }),
        ),
        search: Type.Optional(Name('Part of the name or the slug, in any case.')),
      },
      strict,
    ),
    reply: Type.Object({ ...longListReply, data: Type.Array(McpIntegrationReply) }),
    examples: { response: { object: 'list', total: 1, has_more: false, data: [mcpIntegrationExample] } },
    async handle({ query, key, read }) {
      const page = longPageOf(query);
      const { workspace_id: named, type = 'all', search } = query;
      requireOrganisation(key, query.organisation_id);
      const found = await read(async (reader) => {
        const workspace = named === undefined ? undefined : (await visibleWorkspace(reader, key, named)).id;
        const workspaceId = workspace ?? reachOf(key).workspaceId;
        return access.seen(reader, key, { ...page, workspaceId, type, search });
      });
      const shown = found.data.map((record) => showMcpIntegration(record, openSecrets(secrets, record)));
      return longList(page, found, shown);
    },
  });
}
