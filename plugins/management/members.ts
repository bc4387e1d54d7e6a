import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { Member, MemberFilter } from '../../core/ports/people.ts';
import { addMembersRoute } from './add-members.ts';
import { memberExample, MemberReply, showMember } from './member-record.ts';
import { listReply, pageOf, pageQuery } from './page-query.ts';
import { requireActive } from './require-active.ts';
import { requireGrant, requireNotAboveActor } from './require-grant.ts';
import { GivenWorkspaceRole, readWorkspaceRole } from './role-schema.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier, Name, strict, Person } from './text-schema.ts';
import { requireSamePath, visibleMember } from './visible-member.ts';
import { visibleWorkspace } from './visible-workspace.ts';
import { workspacePlaces, type WorkspacePlace } from './workspace-places.ts';

const Params = Type.Object({ workspaceId: Identifier, userId: Person });
/** Not named in the reference: clients made of it cannot tell it from the parameter of the path. */
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
    summary: 'The members of a workspace, the longest ones first',
    scope: 'workspace_users.list',
    // Reads only.
    audit: null,
    params: Type.Object({ workspaceId: Identifier }),
    query: Type.Object(
      {
        ...pageQuery,
        role: Type.Optional(GivenWorkspaceRole),
        email: Type.Optional(Name('The whole address, in any case.')),
      },
      { ...strict, ...repeatedInQuery },
    ),
    reply: Type.Object({ ...listReply, data: Type.Array(MemberReply) }),
    examples: { response: { object: 'list', total: 1, data: [memberExample] } },
    async handle({ params, query, key, read }) {
      const page = pageOf(query);
      requireSamePath(query, params);
      const filter: MemberFilter = {
        ...(query.role !== undefined && { role: readWorkspaceRole(query.role) }),
        ...(query.email !== undefined && { email: query.email }),
      };
      const { total, data } = await read(async (reader) => {
        const { organisationId, id } = await visibleWorkspace(reader, key, params.workspaceId);
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
    summary: 'A member of a workspace',
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
    summary: 'Gives a member of a workspace another role',
    scope: 'workspace_users.update',
    audit: 'update',
    params: Params,
    body: Type.Object({ role: GivenWorkspaceRole, workspace_id: Repeated, user_id: Repeated }, strict),
    reply: MemberReply,
    examples: { request: { role: 'manager' }, response: memberExample },
    async handle({ params, body, key, role: actor, write, requireVersion, sendVersion }) {
      requireSamePath(body, params);
      const role = readWorkspaceRole(body.role);
      const changed = await write(async (writer) => {
        const { workspace, member: before, user } = await visibleMember(writer, key, params);
        requireVersion(before.version);
        requireActive(workspace);
        requireGrant(actor, before.role);
        requireNotAboveActor(actor, user);
        requireGrant(actor, role);
        const change = { role, updatedAt: clock.now(), version: before.version + 1 };
        const result: Member = { user, member: { ...before, ...change } };
        if (!(await writer.members.replace(result.member))) throw staleVersion();
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
    summary: 'Takes somebody out of a workspace, with all keys that they have there',
    scope: 'workspace_users.delete',
    audit: 'delete',
    params: Params,
    reply: Type.Object({}),
    examples: { response: {} },
    async handle({ params, key, role, write, requireVersion }) {
      await write(async (writer) => {
        const { workspace, member, user } = await visibleMember(writer, key, params);
        requireVersion(member.version);
        requireActive(workspace);
        requireGrant(role, member.role);
        requireNotAboveActor(role, user);
        const { organisationId, id } = workspace;
        if (!(await writer.members.remove(organisationId, id, user.id))) throw staleVersion();
        await writer.apiKeys.removeOfUser(organisationId, user.id, id);
        return { id: user.id, workspaceId: id, result: undefined };
      });
      return {};
    },
  });
}
