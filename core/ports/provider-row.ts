import { Type, type Static } from 'typebox';

/** One row of the provider table, and the shape of a provider in YAML. */
export const ProviderRowSchema = Type.Object(
  {
    dialect: Type.Optional(
      Type.Union(
        [Type.Literal('openai-chat'), Type.Literal('openai-responses'), Type.Literal('anthropic-messages')],
        {
          description: 'The wire format that the host speaks. Default openai-chat.',
        },
      ),
    ),
    base_url: Type.Optional(
      Type.String({
        description:
          'Where the API begins, with its version path: https://api.openai.com/v1. `mock:` is the built-in provider.',
        pattern: '^(https?://[^\\s]+|mock:.*)$',
      }),
    ),
    credentials: Type.Optional(
      Type.Union(
        [Type.Literal('bearer'), Type.Literal('x-api-key'), Type.Literal('api-key'), Type.Literal('none')],
        {
          description:
            'How the credential is sent: `Authorization: Bearer`, `x-api-key`, `api-key`, or not at all. Default bearer.',
        },
      ),
    ),
    headers: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: 'Headers added to every request to this host.',
      }),
    ),
    usage_in_stream: Type.Optional(
      Type.Union([Type.Literal('always'), Type.Literal('on_request'), Type.Literal('never')], {
        description:
          'Whether streamed chat answers carry usage: always, only when `stream_options.include_usage` asks (default), or never.',
      }),
    ),
    service: Type.Optional(
      Type.String({
        description: 'The kind of provider, for analytics and prices. Default: the name of the row.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type ProviderRow = Static<typeof ProviderRowSchema>;

/** The built-in hosts by name. */
export type ProviderTable = ReadonlyMap<string, ProviderRow>;
