import { Type, type Static } from 'typebox';
import type { IntegrationModel } from '../ports/record-kinds.ts';
import { orNull, strict } from './text-schema.ts';

/** Models that an integration says something of, at most. */
export const maxModels = 1000;
const centsInDollar = 100;

const Price = Type.Object(
  { price: Type.Number({ minimum: 0, maximum: 1_000_000, description: 'US cents for a token.' }) },
  strict,
);

/** What a model costs. */
export const PricingConfig = Type.Object(
  {
    type: Type.Optional(Type.Literal('static')),
    pay_as_you_go: Type.Object({ request_token: Price, response_token: Price }, strict),
  },
  strict,
);

const slug = Type.String({
  minLength: 1,
  maxLength: 255,
  pattern: '^[^,\\s]+$',
  description: 'As requests name it.',
});
const Headers = Type.Record(Type.String(), Type.String({ minLength: 1, maxLength: 8192 }), {
  maxProperties: 50,
  propertyNames: { pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,255}$" },
});

/** What requests for one model need beside the settings of the integration. */
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
  { ...strict, description: 'What requests for this model need beside the settings of the integration.' },
);

/** What a body or a file says of a model. */
export const GivenModel = Type.Object(
  {
    slug,
    name: Type.Optional(orNull(Type.String({ maxLength: 255, description: 'The slug. Not kept.' }))),
    enabled: Type.Boolean(),
    is_custom: Type.Optional(orNull(Type.Boolean({ description: 'The catalogue does not know it.' }))),
    is_finetune: Type.Optional(orNull(Type.Boolean())),
    base_model_slug: Type.Optional(
      orNull(Type.String({ maxLength: 255, description: 'The model whose price it has.' })),
    ),
    configurations: Type.Optional(orNull(ModelConfigurations)),
    pricing_config: Type.Optional(orNull(PricingConfig)),
  },
  strict,
);

/** The name of the secret that holds the headers of a model. */
export function modelHeaders(model: string): string {
  return `models.${model}.headers`;
}

/** The model after what is said of it; what is not, stays. Its headers are a secret, and not part of it. */
export function modelOf(
  given: Static<typeof GivenModel>,
  before: IntegrationModel | undefined,
): IntegrationModel {
  const { configurations, pricing_config: pricing, base_model_slug: base } = given;
  const host = configurations?.custom_host;
  const tokens = pricing?.pay_as_you_go;
  return {
    ...{ slug: given.slug, enabled: given.enabled },
    isCustom: given.is_custom ?? before?.isCustom ?? false,
    isFinetune: given.is_finetune ?? before?.isFinetune ?? false,
    baseModelSlug: base === undefined ? (before?.baseModelSlug ?? '') : (base ?? ''),
    configurations:
      configurations === undefined
        ? (before?.configurations ?? {})
        : host === undefined
          ? {}
          : { custom_host: host },
    pricing:
      pricing === undefined
        ? before?.pricing
        : tokens && {
            requestToken: inDollars(tokens.request_token.price),
            responseToken: inDollars(tokens.response_token.price),
          },
  };
}

function inDollars(cents: number): number {
  return exact(cents / centsInDollar);
}

/** US dollars for a token as the API shows them: in cents. */
export function inCents(dollars: number): number {
  return exact(dollars * centsInDollar);
}

/** Without what binary fractions add: 0.1 + 0.2 is 0.3. */
function exact(value: number): number {
  return Number(value.toPrecision(15));
}
