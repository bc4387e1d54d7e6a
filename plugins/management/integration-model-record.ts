import {
  GivenModel,
  inCents,
  maxModels,
  ModelConfigurations,
  modelHeaders,
  modelOf,
  PricingConfig,
} from '../../core/organisation/integration-model-schema.ts';
import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { IntegrationModel } from '../../core/ports/record-kinds.ts';
import { headersOf, maskedHeaders, unmaskedHeaders, type PlainSecrets } from './integration-secrets.ts';
import { refusedBody, type BodyMistake } from './refused-body.ts';
import { orNull } from './text-schema.ts';

export { GivenModel, modelHeaders };

/** A model as the API shows it. */
export const IntegrationModelReply = Type.Object({
  slug: Type.String(),
  name: Type.String(),
  enabled: Type.Boolean(),
  is_custom: Type.Boolean(),
  is_finetune: Type.Boolean(),
  base_model_slug: orNull(Type.String()),
  configurations: ModelConfigurations,
  pricing_config: Type.Optional(PricingConfig),
});

/** Models and their headers, as a body changes them. */
export interface ChangedModels {
  readonly models: readonly IntegrationModel[];
  readonly headers: PlainSecrets;
  /** Fields of headers that the body says in clear. */
  readonly given: Set<string>;
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
      headers[field] = JSON.stringify(unmaskedHeaders(custom, was, mistakes, at));
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

/** A model for the reference. */
export const modelExample: Static<typeof IntegrationModelReply> = {
  ...{ slug: 'gpt-4o-mini', name: 'gpt-4o-mini', enabled: true, is_custom: false, is_finetune: false },
  ...{ base_model_slug: null, configurations: {} },
};
