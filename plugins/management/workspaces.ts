import { randomUUID } from 'node:crypto';
import { holds } from '../../core/access/access.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { Member } from '../../core/ports/people.ts';
import type { ResourcesReader, WorkspaceRecord } from '../../core/ports/resources.ts';
import { insertMembers } from './add-members.ts';
import { configNamesIn } from './config-names.ts';
import { listWorkspacesRoute } from './list-workspaces.ts';
import { newSlug } from './record-slug.ts';
import { requireActive } from './require-active.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier } from './text-schema.ts';
import { visibleWorkspace } from './visible-workspace.ts';
import { namedUsers } from './visible-user.ts';
import { changedWorkspace, CreateWorkspace, UpdateWorkspace } from './workspace-body.ts';
import { workspacePlaces, type WorkspacePlace } from './workspace-places.ts';
import { shownMembers, showWithUsers, WorkspaceWithUsers } from './workspace-record.ts';

const Params = Type.Object({ workspaceId: Identifier });
const empty = { description: '', icon: '', defaults: {}, usageLimits: [], rateLimits: [] };

/** The routes of workspaces, under both of their paths. */
export function workspaceRoutes(scope: Scope): readonly RouteDefinition[] {
  return workspacePlaces.flatMap((place) => [
    createRoute(scope, place),
    listWorkspacesRoute(place),
    getRoute(place),
    updateRoute(scope, place),
    archiveRoute(scope, place),
  ]);
}

function createRoute({ clock, router }: Scope, { path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspaces.create${suffix}`,
    method: 'POST',
    path,
    summary: 'Creates a workspace',
    scope: 'workspaces.create',
    audit: 'create',
    body: CreateWorkspace,
    reply: WorkspaceWithUsers,
    async handle({ body, key, write, sendVersion }) {
      const now = clock.now();
      const record: WorkspaceRecord = {
        id: randomUUID(),
        organisationId: key.organisationId,
        slug: newSlug('ws-', body.name),
        status: 'active',
        isDefault: false,
        ...changedWorkspace(body, { ...empty, name: body.name }, router),
        ...{ createdAt: now, updatedAt: now, version: 1 },
      };
      const named = (body.users ?? []).map((idOrEmail, index) => ({ path: `/users/${index}`, idOrEmail }));
      const members = await write(async (writer) => {
        const users = await namedUsers(writer, key.organisationId, named);
        await writer.workspaces.insert(record);
        const wanted = users.map((user) => ({ user, role: 'member' as const }));
        await insertMembers(writer, record, { wanted, now });
        const result = await membersFor(writer, key, record);
        return { id: record.id, workspaceId: record.id, result };
      });
      sendVersion(record.version);
      return showWithUsers(record, members);
    },
  });
}

function getRoute({ path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspaces.get${suffix}`,
    method: 'GET',
    path: `${path}/{workspaceId}`,
    summary: 'One workspace, by its id or slug',
    scope: 'workspaces.read',
    // Reads only.
    audit: null,
    params: Params,
    reply: WorkspaceWithUsers,
    async handle({ params, key, read, sendVersion }) {
      const { record, members } = await read(async (reader) => {
        const record = await visibleWorkspace(reader, key, params.workspaceId);
        return { record, members: await membersFor(reader, key, record) };
      });
      sendVersion(record.version);
      return showWithUsers(record, members);
    },
  });
}

function updateRoute({ clock, router }: Scope, { path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspaces.update${suffix}`,
    method: 'PUT',
    path: `${path}/{workspaceId}`,
    summary: 'Changes a workspace; what is not given stays',
    scope: 'workspaces.update',
    audit: 'update',
    params: Params,
    body: UpdateWorkspace,
    reply: WorkspaceWithUsers,
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const { record, members } = await write(async (writer) => {
        const before = await visibleWorkspace(writer, key, params.workspaceId);
        requireVersion(before.version);
        requireActive(before);
        const { organisationId, id: workspaceId } = before;
        const names = configNamesIn(router, { organisationId, workspaceId });
        const change = { updatedAt: clock.now(), version: before.version + 1 };
        const after = { ...before, ...changedWorkspace(body, before, names), ...change };
        if (!(await writer.workspaces.replace(after))) throw staleVersion();
        const result = { record: after, members: await membersFor(writer, key, after) };
        return { id: after.id, workspaceId: after.id, result };
      });
      sendVersion(record.version);
      return showWithUsers(record, members);
    },
  });
}

function archiveRoute({ clock }: Scope, { path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspaces.delete${suffix}`,
    method: 'DELETE',
    path: `${path}/{workspaceId}`,
    summary: 'Archives a workspace: its keys are refused from then on',
    scope: 'workspaces.delete',
    audit: 'delete',
    params: Params,
    reply: Type.Object({}),
    async handle({ params, key, write, requireVersion }) {
      await write(async (writer) => {
        const before = await visibleWorkspace(writer, key, params.workspaceId);
        requireVersion(before.version);
        if (before.isDefault) {
          throw new GatewayError(
            'resource_conflict',
            'The default workspace cannot be archived: keys and requests without a workspace belong to it.',
          );
        }
        const after: WorkspaceRecord = {
          ...before,
          ...{ status: 'archived', updatedAt: clock.now(), version: before.version + 1 },
        };
        const isNew = before.status === 'active';
        if (isNew && !(await writer.workspaces.replace(after))) throw staleVersion();
        return { id: before.id, workspaceId: before.id, result: undefined };
      });
      return {};
    },
  });
}

/** The members that an answer shows; undefined for keys that may not list them. */
async function membersFor(
  { members }: Pick<ResourcesReader, 'members'>,
  key: KeyRecord,
  { organisationId, id }: WorkspaceRecord,
): Promise<readonly Member[] | undefined> {
  if (!holds(key, 'workspace_users.list')) return undefined;
  return (await members.list(organisationId, id, {}, { offset: 0, limit: shownMembers })).data;
}
