import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type {
  Member,
  MemberFilter,
  MemberRecord,
  UserRecord,
  WorkspaceRole,
} from '../../../core/ports/people.ts';
import { type WorkspacePlace, workspacePlaces } from '../shared/workspace-access.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { places, storedRecords } from '../shared/records.ts';
import {
  readWorkspaceRole,
  requireGrant,
  requireSamePath,
  roleSchemas,
  userRecords,
} from '../users/record.ts';
import { Identifier, Name, Person, strict } from '../shared/fields.ts';
import type { ResourcesReader, ResourcesWriter, WorkspaceRecord } from '../../../core/ports/resources.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { Role } from '../../../core/access/scopes.ts';

/** A member of a workspace in the API. */
const MemberReply = Type.Object({
  object: Type.Literal('workspace-user'),
  id: Type.String({ description: 'The id of the user.' }),
  first_name: Type.String(),
  last_name: Type.String(),
  email: Type.String(),
  org_role: roleSchemas.Organisation,
  role: roleSchemas.Workspace,
  status: Type.Literal('active'),
  scopes: Type.Array(Type.String(), {
    description:
      'Always empty: only keys have scopes. The rights of users follow from `role` and `org_role`.',
  }),
  settings: Type.Null({ description: 'Always empty: members have no settings of their own.' }),
  workspace_id: Type.String(),
  created_at: Type.String({ description: 'Start of the membership.' }),
  last_updated_at: Type.String(),
});

/** Records of members. */
export const memberRecords = { Reply: MemberReply, show: showMember, insert: insertMembers };

/** Converts a stored member to the API's shape. */
function showMember({ member, user }: Member): Static<typeof MemberReply> {
  return {
    object: 'workspace-user',
    id: user.id,
    first_name: user.firstName,
    last_name: user.lastName,
    email: user.email,
    org_role: user.role,
    role: member.role,
    status: 'active',
    scopes: [],
    settings: null,
    workspace_id: member.workspaceId,
    created_at: new Date(member.createdAt).toISOString(),
    last_updated_at: new Date(member.updatedAt).toISOString(),
  };
}

/** Example for the reference. */
const memberExample: Static<typeof MemberReply> = {
  object: 'workspace-user',
  id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f',
  first_name: 'Ann',
  last_name: 'Lee',
  email: 'ann@example.com',
  org_role: 'member',
  role: 'manager',
  status: 'active',
  scopes: [],
  settings: null,
  workspace_id: '0198a1c2-8c4f-7d5e-9f60-7b8c9d0e1f2a',
  created_at: '2026-11-21T09:00:00.000Z',
  last_updated_at: '2026-11-21T09:00:00.000Z',
};

/** Upper bound of members added by one request. */
const maxMembers = 100;
const maxShown = 20;

const Body = Type.Object(
  {
    users: Type.Array(
      Type.Object(
        {
          id: Name('Id or e-mail address of a user of the organisation.'),
          role: Type.Optional(roleSchemas.GivenWorkspace),
        },
        strict,
      ),
      {
        minItems: 1,
        maxItems: maxMembers,
        description: 'Users and their roles; the default role is `member`.',
      },
    ),
    workspace_id: Type.Optional(Name('As in the path: some clients say it here as well.')),
  },
  strict,
);

/** `POST /admin/workspaces/{workspaceId}/users` and the same without `/admin`: adds all users or none. */
function addMembersRoute({ clock }: Scope, { path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspace_users.create${suffix}`,
    method: 'POST',
    path: `${path}/{workspaceId}/users`,
    summary: 'Adds users of the organisation to a workspace: all of them, or none',
    scope: 'workspace_users.create',
    audit: 'create',
    params: Type.Object({ workspaceId: Identifier }),
    body: Body,
    reply: Type.Object({ ...listReplies.of, data: Type.Array(MemberReply) }),
    examples: {
      request: { users: [{ id: memberExample.id, role: 'manager' }] },
      response: { object: 'list', total: 1, data: [memberExample] },
    },
    async handle({ params, body, key, role: actor, write }) {
      requireSamePath(body, params);
      const roles = body.users.map(({ role = 'member' }) => readWorkspaceRole(role));
      for (const role of roles) requireGrant(actor, role);
      const named = body.users.map(({ id }, index) => ({ path: `/users/${index}/id`, idOrEmail: id }));
      const now = clock.now();
      const added = await write(async (writer) => {
        const workspace = await places.visible(writer, key, params.workspaceId);
        storedRecords.requireActive(workspace);
        const users = await userRecords.named(writer, key.organisationId, named);
        for (const user of users) requireNotAboveActor(actor, user);
        await requireStrangers(writer, workspace, users);
        const wanted = users.map((user, index) => ({ user, role: roles[index] ?? ('member' as const) }));
        const result = await insertMembers(writer, workspace, { wanted, now });
        return { id: users.map(({ id }) => id).join(','), workspaceId: workspace.id, result };
      });
      return {
        object: 'list' as const,
        total: added.length,
        data: added.map((member) => showMember(member)),
      };
    },
  });
}

/** New members of a workspace, and the time of their addition. */
interface NewMembers {
  readonly wanted: readonly { readonly user: UserRecord; readonly role: WorkspaceRole }[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Adds users to a workspace. None of them may be a member yet. */
async function insertMembers(
  { members }: Pick<ResourcesWriter, 'members'>,
  { organisationId, id: workspaceId }: WorkspaceRecord,
  { wanted, now }: NewMembers,
): Promise<readonly Member[]> {
  const added: Member[] = [];
  for (const { user, role } of wanted) {
    const times = { createdAt: now, updatedAt: now, version: 1 };
    const member: MemberRecord = { organisationId, workspaceId, userId: user.id, role, ...times };
    await members.insert(member);
    added.push({ member, user });
  }
  return added;
}

/** Throws `already_exists` with the names of existing members. */
async function requireStrangers(
  { users }: Pick<ResourcesReader, 'users'>,
  { organisationId, id, name }: WorkspaceRecord,
  wanted: readonly UserRecord[],
): Promise<void> {
  const ids = wanted.map((user) => user.id);
  const workspaces = await users.workspaceIds(organisationId, ids);
  const present = wanted.filter((user) => workspaces.get(user.id)?.includes(id) === true);
  if (present.length === 0) return;
  const shown = present.slice(0, maxShown).map(({ email }) => email);
  const rest = present.length - shown.length;
  throw new GatewayError(
    'already_exists',
    `Members of the workspace "${name}" already: ${shown.join(', ')}${rest === 0 ? '' : ` and ${rest} more`}. No member was added.`,
  );
}

const Params = Type.Object({ workspaceId: Identifier, userId: Person });
/** Absent from the reference: generated clients cannot distinguish it from the path parameter. */
const repeatedInQuery = { patternProperties: { '^workspaceId$': { type: 'string' } } };
const Repeated = Type.Optional(Name('As in the path: some clients say it here as well.'));

/** The routes of the members of workspaces, under both paths of workspaces. */
export function memberRoutes(scope: Scope): readonly RouteDefinition[] {
  return workspacePlaces.flatMap((place) => [
    addMembersRoute(scope, place),
    listRoute(place),
    getRoute(place),
    updateRoute(scope, place),
    removeRoute(place),
  ]);
}

function listRoute({ path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspace_users.list${suffix}`,
    method: 'GET',
    path: `${path}/{workspaceId}/users`,
    summary: 'Members of a workspace, earliest first',
    scope: 'workspace_users.list',
    // Reads only.
    audit: null,
    params: Type.Object({ workspaceId: Identifier }),
    query: Type.Object(
      {
        ...paging.query,
        role: Type.Optional(roleSchemas.GivenWorkspace),
        email: Type.Optional(Name('The whole address, in any case.')),
      },
      { ...strict, ...repeatedInQuery },
    ),
    reply: Type.Object({ ...listReplies.of, data: Type.Array(MemberReply) }),
    examples: { response: { object: 'list', total: 1, data: [memberExample] } },
    async handle({ params, query, key, read }) {
      const page = paging.of(query);
      requireSamePath(query, params);
      const filter: MemberFilter = {
        ...(query.role !== undefined && { role: readWorkspaceRole(query.role) }),
        ...(query.email !== undefined && { email: query.email }),
      };
      const { total, data } = await read(async (reader) => {
        const { organisationId, id } = await places.visible(reader, key, params.workspaceId);
        return reader.members.list(organisationId, id, filter, page);
      });
      return { object: 'list' as const, total, data: data.map((member) => showMember(member)) };
    },
  });
}

function getRoute({ path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspace_users.get${suffix}`,
    method: 'GET',
    path: `${path}/{workspaceId}/users/{userId}`,
    summary: 'One member of a workspace',
    scope: 'workspace_users.read',
    // Reads only.
    audit: null,
    params: Params,
    reply: MemberReply,
    examples: { response: memberExample },
    async handle({ params, key, read, sendVersion }) {
      const found = await read((reader) => visibleMember(reader, key, params));
      sendVersion(found.member.version);
      return showMember(found);
    },
  });
}

function updateRoute({ clock }: Scope, { path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspace_users.update${suffix}`,
    method: 'PUT',
    path: `${path}/{workspaceId}/users/{userId}`,
    summary: 'Changes the role of a member of a workspace',
    scope: 'workspace_users.update',
    audit: 'update',
    params: Params,
    body: Type.Object(
      { role: roleSchemas.GivenWorkspace, workspace_id: Repeated, user_id: Repeated },
      strict,
    ),
    reply: MemberReply,
    examples: { request: { role: 'manager' }, response: memberExample },
    async handle({ params, body, key, role: actor, write, requireVersion, sendVersion }) {
      requireSamePath(body, params);
      const role = readWorkspaceRole(body.role);
      const changed = await write(async (writer) => {
        const { workspace, member: before, user } = await visibleMember(writer, key, params);
        requireVersion(before.version);
        storedRecords.requireActive(workspace);
        requireGrant(actor, before.role);
        requireNotAboveActor(actor, user);
        requireGrant(actor, role);
        const change = { role, updatedAt: clock.now(), version: before.version + 1 };
        const result: Member = { user, member: { ...before, ...change } };
        if (!(await writer.members.replace(result.member))) throw storedRecords.stale();
        return { id: user.id, workspaceId: workspace.id, result };
      });
      sendVersion(changed.member.version);
      return showMember(changed);
    },
  });
}

function removeRoute({ path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspace_users.delete${suffix}`,
    method: 'DELETE',
    path: `${path}/{workspaceId}/users/{userId}`,
    summary: 'Removes a member from a workspace, with all keys that they have there',
    scope: 'workspace_users.delete',
    audit: 'delete',
    params: Params,
    reply: Type.Object({}),
    examples: { response: {} },
    async handle({ params, key, role, write, requireVersion }) {
      await write(async (writer) => {
        const { workspace, member, user } = await visibleMember(writer, key, params);
        requireVersion(member.version);
        storedRecords.requireActive(workspace);
        requireGrant(role, member.role);
        requireNotAboveActor(role, user);
        const { organisationId, id } = workspace;
        if (!(await writer.members.remove(organisationId, id, user.id))) throw storedRecords.stale();
        await writer.apiKeys.removeOfUser(organisationId, user.id, id);
        return { id: user.id, workspaceId: id, result: undefined };
      });
      return {};
    },
  });
}

/** Path parameters of a member. */
interface MemberPath {
  readonly workspaceId: string;
  readonly userId: string;
}

/**
 * The member, by id or e-mail address, with its workspace. Throws `resource_not_found`, with the same message for an
 * unknown workspace and for one out of reach, and for a user of another organisation and for one who is not a member.
 */
async function visibleMember(
  reader: Pick<ResourcesReader, 'workspaces' | 'members' | 'users'>,
  key: KeyRecord,
  { workspaceId, userId }: MemberPath,
): Promise<Member & { readonly workspace: WorkspaceRecord }> {
  const workspace = await places.visible(reader, key, workspaceId);
  const { organisationId, id } = workspace;
  const user = userId.includes('@') ? await userRecords.find(reader, organisationId, userId) : undefined;
  const found = await reader.members.find(organisationId, id, user?.id ?? userId);
  if (found !== undefined) return { workspace, member: found.member, user: found.user };
  throw new GatewayError(
    'resource_not_found',
    `The workspace "${workspace.name}" has no member "${userId.slice(0, 64)}". Check the id of the user, or the e-mail address.`,
  );
}

/**
 * Throws `scope_missing` when the user's role in the organisation is above the actor's: a manager may neither add such
 * users to a workspace nor change their role there.
 */
function requireNotAboveActor(actor: Role, { role }: Pick<UserRecord, 'role'>): void {
  if (role !== 'member') requireGrant(actor, role);
}
