import { reachOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { places, storedRecords } from '../shared/records.ts';
import { RecordResource } from '../shared/record-resource.ts';
import { type PlainSecrets, sealedSecrets } from '../shared/sealed-secrets.ts';
import {
  type McpIntegration,
  mcpIntegrationAccess as access,
  mcpIntegrationNoun,
  mcpRecord,
  mcpSchemas,
} from './record.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { Identifier, Name, orNull, Place, strict } from '../shared/fields.ts';
import type { McpIntegrationData } from '../../../core/ports/record-kinds.ts';
import { namedWorkspaces, requireShared } from '../shared/workspace-access.ts';
import { integrationRecord, SecretMappingSchema } from '../integrations/record.ts';

/** An MCP integration in the API. */
const McpIntegrationReply = Type.Object({
  id: Type.String(),
  slug: Type.String(),
  name: Type.String(),
  description: orNull(Type.String()),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String()),
  type: Type.Union([Type.Literal('workspace'), Type.Literal('organisation')]),
  url: Type.String(),
  auth_type: mcpSchemas.AuthType,
  transport: mcpSchemas.Transport,
  configurations: mcpSchemas.ConfigurationsReply,
  secret_mappings: Type.Array(SecretMappingSchema),
  global_workspace_access: Type.Object(
    { enabled: Type.Boolean() },
    { description: 'Access of workspaces that are not listed.' },
  ),
  workspaces_count: Type.Integer({ description: 'Workspaces that are listed and allowed.' }),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  owner_id: Type.String({ description: 'Key or user that created it.' }),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  object: Type.Literal('mcp-integration'),
});

/** Converts an MCP integration with opened secrets to the API's shape, with the secrets masked. */
function showMcpIntegration(record: McpIntegration, plain: PlainSecrets): Static<typeof McpIntegrationReply> {
  const { data, workspaceId } = record;
  return {
    id: record.id,
    slug: record.slug,
    name: record.name,
    description: data.description === '' ? null : data.description,
    organisation_id: record.organisationId,
    workspace_id: workspaceId ?? null,
    type: workspaceId === undefined ? 'organisation' : 'workspace',
    url: data.url,
    auth_type: data.authType,
    transport: data.transport,
    configurations: mcpRecord.showConfigurations(data, plain),
    secret_mappings: data.secretMappings.map((mapping) => integrationRecord.showMapping(mapping)),
    global_workspace_access: { enabled: data.globalAccess.enabled },
    workspaces_count:
      workspaceId === undefined ? Object.values(data.workspaces).filter(({ enabled }) => enabled).length : 1,
    status: record.status,
    owner_id: record.createdBy,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    object: 'mcp-integration',
  };
}

/** For the reference. */
export const mcpIntegrationExample: Static<typeof McpIntegrationReply> = {
  id: '6b1f0f8e-2f0a-4d57-8a53-51c1d0d6a7e4',
  slug: 'tickets',
  name: 'Tickets',
  description: null,
  organisation_id: '0b0ad9c2-5d0c-4d8a-a6d0-5b6d1a2f8c11',
  workspace_id: null,
  type: 'organisation',
  url: 'https://tickets.example.com/mcp',
  auth_type: 'headers',
  transport: 'http',
  configurations: { custom_headers: { 'x-api-key': 'tk…9Q' } },
  secret_mappings: [],
  global_workspace_access: { enabled: true },
  workspaces_count: 0,
  status: 'active',
  owner_id: '9f5a4d7c-6c0b-4b0e-8a53-6f0f4c1f2b13',
  object: 'mcp-integration',
  created_at: '2026-11-22T09:00:00.000Z',
  last_updated_at: '2026-11-22T09:00:00.000Z',
};

const path = '/mcp-integrations';

/** The routes of MCP integrations: external servers of the Model Context Protocol, and the workspaces that may use them. */
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
    showMcpIntegration(record, sealedSecrets.open(secrets, record));
  return [
    integrations.create({
      summary:
        'Creates an MCP integration: the address of an MCP server, for the organisation or for one workspace',
      body: mcpSchemas.Create,
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
      prepare: ({ key, body }) => places.requireOrganisation(key, body.organisation_id),
      async make(writer, { id, key, body }) {
        const workspaceId = (await places.ofBody(writer, key, body.workspace_id))?.id;
        access.require(key, 'create', workspaceId);
        const owner = { organisationId: key.organisationId, workspaceId };
        const empty = mcpRecord.empty(body);
        const { plain, ...content } = await mcpRecord.changed(writer, body, empty, owner);
        const slug = body.slug ?? storedRecords.newSlug('', body.name);
        return { workspaceId, slug, ...content, secrets: sealedSecrets.seal(secrets, id, plain) };
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
      body: mcpSchemas.Update,
      reply: McpIntegrationReply,
      examples: { request: { name: 'Tickets, production' }, response: mcpIntegrationExample },
      async change(before, writer, { body }) {
        const opened = { name: before.name, data: before.data, plain: sealedSecrets.open(secrets, before) };
        const { plain, ...content } = await mcpRecord.changed(writer, body, opened, before);
        return { ...content, secrets: sealedSecrets.seal(secrets, before.id, plain) };
      },
      show,
    }),
    integrations.remove({
      summary: 'Deletes an MCP integration that no MCP server uses',
      query: Place,
      examples: { response: {} },
      async requireUnused(writer, { id, organisationId, name }) {
        const servers = await storedRecords.every(writer, 'mcp_server', organisationId, { parentId: id });
        const users = { 'MCP servers': servers.map(({ slug }) => slug) };
        storedRecords.requireNoUsers(`The ${mcpIntegrationNoun} "${name}"`, users, 'Delete them first.');
      },
    }),
    ...mcpIntegrationWorkspaceRoutes(scope),
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
        ...paging.longQuery(1000),
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
    reply: Type.Object({ ...listReplies.longOf, data: Type.Array(McpIntegrationReply) }),
    examples: { response: { object: 'list', total: 1, has_more: false, data: [mcpIntegrationExample] } },
    async handle({ query, key, read }) {
      const page = paging.longOf(query);
      const { workspace_id: named, type = 'all', search } = query;
      places.requireOrganisation(key, query.organisation_id);
      const found = await read(async (reader) => {
        const workspace = named === undefined ? undefined : (await places.visible(reader, key, named)).id;
        const workspaceId = workspace ?? reachOf(key).workspaceId;
        return access.seen(reader, key, { ...page, workspaceId, type, search });
      });
      const shown = found.data.map((record) =>
        showMcpIntegration(record, sealedSecrets.open(secrets, record)),
      );
      return listReplies.long(page, found, shown);
    },
  });
}

const workspacesPath = '/mcp-integrations/{mcpIntegrationId}/workspaces';
const Params = Type.Object({ mcpIntegrationId: Identifier });

const WorkspaceAccess = Type.Object(
  { id: Name('Id or slug of the workspace.'), enabled: Type.Boolean() },
  strict,
);
const Enabled = Type.Object({ enabled: Type.Boolean() }, strict);
const Body = Type.Object(
  {
    workspaces: Type.Optional(Type.Array(WorkspaceAccess, { maxItems: 1000 })),
    global_workspace_access: Type.Optional(orNull(Enabled)),
    override_existing_workspace_access: Type.Optional(
      Type.Boolean({
        description:
          'Remove the entries of workspaces that are not listed. Default false: they stay unchanged.',
      }),
    ),
  },
  { ...strict, minProperties: 1 },
);
const WorkspaceReply = Type.Object({
  id: Type.String(),
  enabled: Type.Boolean(),
  status: Type.Union([Type.Literal('active'), Type.Literal('disabled')]),
  created_at: Type.String({ description: 'Creation of the entry of this workspace.' }),
  last_updated_at: Type.String(),
});
const Reply = Type.Object({
  object: Type.Literal('list'),
  total: Type.Integer(),
  data: Type.Array(WorkspaceReply),
  workspaces: Type.Array(WorkspaceReply, { description: 'Same value, for clients that read it here.' }),
  global_workspace_access: Enabled,
});
type ShownWorkspace = Static<typeof WorkspaceReply>;

const example: ShownWorkspace = {
  id: '5a5b1f38-9a4f-4b40-8f1c-2b7d8a3c9d12',
  enabled: true,
  status: 'active',
  created_at: '2026-11-22T09:00:00.000Z',
  last_updated_at: '2026-11-22T09:00:00.000Z',
};

/** Routes for the access of workspaces to an MCP integration of the organisation. */
function mcpIntegrationWorkspaceRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listWorkspacesRoute(), updateRoute(scope)];
}

function listWorkspacesRoute(): RouteDefinition {
  return defineRoute({
    id: 'mcp_integration_workspaces.list',
    method: 'GET',
    path: workspacesPath,
    summary: 'Workspaces that may use an MCP integration',
    scope: access.scopes('read'),
    // Reads only.
    audit: null,
    params: Params,
    query: Type.Object(
      { version: Type.Optional(Name('Of the answer. There is one: it has the members of all.')) },
      strict,
    ),
    reply: Reply,
    examples: {
      response: {
        object: 'list',
        total: 1,
        data: [example],
        workspaces: [example],
        global_workspace_access: { enabled: false },
      },
    },
    async handle({ params, key, read, sendVersion }) {
      const named = { slug: params.mcpIntegrationId };
      const record = await read((reader) => access.visible(reader, key, named, 'read'));
      sendVersion(record.version);
      const data = shownWorkspaces(record);
      return {
        object: 'list' as const,
        total: data.length,
        data,
        workspaces: data,
        global_workspace_access: { enabled: record.data.globalAccess.enabled },
      };
    },
  });
}

function shownWorkspaces({
  workspaceId,
  data,
  createdAt,
  updatedAt,
}: StoredRecord<'mcp_integration'>): ShownWorkspace[] {
  const own = { enabled: true, createdAt, updatedAt };
  const entries = workspaceId === undefined ? Object.entries(data.workspaces) : [[workspaceId, own] as const];
  return entries.map(([id, one]) => ({
    id,
    enabled: one.enabled,
    status: one.enabled ? 'active' : 'disabled',
    created_at: new Date(one.createdAt).toISOString(),
    last_updated_at: new Date(one.updatedAt).toISOString(),
  }));
}

function updateRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_integration_workspaces.update',
    method: 'PUT',
    path: workspacesPath,
    summary:
      'Sets which workspaces may use an MCP integration; servers of excluded workspaces are kept, but disabled',
    scope: access.scopes('update'),
    audit: 'update',
    params: Params,
    body: Body,
    reply: Type.Object({}),
    examples: { request: { workspaces: [{ id: 'ws-research', enabled: true }] }, response: {} },
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const now = clock.now();
      const version = await write(async (writer) => {
        const before = await access.visible(writer, key, { slug: params.mcpIntegrationId }, 'update');
        requireVersion(before.version);
        requireShared(before, mcpIntegrationNoun);
        const said = await namedWorkspaces(writer, before.organisationId, body.workspaces ?? []);
        const after = await storedRecords.change(
          writer,
          before,
          { data: changedAccess(before.data, body, { said, now }) },
          key,
          now,
        );
        return { id: after.id, result: after.version };
      });
      sendVersion(version);
      return {};
    },
  });
}

interface Said {
  readonly said: ReadonlyMap<string, Static<typeof WorkspaceAccess>>;
  readonly now: number;
}

function changedAccess(
  before: McpIntegrationData,
  { global_workspace_access: all, override_existing_workspace_access: isOverride }: Static<typeof Body>,
  { said, now }: Said,
): McpIntegrationData {
  const workspaces: Record<string, McpIntegrationData['workspaces'][string]> = isOverride
    ? {}
    : { ...before.workspaces };
  for (const [id, { enabled }] of said) {
    const was = before.workspaces[id];
    const updatedAt = was?.enabled === enabled ? was.updatedAt : now;
    workspaces[id] = { enabled, createdAt: was?.createdAt ?? now, updatedAt };
  }
  const globalAccess = all === undefined ? before.globalAccess : { enabled: all?.enabled ?? false };
  return { ...before, workspaces, globalAccess };
}
