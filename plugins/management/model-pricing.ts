import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope } from '../../core/pipeline/plugin.ts';

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

/** `GET /model-configs/pricing/{provider}/{model}`: what the gateway knows of the price of a model. */
export function modelPricingRoute({ clock, prices }: Scope): RouteDefinition {
  return defineRoute({
    id: 'model_pricing.get',
    method: 'GET',
    path: '/model-configs/pricing/{provider}/{model}',
    summary: 'What a model costs: US cents for each kind of token, without what integrations say',
    scope: ['models.list', 'completions.write'],
    // Reads only.
    audit: null,
    params: Type.Object({
      provider: Type.String({
        minLength: 1,
        maxLength: 255,
        examples: ['openai'],
        description: 'A kind of provider.',
      }),
      model: Type.String({
        minLength: 1,
        maxLength: 255,
        examples: ['gpt-4o'],
        description: 'Slashes within it are sent as %2F.',
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
  // Rounded where floating point leaves noise, 18 digits behind the point.
  return dollars === undefined ? {} : { [name]: { price: Number((dollars * 100).toFixed(18)) } };
}
