import { randomUUID } from 'node:crypto';
import { reachOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import {
  changedRecord,
  everyRecord,
  newSlug,
  requireNoUsers,
  requireOrganisation,
  staleVersion,
  visibleWorkspace,
  workspaceOfBody,
} from '../shared/records.ts';
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
import { Identifier, Name, strict } from '../shared/fields.ts';

const path = '/mcp-integrations';
const onePath = `${path}/{mcpIntegrationId}`;
const Params = Type.Object({ mcpIntegrationId: Identifier });
const Place = Type.Object({ workspace_id: Type.Optional(Identifier) }, strict);

/** The routes of MCP integrations: servers of the Model Context Protocol somewhere else. */
export function mcpIntegrationRoutes(scope: Scope): readonly RouteDefinition[] {
  return [createRoute(scope), listRoute(scope), getRoute(scope), updateRoute(scope), deleteRoute()];
}

function createRoute({ clock, secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_integrations.create',
    method: 'POST',
    path,
    summary: 'Stores where an MCP server listens, for the organisation or for one workspace',
    scope: access.scopes('create'),
    audit: 'create',
    body: CreateMcpIntegration,
    reply: Type.Object({ id: Type.String(), slug: Type.String(), object: Type.Literal('mcp-integration') }),
    examples: {
      request: {
        ...{ name: 'Tickets', slug: 'tickets', url: 'https://tickets.example.com/mcp' },
        ...{ auth_type: 'headers', transport: 'http' },
        configurations: { custom_headers: { 'x-api-key': 'tk-…' } },
      },
      response: { id: mcpIntegrationExample.id, slug: 'tickets', object: 'mcp-integration' },
    },
    async handle({ body, key, write, sendVersion }) {
      requireOrganisation(key, body.organisation_id);
      const now = clock.now();
      const id = randomUUID();
      const by = key.userId || key.id;
      const slug = body.slug ?? newSlug('', body.name);
      await write(async (writer) => {
        const workspaceId = (await workspaceOfBody(writer, key, body.workspace_id))?.id;
        access.require(key, 'create', workspaceId);
        const owner = { organisationId: key.organisationId, workspaceId };
        const made = await changedMcpIntegration(writer, body, emptyMcpIntegration(body), owner);
        await writer.records.insert<'mcp_integration'>({
          ...{ kind: 'mcp_integration', id, ...owner, slug, name: made.name, status: 'active' },
          ...{ parentId: '', data: made.data, secrets: sealSecrets(secrets, id, made.plain) },
          ...{ createdBy: by, updatedBy: by, createdAt: now, updatedAt: now, version: 1 },
        });
        return { id, workspaceId, result: undefined };
      });
      sendVersion(1);
      return { id, slug, object: 'mcp-integration' as const };
    },
  });
}

function listRoute({ secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_integrations.list',
    method: 'GET',
    path,
    summary: 'The MCP integrations that the key may see, oldest first',
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
              'Those of workspaces, those of the organisation, or all (default). With `workspace_id`: of that workspace, and what it may use of the organisation.',
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

function getRoute({ secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_integrations.get',
    method: 'GET',
    path: onePath,
    summary: 'One MCP integration, the values of its headers masked',
    scope: access.scopes('read'),
    // Reads only.
    audit: null,
    params: Params,
    query: Place,
    reply: McpIntegrationReply,
    examples: { response: mcpIntegrationExample },
    async handle({ params, query, key, read, sendVersion }) {
      const named = { slug: params.mcpIntegrationId, workspace: query.workspace_id };
      const record = await read((reader) => access.visible(reader, key, named, 'read'));
      sendVersion(record.version);
      return showMcpIntegration(record, openSecrets(secrets, record));
    },
  });
}

function updateRoute({ clock, secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_integrations.update',
    method: 'PUT',
    path: onePath,
    summary: 'Changes an MCP integration; what is not given stays',
    scope: access.scopes('update'),
    audit: 'update',
    params: Params,
    query: Place,
    body: UpdateMcpIntegration,
    reply: McpIntegrationReply,
    examples: { request: { name: 'Tickets, production' }, response: mcpIntegrationExample },
    async handle({ params, query, body, key, write, requireVersion, sendVersion }) {
      const named = { slug: params.mcpIntegrationId, workspace: body.workspace_id ?? query.workspace_id };
      const { record, plain } = await write(async (writer) => {
        const before = await access.visible(writer, key, named, 'update');
        requireVersion(before.version);
        const opened = { name: before.name, data: before.data, plain: openSecrets(secrets, before) };
        const { plain, ...content } = await changedMcpIntegration(writer, body, opened, before);
        const after: StoredRecord<'mcp_integration'> = {
          ...changedRecord(before, content, key, clock.now()),
          secrets: sealSecrets(secrets, before.id, plain),
        };
        if (!(await writer.records.replace(after))) throw staleVersion();
        return { id: after.id, workspaceId: after.workspaceId, result: { record: after, plain } };
      });
      sendVersion(record.version);
      return showMcpIntegration(record, plain);
    },
  });
}

function deleteRoute(): RouteDefinition {
  return defineRoute({
    id: 'mcp_integrations.delete',
    method: 'DELETE',
    path: onePath,
    summary: 'Deletes an MCP integration that no MCP server uses',
    scope: access.scopes('delete'),
    audit: 'delete',
    params: Params,
    query: Place,
    reply: Type.Object({}),
    examples: { response: {} },
    async handle({ params, query, key, write, requireVersion }) {
      const named = { slug: params.mcpIntegrationId, workspace: query.workspace_id };
      await write(async (writer) => {
        const before = await access.visible(writer, key, named, 'delete');
        requireVersion(before.version);
        const { id, organisationId, workspaceId, name } = before;
        const servers = await everyRecord(writer, 'mcp_server', organisationId, { parentId: id });
        const users = { 'MCP servers': servers.map(({ slug }) => slug) };
        requireNoUsers(`The ${mcpIntegrationNoun} "${name}"`, users, 'Delete them first.');
        if (!(await writer.records.remove('mcp_integration', organisationId, id))) throw staleVersion();
        return { id, workspaceId, result: undefined };
      });
      return {};
    },
  });
}
