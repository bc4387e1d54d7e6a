import { reachOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { RecordFilter, StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader, ResourcesWriter } from '../../../core/ports/resources.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import { places, storedRecords } from '../shared/records.ts';
import { integrationAccess, integrationSchemas } from '../integrations/record.ts';
import { RecordResource } from '../shared/record-resource.ts';
import { Identifier, ManagedBy, Name, orNull, Place, refusedBody, strict } from '../shared/fields.ts';
import { providerBudgetKey } from '../../../core/access/limit-charges.ts';
import { limitFields, limitSchemas } from '../shared/limits.ts';
import { plainProvider, providerFields } from '../../../core/organisation/providers.ts';
import type { ProviderData } from '../../../core/ports/record-kinds.ts';
import { accessTo } from '../../../core/access/integration-access.ts';

const maxNamed = 10;

/**
 * Throws `resource_conflict`, listing at most ten users, while configs, deployments or prompts name one of these
 * providers.
 */
async function requireUnused(
  reader: Pick<ResourcesReader, 'records'>,
  organisationId: string,
  providers: readonly StoredRecord<'provider'>[],
): Promise<void> {
  if (providers.length === 0) return;
  const users: string[] = [];
  for (const kind of ['config', 'deployment', 'prompt'] as const) {
    for await (const record of storedRecords.each(reader, kind, organisationId, { status: 'active' })) {
      const used = providers.some(
        (provider) => isWithin(provider, record) && namesProvider(record.data, provider),
      );
      if (used) users.push(`the ${kind} "${record.slug}"`);
      if (users.length === maxNamed) break;
    }
  }
  if (users.length === 0) return;
  throw new GatewayError(
    'resource_conflict',
    `It is in use: ${users.slice(0, maxNamed).join(', ')}. Change what names it first.`,
  );
}

/** True when `user` can use the record: its workspace matches, or it is a record of the organisation. */
function isWithin({ workspaceId }: StoredRecord, user: StoredRecord): boolean {
  return user.workspaceId === undefined || user.workspaceId === workspaceId;
}

/** True when any part of this value names the provider: a virtual key, `@slug`, or a model `@slug/…`. */
function namesProvider(value: unknown, { id, slug }: StoredRecord): boolean {
  const waiting: unknown[] = [value];
  for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) {
    if (typeof one === 'string' && (one === `@${slug}` || one.startsWith(`@${slug}/`))) return true;
    if (typeof one !== 'object' || one === null) continue;
    for (const [name, member] of Object.entries(one)) {
      const isKey = name === 'virtual_key' || name === 'virtualKey';
      if (isKey && (member === slug || member === id)) return true;
      if (member !== undefined) waiting.push(member);
    }
  }
  return false;
}

/** Body that creates a provider. */
const CreateProvider = Type.Object(
  {
    name: Name('For people.'),
    integration_id: Name('Id or slug of an integration that the workspace may use.'),
    workspace_id: Type.Optional(Name('Id or slug. Default: the workspace of the key.')),
    slug: Type.Optional(integrationSchemas.GivenSlug),
    ...providerFields,
    usage_limits: limitSchemas.BodyUsageLimit,
  },
  strict,
);

/** Body that changes a provider; absent members stay unchanged. */
const UpdateProvider = Type.Object(
  {
    name: Type.Optional(Name('For people.')),
    workspace_id: Type.Optional(Name('Its workspace, for keys of the organisation that name it by slug.')),
    ...providerFields,
    usage_limits: limitSchemas.BodyUsageLimit,
    reset_usage: limitSchemas.ResetUsage,
  },
  strict,
);

/** Members of a body that the provider stores. */
type ProviderBody = Pick<
  Static<typeof UpdateProvider>,
  'note' | 'usage_limits' | 'rate_limits' | 'expires_at'
>;

/** The provider after the change by the body. Throws `invalid_request` for invalid limits and times. */
function changedProvider(
  body: ProviderBody,
  { clock }: Pick<Scope, 'clock'>,
  before: ProviderData = plainProvider,
): ProviderData {
  const { note, usage_limits: usage, rate_limits: rates, expires_at: expires } = body;
  return {
    note: note === undefined ? before.note : (note ?? ''),
    usageLimits: usage === undefined ? before.usageLimits : limitFields.usageOfBody(usage),
    rateLimits: rates === undefined ? before.rateLimits : limitFields.ratesOfBody(rates),
    expiresAt: expires === undefined ? before.expiresAt : timeOf(expires, clock.now()),
    isVirtualKey: before.isVirtualKey,
  };
}

function timeOf(text: string | null, now: number): number | undefined {
  if (text === null) return undefined;
  const at = Date.parse(text);
  if (at > now) return at;
  if (!Number.isNaN(at)) throw refusedBody([{ path: '/expires_at', message: 'lies in the past' }]);
  throw refusedBody([{ path: '/expires_at', message: 'must be an ISO 8601 time like 2030-01-31T00:00:00Z' }]);
}

const Status = Type.Union([Type.Literal('active'), Type.Literal('exhausted'), Type.Literal('expired')]);

/** Common members of answers about providers and virtual keys. */
const sharedReply = {
  id: Type.String(),
  slug: Type.String(),
  name: Type.String(),
  note: orNull(Type.String()),
  workspace_id: orNull(
    Type.String({ description: 'Null for providers of the configuration that every workspace may use.' }),
  ),
  status: Status,
  usage_limits: orNull(limitSchemas.UsageLimit),
  ...limitSchemas.ResetTimes,
  rate_limits: limitSchemas.ShownRateLimits,
  reset_usage: orNull(Type.Number()),
  expires_at: orNull(Type.String()),
  created_at: Type.String(),
  last_updated_at: Type.String(),
};

/** A provider in the API. */
const ProviderReply = Type.Object({
  ...sharedReply,
  integration_id: orNull(
    Type.String({ description: 'Null for providers under `providers` in the configuration file.' }),
  ),
  managed_by: ManagedBy,
  object: Type.Literal('provider'),
});

/** Budget of a provider's usage limit. */
function budgetOf({ id, organisationId, createdAt }: StoredRecord<'provider'>) {
  return { prefix: providerBudgetKey(organisationId, id), organisationId, createdAt };
}

/** Resets the usage counted against a provider's usage limit. */
async function resetProviderUsage(
  record: StoredRecord<'provider'>,
  { budgets }: Pick<Scope, 'budgets'>,
): Promise<void> {
  const { usageLimits } = record.data;
  if (usageLimits !== undefined) await limitFields.resetUsed([usageLimits], budgetOf(record), budgets);
}

function statusOf(
  record: StoredRecord<'provider'>,
  { clock, budgets }: Pick<Scope, 'clock' | 'budgets'>,
): Static<typeof Status> {
  const { usageLimits, expiresAt } = record.data;
  if (expiresAt !== undefined && expiresAt <= clock.now()) return 'expired';
  const isUsedUp =
    usageLimits !== undefined && limitFields.isExhausted(usageLimits, budgetOf(record), budgets);
  return isUsedUp ? 'exhausted' : 'active';
}

/** Values of `sharedReply`, with the current usage. */
function showShared(record: StoredRecord<'provider'>, scope: Pick<Scope, 'clock' | 'budgets'>) {
  const { note, usageLimits, rateLimits, expiresAt } = record.data;
  return {
    id: record.id,
    slug: record.slug,
    name: record.name,
    status: statusOf(record, scope),
    note: note === '' ? null : note,
    workspace_id: record.workspaceId ?? null,
    usage_limits:
      usageLimits === undefined ? null : limitFields.showUsed(usageLimits, budgetOf(record), scope.budgets),
    ...limitFields.showResetTimes(usageLimits === undefined ? [] : [usageLimits], budgetOf(record), scope),
    rate_limits: limitFields.shownRates(rateLimits),
    reset_usage: null,
    expires_at: expiresAt === undefined ? null : new Date(expiresAt).toISOString(),
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
  };
}

/** Converts a stored provider to the API's shape, with its current usage. */
function showProvider(
  record: StoredRecord<'provider'>,
  scope: Pick<Scope, 'clock' | 'budgets'>,
): Static<typeof ProviderReply> {
  return {
    ...showShared(record, scope),
    integration_id: record.parentId === '' ? null : record.parentId,
    managed_by: record.managedBy ?? 'api',
    object: 'provider',
  };
}

/** Common members of the examples of providers and virtual keys. */
const sharedExample = {
  id: '9f5a4d7c-6c0b-4b0e-8a53-6f0f4c1f2b13',
  slug: 'openai-prod',
  name: 'OpenAI, production',
  note: null,
  workspace_id: '5a5b1f38-9a4f-4b40-8f1c-2b7d8a3c9d12',
  status: 'active' as const,
  usage_limits: null,
  last_reset_at: null,
  next_usage_reset_at: null,
  rate_limits: null,
  reset_usage: null,
  expires_at: null,
  created_at: '2026-11-21T09:00:00.000Z',
  last_updated_at: '2026-11-21T09:00:00.000Z',
};

/** Records of providers, also for virtual keys and integrations. */
export const providerRecords = {
  requireUnused,
  changed: changedProvider,
  Reply: sharedReply,
  resetUsage: resetProviderUsage,
  show: showShared,
  example: sharedExample,
  of: providerOf,
  addDefault: addDefaultProvider,
  seen: seenProviders,
};

/** A provider for the reference. */
const providerExample: Static<typeof ProviderReply> = {
  ...sharedExample,
  integration_id: '3f0c8f2e-7a0d-4b62-9f3c-2f3f6f9d7a10',
  managed_by: 'api',
  object: 'provider',
};

/** Members of a new provider record. */
interface NewProvider {
  readonly workspaceId: string;
  readonly slug: string;
  readonly name: string;
  readonly data: ProviderData;
  /** Id of the user or of the key. */
  readonly by: string;
  readonly now: number;
}

/** The record of a new provider of this integration. */
function providerOf(
  { id, organisationId }: StoredRecord<'integration'>,
  { workspaceId, slug, name, data, by, now }: NewProvider,
): StoredRecord<'provider'> {
  const given = { organisationId, workspaceId, slug, name, parentId: id, data };
  return storedRecords.create({ kind: 'provider', ...given }, by, now);
}

/** Options of a default provider. */
interface DefaultProvider {
  /** Default: the slug of the integration, or one made from its name when that is taken. */
  readonly slug?: string | undefined;
  readonly by: string;
  readonly now: number;
}

/**
 * Adds a provider of this integration to a workspace, unless it has one or may not use the integration. Rejects with
 * `already_exists` when the requested slug is taken there.
 */
async function addDefaultProvider(
  { records }: Pick<ResourcesWriter, 'records'>,
  integration: StoredRecord<'integration'>,
  workspaceId: string,
  { slug: wanted, by, now }: DefaultProvider,
): Promise<void> {
  const { organisationId, id: parentId, name, slug: own } = integration;
  if (accessTo(integration, workspaceId) === undefined) return;
  const one = { offset: 0, limit: 1 };
  if ((await records.list('provider', organisationId, { workspaceId, parentId }, one)).total > 0) return;
  const isTaken =
    wanted === undefined &&
    (await records.find('provider', { organisationId, workspaceId }, own)) !== undefined;
  const slug = wanted ?? (isTaken ? storedRecords.newSlug('', name) : own);
  await records.insert(providerOf(integration, { workspaceId, slug, name, data: plainProvider, by, now }));
}

const Changed = Type.Object({
  ...{ id: Type.String(), slug: Type.String(), object: Type.Literal('provider') },
});
const changedExample = { id: providerExample.id, slug: providerExample.slug, object: 'provider' };

/** The routes of providers. */
export function providerRoutes(scope: Scope): readonly RouteDefinition[] {
  const { clock } = scope;
  const providers = new RecordResource(scope, {
    kind: 'provider',
    noun: 'provider',
    operations: 'providers',
    path: '/providers',
    parameter: 'slug',
    scopes: (action) => `providers.${action}`,
  });
  return [
    providers.create({
      summary: 'Creates a provider: lets a workspace use an integration under its own slug',
      body: CreateProvider,
      reply: Changed,
      examples: {
        request: { name: 'OpenAI, production', integration_id: 'openai-prod', slug: 'openai-prod' },
        response: changedExample,
      },
      prepare: ({ body }) => changedProvider(body, { clock }),
      async make(writer, { key, body, prepared: data }) {
        const workspace = await places.required(writer, key, body.workspace_id);
        const { id: parentId } = await integrationAccess.usable(
          writer,
          workspace,
          body.integration_id,
          '/integration_id',
        );
        const slug = body.slug ?? storedRecords.newSlug('', body.name);
        return { workspaceId: workspace.id, parentId, slug, name: body.name, data };
      },
      show: showChanged,
    }),
    providers.list({
      summary: 'Providers that the key may see, oldest first',
      query: { workspace_id: Type.Optional(Identifier) },
      entry: ProviderReply,
      examples: { response: { object: 'list', total: 1, data: [providerExample] } },
      rows: (reader, { key, query }, page) => seenProviders(reader, key, query.workspace_id, page),
      show: (record) => showProvider(record, scope),
    }),
    providers.get({
      summary: 'One provider',
      query: Place,
      reply: ProviderReply,
      examples: { response: providerExample },
      show: (record) => showProvider(record, scope),
    }),
    providers.update({
      summary: 'Updates a provider; omitted fields stay unchanged',
      query: Place,
      body: UpdateProvider,
      reply: Changed,
      examples: { request: { note: 'For the website' }, response: changedExample },
      change: ({ name, data }, _writer, { body }) => ({
        name: body.name ?? name,
        data: changedProvider(body, { clock }, data),
      }),
      afterwards: (record, { body }) =>
        body.reset_usage === true ? resetProviderUsage(record, scope) : undefined,
      show: showChanged,
    }),
    providers.remove({
      summary: 'Deletes a provider that is not in use; its integration stays',
      query: Place,
      examples: { response: {} },
      requireUnused: (writer, record) => requireUnused(writer, record.organisationId, [record]),
    }),
  ];
}

function showChanged({ id, slug }: StoredRecord<'provider'>): Static<typeof Changed> {
  return { id, slug, object: 'provider' };
}

/** A page of the providers within the key's reach, or of the named workspace. */
async function seenProviders(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: KeyRecord,
  workspace: string | undefined,
  page: Page,
): Promise<Paged<StoredRecord<'provider'>>> {
  const { organisationId, workspaceId: reach } = reachOf(key);
  const workspaceId = workspace === undefined ? reach : (await places.visible(reader, key, workspace)).id;
  const filter: RecordFilter = workspaceId === undefined ? {} : { workspaceId };
  return reader.records.list('provider', organisationId, filter, page);
}
