import { Type, type Static } from '../../core/pipeline/plugin.ts';

/** Options of `inline-image`, spelled as in existing guardrail configurations. */
export const InlineImageSchema = Type.Object(
  {
    providers: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
        minItems: 1,
        maxItems: 1000,
        uniqueItems: true,
        description:
          'Only for attempts at these providers: a name as addressed, a slug with or without its `@`, or a kind of provider (`anthropic`). Default: for every provider.',
      }),
    ),
    maxSizeBytes: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 104_857_600,
        default: 20_971_520,
        description:
          'Largest image. All images of a request together may have 64 MiB, or this when it is more.',
      }),
    ),
    timeoutMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 600_000,
        default: 30_000,
        description: 'Longest wait for all images of an attempt together, in milliseconds.',
      }),
    ),
    failOnError: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Refuse the request when an image cannot be fetched. When false, its URL stays as it is and the log warns.',
      }),
    ),
  },
  { additionalProperties: false },
);

/** The options as written. */
export type InlineImageOptions = Static<typeof InlineImageSchema>;
