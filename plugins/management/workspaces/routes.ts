import { randomUUID } from 'node:crypto';
import { hasScope, reachOf, rightsByRole, type Role } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { Member } from '../../../core/ports/people.ts';
import type { ResourcesReader, WorkspaceFilter, WorkspaceRecord } from '../../../core/ports/resources.ts';
import { memberRecords } from './members.ts';
import { configUses, type DefaultNames } from '../configs/uses.ts';
import { places, storedRecords } from '../shared/records.ts';
import {
  AllowedModelNames,
  Description,
  Identifier,
  ManagedBy,
  Metadata,
  Name,
  orNull,
  strict,
} from '../shared/fields.ts';
import { userRecords } from '../users/record.ts';
import { workspaceDefaults } from './defaults.ts';
import type { Paged } from '../../../core/ports/page.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { limitFields, limitSchemas } from '../shared/limits.ts';
import { workspaceBudgetKey } from '../../../core/access/limit-charges.ts';
import { RateLimits } from '../../../core/organisation/limits.ts';
import { type WorkspacePlace, workspacePlaces } from '../shared/workspace-access.ts';

const fields = {
  description: Type.Optional(orNull(Description)),
  icon: Type.Optional(orNull(Type.String({ maxLength: 255 }))),
  defaults: Type.Optional(
    Type.Object(
      {
        metadata: Type.Optional(Metadata),
        config_id: Type.Optional(orNull(Name('A config of this gateway.'))),
        allowed_models: Type.Optional(orNull(AllowedModelNames)),
        ...workspaceDefaults.guardrails,
      },
      strict,
    ),
  ),
  usage_limits: Type.Optional(orNull(Type.Array(limitSchemas.UsageLimit, { maxItems: 10 }))),
  rate_limits: Type.Optional(orNull(RateLimits)),
};

const WorkspaceName = Name('Unique in the organisation.');

/** Body that creates a workspace. */
const CreateWorkspace = Type.Object(
  {
    name: WorkspaceName,
    ...fields,
    users: Type.Optional(
      Type.Array(Name('Id or e-mail address of a user of the organisation.'), {
        maxItems: 100,
        description: 'Initial members, with the role `member`.',
      }),
    ),
  },
  strict,
);

/** Body that changes a workspace; absent members stay unchanged, and lists are replaced as a whole. */
const UpdateWorkspace = Type.Object(
  { name: Type.Optional(WorkspaceName), ...fields, reset_usage: limitSchemas.ResetUsage },
  strict,
);

/** A workspace in the API. */
const WorkspaceReply = Type.Object({
  id: Type.String(),
  slug: Type.String(),
  name: Type.String(),
  description: Type.String(),
  icon: Type.String(),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  defaults: Type.Object({
    metadata: Metadata,
    config_id: orNull(Type.String()),
    allowed_models: orNull(AllowedModelNames),
    input_guardrails: Type.Array(Type.String()),
    output_guardrails: Type.Array(Type.String()),
    is_default: Type.Integer({ description: '1 for the workspace that the gateway created itself.' }),
    object: Type.Literal('workspace'),
  }),
  usage_limits: Type.Array(limitSchemas.UsageLimit),
  ...limitSchemas.ResetTimes,
  rate_limits: RateLimits,
  managed_by: ManagedBy,
  object: Type.Literal('workspace'),
});

/** Upper bound of members in an answer about one workspace. */
const shownMembers = 100;

/** One workspace with its members. */
const WorkspaceWithUsers = Type.Object({
  ...WorkspaceReply.properties,
  users: Type.Optional(
    Type.Array(memberRecords.Reply, {
      description: `The first ${shownMembers} members, for keys with the scope \`workspace_users.list\`.`,
    }),
  ),
});

/** Converts a stored workspace with its members, unless undefined, to the API's shape. */
function showWithUsers(
  record: WorkspaceRecord,
  members: readonly Member[] | undefined,
  scope: Pick<Scope, 'budgets' | 'clock'>,
): Static<typeof WorkspaceWithUsers> {
  return {
    ...showWorkspace(record, scope),
    ...(members !== undefined && { users: members.map((member) => memberRecords.show(member)) }),
  };
}

/** Budget of a workspace's usage limits. */
function budgetOf({ id, organisationId, createdAt }: WorkspaceRecord) {
  return { prefix: workspaceBudgetKey(organisationId, id), organisationId, createdAt };
}

/** Resets the usage counted against a workspace's usage limits. */
function resetWorkspaceUsage(record: WorkspaceRecord, { budgets }: Pick<Scope, 'budgets'>): Promise<void> {
  return limitFields.resetUsed(record.usageLimits, budgetOf(record), budgets);
}

/** Converts a stored workspace to the API's shape. */
function showWorkspace(
  record: WorkspaceRecord,
  scope: Pick<Scope, 'budgets' | 'clock'>,
): Static<typeof WorkspaceReply> {
  return {
    id: record.id,
    slug: record.slug,
    name: record.name,
    description: record.description,
    icon: record.icon,
    status: record.status,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    defaults: {
      metadata: { ...record.defaults.metadata },
      config_id: record.defaults.configId ?? null,
      allowed_models: workspaceDefaults.shownModels(record.defaults),
      ...workspaceDefaults.showGuardrails(record.defaults),
      is_default: record.isDefault ? 1 : 0,
      object: 'workspace',
    },
    usage_limits: record.usageLimits.map((limit) =>
      limitFields.showUsed(limit, budgetOf(record), scope.budgets),
    ),
    ...limitFields.showResetTimes(record.usageLimits, budgetOf(record), scope),
    rate_limits: record.rateLimits.map(({ type, unit, value }) => ({ type, unit, value })),
    managed_by: record.managedBy ?? 'api',
    object: 'workspace',
  };
}

const statuses = ['active', 'archived'] as const;

const Query = Type.Object(
  {
    ...paging.query,
    name: Type.Optional(Name('Part of the name, in any case.')),
    exact_name: Type.Optional(Name('The whole name.')),
    status: Type.Optional(
      Type.String({
        maxLength: 64,
        description:
          '`active`, `archived`, or both, separated by a comma. Default `active`. Only owner and organisation keys see archived ones.',
      }),
    ),
  },
  strict,
);

/** `GET /admin/workspaces` and `GET /workspaces`. */
function listWorkspacesRoute(scope: Scope, { path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspaces.list${suffix}`,
    method: 'GET',
    path,
    summary: 'Workspaces that the key may see, oldest first',
    scope: 'workspaces.list',
    // Reads only.
    audit: null,
    query: Query,
    reply: Type.Object({ ...listReplies.of, data: Type.Array(WorkspaceReply) }),
    async handle({ query, key, role, read }) {
      const page = paging.of(query);
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
      return { object: 'list' as const, total, data: data.map((record) => showWorkspace(record, scope)) };
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

/** Applies the filter of `WorkspacesReader.list` to the only workspace that a workspace's key may see. */
function passes(record: WorkspaceRecord, { name, exactName, statuses: wanted }: WorkspaceFilter): boolean {
  if (wanted !== undefined && !wanted.includes(record.status)) return false;
  if (exactName !== undefined && record.name !== exactName) return false;
  return name === undefined || record.name.toLowerCase().includes(name.toLowerCase());
}

const Params = Type.Object({ workspaceId: Identifier });
const empty = { description: '', icon: '', defaults: {}, usageLimits: [], rateLimits: [] };

/** The routes of workspaces, under both of their paths. */
export function workspaceRoutes(scope: Scope): readonly RouteDefinition[] {
  return workspacePlaces.flatMap((place) => [
    createRoute(scope, place),
    listWorkspacesRoute(scope, place),
    getRoute(scope, place),
    updateRoute(scope, place),
    archiveRoute(scope, place),
  ]);
}

function createRoute(scope: Scope, { path, suffix }: WorkspacePlace): RouteDefinition {
  const { clock, router } = scope;
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
        slug: storedRecords.newSlug('ws-', body.name),
        status: 'active',
        isDefault: false,
        ...changedWorkspace(
          body,
          { ...empty, name: body.name },
          configUses.namesOfOrganisation(router, key.organisationId),
        ),
        createdAt: now,
        updatedAt: now,
        version: 1,
      };
      const named = (body.users ?? []).map((idOrEmail, index) => ({ path: `/users/${index}`, idOrEmail }));
      const members = await write(async (writer) => {
        const users = await userRecords.named(writer, key.organisationId, named);
        await writer.workspaces.insert(record);
        const wanted = users.map((user) => ({ user, role: 'member' as const }));
        await memberRecords.insert(writer, record, { wanted, now });
        const result = await membersFor(writer, key, record);
        return { id: record.id, workspaceId: record.id, result };
      });
      sendVersion(record.version);
      return showWithUsers(record, members, scope);
    },
  });
}

function getRoute(scope: Scope, { path, suffix }: WorkspacePlace): RouteDefinition {
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
        const record = await places.visible(reader, key, params.workspaceId);
        return { record, members: await membersFor(reader, key, record) };
      });
      sendVersion(record.version);
      return showWithUsers(record, members, scope);
    },
  });
}

function updateRoute(scope: Scope, { path, suffix }: WorkspacePlace): RouteDefinition {
  const { clock, router } = scope;
  return defineRoute({
    id: `workspaces.update${suffix}`,
    method: 'PUT',
    path: `${path}/{workspaceId}`,
    summary: 'Updates a workspace; omitted fields stay unchanged',
    scope: 'workspaces.update',
    audit: 'update',
    params: Params,
    body: UpdateWorkspace,
    reply: WorkspaceWithUsers,
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const { record, members } = await write(async (writer) => {
        const before = await places.visible(writer, key, params.workspaceId);
        requireVersion(before.version);
        storedRecords.requireActive(before);
        const { organisationId, id: workspaceId } = before;
        const names = configUses.namesIn(router, { organisationId, workspaceId });
        const change = { updatedAt: clock.now(), version: before.version + 1 };
        const after = { ...before, ...changedWorkspace(body, before, names), ...change };
        if (!(await writer.workspaces.replace(after))) throw storedRecords.stale();
        const result = { record: after, members: await membersFor(writer, key, after) };
        return { id: after.id, workspaceId: after.id, result };
      });
      if (body.reset_usage === true) await resetWorkspaceUsage(record, scope);
      sendVersion(record.version);
      return showWithUsers(record, members, scope);
    },
  });
}

function archiveRoute({ clock }: Scope, { path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspaces.delete${suffix}`,
    method: 'DELETE',
    path: `${path}/{workspaceId}`,
    summary: 'Archives a workspace; its keys are refused from then on',
    scope: 'workspaces.delete',
    audit: 'delete',
    params: Params,
    reply: Type.Object({}),
    async handle({ params, key, write, requireVersion }) {
      await write(async (writer) => {
        const before = await places.visible(writer, key, params.workspaceId);
        requireVersion(before.version);
        if (before.isDefault) {
          throw new GatewayError(
            'resource_conflict',
            'The default workspace cannot be archived: keys and requests without a workspace belong to it.',
          );
        }
        const after: WorkspaceRecord = {
          ...before,
          status: 'archived',
          updatedAt: clock.now(),
          version: before.version + 1,
        };
        const isNew = before.status === 'active';
        if (isNew && !(await writer.workspaces.replace(after))) throw storedRecords.stale();
        return { id: before.id, workspaceId: before.id, result: undefined };
      });
      return {};
    },
  });
}

/** The members in an answer; undefined for keys that may not list them. */
async function membersFor(
  { members }: Pick<ResourcesReader, 'members'>,
  key: KeyRecord,
  { organisationId, id }: WorkspaceRecord,
): Promise<readonly Member[] | undefined> {
  if (!hasScope(key, 'workspace_users.list')) return undefined;
  return (await members.list(organisationId, id, {}, { offset: 0, limit: shownMembers })).data;
}

/** Members of a record that a body can set. */
type WorkspaceContent = Pick<
  WorkspaceRecord,
  'name' | 'description' | 'icon' | 'defaults' | 'usageLimits' | 'rateLimits'
>;

/** The workspace after the change by the body. Throws `invalid_request`, with the place, for an invalid value. */
function changedWorkspace(
  body: Static<typeof UpdateWorkspace>,
  before: WorkspaceContent,
  router: DefaultNames,
): WorkspaceContent {
  const { usage_limits: usage, rate_limits: rates } = body;
  return {
    name: body.name ?? before.name,
    description: body.description === undefined ? before.description : (body.description ?? ''),
    icon: body.icon === undefined ? before.icon : (body.icon ?? ''),
    defaults:
      body.defaults === undefined
        ? before.defaults
        : {
            ...workspaceDefaults.read(body.defaults, router),
            ...workspaceDefaults.changedGuardrails(body.defaults, before.defaults, {
              names: router,
              pointer: '/defaults',
            }),
          },
    usageLimits:
      usage === undefined ? before.usageLimits : limitFields.readUsages(usage ?? [], '/usage_limits'),
    rateLimits: rates === undefined ? before.rateLimits : limitFields.readRates(rates ?? []),
  };
}
