import { Type } from 'typebox';
import { didYouMean } from '../base/did-you-mean.ts';
import { providerFields } from '../providers/provider-fields.ts';
import { configurationNames, ConfigurationsSchema } from './integration-configurations.ts';
import { Description, Name, orNull, strict } from './text-schema.ts';

/** A slug that a body or a file gives. */
export const Slug = (description: string) =>
  Type.String({
    ...{ minLength: 1, maxLength: 255, pattern: '^[a-zA-Z0-9_-]+$' },
    description,
  });

/** What prices are multiplied by. */
export const PricingAdjustments = Type.Object(
  {
    multiplier: Type.Optional(
      Type.Object(
        { default: Type.Number({ exclusiveMinimum: 0, maximum: 1000, description: '1.2 adds a fifth.' }) },
        strict,
      ),
    ),
  },
  strict,
);

/** The credential of a body. */
export const ProviderKey = Type.String({
  ...{ minLength: 1, maxLength: 16_384 },
  description: "The provider's API key. Answered masked.",
});

/** Where the value of a field comes from instead of standing in the record. */
export const SecretMappingSchema = Type.Object(
  {
    target_field: Type.String({
      ...{ minLength: 1, maxLength: 255 },
      description: '`key`, or `configurations.<field>`.',
    }),
    secret_reference_id: Type.String({
      ...{ minLength: 1, maxLength: 255 },
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

/** What bodies and files say of an integration, beside its name and its provider. */
export const integrationFields = {
  key: Type.Optional(orNull(ProviderKey)),
  description: Type.Optional(orNull(Description)),
  configurations: Type.Optional(ConfigurationsSchema),
  secret_mappings: Type.Optional(orNull(SecretMappings)),
  pricing_adjustments: Type.Optional(orNull(PricingAdjustments)),
};

/** What only new integrations say. */
export const newIntegrationFields = {
  name: Name('For people.'),
  ai_provider_id: Name('A provider of the provider table: `openai`, `bedrock` …'),
  create_default_provider: Type.Optional(
    Type.Boolean({ description: 'Makes a provider in every workspace that may use it. Default true.' }),
  ),
  default_provider_slug: Type.Optional(Slug('Default: made of the name.')),
};

/** Settings that no single secret can be, and those that decide where secrets are sent. */
const unmappable: ReadonlySet<string> = new Set([
  'azure_deployment_config',
  'custom_host',
  'vertex_auth_type',
  ...providerFields.filter(({ template, address }) => template || address).map(({ name }) => name),
]);

/** The fields of a record that secret references can stand for. */
export interface MappableFields {
  /** The field as it is kept. */
  canonical(target: string): string;
  /** Why there is no such field; undefined when there is. */
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
