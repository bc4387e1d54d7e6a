import { GatewayError, Type, type Static } from '../../core/pipeline/plugin.ts';
import type { IntegrationModel } from '../../core/ports/record-kinds.ts';
import { headersOf, maskedHeaders, unmaskedHeaders, type PlainSecrets } from './integration-secrets.ts';
import { refusedBody, type BodyMistake } from './refused-body.ts';
import { orNull, strict } from './text-schema.ts';

const maxModels = 1000;
const centsInDollar = 100;

const Price = Type.Object(
  { price: Type.Number({ minimum: 0, maximum: 1_000_000, description: 'US cents for a token.' }) },
  strict,
);

const PricingConfig = Type.Object(
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
const Configurations = Type.Object(
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

/** What a body says of a model. */
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
    configurations: Type.Optional(orNull(Configurations)),
    pricing_config: Type.Optional(orNull(PricingConfig)),
  },
  strict,
);

/** A model as the API shows it. */
export const IntegrationModelReply = Type.Object({
  slug: Type.String(),
  name: Type.String(),
  enabled: Type.Boolean(),
  is_custom: Type.Boolean(),
  is_finetune: Type.Boolean(),
  base_model_slug: orNull(Type.String()),
  configurations: Configurations,
  pricing_config: Type.Optional(PricingConfig),
});

/** The name of the secret that holds the headers of a model. */
export function modelHeaders(model: string): string {
  return `models.${model}.headers`;
}

/** Models and their headers, as a body changes them. */
export interface ChangedModels {
  readonly models: readonly IntegrationModel[];
  readonly headers: PlainSecrets;
}

/** What the body makes of the models: those that it names take the place of their own kind. Throws `invalid_request`. */
export function changedModels(
  given: readonly Static<typeof GivenModel>[],
  before: readonly IntegrationModel[],
  plain: PlainSecrets,
): ChangedModels {
  const models = new Map(before.map((model) => [model.slug, model]));
  const headers: Record<string, string> = {};
  for (const [field, text] of Object.entries(plain)) if (field.startsWith('models.')) headers[field] = text;
  const mistakes: BodyMistake[] = [];
  const seen = new Set<string>();
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
      headers[field] = JSON.stringify(unmaskedHeaders(custom, was, mistakes, at));
    }
  });
  if (mistakes.length > 0) throw refusedBody(mistakes);
  if (models.size > maxModels) {
    throw new GatewayError(
      'invalid_request',
      `An integration says something of ${maxModels} models at the most, and these would be ${models.size}. Delete some first.`,
      { param: '/models' },
    );
  }
  return { models: [...models.values()], headers };
}

/** What is not given stays. */
function modelOf(given: Static<typeof GivenModel>, before: IntegrationModel | undefined): IntegrationModel {
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

/** Puts a model into the shape of the API. */
export function showModel(
  model: IntegrationModel,
  plain: PlainSecrets,
): Static<typeof IntegrationModelReply> {
  const host = model.configurations['custom_host'];
  const headers = plain[modelHeaders(model.slug)];
  return {
    ...{ slug: model.slug, name: model.slug, enabled: model.enabled },
    ...{ is_custom: model.isCustom, is_finetune: model.isFinetune },
    base_model_slug: model.baseModelSlug === '' ? null : model.baseModelSlug,
    configurations: {
      ...(typeof host === 'string' && { custom_host: host }),
      ...(headers !== undefined && { custom_headers: maskedHeaders(headersOf(headers)) }),
    },
    ...(model.pricing !== undefined && {
      pricing_config: {
        type: 'static' as const,
        pay_as_you_go: {
          request_token: { price: inCents(model.pricing.requestToken) },
          response_token: { price: inCents(model.pricing.responseToken) },
        },
      },
    }),
  };
}

function inDollars(cents: number): number {
  return exact(cents / centsInDollar);
}

function inCents(dollars: number): number {
  return exact(dollars * centsInDollar);
}

/** Without what binary fractions add: 0.1 + 0.2 is 0.3. */
function exact(value: number): number {
  return Number(value.toPrecision(15));
}

/** A model for the reference. */
export const modelExample: Static<typeof IntegrationModelReply> = {
  ...{ slug: 'gpt-4o-mini', name: 'gpt-4o-mini', enabled: true, is_custom: false, is_finetune: false },
  ...{ base_model_slug: null, configurations: {} },
};
