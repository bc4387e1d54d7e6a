import { accessTo } from '../../../core/access/integration-access.ts';
import { integrationBudgetKey } from '../../../core/access/limit-charges.ts';
import { accessLimits } from '../../../core/organisation/providers.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { IntegrationAccess, IntegrationData } from '../../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import { changeRecord } from '../shared/records.ts';
import { AccessReply, GivenSlug, integrationScopes, showAccess, visibleIntegration } from './record.ts';
import {
  BodyAccessLimit,
  rateLimitsOfBody,
  ResetUsage,
  resetUsed,
  showUsedLimit,
  usageLimitOfBody,
} from '../shared/limits.ts';
import { namedWorkspaces, requireShared } from '../shared/workspace-access.ts';
import { addDefaultProvider } from '../providers/record.ts';
import { Identifier, Name, strict } from '../shared/fields.ts';

const path = '/integrations/{slug}/workspaces';
const Params = Type.Object({ slug: Identifier });
const maxWorkspaces = 1000;

const given = { enabled: Type.Boolean(), ...accessLimits, usage_limits: BodyAccessLimit };
const WorkspaceAccess = Type.Object(
  {
    id: Name('Id or slug of the workspace.'),
    ...given,
    reset_usage: ResetUsage,
    create_default_provider: Type.Optional(Type.Boolean()),
    default_provider_slug: Type.Optional(GivenSlug),
  },
  strict,
);
const override = Type.Optional(
  Type.Boolean({
    description: 'Workspaces that are not named lose what was said of them. Default false: it stays.',
  }),
);
const Body = Type.Object(
  {
    workspaces: Type.Optional(Type.Array(WorkspaceAccess, { maxItems: maxWorkspaces })),
    global_workspace_access: Type.Optional(
      Type.Object(given, { ...strict, description: 'What workspaces may that are not named.' }),
    ),
    override_existing_workspace_access: override,
    override_existing_workspaces_access: override,
    create_default_provider: Type.Optional(
      Type.Boolean({
        description: 'Gives a provider to workspaces that may use it and have none. Default true.',
      }),
    ),
    default_provider_slug: Type.Optional(GivenSlug),
  },
  { ...strict, minProperties: 1 },
);
const Reply = Type.Object({
  total: Type.Integer(),
  workspaces: Type.Array(Type.Object({ id: Type.String(), ...AccessReply.properties })),
  global_workspace_access: AccessReply,
});
const limits = { enabled: true, usage_limits: null, rate_limits: null };

/** The routes that say which workspaces may use an integration of the organisation. */
export function integrationWorkspaceRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(scope), updateRoute(scope)];
}

/** Where the usage limits of a workspace's access are counted. */
function budgetOf({ id, organisationId, createdAt }: StoredRecord<'integration'>, workspaceId: string) {
  return { prefix: integrationBudgetKey(organisationId, id, workspaceId), organisationId, createdAt };
}

function listRoute({ budgets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'integration_workspaces.list',
    method: 'GET',
    path,
    summary: 'Which workspaces may use an integration, and how much',
    scope: integrationScopes('read'),
    // Reads only.
    audit: null,
    params: Params,
    reply: Reply,
    examples: {
      response: {
        total: 1,
        workspaces: [{ id: '5a5b1f38-9a4f-4b40-8f1c-2b7d8a3c9d12', ...limits }],
        global_workspace_access: limits,
      },
    },
    async handle({ params, key, read, sendVersion }) {
      const record = await read((reader) => visibleIntegration(reader, key, { slug: params.slug }, 'read'));
      sendVersion(record.version);
      const { workspaces, globalAccess } = record.data;
      const named =
        record.workspaceId === undefined
          ? Object.entries(workspaces)
          : [[record.workspaceId, { enabled: true, usageLimits: [], rateLimits: [] }] as const];
      return {
        total: named.length,
        workspaces: named.map(([id, access]) => ({
          id,
          ...showAccess(access, (limit) => showUsedLimit(limit, budgetOf(record, id), budgets)),
        })),
        global_workspace_access: showAccess(globalAccess),
      };
    },
  });
}

function updateRoute({ clock, budgets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'integration_workspaces.update',
    method: 'PUT',
    path,
    summary: 'Says which workspaces may use an integration, and how much',
    scope: integrationScopes('update'),
    audit: 'update',
    params: Params,
    body: Body,
    reply: Type.Object({}),
    examples: {
      request: { workspaces: [{ id: 'ws-research', enabled: true, rate_limits: [] }] },
      response: {},
    },
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const now = clock.now();
      const by = key.userId || key.id;
      const { after, reset } = await write(async (writer) => {
        const before = await visibleIntegration(writer, key, { slug: params.slug }, 'update');
        requireVersion(before.version);
        requireShared(before, 'integration');
        const said = await namedWorkspaces(writer, before.organisationId, body.workspaces ?? []);
        const data = changedAccess(before.data, body, said);
        const after = await changeRecord(writer, before, { data }, key, now);
        for (const [workspaceId, slug] of await providedWorkspaces(writer, after, { body, said }))
          await addDefaultProvider(writer, after, workspaceId, { slug, by, now });
        const reset = [...said].flatMap(([id, one]) => (one.reset_usage === true ? [id] : []));
        return { id: after.id, result: { after, reset } };
      });
      for (const id of reset) {
        const limits = accessTo(after, id)?.usageLimits ?? [];
        await resetUsed(limits, budgetOf(after, id), budgets);
      }
      sendVersion(after.version);
      return {};
    },
  });
}

type AccessBody = Static<typeof Body>;
/** What a body says of workspaces, by their ids. */
type SaidAccess = ReadonlyMap<string, Static<typeof WorkspaceAccess>>;

function changedAccess(before: IntegrationData, body: AccessBody, said: SaidAccess): IntegrationData {
  const isOverride =
    body.override_existing_workspace_access ?? body.override_existing_workspaces_access ?? false;
  const workspaces: Record<string, IntegrationAccess> = isOverride ? {} : { ...before.workspaces };
  let index = 0;
  for (const [id, one] of said)
    workspaces[id] = accessOf(one, before.workspaces[id], `/workspaces/${index++}`);
  const all = body.global_workspace_access;
  const globalAccess =
    all === undefined ? before.globalAccess : accessOf(all, before.globalAccess, '/global_workspace_access');
  return { ...before, workspaces, globalAccess };
}

/** Limits that are not given stay. */
function accessOf(
  { enabled, usage_limits: usage, rate_limits: rates }: NonNullable<AccessBody['global_workspace_access']>,
  before: IntegrationAccess | undefined,
  pointer: string,
): IntegrationAccess {
  const limit = usageLimitOfBody(usage ?? null, `${pointer}/usage_limits`);
  return {
    enabled,
    usageLimits: usage === undefined ? (before?.usageLimits ?? []) : limit === undefined ? [] : [limit],
    rateLimits:
      rates === undefined ? (before?.rateLimits ?? []) : rateLimitsOfBody(rates, `${pointer}/rate_limits`),
  };
}

/** The workspaces that get a provider, with its slug: those that are named, or all once all may use the integration. */
async function providedWorkspaces(
  reader: Pick<ResourcesReader, 'workspaces'>,
  { organisationId }: StoredRecord<'integration'>,
  { body, said }: { readonly body: AccessBody; readonly said: SaidAccess },
): Promise<ReadonlyMap<string, string | undefined>> {
  const byDefault = body.create_default_provider ?? true;
  const slug = body.default_provider_slug;
  const wanted = new Map<string, string | undefined>();
  if (byDefault && body.global_workspace_access?.enabled === true) {
    for (let offset = 0; ; offset += 100) {
      const page = { offset, limit: 100 };
      const { data } = await reader.workspaces.list(organisationId, { statuses: ['active'] }, page);
      for (const { id } of data) wanted.set(id, slug);
      if (data.length < 100) break;
    }
  }
  for (const [id, one] of said) {
    if (one.create_default_provider ?? byDefault) wanted.set(id, one.default_provider_slug ?? slug);
    else wanted.delete(id);
  }
  return wanted;
}
