import {
  GivenModel,
  maxModels,
  ModelConfigurations,
  modelHeaders,
  modelOf,
  PricingConfig,
  ProviderKey,
  showPricing,
} from '../../../core/organisation/integrations.ts';
import { allOrigins, originsOf } from '../../../core/providers/provider-row.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { IntegrationData, IntegrationModel } from '../../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { integrationAccess, integrationRecord } from './record.ts';
import { storedRecords } from '../shared/records.ts';
import { headersOf } from '../../../core/organisation/mcp-address.ts';
import { type PlainSecrets, sealedSecrets } from '../shared/sealed-secrets.ts';
import { Identifier, orNull, refusedBody, strict } from '../shared/fields.ts';
import type { Mistake } from '../../../core/base/json.ts';
import {
  configurationNames,
  ConfigurationsSchema,
} from '../../../core/organisation/integration-configurations.ts';
import { providerFields, templateFields } from '../../../core/providers/provider-fields.ts';
import { listReplies } from '../shared/replies.ts';

const Price = Type.Object({ price: Type.Number({ description: 'US cents for a token.' }) });
const Optional = Type.Optional(Price);

const Reply = Type.Object({
  pay_as_you_go: Type.Object({
    request_token: Optional,
    response_token: Optional,
    cache_read_input_token: Optional,
    cache_write_input_token: Optional,
    request_audio_token: Optional,
    response_audio_token: Optional,
    reasoning_token: Optional,
    request: Type.Optional(Type.Object({ price: Type.Number({ description: 'US cents for a request.' }) })),
  }),
  currency: Type.Literal('USD'),
  object: Type.Literal('model-pricing'),
});

/** `GET /model-configs/pricing/{provider}/{model}`: price of a model. */
export function modelPricingRoute({ clock, prices }: Scope): RouteDefinition {
  return defineRoute({
    id: 'model_pricing.get',
    method: 'GET',
    path: '/model-configs/pricing/{provider}/{model}',
    summary: 'Price of a model: US cents for each kind of token, without prices of integrations',
    scope: ['models.list', 'completions.write'],
    // Reads only.
    audit: null,
    params: Type.Object({
      provider: Type.String({
        minLength: 1,
        maxLength: 255,
        examples: ['openai'],
        description: 'Kind of provider.',
      }),
      model: Type.String({
        minLength: 1,
        maxLength: 255,
        examples: ['gpt-4o'],
        description: 'Name of the model; slashes are encoded as %2F.',
      }),
    }),
    reply: Reply,
    handle({ params: { provider, model } }) {
      const rates = prices.rates(provider, model, clock.now());
      if (rates === undefined)
        throw new GatewayError(
          'resource_not_found',
          `No price of the model "${model.slice(0, 64)}" at the provider "${provider.slice(0, 64)}" is known. Check both names: a kind of provider such as "openai", and the model as it calls it.`,
        );
      return {
        pay_as_you_go: {
          ...priced('request_token', rates.input),
          ...priced('response_token', rates.output),
          ...priced('cache_read_input_token', rates.cacheRead),
          ...priced('cache_write_input_token', rates.cacheWrite),
          ...priced('request_audio_token', rates.inputAudio),
          ...priced('response_audio_token', rates.outputAudio),
          ...priced('reasoning_token', rates.reasoning),
          ...(rates.request > 0 && priced('request', rates.request)),
        },
        currency: 'USD' as const,
        object: 'model-pricing' as const,
      };
    },
  });
}

function priced(name: string, dollars: number | undefined): Record<string, { price: number }> {
  // Rounded to 18 digits after the point, which removes floating-point noise.
  return dollars === undefined ? {} : { [name]: { price: Number((dollars * 100).toFixed(18)) } };
}

export { GivenModel, modelHeaders };

/** A model as the API shows it. */
const IntegrationModelReply = Type.Object({
  slug: Type.String(),
  name: Type.String(),
  enabled: Type.Boolean(),
  is_custom: Type.Boolean(),
  is_finetune: Type.Boolean(),
  base_model_slug: orNull(Type.String()),
  configurations: ModelConfigurations,
  pricing_config: Type.Optional(PricingConfig),
});

/** Models and their headers after the change by a body. */
interface ChangedModels {
  readonly models: readonly IntegrationModel[];
  readonly headers: PlainSecrets;
  /** Fields of headers that the body gives unmasked. */
  readonly given: Set<string>;
}

/** The models after the change by the body: a named model replaces the one with its slug. Throws `invalid_request`. */
function changedModels(
  given: readonly Static<typeof GivenModel>[],
  before: readonly IntegrationModel[],
  plain: PlainSecrets,
): ChangedModels {
  const models = new Map(before.map((model) => [model.slug, model]));
  const headers: Record<string, string> = {};
  for (const [field, text] of Object.entries(plain)) if (field.startsWith('models.')) headers[field] = text;
  const mistakes: Mistake[] = [];
  const seen = new Set<string>();
  const inClear = new Set<string>();
  given.forEach((one, index) => {
    const path = `/models/${index}`;
    if (seen.has(one.slug)) mistakes.push({ path: `${path}/slug`, message: 'is there twice; keep one' });
    seen.add(one.slug);
    models.set(one.slug, modelOf(one, models.get(one.slug)));
    const field = modelHeaders(one.slug);
    if (one.configurations === undefined) return;
    const custom = one.configurations?.custom_headers;
    const was = headersOf(headers[field]);
    if (custom === undefined) delete headers[field];
    else {
      const at = `${path}/configurations/custom_headers`;
      headers[field] = JSON.stringify(sealedSecrets.unmaskedHeaders(custom, was, mistakes, at));
      if (headers[field] === JSON.stringify(custom)) inClear.add(field);
    }
  });
  if (mistakes.length > 0) throw refusedBody(mistakes);
  if (models.size > maxModels) {
    const message = `would be ${models.size}, and ${maxModels} are the most that an integration says something of; delete some first`;
    throw refusedBody([{ path: '/models', message }]);
  }
  return { models: [...models.values()], headers, given: inClear };
}

/** Converts a model to the API's shape. */
function showModel(model: IntegrationModel, plain: PlainSecrets): Static<typeof IntegrationModelReply> {
  const host = model.configurations['custom_host'];
  const headers = plain[modelHeaders(model.slug)];
  const pricing = showPricing(model);
  return {
    slug: model.slug,
    name: model.slug,
    enabled: model.enabled,
    is_custom: model.isCustom,
    is_finetune: model.isFinetune,
    base_model_slug: model.baseModelSlug === '' ? null : model.baseModelSlug,
    configurations: {
      ...(typeof host === 'string' && { custom_host: host }),
      ...(headers !== undefined && { custom_headers: sealedSecrets.maskedHeaders(headersOf(headers)) }),
    },
    ...(pricing !== undefined && { pricing_config: pricing }),
  };
}

/** A model for the reference. */
const modelExample: Static<typeof IntegrationModelReply> = {
  slug: 'gpt-4o-mini',
  name: 'gpt-4o-mini',
  enabled: true,
  is_custom: false,
  is_finetune: false,
  base_model_slug: null,
  configurations: {},
};

const path = '/integrations/{slug}/models';
const Params = Type.Object({ slug: Identifier });
const workspace = Type.Optional(Identifier);
const Models = Type.Object({
  total: Type.Integer(),
  allow_all_models: Type.Boolean({
    description: 'Whether requests may also use models that are not listed.',
  }),
  models: Type.Array(IntegrationModelReply),
});
const example: Static<typeof Models> = { total: 1, allow_all_models: false, models: [modelExample] };

/** The routes of the models of an integration. */
export function integrationModelRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(scope), updateRoute(scope), deleteRoute(scope)];
}

function listRoute({ secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'integration_models.list',
    method: 'GET',
    path,
    summary: 'Models of an integration',
    scope: integrationAccess.scopes('read'),
    // Reads only.
    audit: null,
    params: Params,
    query: Type.Object({ workspace_id: workspace }, strict),
    reply: Models,
    examples: { response: example },
    async handle({ params, query, key, read, sendVersion }) {
      const named = { slug: params.slug, workspace: query.workspace_id };
      const record = await read((reader) => integrationAccess.visible(reader, key, named, 'read'));
      sendVersion(record.version);
      const plain = sealedSecrets.shown(secrets, record);
      return {
        total: record.data.models.length,
        allow_all_models: record.data.allowAllModels,
        models: record.data.models.map((model) => showModel(model, plain)),
      };
    },
  });
}

function updateRoute({ clock, router, secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'integration_models.update',
    method: 'PUT',
    path,
    summary:
      'Enables, disables and describes models of an integration; models that are not listed stay unchanged',
    scope: integrationAccess.scopes('update'),
    audit: 'update',
    params: Params,
    query: Type.Object({ workspace_id: workspace }, strict),
    body: Type.Object(
      {
        models: Type.Optional(Type.Array(GivenModel, { maxItems: 1000 })),
        allow_all_models: Type.Optional(Type.Boolean()),
        key: Type.Optional({
          ...ProviderKey,
          description:
            "The integration's key, again: needed where the custom_host of a model leads to an origin for which it was not stored.",
        }),
      },
      { ...strict, minProperties: 1 },
    ),
    reply: Type.Object({}),
    examples: {
      request: { allow_all_models: false, models: [{ slug: 'gpt-4o-mini', enabled: true }] },
      response: {},
    },
    async handle({ params, query, body, key, write, requireVersion, sendVersion }) {
      const named = { slug: params.slug, workspace: query.workspace_id };
      const version = await write(async (writer) => {
        const before = await integrationAccess.visible(writer, key, named, 'update');
        requireVersion(before.version);
        const opened = sealedSecrets.open(secrets, before);
        const { models, headers, given } = changedModels(body.models ?? [], before.data.models, opened);
        const allowAllModels = body.allow_all_models ?? before.data.allowAllModels;
        const after = changed(before, key, clock.now(), { models, allowAllModels });
        const plain = { ...withoutHeaders(opened), ...headers };
        const mistakes: Mistake[] = [];
        if (body.key !== undefined) {
          plain['key'] = sealedSecrets.unmasked(body.key, opened['key'], mistakes, '/key');
          if (plain['key'] === body.key) given.add('key');
        }
        const row = integrationRecord.providerRow(router, before.data.aiProviderId, '');
        const change = { before: { ...before, plain: opened }, after: { ...after, plain }, row, given };
        const origins = allOrigins(originsOf(after.data, row));
        const { secretMappings } = after.data;
        mistakes.push(...integrationRecord.movedSecrets(change));
        mistakes.push(
          ...(await integrationRecord.unboundReferences(writer, secretMappings, () => origins, before)),
        );
        if (mistakes.length > 0) throw refusedBody(mistakes);
        const sealed = sealedSecrets.seal(secrets, before.id, plain);
        if (!(await writer.records.replace({ ...after, secrets: sealed }))) throw storedRecords.stale();
        return { id: after.id, workspaceId: after.workspaceId, result: after.version };
      });
      sendVersion(version);
      return {};
    },
  });
}

function deleteRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'integration_models.delete',
    method: 'DELETE',
    path,
    summary: 'Removes the settings of these models from an integration',
    scope: integrationAccess.scopes('update'),
    audit: 'delete',
    params: Params,
    query: Type.Object(
      {
        slugs: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 8192,
            description: 'Comma-separated slugs of models; required.',
          }),
        ),
        workspace_id: workspace,
      },
      strict,
    ),
    reply: Type.Object({}),
    examples: { response: {} },
    handle: async ({ params, query, key, write, requireVersion, sendVersion }) => {
      const named = { slug: params.slug, workspace: query.workspace_id };
      const version = await write(async (writer) => {
        const before = await integrationAccess.visible(writer, key, named, 'update');
        requireVersion(before.version);
        const gone = modelsToRemove(before, query.slugs);
        const models = before.data.models.filter(({ slug }) => !gone.has(slug));
        const kept = Object.entries(before.secrets).filter(
          ([field]) => ![...gone].some((slug) => field === modelHeaders(slug)),
        );
        const after = { ...changed(before, key, clock.now(), { models }), secrets: Object.fromEntries(kept) };
        if (!(await writer.records.replace(after))) throw storedRecords.stale();
        return { id: after.id, workspaceId: after.workspaceId, result: after.version };
      });
      sendVersion(version);
      return {};
    },
  });
}

/** The models that a query names. Throws `invalid_request` for none, `resource_not_found` for an unknown one. */
function modelsToRemove(
  { name, data }: StoredRecord<'integration'>,
  slugs: string | undefined,
): ReadonlySet<string> {
  if (slugs === undefined) {
    throw new GatewayError(
      'invalid_request',
      '"slugs" is missing: name the models, with commas between them.',
      {
        param: 'slugs',
      },
    );
  }
  const gone = new Set(slugs.split(',').map((slug) => slug.trim()));
  for (const slug of gone) {
    if (data.models.some((model) => model.slug === slug)) continue;
    throw new GatewayError(
      'resource_not_found',
      `The integration "${name}" says nothing of a model "${slug.slice(0, 64)}".`,
      { param: 'slugs' },
    );
  }
  return gone;
}

function withoutHeaders(plain: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(plain).filter(([field]) => !field.startsWith('models.')));
}

function changed(
  before: StoredRecord<'integration'>,
  key: KeyRecord,
  now: number,
  data: Partial<IntegrationData>,
): StoredRecord<'integration'> {
  return storedRecords.changed(before, { data: { ...before.data, ...data } }, key, now);
}

const Field = Type.Object({
  name: Type.String({ description: 'Its name in `configurations` of an integration.' }),
  description: Type.String(),
  secret: Type.Boolean({ description: 'Stored encrypted, and shown masked.' }),
  required: Type.Boolean({
    description: 'The address of the provider cannot be told without it, unless `custom_host` is given.',
  }),
});

const KindReply = Type.Object({
  id: Type.String({ description: '`ai_provider_id` of integrations.' }),
  dialect: Type.String({ description: 'Wire format of the host.' }),
  address: orNull(Type.String({ description: 'Null for software of your own: it needs `custom_host`.' })),
  credentials: Type.String({
    description: 'How the key is sent: `bearer`, `x-api-key`, `sigv4` …; `none` for hosts that need no key.',
  }),
  fields: Type.Array(Field),
});

const secretFields: ReadonlySet<string> = new Set([
  ...providerFields.filter(({ secret }) => secret).map(({ name }) => name),
  'custom_headers',
]);
const described = ConfigurationsSchema.properties as Readonly<
  Record<string, { readonly description?: string }>
>;

/** `GET /provider-kinds`: the providers that integrations can be made for, with the settings that each takes. */
export function providerKindsRoute({ router }: Pick<Scope, 'router'>): RouteDefinition {
  const kind = (id: string): Static<typeof KindReply> => {
    const row = router.providers.get(id) ?? {};
    const address = row.base_url ?? null;
    const needed = templateFields(address ?? '');
    return {
      ...{ id, address, dialect: row.dialect ?? 'openai-chat', credentials: row.credentials ?? 'bearer' },
      fields: configurationNames(id).map((name) => ({
        name,
        description: described[name]?.description ?? '',
        secret: secretFields.has(name),
        required: needed.includes(name) || (address === null && name === 'custom_host'),
      })),
    };
  };
  return defineRoute({
    id: 'provider_kinds.list',
    method: 'GET',
    path: '/provider-kinds',
    summary: 'The providers that integrations can be made for, with the settings that each takes',
    scope: [
      ...integrationAccess.scopes('list'),
      ...integrationAccess.scopes('create'),
      'virtual_keys.list',
      'virtual_keys.create',
    ],
    // Reads only.
    audit: null,
    reply: Type.Object({ ...listReplies.of, data: Type.Array(KindReply) }),
    handle() {
      const data = [...router.providers.keys()].sort((a, b) => a.localeCompare(b)).map(kind);
      return { object: 'list' as const, total: data.length, data };
    },
  });
}
