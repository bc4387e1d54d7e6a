import { type Static, Type } from 'typebox';
import { didYouMean } from '../base/did-you-mean.ts';
import { providerFields } from '../providers/provider-fields.ts';
import {
  configurationNames,
  ConfigurationsSchema,
  type GivenConfigurations,
  readConfigurations,
} from './integration-configurations.ts';
import { Description, Instant, Name, orNull, strict } from './fields.ts';
import type { DatedTokenPrice } from '../ports/prices.ts';
import type { IntegrationData, IntegrationModel, SecretMapping } from '../ports/record-kinds.ts';
import type { ProviderRow } from '../providers/provider-row.ts';
import type { Mistake } from '../base/json.ts';

/**
 * An integration with its secrets in clear text, by field: `key`, `configurations.<option>`, `models.<slug>.headers`.
 */
export interface IntegrationContent {
  readonly name: string;
  readonly data: IntegrationData;
  readonly plain: Readonly<Record<string, string>>;
}

/** Fields of an integration in a body or a file, without settings and secrets. */
interface SaidOfIntegration {
  readonly name?: string;
  readonly description?: string | null;
  readonly pricing_adjustments?: Static<typeof PricingAdjustments> | null;
}

/** New settings and secrets of an integration, and the context for validating them. */
interface IntegrationSettings {
  /** The credential; undefined for none. */
  readonly key: string | undefined;
  readonly configurations: GivenConfigurations;
  readonly secretMappings: readonly SecretMapping[];
  readonly row: ProviderRow;
  /** As in `ConfiguredProvider`. */
  readonly machineIdentity: boolean;
}

const noAccess: IntegrationData['globalAccess'] = { enabled: false, usageLimits: [], rateLimits: [] };

/** An integration in its initial state: all models, no workspaces. */
export function emptyIntegration(name: string, aiProviderId: string): IntegrationContent {
  return {
    name,
    plain: {},
    data: {
      aiProviderId,
      description: '',
      configurations: {},
      secretMappings: [],
      allowAllModels: true,
      models: [],
      globalAccess: noAccess,
      workspaces: {},
      priceMultiplier: 1,
    },
  };
}

/** The integration with the given changes (absent fields stay), and violations in its settings. */
export function changedContent(
  said: SaidOfIntegration,
  before: IntegrationContent,
  { key, configurations, secretMappings, row, machineIdentity }: IntegrationSettings,
): { readonly content: IntegrationContent; readonly issues: readonly Mistake[] } {
  const mapped = new Set(secretMappings.map(({ targetField }) => targetField.replace('configurations.', '')));
  const { options, secrets, issues } = readConfigurations(configurations, {
    name: before.data.aiProviderId,
    row,
    mapped,
    machineIdentity,
    hasKey: key !== undefined || mapped.has('key'),
  });
  const { description, pricing_adjustments: pricing } = said;
  const content: IntegrationContent = {
    name: said.name ?? before.name,
    plain: {
      ...Object.fromEntries(Object.entries(before.plain).filter(([field]) => field.startsWith('models.'))),
      ...Object.fromEntries(Object.entries(secrets).map(([name, text]) => [`configurations.${name}`, text])),
      ...(key !== undefined && { key }),
    },
    data: {
      ...before.data,
      configurations: options,
      secretMappings,
      description: description === undefined ? before.data.description : (description ?? ''),
      ...(pricing !== undefined && {
        priceMultiplier: pricing?.multiplier?.default ?? 1,
        laterMultipliers: (pricing?.scheduled ?? [])
          .map((one) => ({ from: Date.parse(one.effective_from), factor: one.multiplier.default }))
          .toSorted((a, b) => a.from - b.from),
      }),
    },
  };
  return { content, issues };
}

/** Bound of models that an integration configures. */
export const maxModels = 1000;
const centsInDollar = 100;

const Price = Type.Object(
  { price: Type.Number({ minimum: 0, maximum: 1_000_000, description: 'US cents for a token.' }) },
  strict,
);

const TokenPrices = Type.Object({ request_token: Price, response_token: Price }, strict);
const EffectiveFrom = Instant(
  'Start of validity, ISO 8601 with a time zone; the time of each request counts.',
);
const maxScheduled = 50;

/** Price of a model. */
export const PricingConfig = Type.Object(
  {
    type: Type.Optional(Type.Literal('static')),
    effective_from: Type.Optional(orNull(EffectiveFrom)),
    pay_as_you_go: TokenPrices,
    scheduled: Type.Optional(
      Type.Array(Type.Object({ effective_from: EffectiveFrom, pay_as_you_go: TokenPrices }, strict), {
        maxItems: maxScheduled,
        description: 'Later prices that replace it, each from a point in time.',
      }),
    ),
  },
  strict,
);

type GivenPrices = Static<typeof TokenPrices>;

function tokenPrice(tokens: GivenPrices, from: string | null | undefined): DatedTokenPrice {
  return {
    requestToken: inDollars(tokens.request_token.price),
    responseToken: inDollars(tokens.response_token.price),
    ...(typeof from === 'string' && { from: Date.parse(from) }),
  };
}

/** Prices of a model in the API's form; undefined where it has none of its own. */
export function showPricing({
  pricing,
  laterPricing = [],
}: IntegrationModel): Static<typeof PricingConfig> | undefined {
  if (pricing === undefined) return undefined;
  const shown = ({ requestToken, responseToken }: DatedTokenPrice) => ({
    request_token: { price: inCents(requestToken) },
    response_token: { price: inCents(responseToken) },
  });
  return {
    type: 'static',
    ...(pricing.from !== undefined && { effective_from: new Date(pricing.from).toISOString() }),
    pay_as_you_go: shown(pricing),
    ...(laterPricing.length > 0 && {
      scheduled: laterPricing.map((one) => ({
        effective_from: new Date(one.from ?? 0).toISOString(),
        pay_as_you_go: shown(one),
      })),
    }),
  };
}

const slug = Type.String({
  minLength: 1,
  maxLength: 255,
  pattern: '^[^,\\s]+$',
  description: 'Name of the model in requests.',
});
const Headers = Type.Record(Type.String(), Type.String({ minLength: 1, maxLength: 8192 }), {
  maxProperties: 50,
  propertyNames: { pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,255}$" },
});

/** Settings for requests to one model, in addition to those of the integration. */
export const ModelConfigurations = Type.Object(
  {
    custom_host: Type.Optional(
      Type.String({
        maxLength: 2048,
        pattern: '^https?://[^\\s?#@]+$',
        description: 'An address like https://host/v1.',
      }),
    ),
    custom_headers: Type.Optional(Headers),
  },
  { ...strict, description: 'Settings for requests of this model, in addition to those of the integration.' },
);

/** Fields of a model in a body or a file. */
export const GivenModel = Type.Object(
  {
    slug,
    name: Type.Optional(orNull(Type.String({ maxLength: 255, description: 'The slug. Not kept.' }))),
    enabled: Type.Boolean(),
    is_custom: Type.Optional(orNull(Type.Boolean({ description: 'The model is not in the catalogue.' }))),
    is_finetune: Type.Optional(orNull(Type.Boolean())),
    base_model_slug: Type.Optional(
      orNull(Type.String({ maxLength: 255, description: 'Model whose price applies.' })),
    ),
    configurations: Type.Optional(orNull(ModelConfigurations)),
    pricing_config: Type.Optional(orNull(PricingConfig)),
  },
  strict,
);

/** Name of the secret with the headers of a model. */
export function modelHeaders(model: string): string {
  return `models.${model}.headers`;
}

/** The model with the given changes; absent fields stay. Its headers are a secret, and not part of it. */
export function modelOf(
  given: Static<typeof GivenModel>,
  before: IntegrationModel | undefined,
): IntegrationModel {
  const { configurations, pricing_config: pricing, base_model_slug: base } = given;
  const host = configurations?.custom_host;
  const tokens = pricing?.pay_as_you_go;
  const later =
    pricing === undefined
      ? (before?.laterPricing ?? [])
      : (pricing?.scheduled ?? [])
          .map((one) => tokenPrice(one.pay_as_you_go, one.effective_from))
          .toSorted((a, b) => (a.from ?? 0) - (b.from ?? 0));
  return {
    slug: given.slug,
    enabled: given.enabled,
    isCustom: given.is_custom ?? before?.isCustom ?? false,
    isFinetune: given.is_finetune ?? before?.isFinetune ?? false,
    baseModelSlug: base === undefined ? (before?.baseModelSlug ?? '') : (base ?? ''),
    configurations:
      configurations === undefined
        ? (before?.configurations ?? {})
        : host === undefined
          ? {}
          : { custom_host: host },
    pricing: pricing === undefined ? before?.pricing : tokens && tokenPrice(tokens, pricing?.effective_from),
    ...(later.length > 0 && { laterPricing: later }),
  };
}

function inDollars(cents: number): number {
  return exact(cents / centsInDollar);
}

/** US dollars per token in the API's form: cents. */
function inCents(dollars: number): number {
  return exact(dollars * centsInDollar);
}

/** Removes binary rounding: 0.1 + 0.2 is 0.3. */
function exact(value: number): number {
  return Number(value.toPrecision(15));
}

/** A slug in a body or a file. */
export const Slug = (description: string) =>
  Type.String({ minLength: 1, maxLength: 255, pattern: '^[a-zA-Z0-9_-]+$', description });

const Multiplier = Type.Object(
  { default: Type.Number({ exclusiveMinimum: 0, maximum: 1000, description: '1.2 adds a fifth.' }) },
  strict,
);

/** Factors on prices. */
export const PricingAdjustments = Type.Object(
  {
    multiplier: Type.Optional(Multiplier),
    scheduled: Type.Optional(
      Type.Array(Type.Object({ effective_from: EffectiveFrom, multiplier: Multiplier }, strict), {
        maxItems: maxScheduled,
        description: 'Later factors that replace it, each from a point in time.',
      }),
    ),
  },
  strict,
);

/** Factors of an integration in the API's form. */
export function showAdjustments({
  priceMultiplier,
  laterMultipliers = [],
}: IntegrationData): Static<typeof PricingAdjustments> {
  return {
    multiplier: { default: priceMultiplier },
    ...(laterMultipliers.length > 0 && {
      scheduled: laterMultipliers.map(({ from, factor }) => ({
        effective_from: new Date(from).toISOString(),
        multiplier: { default: factor },
      })),
    }),
  };
}

/** The credential in a body. */
export const ProviderKey = Type.String({
  minLength: 1,
  maxLength: 16_384,
  description: "The provider's API key. Masked in answers.",
});

/** External source of a field's value, instead of the record. */
export const SecretMappingSchema = Type.Object(
  {
    target_field: Type.String({
      minLength: 1,
      maxLength: 255,
      description: '`key`, or `configurations.<field>`.',
    }),
    secret_reference_id: Type.String({
      minLength: 1,
      maxLength: 255,
      description: 'Id or slug of a secret reference.',
    }),
    secret_key: Type.Optional(
      Type.Union([Type.String({ maxLength: 255 }), Type.Null()], {
        description: "Member of the secret's JSON. Default: the whole secret.",
      }),
    ),
    value_format: Type.Optional(Type.Union([Type.Literal('string'), Type.Literal('json')])),
  },
  strict,
);

/** The mappings of a record. */
export const SecretMappings = Type.Array(SecretMappingSchema, { maxItems: 50 });

/** Fields of an integration in bodies and files, without name and provider. */
export const integrationFields = {
  key: Type.Optional(orNull(ProviderKey)),
  description: Type.Optional(orNull(Description)),
  configurations: Type.Optional(ConfigurationsSchema),
  secret_mappings: Type.Optional(orNull(SecretMappings)),
  pricing_adjustments: Type.Optional(orNull(PricingAdjustments)),
};

/** Fields of new integrations only. */
export const newIntegrationFields = {
  name: Name('For people.'),
  ai_provider_id: Name('A provider of the provider table: `openai`, `bedrock` …'),
  create_default_provider: Type.Optional(
    Type.Boolean({ description: 'Create a provider in every workspace that may use it. Default true.' }),
  ),
  default_provider_slug: Type.Optional(Slug('Default: made of the name.')),
};

/** Settings that are no single secret, and those that determine the destination of secrets. */
const unmappable: ReadonlySet<string> = new Set([
  'azure_deployment_config',
  'custom_host',
  'vertex_auth_type',
  ...providerFields.filter(({ template, address }) => template || address).map(({ name }) => name),
]);

/** Fields of a record that secret references can fill. */
export interface MappableFields {
  /** Stored name of the field. */
  canonical(target: string): string;
  /** Reason why the field does not exist; undefined when it does. */
  refusal(field: string): string | undefined;
}

/** The fields of integrations of this provider. */
export function mappableFields(provider: string): MappableFields {
  const names = configurationNames(provider)
    .filter((name) => !unmappable.has(name))
    .map((name) => (name === 'custom_headers' ? 'headers' : name));
  const fields = ['key', ...names.map((name) => `configurations.${name}`)];
  return {
    canonical: (target) =>
      target.replace(/^model_config\./, 'configurations.').replace(/\.custom_headers$/, '.headers'),
    refusal(field) {
      if (fields.includes(field)) return undefined;
      const near = didYouMean(field, fields);
      return `is no field of ${provider}${near === undefined ? '' : `; did you mean ${near}?`}`;
    },
  };
}
