import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope, type Static } from '../../../core/pipeline/plugin.ts';
import type { McpIntegrationData } from '../../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { changeRecord } from '../shared/records.ts';
import { mcpIntegrationAccess as access, mcpIntegrationNoun } from './record.ts';
import { namedWorkspaces, requireShared } from '../shared/workspace-access.ts';
import { Identifier, Name, orNull, strict } from '../shared/fields.ts';

const path = '/mcp-integrations/{mcpIntegrationId}/workspaces';
const Params = Type.Object({ mcpIntegrationId: Identifier });

const WorkspaceAccess = Type.Object(
  { id: Name('Id or slug of the workspace.'), enabled: Type.Boolean() },
  strict,
);
const Enabled = Type.Object({ enabled: Type.Boolean() }, strict);
const Body = Type.Object(
  {
    workspaces: Type.Optional(Type.Array(WorkspaceAccess, { maxItems: 1000 })),
    global_workspace_access: Type.Optional(orNull(Enabled)),
    override_existing_workspace_access: Type.Optional(
      Type.Boolean({
        description:
          'Remove the entries of workspaces that are not listed. Default false: they stay unchanged.',
      }),
    ),
  },
  { ...strict, minProperties: 1 },
);
const WorkspaceReply = Type.Object({
  id: Type.String(),
  enabled: Type.Boolean(),
  status: Type.Union([Type.Literal('active'), Type.Literal('disabled')]),
  created_at: Type.String({ description: 'Creation of the entry of this workspace.' }),
  last_updated_at: Type.String(),
});
const Reply = Type.Object({
  object: Type.Literal('list'),
  total: Type.Integer(),
  data: Type.Array(WorkspaceReply),
  workspaces: Type.Array(WorkspaceReply, { description: 'Same value, for clients that read it here.' }),
  global_workspace_access: Enabled,
});
type ShownWorkspace = Static<typeof WorkspaceReply>;

const example: ShownWorkspace = {
  id: '5a5b1f38-9a4f-4b40-8f1c-2b7d8a3c9d12',
  enabled: true,
  status: 'active',
  created_at: '2026-11-22T09:00:00.000Z',
  last_updated_at: '2026-11-22T09:00:00.000Z',
};

/** Routes for the access of workspaces to an MCP integration of the organisation. */
export function mcpIntegrationWorkspaceRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(), updateRoute(scope)];
}

function listRoute(): RouteDefinition {
  return defineRoute({
    id: 'mcp_integration_workspaces.list',
    method: 'GET',
    path,
    summary: 'Workspaces that may use an MCP integration',
    scope: access.scopes('read'),
    // Reads only.
    audit: null,
    params: Params,
    query: Type.Object(
      { version: Type.Optional(Name('Of the answer. There is one: it has the members of all.')) },
      strict,
    ),
    reply: Reply,
    examples: {
      response: {
        object: 'list',
        total: 1,
        data: [example],
        workspaces: [example],
        global_workspace_access: { enabled: false },
      },
    },
    async handle({ params, key, read, sendVersion }) {
      const named = { slug: params.mcpIntegrationId };
      const record = await read((reader) => access.visible(reader, key, named, 'read'));
      sendVersion(record.version);
      const data = shownWorkspaces(record);
      return {
        object: 'list' as const,
        total: data.length,
        data,
        workspaces: data,
        global_workspace_access: { enabled: record.data.globalAccess.enabled },
      };
    },
  });
}

function shownWorkspaces({
  workspaceId,
  data,
  createdAt,
  updatedAt,
}: StoredRecord<'mcp_integration'>): ShownWorkspace[] {
  const own = { enabled: true, createdAt, updatedAt };
  const entries = workspaceId === undefined ? Object.entries(data.workspaces) : [[workspaceId, own] as const];
  return entries.map(([id, one]) => ({
    id,
    enabled: one.enabled,
    status: one.enabled ? 'active' : 'disabled',
    created_at: new Date(one.createdAt).toISOString(),
    last_updated_at: new Date(one.updatedAt).toISOString(),
  }));
}

function updateRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'mcp_integration_workspaces.update',
    method: 'PUT',
    path,
    summary:
      'Sets which workspaces may use an MCP integration; servers of excluded workspaces are kept, but disabled',
    scope: access.scopes('update'),
    audit: 'update',
    params: Params,
    body: Body,
    reply: Type.Object({}),
    examples: { request: { workspaces: [{ id: 'ws-research', enabled: true }] }, response: {} },
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const now = clock.now();
      const version = await write(async (writer) => {
        const before = await access.visible(writer, key, { slug: params.mcpIntegrationId }, 'update');
        requireVersion(before.version);
        requireShared(before, mcpIntegrationNoun);
        const said = await namedWorkspaces(writer, before.organisationId, body.workspaces ?? []);
        const after = await changeRecord(
          writer,
          before,
          { data: changedAccess(before.data, body, { said, now }) },
          key,
          now,
        );
        return { id: after.id, result: after.version };
      });
      sendVersion(version);
      return {};
    },
  });
}

interface Said {
  readonly said: ReadonlyMap<string, Static<typeof WorkspaceAccess>>;
  readonly now: number;
}

function changedAccess(
  before: McpIntegrationData,
  { global_workspace_access: all, override_existing_workspace_access: isOverride }: Static<typeof Body>,
  { said, now }: Said,
): McpIntegrationData {
  const workspaces: Record<string, McpIntegrationData['workspaces'][string]> = isOverride
    ? {}
    : { ...before.workspaces };
  for (const [id, { enabled }] of said) {
    const was = before.workspaces[id];
    const updatedAt = was?.enabled === enabled ? was.updatedAt : now;
    workspaces[id] = { enabled, createdAt: was?.createdAt ?? now, updatedAt };
  }
  const globalAccess = all === undefined ? before.globalAccess : { enabled: all?.enabled ?? false };
  return { ...before, workspaces, globalAccess };
}
