import { reachOf } from '../../core/access/access.ts';
import { rightsByRole, type Role } from '../../core/access/roles.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type } from '../../core/pipeline/plugin.ts';
import type { WorkspaceFilter, WorkspaceRecord } from '../../core/ports/resources.ts';
import type { Paged } from '../../core/ports/page.ts';
import { listReply, pageOf, pageQuery } from './page-query.ts';
import { Name, strict } from './text-schema.ts';
import { showWorkspace, WorkspaceReply } from './workspace-record.ts';
import type { WorkspacePlace } from './workspace-places.ts';

const statuses = ['active', 'archived'] as const;

const Query = Type.Object(
  {
    ...pageQuery,
    name: Type.Optional(Name('Part of the name, in any case.')),
    exact_name: Type.Optional(Name('The whole name.')),
    status: Type.Optional(
      Type.String({
        maxLength: 64,
        description:
          '`active`, `archived`, or both with a comma between them. Default `active`. Archived ones are shown to owner and organisation keys alone.',
      }),
    ),
  },
  strict,
);

/** `GET /admin/workspaces` and `GET /workspaces`. */
export function listWorkspacesRoute({ path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspaces.list${suffix}`,
    method: 'GET',
    path,
    summary: 'The workspaces that the key may see, oldest first',
    scope: 'workspaces.list',
    // Reads only.
    audit: null,
    query: Query,
    reply: Type.Object({ ...listReply, data: Type.Array(WorkspaceReply) }),
    async handle({ query, key, role, read }) {
      const page = pageOf(query);
      const filter: WorkspaceFilter = {
        ...(query.name !== undefined && { name: query.name }),
        ...(query.exact_name !== undefined && { exactName: query.exact_name }),
        statuses: statusesOf(query.status, role),
      };
      const { organisationId, workspaceId } = reachOf(key);
      const { total, data } = await read(async ({ workspaces }): Promise<Paged<WorkspaceRecord>> => {
        if (workspaceId === undefined) return workspaces.list(organisationId, filter, page);
        const own = await workspaces.find(organisationId, workspaceId);
        const listed = own !== undefined && own.id === workspaceId && passes(own, filter) ? [own] : [];
        return { total: listed.length, data: page.offset === 0 ? listed : [] };
      });
      return { object: 'list' as const, total, data: data.map((record) => showWorkspace(record)) };
    },
  });
}

function statusesOf(text: string | undefined, role: Role): readonly WorkspaceRecord['status'][] {
  if (text === undefined) return ['active'];
  const wanted = text.split(',').map((name) => {
    const found = statuses.find((one) => one === name.trim());
    if (found !== undefined) return found;
    throw new GatewayError(
      'invalid_request',
      `"${name}" is no status of a workspace. Known: active, archived.`,
      { param: 'status' },
    );
  });
  if (wanted.includes('archived') && !rightsByRole[role].archived) {
    throw new GatewayError(
      'scope_missing',
      'Archived workspaces are listed for owner and organisation keys alone.',
      { param: 'status' },
    );
  }
  return wanted;
}

/** The rules of `WorkspacesReader.list`, for the one workspace that a workspace's key may see. */
function passes(record: WorkspaceRecord, { name, exactName, statuses: wanted }: WorkspaceFilter): boolean {
  if (wanted !== undefined && !wanted.includes(record.status)) return false;
  if (exactName !== undefined && record.name !== exactName) return false;
  return name === undefined || record.name.toLowerCase().includes(name.toLowerCase());
}
