import { reachOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { UserFilter, UserRecord } from '../../../core/ports/people.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import { serverConnections } from '../mcp-servers/connections.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { requireGrant, roleSchemas, userRecords } from './record.ts';
import { storedRecords } from '../shared/records.ts';
import { Name, Person, strict } from '../shared/fields.ts';

const path = '/admin/users';
const Params = Type.Object({ userId: Person });
const PersonName = Type.Optional(Type.String({ maxLength: 255, description: 'May be empty.' }));

/** The routes of the organisation's users. */
export function userRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(), getRoute(), updateRoute(scope), removeRoute(scope)];
}

function listRoute(): RouteDefinition {
  return defineRoute({
    id: 'users.list',
    method: 'GET',
    path,
    summary: 'Users of the organisation, oldest first',
    scope: 'organisation_users.list',
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...paging.query,
        role: Type.Optional(roleSchemas.Organisation),
        email: Type.Optional(Name('The whole address, in any case.')),
      },
      strict,
    ),
    reply: Type.Object({ ...listReplies.of, data: Type.Array(userRecords.Reply) }),
    examples: { response: { object: 'list', total: 1, data: [userRecords.example] } },
    async handle({ query, key, read }) {
      const { organisationId } = key;
      const page = paging.of(query);
      const filter: UserFilter = {
        ...(query.role !== undefined && { role: query.role }),
        ...(query.email !== undefined && { email: query.email }),
      };
      return read(async ({ users }) => {
        const { total, data } = await users.list(organisationId, filter, page);
        const ids = data.map(({ id }) => id);
        const workspaces = await users.workspaceIds(organisationId, ids);
        const shown = data.map((user) =>
          userRecords.show(user, visibleWorkspaceIds(key, workspaces.get(user.id))),
        );
        return { object: 'list' as const, total, data: shown };
      });
    },
  });
}

function getRoute(): RouteDefinition {
  return defineRoute({
    id: 'users.get',
    method: 'GET',
    path: `${path}/{userId}`,
    summary: 'One user of the organisation',
    scope: 'organisation_users.read',
    // Reads only.
    audit: null,
    params: Params,
    reply: userRecords.Reply,
    examples: { response: userRecords.example },
    async handle({ params, key, read, sendVersion }) {
      const { version, shown } = await read(async (reader) =>
        withWorkspaces(reader, key, await userRecords.visible(reader, key, params.userId)),
      );
      sendVersion(version);
      return shown;
    },
  });
}

function updateRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'users.update',
    method: 'PUT',
    path: `${path}/{userId}`,
    summary: 'Updates the name or the role of a user; omitted fields stay unchanged',
    scope: 'organisation_users.update',
    audit: 'update',
    params: Params,
    body: Type.Object(
      { role: Type.Optional(roleSchemas.GivenOrganisation), first_name: PersonName, last_name: PersonName },
      strict,
    ),
    reply: userRecords.Reply,
    examples: { request: { role: 'member' }, response: userRecords.example },
    async handle({ params, body, key, role, write, requireVersion, sendVersion }) {
      const { version, shown } = await write(async (writer) => {
        const before = await userRecords.visible(writer, key, params.userId);
        requireVersion(before.version);
        requireGrant(role, before.role);
        const given = body.role ?? before.role;
        requireGrant(role, given);
        if (given !== 'owner') await requireOtherOwner(writer, before);
        const after: UserRecord = {
          ...before,
          firstName: body.first_name ?? before.firstName,
          lastName: body.last_name ?? before.lastName,
          role: given,
          updatedAt: clock.now(),
          version: before.version + 1,
        };
        if (!(await writer.users.replace(after))) throw storedRecords.stale();
        return { id: after.id, result: await withWorkspaces(writer, key, after) };
      });
      sendVersion(version);
      return shown;
    },
  });
}

function removeRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'users.delete',
    method: 'DELETE',
    path: `${path}/{userId}`,
    summary:
      'Removes a user from the organisation and its workspaces, with all of their keys and connections to MCP servers',
    scope: 'organisation_users.delete',
    audit: 'delete',
    params: Params,
    reply: Type.Object({}),
    examples: { response: {} },
    async handle({ params, key, role, write, requireVersion }) {
      const ended = await write(async (writer) => {
        const before = await userRecords.visible(writer, key, params.userId);
        requireVersion(before.version);
        requireGrant(role, before.role);
        await requireOtherOwner(writer, before);
        if (!(await writer.users.remove(key.organisationId, before.id))) throw storedRecords.stale();
        await writer.apiKeys.removeOfUser(key.organisationId, before.id);
        return { id: before.id, result: await serverConnections.endOfUser(writer, before) };
      });
      await serverConnections.revokeEnded(scope, ...ended);
      return {};
    },
  });
}

async function withWorkspaces({ users }: Pick<ResourcesReader, 'users'>, key: KeyRecord, user: UserRecord) {
  const workspaces = await users.workspaceIds(user.organisationId, [user.id]);
  return {
    version: user.version,
    shown: userRecords.show(user, visibleWorkspaceIds(key, workspaces.get(user.id))),
  };
}

/** Workspaces shown to the caller: a key bound to one workspace, like that of a token, sees no other. */
function visibleWorkspaceIds(key: KeyRecord, workspaceIds: readonly string[] = []): readonly string[] {
  const { workspaceId } = reachOf(key);
  return workspaceId === undefined ? workspaceIds : workspaceIds.filter((id) => id === workspaceId);
}

/** Throws `resource_conflict` for the only owner: the API cannot make another one. */
async function requireOtherOwner(
  { users }: Pick<ResourcesReader, 'users'>,
  { role, organisationId, email }: UserRecord,
): Promise<void> {
  if (role !== 'owner') return;
  const { total } = await users.list(organisationId, { role: 'owner' }, { offset: 0, limit: 0 });
  if (total > 1) return;
  throw new GatewayError(
    'resource_conflict',
    `${email} is the last owner of the organisation, which must have one: neither removed nor made less.`,
  );
}
