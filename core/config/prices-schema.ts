import { Type } from 'typebox';
import type { OwnPrice } from '../ports/prices.ts';
import { section, strict } from './schema-object.ts';

const maxPrice = 1_000_000;
const perMillion = (what: string) =>
  Type.Number({ minimum: 0, maximum: maxPrice, description: `US dollars per million ${what}.` });

const about = {
  provider: Type.String({
    minLength: 1,
    maxLength: 64,
    examples: ['openai'],
    description: 'The kind of provider, as in the provider table; `*` for every one.',
  }),
  model: Type.String({
    minLength: 1,
    maxLength: 256,
    examples: ['gpt-4o*'],
    description:
      'The name of a model, or its beginning with a `*` behind it. A whole name counts before a beginning, a longer beginning before a shorter one.',
  }),
  from: Type.Optional(
    Type.Union([Type.String({ format: 'date' }), Type.String({ format: 'date-time' })], {
      description: 'From when on it holds: a day (UTC) or a moment. Default: always.',
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
        description: 'US dollars per request, beside its tokens.',
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
      description: 'Instead of prices: multiplies what is known otherwise, such as 0.9 for a discount.',
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
          'Price data in the format of genai-prices (`data.json`, v2), read every hour. While it cannot be read, the copy of what was read last is used, without one the data of the installed version. Default: that alone. A private address has to be named in `security.trusted_hosts` as well.',
      }),
    ),
    models: Type.Optional(
      Type.Array(Type.Union([Prices, Factor]), {
        default: [],
        maxItems: 1000,
        description:
          'Prices of models, and factors on prices, from a date on. They count before the price data; of several for one model, the latest that holds.',
      }),
    ),
  },
  { ...section, description: 'What models cost. [money.md](money.md) explains it.' },
);

/** The block in use: defaults filled in. */
export interface PriceSettings {
  readonly url?: string;
  readonly models: readonly OwnPrice[];
}
