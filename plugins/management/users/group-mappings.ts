import { randomUUID } from 'node:crypto';
import { reachOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { GroupMappingFilter, GroupMappingRecord } from '../../../core/ports/people.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { Identifier, Name, refusedBody, strict } from '../shared/fields.ts';
import { places, storedRecords } from '../shared/records.ts';
import { readWorkspaceRole, requireGrant, roleSchemas } from './record.ts';

const path = '/scim/workspaces';

const Body = Type.Object(
  {
    workspace_id: Name('The id or slug of the workspace.'),
    role: roleSchemas.GivenWorkspace,
    scim_group_id: Type.Optional(Name('The id of the group, as the identity provider has it.')),
    scim_group: Type.Optional(Name('Instead of the id: its name there.')),
    scim_group_name: Type.Optional(Name('Another spelling of `scim_group`.')),
  },
  strict,
);

const Mapping = Type.Object({
  object: Type.Literal('scim-workspace-group'),
  id: Type.String(),
  workspace_id: Type.String(),
  scim_group_id: Type.String({ description: 'Empty for a group that is identified by name.' }),
  scim_group: Type.String({ description: 'Empty for a group that is identified by id.' }),
  role: roleSchemas.Workspace,
  created_at: Type.String(),
});

const example: Static<typeof Mapping> = {
  object: 'scim-workspace-group',
  id: '0198a1c2-9d50-7e6f-8a71-8c9d0e1f2a3b',
  workspace_id: '0198a1c2-8c4f-7d5e-9f60-7b8c9d0e1f2a',
  scim_group_id: '',
  scim_group: 'Engineering',
  role: 'member',
  created_at: '2026-11-21T09:00:00.000Z',
};

/** The routes of mappings from an identity provider's groups to roles in workspaces. */
export function groupMappingRoutes(scope: Scope): readonly RouteDefinition[] {
  return [createRoute(scope), listRoute(), removeRoute()];
}

function createRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'scim_workspaces.create',
    method: 'POST',
    path,
    summary: 'Sets the role of the users of a group in a workspace',
    scope: 'organisation_settings.update',
    feature: 'scim',
    audit: 'create',
    body: Body,
    reply: Mapping,
    examples: {
      request: { workspace_id: 'ws-laboratory-abcdef', role: 'member', scim_group: 'Engineering' },
      response: example,
    },
    async handle({ body, key, role: actor, write }) {
      const group = groupOf(body);
      const role = readWorkspaceRole(body.role);
      requireGrant(actor, role);
      const { organisationId } = key;
      const record = await write(async (writer) => {
        const workspace = await writer.workspaces.find(organisationId, body.workspace_id);
        if (workspace === undefined)
          throw refusedBody([{ path: '/workspace_id', message: 'names no workspace of the organisation' }]);
        storedRecords.requireActive(workspace);
        const made: GroupMappingRecord = {
          id: randomUUID(),
          organisationId,
          workspaceId: workspace.id,
          role,
          ...group,
          createdAt: clock.now(),
        };
        await writer.groupMappings.insert(made);
        return { id: made.id, workspaceId: workspace.id, result: made };
      });
      return showMapping(record);
    },
  });
}

function listRoute(): RouteDefinition {
  return defineRoute({
    id: 'scim_workspaces.list',
    method: 'GET',
    path,
    summary: 'Roles of groups in workspaces, oldest first',
    scope: 'organisation_settings.read',
    feature: 'scim',
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...paging.query,
        workspace_id: Type.Optional(Identifier),
        scim_group_id: Type.Optional(Name('The id of the group, as the identity provider has it.')),
        role: Type.Optional(roleSchemas.GivenWorkspace),
      },
      strict,
    ),
    reply: Type.Object({
      ...listReplies.of,
      data: Type.Array(Mapping),
      mappings: Type.Array(Mapping, { description: 'Same value as `data`, for clients that read it here.' }),
      total_count: Type.Integer({ description: 'Same value as `total`.' }),
    }),
    examples: {
      response: { object: 'list', total: 1, data: [example], mappings: [example], total_count: 1 },
    },
    async handle({ query, key, read }) {
      const page = paging.of(query);
      const { workspace_id: named, scim_group_id: groupId, role } = query;
      const { total, data } = await read(async (reader) => {
        const workspace = named === undefined ? undefined : await places.visible(reader, key, named);
        const workspaceId = workspace?.id ?? reachOf(key).workspaceId;
        const filter: GroupMappingFilter = {
          ...(workspaceId !== undefined && { workspaceId }),
          ...(groupId !== undefined && { groupId }),
          ...(role !== undefined && { role: readWorkspaceRole(role) }),
        };
        return reader.groupMappings.list(key.organisationId, filter, page);
      });
      const shown = data.map((record) => showMapping(record));
      return { object: 'list' as const, total, data: shown, mappings: shown, total_count: total };
    },
  });
}

function removeRoute(): RouteDefinition {
  return defineRoute({
    id: 'scim_workspaces.delete',
    method: 'DELETE',
    path: `${path}/{scimWorkspaceGroupId}`,
    summary: 'Deletes the role of a group in a workspace',
    scope: 'organisation_settings.update',
    feature: 'scim',
    audit: 'delete',
    params: Type.Object({ scimWorkspaceGroupId: Identifier }),
    reply: Type.Object({ success: Type.Literal(true) }),
    examples: { response: { success: true } },
    async handle({ params: { scimWorkspaceGroupId: id }, key, role, write }) {
      await write(async ({ groupMappings }) => {
        const found = await groupMappings.find(key.organisationId, id);
        if (found === undefined) throw notFound(id);
        requireGrant(role, found.role);
        if (!(await groupMappings.remove(key.organisationId, found.id))) throw notFound(id);
        return { id: found.id, workspaceId: found.workspaceId, result: undefined };
      });
      return { success: true as const };
    },
  });
}

/** The group of a body, named by id or by name. Throws `invalid_request` for neither and for both. */
function groupOf({
  scim_group_id: id,
  scim_group: name,
  scim_group_name: spelled,
}: Static<typeof Body>): Pick<GroupMappingRecord, 'groupId' | 'groupName'> {
  const given = [id, name, spelled].filter((one) => one !== undefined);
  if (given.length === 1) return { groupId: id ?? '', groupName: name ?? spelled ?? '' };
  const message =
    given.length === 0
      ? 'is missing: name the group by scim_group_id or by scim_group'
      : 'cannot stand beside another name of the group: give scim_group_id or scim_group';
  throw refusedBody([{ path: id === undefined ? '/scim_group' : '/scim_group_id', message }]);
}

function notFound(id: string): GatewayError {
  return new GatewayError(
    'resource_not_found',
    `No group of a workspace "${id.slice(0, 64)}" is visible to this key. Check its id.`,
  );
}

function showMapping(record: GroupMappingRecord): Static<typeof Mapping> {
  return {
    object: 'scim-workspace-group',
    id: record.id,
    workspace_id: record.workspaceId,
    scim_group_id: record.groupId,
    scim_group: record.groupName,
    role: record.role,
    created_at: new Date(record.createdAt).toISOString(),
  };
}
