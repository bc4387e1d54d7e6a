import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { McpServerData } from '../../../core/ports/record-kinds.ts';
import type { Member } from '../../../core/ports/people.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import { storedRecords } from '../shared/records.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { Identifier, Name, refusedBody, strict } from '../shared/fields.ts';
import { serverConnections } from './connections.ts';
import { visibleServer } from './record.ts';
import { userRecords } from '../users/record.ts';
import type { Mistake } from '../../../core/base/json.ts';

const path = '/mcp-servers/{mcpServerId}/user-access';
const Params = Type.Object({ mcpServerId: Identifier });

const Default = Type.Union([Type.Literal('allow'), Type.Literal('deny')], {
  description: 'Access of members without their own setting.',
});
const UserReply = Type.Object({
  user_id: Type.String(),
  first_name: Type.String(),
  last_name: Type.String(),
  enabled: Type.Boolean(),
  has_override: Type.Boolean({ description: 'Whether the member has their own setting.' }),
  connection_status: Type.Union([Type.Literal('connected'), Type.Literal('not_connected')]),
});
const Body = Type.Object(
  {
    user_access: Type.Optional(
      Type.Array(
        Type.Object(
          {
            user_id: Type.Optional(Name('Id or e-mail address of a member of the workspace.')),
            id: Type.Optional(Name('Same value, for clients that send it here.')),
            enabled: Type.Boolean(),
          },
          strict,
        ),
        {
          maxItems: 1000,
          description: 'Settings of members; those of members that are not listed stay unchanged.',
        },
      ),
    ),
    default_user_access: Type.Optional(Default),
  },
  { ...strict, minProperties: 1 },
);

/** Routes for the access of a workspace's users to an MCP server. */
export function mcpServerUserAccessRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(), updateRoute(scope)];
}

function listRoute(): RouteDefinition {
  return defineRoute({
    id: 'mcp_server_user_access.list',
    method: 'GET',
    path,
    summary:
      'Members of the workspace, and whether they may use the MCP server; the status says whether they have connected an account',
    scope: 'mcp_servers.read',
    // Reads only.
    audit: null,
    params: Params,
    query: Type.Object(
      {
        ...paging.numberedQuery,
        search: Type.Optional(Name('Part of the name or of the e-mail address, in any case.')),
      },
      strict,
    ),
    reply: Type.Object({ ...listReplies.longOf, default_user_access: Default, data: Type.Array(UserReply) }),
    examples: {
      response: {
        object: 'list',
        total: 1,
        has_more: false,
        default_user_access: 'allow',
        data: [
          {
            user_id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f',
            first_name: 'Ann',
            last_name: 'Lee',
            enabled: true,
            has_override: false,
            connection_status: 'not_connected',
          },
        ],
      },
    },
    async handle({ params, query, key, read, sendVersion }) {
      const { search, ...asked } = query;
      const page = paging.numberedOf(asked);
      const { server, found, connected } = await read(async (reader) => {
        const { server } = await visibleServer(reader, key, { idOrSlug: params.mcpServerId });
        const found = await membersOf(reader, server, { search, page });
        const connected = await serverConnections.users(
          reader,
          server,
          found.data.map(({ user }) => user.id),
        );
        return { server, found, connected };
      });
      sendVersion(server.version);
      const shown = found.data.map(({ user }) => showAccess(server.data, user, connected.has(user.id)));
      return { ...listReplies.long(page, found, shown), default_user_access: server.data.defaultUserAccess };
    },
  });
}

/** Searches all members: the store finds them by their complete e-mail address only. */
async function membersOf(
  { members }: Pick<ResourcesReader, 'members'>,
  { organisationId, workspaceId = '' }: StoredRecord<'mcp_server'>,
  { search = '', page }: { readonly search: string | undefined; readonly page: Page },
): Promise<Paged<Member>> {
  const wanted = search.toLowerCase();
  const data: Member[] = [];
  let total = 0;
  for await (const member of storedRecords.eachOf((part) =>
    members.list(organisationId, workspaceId, {}, part),
  )) {
    const { firstName, lastName, email } = member.user;
    if (!`${firstName} ${lastName} ${email}`.toLowerCase().includes(wanted)) continue;
    if (total >= page.offset && data.length < page.limit) data.push(member);
    total += 1;
  }
  return { total, data };
}

function showAccess(
  { userAccess, defaultUserAccess }: McpServerData,
  { id, firstName, lastName }: Member['user'],
  isConnected: boolean,
): Static<typeof UserReply> {
  const own = Object.hasOwn(userAccess, id) ? userAccess[id] : undefined;
  return {
    user_id: id,
    first_name: firstName,
    last_name: lastName,
    enabled: own ?? defaultUserAccess === 'allow',
    has_override: own !== undefined,
    connection_status: isConnected ? 'connected' : 'not_connected',
  };
}

function updateRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_server_user_access.update',
    method: 'PUT',
    path,
    summary: 'Sets which members of the workspace may use an MCP server; omitted fields stay unchanged',
    scope: 'mcp_servers.update',
    audit: 'update',
    params: Params,
    body: Body,
    reply: Type.Object({ success: Type.Boolean() }),
    examples: {
      request: {
        user_access: [{ user_id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f', enabled: true }],
        default_user_access: 'deny',
      },
      response: { success: true },
    },
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const version = await write(async (writer) => {
        const { server: before } = await visibleServer(writer, key, { idOrSlug: params.mcpServerId });
        requireVersion(before.version);
        const data: McpServerData = {
          ...before.data,
          defaultUserAccess: body.default_user_access ?? before.data.defaultUserAccess,
          userAccess: { ...before.data.userAccess, ...(await givenAccess(writer, before, body)) },
        };
        const after = await storedRecords.change(writer, before, { data }, key, clock.now());
        return { id: after.id, workspaceId: after.workspaceId, result: after.version };
      });
      sendVersion(version);
      return { success: true };
    },
  });
}

async function givenAccess(
  reader: Pick<ResourcesReader, 'members' | 'users'>,
  { organisationId, workspaceId = '' }: StoredRecord<'mcp_server'>,
  { user_access: given = [] }: Static<typeof Body>,
): Promise<Readonly<Record<string, boolean>>> {
  const said = new Map<string, boolean>();
  const mistakes: Mistake[] = [];
  for (const [index, one] of given.entries()) {
    const path = `/user_access/${index}/user_id`;
    const named = one.user_id ?? one.id;
    const id = named && ((await userRecords.find(reader, organisationId, named))?.id ?? named);
    const isMember =
      id !== undefined && (await reader.members.find(organisationId, workspaceId, id)) !== undefined;
    if (id === undefined) mistakes.push({ path, message: 'is missing' });
    else if (one.id !== undefined && one.id !== named)
      mistakes.push({ path, message: 'is not what id says; leave one of them out' });
    else if (!isMember)
      mistakes.push({
        path,
        message: 'names no member of the workspace; check the id, or the e-mail address',
      });
    else if (said.has(id)) mistakes.push({ path, message: 'is there twice; keep one' });
    else said.set(id, one.enabled);
  }
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return Object.fromEntries(said);
}
