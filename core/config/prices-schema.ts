import { Type } from 'typebox';
import { section, strict } from './describe-schema.ts';

const maxPrice = 1_000_000;
const perMillion = (what: string) =>
  Type.Number({ minimum: 0, maximum: maxPrice, description: `US dollars per million ${what}.` });

const about = {
  provider: Type.String({
    minLength: 1,
    maxLength: 64,
    examples: ['openai'],
    description: 'Kind of provider, as in the provider table; `*` for all.',
  }),
  model: Type.String({
    minLength: 1,
    maxLength: 256,
    examples: ['gpt-4o*'],
    description:
      'Name of a model, or a prefix followed by `*`. An exact name takes precedence over a prefix, a longer prefix over a shorter one.',
  }),
  from: Type.Optional(
    Type.Union([Type.String({ format: 'date' }), Type.String({ format: 'date-time' })], {
      description: 'Start of validity: a day (UTC) or a point in time. Default: always.',
    }),
  ),
};

const Prices = Type.Object(
  {
    ...about,
    input: perMillion('input tokens'),
    output: Type.Optional(perMillion('output tokens')),
    cache_read: Type.Optional(perMillion('input tokens that the provider has cached')),
    cache_write: Type.Optional(perMillion('input tokens that it begins to cache')),
    input_audio: Type.Optional(perMillion('input tokens of audio')),
    cache_audio_read: Type.Optional(perMillion('input tokens of audio that it has cached')),
    output_audio: Type.Optional(perMillion('output tokens of audio')),
    reasoning: Type.Optional(perMillion('output tokens of reasoning')),
    request: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: maxPrice,
        description: 'US dollars per request, in addition to its tokens.',
      }),
    ),
  },
  strict,
);

const Factor = Type.Object(
  {
    ...about,
    factor: Type.Number({
      minimum: 0,
      maximum: 1000,
      description:
        'Instead of prices: multiplies the price that otherwise applies, such as 0.9 for a discount.',
    }),
  },
  strict,
);

/** `prices:` of the file. */
export const PricesBlock = Type.Object(
  {
    url: Type.Optional(
      Type.String({
        maxLength: 2048,
        pattern: '^https?://[^\\s/?#@]+([/?][^\\s#]*)?$',
        'x-expected': 'an address such as "https://example.com/prices.json"',
        description:
          'Price data in the format of genai-prices (`data.json`, v2), read every hour. If it cannot be read, the gateway uses its last copy, or, without a copy, the data of the installed version. Default: only the data of the installed version. A private address has to be listed in `security.trusted_hosts` as well.',
      }),
    ),
    models: Type.Optional(
      Type.Array(Type.Union([Prices, Factor]), {
        default: [],
        maxItems: 1000,
        description:
          'Prices of models, and factors on prices, valid from a date. They take precedence over the price data; if several apply to one model, the latest one counts.',
      }),
    ),
  },
  { ...section, description: 'Prices of models. [money.md](money.md) explains it.' },
);
