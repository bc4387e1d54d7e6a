import { randomBytes, randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../core/http/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { WorkspaceRecord } from '../../core/ports/resources.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier } from './text-schema.ts';
import { visibleWorkspace } from './visible-workspace.ts';
import { changedWorkspace, CreateWorkspace, UpdateWorkspace } from './workspace-body.ts';
import { listWorkspacesRoute } from './list-workspaces.ts';
import { showWorkspace, WorkspaceReply } from './workspace-record.ts';

/** Where the routes of workspaces stand, and how their operations are told apart. */
export interface WorkspacePlace {
  readonly path: '/admin/workspaces' | '/workspaces';
  /** Behind the operation id. */
  readonly suffix: '' | '_plain';
}

const places: readonly WorkspacePlace[] = [
  { path: '/admin/workspaces', suffix: '' },
  { path: '/workspaces', suffix: '_plain' },
];

const Params = Type.Object({ workspaceId: Identifier });
const empty = { description: '', icon: '', defaults: {}, usageLimits: [], rateLimits: [] };

/** The routes of workspaces, under both of their paths. */
export function workspaceRoutes(scope: Scope): readonly RouteDefinition[] {
  return places.flatMap((place) => [
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
    reply: WorkspaceReply,
    async handle({ body, key, write, sendVersion }) {
      const now = clock.now();
      const record: WorkspaceRecord = {
        id: randomUUID(),
        organisationId: key.organisationId,
        slug: slugFor(body.name),
        status: 'active',
        isDefault: false,
        ...changedWorkspace(body, { ...empty, name: body.name }, router),
        ...{ createdAt: now, updatedAt: now, version: 1 },
      };
      await write(async ({ workspaces }) => {
        await workspaces.insert(record);
        return { id: record.id, workspaceId: record.id, result: undefined };
      });
      sendVersion(record.version);
      return showWorkspace(record);
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
    reply: WorkspaceReply,
    async handle({ params, key, read, sendVersion }) {
      const record = await read((reader) => visibleWorkspace(reader, key, params.workspaceId));
      sendVersion(record.version);
      return showWorkspace(record);
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
    reply: WorkspaceReply,
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const record = await write(async (writer) => {
        const before = await visibleWorkspace(writer, key, params.workspaceId);
        requireVersion(before.version);
        if (before.status === 'archived') throw archived(before);
        const change = { updatedAt: clock.now(), version: before.version + 1 };
        const after = { ...before, ...changedWorkspace(body, before, router), ...change };
        if (!(await writer.workspaces.replace(after))) throw staleVersion();
        return { id: after.id, workspaceId: after.id, result: after };
      });
      sendVersion(record.version);
      return showWorkspace(record);
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

function archived({ name }: WorkspaceRecord): GatewayError {
  return new GatewayError(
    'resource_conflict',
    `The workspace "${name}" is archived and cannot be changed any more.`,
  );
}

/** `ws-`, the letters of the name that an address can have, and six that make it unique. */
function slugFor(name: string): string {
  const words = name
    .toLowerCase()
    .normalize('NFKD')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 40);
  const letters = [...randomBytes(6)].map((byte) => String.fromCharCode(97 + (byte % 26))).join('');
  return words === '' ? `ws-${letters}` : `ws-${words}-${letters}`;
}
