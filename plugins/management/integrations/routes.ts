import { reachOf } from '../../../core/access/scopes.ts';
import {
  emptyIntegration,
  PricingAdjustments,
  SecretMappingSchema,
  showAdjustments,
} from '../../../core/organisation/integrations.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { Page } from '../../../core/ports/page.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader, ResourcesWriter } from '../../../core/ports/resources.ts';
import { RecordResource } from '../shared/record-resource.ts';
import { places, storedRecords } from '../shared/records.ts';
import { integrationAccess, integrationRecord, integrationSchemas } from './record.ts';
import { integrationModelRoutes } from './models.ts';
import { type PlainSecrets, sealedSecrets } from '../shared/sealed-secrets.ts';
import { providerRecords } from '../providers/routes.ts';
import { Identifier, ManagedBy, Name, orNull, Place, strict } from '../shared/fields.ts';
import { accessTo } from '../../../core/access/integration-access.ts';
import { integrationBudgetKey } from '../../../core/access/limit-charges.ts';
import { accessLimits } from '../../../core/organisation/providers.ts';
import type { IntegrationAccess, IntegrationData } from '../../../core/ports/record-kinds.ts';
import { limitFields, limitSchemas } from '../shared/limits.ts';
import { namedWorkspaces, requireShared } from '../shared/workspace-access.ts';
import type { UsageLimit } from '../../../core/ports/budgets.ts';
import { showUsageLimit } from '../../../core/organisation/limits.ts';

/** An integration in a list. */
const IntegrationReply = Type.Object({
  id: Type.String(),
  slug: Type.String(),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String()),
  type: Type.Union([Type.Literal('workspace'), Type.Literal('organisation')]),
  ai_provider_id: Type.String(),
  name: Type.String(),
  description: Type.String(),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  managed_by: ManagedBy,
  object: Type.Literal('integration'),
});

/** Access of workspaces to an integration, in answers. */
const AccessReply = Type.Object({
  enabled: Type.Boolean(),
  usage_limits: orNull(Type.Array(limitSchemas.UsageLimit)),
  rate_limits: limitSchemas.ShownRateLimits,
});

/** One integration. */
const IntegrationDetail = Type.Object({
  ...IntegrationReply.properties,
  masked_key: Type.String({ description: 'First and last characters of the key; empty without a key.' }),
  configurations: Type.Record(Type.String(), Type.Unknown(), { description: 'Secrets masked.' }),
  global_workspace_access_settings: AccessReply,
  allow_all_models: Type.Boolean(),
  workspace_count: Type.Integer({ description: 'Workspaces that are listed and allowed.' }),
  secret_mappings: Type.Array(SecretMappingSchema),
  pricing_adjustments: PricingAdjustments,
});

/** Converts a stored integration to its shape in lists. */
function showIntegration(record: StoredRecord<'integration'>): Static<typeof IntegrationReply> {
  return {
    id: record.id,
    slug: record.slug,
    organisation_id: record.organisationId,
    workspace_id: record.workspaceId ?? null,
    type: record.workspaceId === undefined ? 'organisation' : 'workspace',
    ai_provider_id: record.data.aiProviderId,
    name: record.name,
    description: record.data.description,
    status: record.status,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    managed_by: record.managedBy ?? 'api',
    object: 'integration',
  };
}

/** Converts one integration with opened secrets to the API's shape, with the secrets masked. */
function showWholeIntegration(
  record: StoredRecord<'integration'>,
  plain: PlainSecrets,
): Static<typeof IntegrationDetail> {
  const { data } = record;
  const { workspaces } = data;
  return {
    ...showIntegration(record),
    masked_key: plain['key'] === undefined ? '' : sealedSecrets.mask(plain['key']),
    configurations: integrationRecord.shownConfigurations(record, plain),
    global_workspace_access_settings: showAccess(data.globalAccess),
    allow_all_models: data.allowAllModels,
    workspace_count:
      record.workspaceId === undefined
        ? Object.values(workspaces).filter(({ enabled }) => enabled).length
        : 1,
    secret_mappings: data.secretMappings.map((mapping) => integrationRecord.showMapping(mapping)),
    pricing_adjustments: showAdjustments(data),
  };
}

/** Converts an access to the API's shape. */
function showAccess(
  access: IntegrationAccess,
  show: (limit: UsageLimit) => Static<typeof limitSchemas.UsageLimit> = showUsageLimit,
): Static<typeof AccessReply> {
  return {
    enabled: access.enabled,
    usage_limits: access.usageLimits.length === 0 ? null : access.usageLimits.map((limit) => show(limit)),
    rate_limits: limitFields.shownRates(access.rateLimits),
  };
}

/** An integration for the reference. */
const integrationExample: Static<typeof IntegrationReply> = {
  id: '3f0c8f2e-7a0d-4b62-9f3c-2f3f6f9d7a10',
  slug: 'openai-prod',
  name: 'OpenAI, production',
  organisation_id: '0b0ad9c2-5d0c-4d8a-a6d0-5b6d1a2f8c11',
  workspace_id: null,
  type: 'organisation',
  ai_provider_id: 'openai',
  description: '',
  status: 'active',
  managed_by: 'api',
  created_at: '2026-11-21T09:00:00.000Z',
  last_updated_at: '2026-11-21T09:00:00.000Z',
  object: 'integration',
};

/** The same for the answer about one integration. */
const wholeIntegrationExample: Static<typeof IntegrationDetail> = {
  ...integrationExample,
  masked_key: 'sk…9Q',
  configurations: { openai_project: 'proj-1' },
  global_workspace_access_settings: { enabled: true, usage_limits: null, rate_limits: null },
  allow_all_models: true,
  workspace_count: 0,
  secret_mappings: [],
  pricing_adjustments: { multiplier: { default: 1 } },
};

const path = '/integrations/{slug}/workspaces';
const Params = Type.Object({ slug: Identifier });
const maxWorkspaces = 1000;

const given = { enabled: Type.Boolean(), ...accessLimits, usage_limits: limitSchemas.BodyAccessLimit };
const WorkspaceAccess = Type.Object(
  {
    id: Name('Id or slug of the workspace.'),
    ...given,
    reset_usage: limitSchemas.ResetUsage,
    create_default_provider: Type.Optional(Type.Boolean()),
    default_provider_slug: Type.Optional(integrationSchemas.GivenSlug),
  },
  strict,
);
const override = Type.Optional(
  Type.Boolean({
    description: 'Remove the entries of workspaces that are not listed. Default false: they stay unchanged.',
  }),
);
const Body = Type.Object(
  {
    workspaces: Type.Optional(Type.Array(WorkspaceAccess, { maxItems: maxWorkspaces })),
    global_workspace_access: Type.Optional(
      Type.Object(given, { ...strict, description: 'Access of workspaces that are not listed.' }),
    ),
    override_existing_workspace_access: override,
    override_existing_workspaces_access: override,
    create_default_provider: Type.Optional(
      Type.Boolean({
        description:
          'Create a provider in workspaces that may use the integration and have none. Default true.',
      }),
    ),
    default_provider_slug: Type.Optional(integrationSchemas.GivenSlug),
  },
  { ...strict, minProperties: 1 },
);
const Reply = Type.Object({
  total: Type.Integer(),
  workspaces: Type.Array(
    Type.Object({ id: Type.String(), ...AccessReply.properties, ...limitSchemas.ResetTimes }),
  ),
  global_workspace_access: AccessReply,
});
const limits = { enabled: true, usage_limits: null, rate_limits: null };
const noResets = { last_reset_at: null, next_usage_reset_at: null };

/** Routes for the access of workspaces to an integration of the organisation. */
function integrationWorkspaceRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(scope), updateRoute(scope)];
}

/** Budget of the usage limits of a workspace's access. */
function budgetOf({ id, organisationId, createdAt }: StoredRecord<'integration'>, workspaceId: string) {
  return { prefix: integrationBudgetKey(organisationId, id, workspaceId), organisationId, createdAt };
}

function listRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'integration_workspaces.list',
    method: 'GET',
    path,
    summary: 'Workspaces that may use an integration, and their limits',
    scope: integrationAccess.scopes('read'),
    // Reads only.
    audit: null,
    params: Params,
    reply: Reply,
    examples: {
      response: {
        total: 1,
        workspaces: [{ id: '5a5b1f38-9a4f-4b40-8f1c-2b7d8a3c9d12', ...limits, ...noResets }],
        global_workspace_access: limits,
      },
    },
    async handle({ params, key, read, sendVersion }) {
      const record = await read((reader) =>
        integrationAccess.visible(reader, key, { slug: params.slug }, 'read'),
      );
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
          ...showAccess(access, (limit) => limitFields.showUsed(limit, budgetOf(record, id), scope.budgets)),
          ...limitFields.showResetTimes(access.usageLimits, budgetOf(record, id), scope),
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
    summary: 'Sets which workspaces may use an integration, and their limits',
    scope: integrationAccess.scopes('update'),
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
        const before = await integrationAccess.visible(writer, key, { slug: params.slug }, 'update');
        requireVersion(before.version);
        requireShared(before, 'integration');
        const said = await namedWorkspaces(writer, before.organisationId, body.workspaces ?? []);
        const data = changedAccess(before.data, body, said);
        const after = await storedRecords.change(writer, before, { data }, key, now);
        for (const [workspaceId, slug] of await providedWorkspaces(writer, after, { body, said }))
          await providerRecords.addDefault(writer, after, workspaceId, { slug, by, now });
        const reset = [...said].flatMap(([id, one]) => (one.reset_usage === true ? [id] : []));
        return { id: after.id, result: { after, reset } };
      });
      for (const id of reset) {
        const limits = accessTo(after, id)?.usageLimits ?? [];
        await limitFields.resetUsed(limits, budgetOf(after, id), budgets);
      }
      sendVersion(after.version);
      return {};
    },
  });
}

type AccessBody = Static<typeof Body>;
/** Access in a body, by workspace id. */
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

/** The access after the change by a body; absent limits stay unchanged. */
function accessOf(
  { enabled, usage_limits: usage, rate_limits: rates }: NonNullable<AccessBody['global_workspace_access']>,
  before: IntegrationAccess | undefined,
  pointer: string,
): IntegrationAccess {
  const limit = limitFields.usageOfBody(usage ?? null, `${pointer}/usage_limits`);
  return {
    enabled,
    usageLimits: usage === undefined ? (before?.usageLimits ?? []) : limit === undefined ? [] : [limit],
    rateLimits:
      rates === undefined
        ? (before?.rateLimits ?? [])
        : limitFields.ratesOfBody(rates, `${pointer}/rate_limits`),
  };
}

/** Workspaces that get a provider, with its slug: the named ones, or all when all may use the integration. */
async function providedWorkspaces(
  reader: Pick<ResourcesReader, 'workspaces'>,
  { organisationId }: StoredRecord<'integration'>,
  { body, said }: { readonly body: AccessBody; readonly said: SaidAccess },
): Promise<ReadonlyMap<string, string | undefined>> {
  const byDefault = body.create_default_provider ?? true;
  const slug = body.default_provider_slug;
  const wanted = new Map<string, string | undefined>();
  if (byDefault && body.global_workspace_access?.enabled === true) {
    const list = (page: Page) => reader.workspaces.list(organisationId, { statuses: ['active'] }, page);
    for await (const { id } of storedRecords.eachOf(list)) wanted.set(id, slug);
  }
  for (const [id, one] of said) {
    if (one.create_default_provider ?? byDefault) wanted.set(id, one.default_provider_slug ?? slug);
    else wanted.delete(id);
  }
  return wanted;
}

/** The routes of integrations, with those of their models and workspaces. */
export function integrationRoutes(scope: Scope): readonly RouteDefinition[] {
  const { router, secrets } = scope;
  const integrations = new RecordResource(scope, {
    kind: 'integration',
    noun: 'integration',
    operations: 'integrations',
    path: '/integrations',
    parameter: 'slug',
    scopes: integrationAccess.scopes,
    find: (reader, key, { idOrSlug, workspace }, action) =>
      integrationAccess.visible(reader, key, { slug: idOrSlug, workspace }, action),
  });
  return [
    integrations.create({
      summary:
        'Creates an integration: credentials for a provider, for the organisation or for one workspace',
      body: integrationSchemas.Create,
      reply: Type.Object({ id: Type.String(), slug: Type.String(), object: Type.Literal('integration') }),
      examples: {
        request: { name: 'OpenAI, production', slug: 'openai-prod', ai_provider_id: 'openai', key: 'sk-…' },
        response: { id: integrationExample.id, slug: 'openai-prod', object: 'integration' },
      },
      prepare: ({ body }) => integrationRecord.providerRow(router, body.ai_provider_id, '/ai_provider_id'),
      async make(writer, { id, key, body, prepared: row }) {
        const workspaceId = (await places.ofBody(writer, key, body.workspace_id))?.id;
        integrationAccess.requireScope(key, 'create', workspaceId);
        const owner = { organisationId: key.organisationId, workspaceId };
        const empty = emptyIntegration(body.name, body.ai_provider_id);
        const { plain, ...content } = await integrationRecord.changed(writer, body, empty, { owner, row });
        const slug = body.slug ?? storedRecords.newSlug('', body.name);
        return { workspaceId, slug, ...content, secrets: sealedSecrets.seal(secrets, id, plain) };
      },
      async show(record, writer, { body }) {
        const { id, slug, workspaceId, createdBy: by, createdAt: now } = record;
        if (workspaceId !== undefined && body.create_default_provider !== false)
          await providerRecords.addDefault(writer, record, workspaceId, {
            slug: body.default_provider_slug,
            by,
            now,
          });
        return { id, slug, object: 'integration' as const };
      },
    }),
    integrations.list({
      summary: 'Integrations that the key may see, oldest first',
      query: {
        workspace_id: Type.Optional(Identifier),
        type: Type.Optional(
          Type.Union([Type.Literal('workspace'), Type.Literal('organisation'), Type.Literal('all')], {
            description:
              'Those of workspaces, those of the organisation, or all (default). With `workspace_id`: those of that workspace, and those of the organisation that it may use.',
          }),
        ),
      },
      entry: IntegrationReply,
      examples: { response: { object: 'list', total: 1, data: [integrationExample] } },
      async rows(reader, { key, query: { workspace_id: named, type = 'all' } }, { offset, limit }) {
        const workspace = named === undefined ? undefined : (await places.visible(reader, key, named)).id;
        const workspaceId = workspace ?? reachOf(key).workspaceId;
        return integrationAccess.seen(reader, key, { workspaceId, type, offset, limit });
      },
      show: showIntegration,
    }),
    integrations.get({
      summary: 'One integration, with masked secrets',
      query: Place,
      reply: IntegrationDetail,
      examples: { response: wholeIntegrationExample },
      show: (record) => showWholeIntegration(record, sealedSecrets.shown(secrets, record)),
    }),
    integrations.update({
      summary: 'Updates an integration; omitted fields stay unchanged',
      query: Place,
      body: integrationSchemas.Update,
      reply: IntegrationDetail,
      examples: { request: { key: 'sk-…' }, response: wholeIntegrationExample },
      async change(before, writer, { body }) {
        const row = integrationRecord.providerRow(router, before.data.aiProviderId, '');
        const opened = { name: before.name, data: before.data, plain: sealedSecrets.open(secrets, before) };
        const { plain, ...content } = await integrationRecord.changed(writer, body, opened, {
          owner: before,
          row,
        });
        return { ...content, secrets: sealedSecrets.seal(secrets, before.id, plain) };
      },
      show: (record) => showWholeIntegration(record, sealedSecrets.open(secrets, record)),
    }),
    integrations.remove({
      summary: 'Deletes an integration and its providers, unless one of them is still in use',
      query: Place,
      examples: { response: {} },
      requireUnused: removeProviders,
    }),
    ...integrationModelRoutes(scope),
    ...integrationWorkspaceRoutes(scope),
  ];
}

/** Removes the providers of an integration. Throws `resource_conflict` while something names one of them. */
async function removeProviders(
  writer: ResourcesWriter,
  { id, organisationId }: StoredRecord<'integration'>,
): Promise<void> {
  const providers = await storedRecords.every(writer, 'provider', organisationId, { parentId: id });
  await providerRecords.requireUnused(writer, organisationId, providers);
  for (const provider of providers) await writer.records.remove('provider', organisationId, provider.id);
}

/** Removes an integration with its providers. Throws `resource_conflict` while something names one of them. */
export async function removeIntegration(
  writer: ResourcesWriter,
  record: StoredRecord<'integration'>,
): Promise<void> {
  await removeProviders(writer, record);
  if (!(await writer.records.remove('integration', record.organisationId, record.id)))
    throw storedRecords.stale();
}
