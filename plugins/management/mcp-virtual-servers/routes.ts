import { reachOf } from '../../../core/access/scopes.ts';
import {
  virtualServerFields,
  virtualServerMistakes,
} from '../../../core/organisation/mcp-virtual-servers.ts';
import { didYouMean } from '../../../core/base/did-you-mean.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { McpVirtualServerData } from '../../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader, WorkspaceRecord } from '../../../core/ports/resources.ts';
import { Identifier, Name, orNull, Place, refusedBody, strict } from '../shared/fields.ts';
import { RecordResource } from '../shared/record-resource.ts';
import { places, storedRecords } from '../shared/records.ts';
import type { Mistake } from '../../../core/base/json.ts';

const object = Type.Literal('mcp-virtual-server');
const workspaceOfBody = Type.Optional(Name('Id or slug. Default: the workspace of the key.'));

const fields = {
  description: Type.Optional(orNull(Type.String({ maxLength: 500, description: 'For people.' }))),
  instructions: Type.Optional(orNull(virtualServerFields.instructions)),
  mode: Type.Optional(virtualServerFields.mode),
  servers: Type.Optional(orNull(virtualServerFields.servers)),
  tools: Type.Optional(orNull(virtualServerFields.tools)),
};

const Create = Type.Object(
  {
    name: Name('For people.'),
    slug: Type.Optional(
      Type.String({
        minLength: 3,
        maxLength: 50,
        pattern: '^[a-zA-Z0-9_-]+$',
        description: 'It is served under `/{slug}/mcp`. Default: derived from the name.',
      }),
    ),
    workspace_id: workspaceOfBody,
    ...fields,
  },
  strict,
);

const Update = Type.Object(
  { name: Type.Optional(Name('For people.')), workspace_id: workspaceOfBody, ...fields },
  strict,
);

const Reply = Type.Object({
  id: Type.String(),
  slug: Type.String(),
  name: Type.String(),
  description: orNull(Type.String()),
  instructions: orNull(Type.String()),
  mode: virtualServerFields.mode,
  servers: orNull(virtualServerFields.servers),
  tools: orNull(virtualServerFields.tools),
  url: orNull(Type.String({ description: 'URL of the server, below `server.public_url`; null without it.' })),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String()),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  owner_id: Type.String({ description: 'Key or user that created it.' }),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  object,
});

const exampleTools = [{ server: 'tickets', tool: 'find', name: 'find_tickets' }];
const example: Static<typeof Reply> = {
  id: 'b7c0a4de-5a43-4f55-9a0c-7a4a3c0e9d21',
  slug: 'desk',
  name: 'Help desk',
  description: null,
  instructions: 'For the help desk.',
  mode: 'list',
  servers: null,
  tools: exampleTools,
  url: 'https://weir.example.com/desk/mcp',
  organisation_id: 'org-1',
  workspace_id: '5a5b1f38-9a4f-4b40-8f1c-2b7d8a3c9d12',
  status: 'active',
  owner_id: 'key-1',
  created_at: '2026-11-22T09:00:00.000Z',
  last_updated_at: '2026-11-22T09:00:00.000Z',
  object: 'mcp-virtual-server',
};

/** The routes of virtual MCP servers: servers, or single tools of them, that a workspace has served as one. */
export function mcpVirtualServerRoutes(scope: Scope): readonly RouteDefinition[] {
  const { mcpServers: configured, publicUrl } = scope;
  const show = (record: StoredRecord<'mcp_virtual_server'>) => shown(record, publicUrl);
  const virtual = new RecordResource(scope, {
    kind: 'mcp_virtual_server',
    noun: 'virtual MCP server',
    operations: 'mcp_virtual_servers',
    path: '/mcp-virtual-servers',
    parameter: 'mcpVirtualServerId',
    scopes: (action) => `mcp_servers.${action}`,
  });
  return [
    virtual.create({
      summary: 'Creates a virtual MCP server: servers of a workspace, or single tools of them, as one',
      examples: {
        request: { name: 'Help desk', slug: 'desk', instructions: 'For the help desk.', tools: exampleTools },
        response: example,
      },
      body: Create,
      reply: Reply,
      async make(writer, { key, body }) {
        const workspace = await places.required(writer, key, body.workspace_id);
        const slug = body.slug ?? storedRecords.newSlug('', body.name);
        const place = { writer, workspace, configured };
        await requireFreeSlug(slug, place);
        return { workspaceId: workspace.id, slug, name: body.name, data: await changed(body, empty, place) };
      },
      show,
    }),
    virtual.list({
      summary: 'Virtual MCP servers that the key may see, oldest first',
      examples: { response: { object: 'list', total: 1, data: [example] } },
      query: {
        workspace_id: Type.Optional(Identifier),
        search: Type.Optional(Name('Part of the name or the slug, in any case.')),
      },
      entry: Reply,
      async rows(reader, { key, query }, page) {
        const { workspace_id: named, search } = query;
        const workspaceId =
          named === undefined ? reachOf(key).workspaceId : (await places.visible(reader, key, named)).id;
        const filter = {
          ...(workspaceId !== undefined && { workspaceId }),
          ...(search !== undefined && { search }),
        };
        return reader.records.list('mcp_virtual_server', key.organisationId, filter, page);
      },
      show,
    }),
    virtual.get({
      summary: 'One virtual MCP server, by its id or slug',
      examples: { response: example },
      query: Place,
      reply: Reply,
      show,
    }),
    virtual.update({
      summary: 'Updates a virtual MCP server; omitted fields stay unchanged, null removes them',
      examples: { request: { mode: 'search' }, response: { ...example, mode: 'search' } },
      query: Place,
      body: Update,
      reply: Reply,
      async change({ name, data, workspaceId, organisationId }, writer, { body }) {
        const workspace = await writer.workspaces.find(organisationId, workspaceId ?? '');
        if (workspace === undefined) throw new Error('A virtual MCP server has lost its workspace.');
        return {
          name: body.name ?? name,
          data: await changed(body, data, { writer, workspace, configured }),
        };
      },
      show,
    }),
    virtual.remove({ summary: 'Deletes a virtual MCP server', query: Place }),
  ];
}

const empty: McpVirtualServerData = {
  description: '',
  instructions: '',
  mode: 'list',
  servers: undefined,
  tools: undefined,
};

/** Workspace of a virtual server, and what it may be made of. */
interface VirtualPlace {
  readonly writer: Pick<ResourcesReader, 'records'>;
  readonly workspace: WorkspaceRecord;
  readonly configured: Scope['mcpServers'];
}

/** What a record can hold. */
const maxBytes = 1_000_000;

/** The data after the change. Throws `invalid_request` with the place of each part that is wrong. */
async function changed(
  body: Static<typeof Update>,
  before: McpVirtualServerData,
  place: VirtualPlace,
): Promise<McpVirtualServerData> {
  const { description, instructions, mode, servers, tools } = body;
  const data: McpVirtualServerData = {
    description: description === undefined ? before.description : (description ?? ''),
    instructions: instructions === undefined ? before.instructions : (instructions ?? ''),
    mode: mode ?? before.mode,
    servers: servers === undefined ? before.servers : (servers ?? undefined),
    tools: tools === undefined ? before.tools : (tools ?? undefined),
  };
  // A server that has lost a tool since does not keep its name from being changed.
  if (before !== empty && servers === undefined && tools === undefined) return data;
  const mistakes = [...virtualServerMistakes(data), ...(await membersMistakes(data, place))];
  if (mistakes.length > 0) throw refusedBody(mistakes);
  if (Buffer.byteLength(JSON.stringify(data)) > maxBytes)
    throw refusedBody([{ path: '/tools', message: 'are longer than 1 MB together; shorten descriptions' }]);
  return data;
}

/** A server that a virtual one may have. */
interface Member {
  /** Names of its tools; undefined where it is not known yet. */
  readonly tools: readonly string[] | undefined;
}

async function membersMistakes(
  { servers = [], tools = [] }: McpVirtualServerData,
  place: VirtualPlace,
): Promise<readonly Mistake[]> {
  const mistakes: Mistake[] = [];
  const members = new Map<string, Member | undefined>();
  const memberAt = async (slug: string, path: string): Promise<Member | undefined> => {
    if (!members.has(slug)) members.set(slug, await memberOf(slug, place));
    const member = members.get(slug);
    if (member === undefined) mistakes.push({ path, message: await unknownServer(slug, place) });
    return member;
  };
  for (const [index, slug] of servers.entries()) await memberAt(slug, `/servers/${index}`);
  for (const [index, { server, tool }] of tools.entries()) {
    const names = (await memberAt(server, `/tools/${index}/server`))?.tools;
    if (names === undefined || names.includes(tool)) continue;
    const near = didYouMean(tool, names);
    const hint = near === undefined ? 'see GET /mcp-servers/{id}/capabilities' : `did you mean "${near}"?`;
    mistakes.push({
      path: `/tools/${index}/tool`,
      message: `is "${tool.slice(0, 64)}", and the MCP server "${server}" has no such tool; ${hint}`,
    });
  }
  return mistakes;
}

async function memberOf(slug: string, place: VirtualPlace): Promise<Member | undefined> {
  const { writer, workspace, configured } = place;
  const known = configured.of(workspace);
  if (known?.some((one) => !one.isVirtual && one.slug === slug) === true) return { tools: undefined };
  const server = await serverRecord(slug, place);
  // Without a plugin that serves them here, the servers of the configuration are not known.
  if (server === undefined) return known === undefined ? { tools: undefined } : undefined;
  const { organisationId } = workspace;
  const integration = await writer.records.find('mcp_integration', { organisationId }, server.parentId);
  if (integration?.data.server === undefined) return { tools: undefined };
  const { capabilities } = integration.data;
  return { tools: capabilities.filter(({ type }) => type === 'tool').map(({ name }) => name) };
}

async function serverRecord(
  slug: string,
  { writer, workspace: { organisationId, id } }: VirtualPlace,
): Promise<StoredRecord<'mcp_server'> | undefined> {
  const found = await writer.records.find('mcp_server', { organisationId, workspaceId: id }, slug);
  return found?.slug === slug && found.workspaceId === id ? found : undefined;
}

async function unknownServer(slug: string, { writer, workspace, configured }: VirtualPlace): Promise<string> {
  const { organisationId, id: workspaceId } = workspace;
  const slugs = (configured.of(workspace) ?? []).filter((one) => !one.isVirtual).map((one) => one.slug);
  for await (const one of storedRecords.each(writer, 'mcp_server', organisationId, { workspaceId }))
    slugs.push(one.slug);
  const near = didYouMean(slug, slugs);
  const hint = near === undefined ? 'create it first with POST /mcp-servers' : `did you mean "${near}"?`;
  return `names no MCP server of the workspace: "${slug}"; ${hint}`;
}

/** Throws `already_exists` for the slug of a server of the workspace. */
async function requireFreeSlug(slug: string, place: VirtualPlace): Promise<void> {
  const isConfigured = place.configured.of(place.workspace)?.some((one) => one.slug === slug) === true;
  if (!isConfigured && (await serverRecord(slug, place)) === undefined) return;
  throw new GatewayError(
    'already_exists',
    `The workspace has an MCP server with the slug "${slug}" already; choose another slug.`,
    { param: '/slug' },
  );
}

/** Throws `already_exists` for the slug of a virtual server of the workspace. For new servers. */
export async function requireNoVirtualServer(
  { records }: Pick<ResourcesReader, 'records'>,
  { organisationId, id: workspaceId }: WorkspaceRecord,
  slug: string,
): Promise<void> {
  const found = await records.find('mcp_virtual_server', { organisationId, workspaceId }, slug);
  if (found?.slug !== slug) return;
  throw new GatewayError(
    'already_exists',
    `The workspace has a virtual MCP server with the slug "${slug}" already; choose another slug.`,
    { param: '/slug' },
  );
}

function shown(
  record: StoredRecord<'mcp_virtual_server'>,
  publicUrl: string | undefined,
): Static<typeof Reply> {
  const { description, instructions, mode, servers, tools } = record.data;
  return {
    id: record.id,
    slug: record.slug,
    name: record.name,
    description: description === '' ? null : description,
    instructions: instructions === '' ? null : instructions,
    mode,
    servers: servers === undefined ? null : [...servers],
    tools: tools === undefined ? null : tools.map((one) => ({ ...one })),
    url: publicUrl === undefined ? null : `${publicUrl.replace(/\/+$/, '')}/${record.slug}/mcp`,
    organisation_id: record.organisationId,
    workspace_id: record.workspaceId ?? null,
    status: record.status,
    owner_id: record.createdBy,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    object: 'mcp-virtual-server',
  };
}
