import {
  clientOfConnection,
  connectionSlug,
  revokeConnection,
} from '../../../core/organisation/mcp-connection.ts';
import { oauthSecretOf } from '../../../core/organisation/mcp-token.ts';
import type { ReferringIntegration } from '../../../core/organisation/mcp-address.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { UserRecord } from '../../../core/ports/people.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader, ResourcesWriter } from '../../../core/ports/resources.ts';
import { withReferences } from '../mcp-integrations/metadata.ts';
import { Identifier, Name, strict } from '../shared/fields.ts';
import { storedRecords } from '../shared/records.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { userRecords } from '../users/record.ts';
import { integrationOf, visibleServer } from './record.ts';

/** Connections of users to a server. */
export const serverConnections = {
  users: connectedUsers,
  end: endConnections,
  endOfUser: endConnectionsOfUser,
  revokeEnded,
};

type Connection = StoredRecord<'mcp_connection'>;
type Server = StoredRecord<'mcp_server'>;

const path = '/mcp-servers/{mcpServerId}/connections';
const Params = Type.Object({ mcpServerId: Identifier });
const whose = {
  user_id: Type.Optional(Name('Only those of this user: id, or e-mail address.')),
  workspace_id: Type.Optional(Identifier),
};
const ConnectionReply = Type.Object({
  user_id: Type.String(),
  connected: Type.Boolean({ description: 'Whether its tokens are valid for the server as it is set now.' }),
  created_at: Type.String(),
  last_updated_at: Type.String({ description: 'Of its last tokens.' }),
});

const storePage = 100;
/** Revocations that are under way at the same time. */
const maxAtOnce = 10;

/** The routes of users' connections to MCP servers that want their accounts (`oauth_auto`). Tokens are in no answer. */
export function mcpServerConnectionRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(scope), endRoute(scope)];
}

function listRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_server_connections.list',
    method: 'GET',
    path,
    summary: 'Users who have connected an account at an MCP server, oldest first',
    scope: 'mcp_servers.read',
    // Reads only.
    audit: null,
    params: Params,
    query: Type.Object({ ...paging.longQuery(500), ...whose }, strict),
    reply: Type.Object({ ...listReplies.longOf, data: Type.Array(ConnectionReply) }),
    examples: {
      response: {
        object: 'list',
        total: 1,
        has_more: false,
        data: [
          {
            user_id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f',
            connected: true,
            created_at: '2026-03-01T09:00:00.000Z',
            last_updated_at: '2026-03-02T10:00:00.000Z',
          },
        ],
      },
    },
    async handle({ params, query, key, read }) {
      const page = paging.longOf(query);
      const named = { idOrSlug: params.mcpServerId, workspace: query.workspace_id };
      return read(async (reader) => {
        const { server } = await visibleServer(reader, key, named);
        if (query.user_id !== undefined) {
          const found = await connectionOf(reader, server, query.user_id);
          const all = found === undefined ? [] : [found];
          const data = all.slice(page.offset, page.offset + page.limit);
          return listReplies.long(
            page,
            { total: all.length, data },
            data.map((one) => show(one, clock.now())),
          );
        }
        const found = await connectionsOf(reader, server, page);
        return listReplies.long(
          page,
          found,
          found.data.map((one) => show(one, clock.now())),
        );
      });
    },
  });
}

function endRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_server_connections.delete',
    method: 'DELETE',
    path,
    summary:
      'Ends connections to an MCP server, of one user or of all: their tokens are revoked and forgotten',
    scope: 'mcp_servers.update',
    audit: 'delete',
    params: Params,
    query: Type.Object(whose, strict),
    reply: Type.Object({ success: Type.Boolean() }),
    examples: { response: { success: true } },
    async handle({ params, query, key, write }) {
      const named = { idOrSlug: params.mcpServerId, workspace: query.workspace_id };
      const ended = await write(async (writer) => {
        const visible = await visibleServer(writer, key, named);
        const { id, workspaceId } = visible.server;
        return { id, workspaceId, result: await endConnections(writer, visible, query.user_id) };
      });
      await revokeEnded(scope, ended);
      return { success: true };
    },
  });
}

/** Part of a server's connections; the store has smaller pages. */
async function connectionsOf(
  { records }: Pick<ResourcesReader, 'records'>,
  { organisationId, id: parentId }: Server,
  { offset, limit }: Page,
): Promise<Paged<Connection>> {
  const data: Connection[] = [];
  let total = 0;
  while (data.length < limit) {
    const part = { offset: offset + data.length, limit: Math.min(storePage, limit - data.length) };
    const found = await records.list('mcp_connection', organisationId, { parentId }, part);
    data.push(...found.data);
    ({ total } = found);
    if (found.data.length < part.limit) break;
  }
  return { total, data };
}

function show({ data, createdAt }: Connection, now: number): Static<typeof ConnectionReply> {
  return {
    user_id: data.userId,
    connected: isConnected({ data, now }),
    created_at: new Date(createdAt).toISOString(),
    last_updated_at: new Date(data.obtainedAt).toISOString(),
  };
}

/** An access token that has ended is replaced where there is a refresh token. */
function isConnected({ data, now }: Pick<Connection, 'data'> & { readonly now: number }): boolean {
  return data.isRefreshed || data.expiresAt === undefined || now < data.expiresAt;
}

/** The connection of a user by id or e-mail address; of one who is not in the store, by the id of their tokens. */
async function connectionOf(
  reader: Pick<ResourcesReader, 'records' | 'users'>,
  server: Server,
  idOrEmail: string,
): Promise<Connection | undefined> {
  const user = await userRecords.find(reader, server.organisationId, idOrEmail);
  return connectionById(reader, server, user?.id ?? idOrEmail);
}

async function connectionById(
  { records }: Pick<ResourcesReader, 'records'>,
  { organisationId, workspaceId, id }: Server,
  userId: string,
): Promise<Connection | undefined> {
  const place = { organisationId, workspaceId };
  const found = await records.find('mcp_connection', place, connectionSlug(id, userId));
  return found?.parentId === id ? found : undefined;
}

/** Those of the users who have a connection to the server. */
async function connectedUsers(
  reader: Pick<ResourcesReader, 'records' | 'users'>,
  server: Server,
  userIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const connected = new Set<string>();
  for (const userId of userIds)
    if ((await connectionById(reader, server, userId)) !== undefined) connected.add(userId);
  return connected;
}

/** Connections that are not in the store any more, with what their revocation needs. */
interface EndedConnections {
  readonly connections: readonly Connection[];
  /** Undefined for servers of the YAML. */
  readonly integration: ReferringIntegration | undefined;
}

/** Removes the connections of a user, or of all. Hand the result to `revokeEnded` behind the transaction. */
async function endConnections(
  writer: Pick<ResourcesWriter, 'records' | 'users'>,
  visible: { readonly server: Server; readonly integration: StoredRecord<'mcp_integration'> },
  user: string | undefined,
): Promise<EndedConnections> {
  const { server } = visible;
  const { organisationId, id: parentId } = server;
  const integration = await withReferences(writer, visible.integration);
  const one = user === undefined ? undefined : await connectionOf(writer, server, user);
  const connections =
    user === undefined
      ? await storedRecords.every(writer, 'mcp_connection', organisationId, { parentId })
      : one === undefined
        ? []
        : [one];
  for (const { id } of connections) await writer.records.remove('mcp_connection', organisationId, id);
  return { connections, integration };
}

/**
 * Removes all connections of a user of the organisation who is removed. Hand the result to `revokeEnded` behind the
 * transaction.
 */
async function endConnectionsOfUser(
  writer: Pick<ResourcesWriter, 'records'>,
  { organisationId, id: userId }: Pick<UserRecord, 'organisationId' | 'id'>,
): Promise<readonly EndedConnections[]> {
  const ended: EndedConnections[] = [];
  for await (const server of storedRecords.each(writer, 'mcp_server', organisationId, {})) {
    const one = await connectionById(writer, server, userId);
    if (one === undefined) continue;
    const integration = await integrationOf(writer, server);
    ended.push({ connections: [one], integration: await withReferences(writer, integration) });
  }
  for await (const one of storedRecords.each(writer, 'mcp_connection', organisationId, {
    ofOrganisation: true,
  }))
    if (one.data.userId === userId) ended.push({ connections: [one], integration: undefined });
  for (const { id } of ended.flatMap(({ connections }) => connections))
    await writer.records.remove('mcp_connection', organisationId, id);
  return ended;
}

/**
 * Has authorization servers revoke the tokens of connections that were removed; one that fails is logged, since the gateway
 * has forgotten the tokens all the same. Waits for the first ten; others go on in the background.
 */
async function revokeEnded(scope: Scope, ...ended: readonly EndedConnections[]): Promise<void> {
  const all = ended.flatMap(({ connections, integration }) =>
    connections.map((connection) => ({ connection, integration })),
  );
  const revokeFrom = async (start: number): Promise<void> => {
    const some = all.slice(start, start + maxAtOnce);
    await Promise.all(some.map((one) => revokeOne(scope, one.integration, one.connection)));
  };
  await revokeFrom(0);
  if (all.length <= maxAtOnce) return;
  void (async () => {
    for (let start = maxAtOnce; start < all.length; start += maxAtOnce) await revokeFrom(start);
  })();
}

async function revokeOne(
  scope: Scope,
  integration: ReferringIntegration | undefined,
  connection: Connection,
): Promise<void> {
  const { secrets, mcp, log } = scope;
  try {
    const { isRegistered } = connection.data;
    const secret =
      isRegistered || integration === undefined
        ? undefined
        : await oauthSecretOf(integration, connection.workspaceId, scope);
    const client = clientOfConnection(connection, secret?.value ?? '', secrets);
    if (client.secret === '' && client.method !== 'none')
      throw new GatewayError('credentials_failed', 'The secret of the client is not known here.');
    await revokeConnection(mcp.oauth, connection, client, secrets);
  } catch (error) {
    log.warn('An authorization server did not revoke the token of a connection that was ended', {
      server: connection.name,
      user: connection.data.userId,
      error: GatewayError.is(error) ? error.message : 'internal',
    });
  }
}
