import { Type, type Static } from '../../core/pipeline/plugin.ts';
import { strict } from './text-schema.ts';

const mostReported = 100;

const Headers = Type.Optional(
  Type.Record(Type.String(), Type.Unknown(), {
    description: 'Taken, because existing clients send them, and not kept.',
  }),
);

const Body = (description: string) => Type.Unknown({ description });

const Log = Type.Object(
  {
    request: Type.Object(
      {
        url: Type.String({
          minLength: 1,
          maxLength: 2048,
          examples: ['https://api.openai.com/v1/chat/completions'],
          description: 'Where it was sent. Its path says how the bodies are read.',
        }),
        method: Type.Optional(Type.String({ minLength: 1, maxLength: 32, description: 'Default `POST`.' })),
        headers: Headers,
        body: Body('What was sent: a JSON value, or any text.'),
        provider: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 255,
            description: 'The kind of provider, for prices. Default: the one whose address the URL has.',
          }),
        ),
      },
      strict,
    ),
    response: Type.Object(
      {
        status: Type.Optional(Type.Integer({ minimum: 100, maximum: 599, description: 'Default 200.' })),
        headers: Headers,
        body: Body('What was answered: a JSON value, or the text of a stream of events.'),
        response_time: Type.Optional(
          Type.Number({ minimum: 0, maximum: 86_400_000, description: 'Milliseconds until the last byte.' }),
        ),
      },
      strict,
    ),
    metadata: Type.Optional(
      Type.Record(Type.String({ minLength: 1, maxLength: 255 }), Type.String({ maxLength: 1024 }), {
        maxProperties: 50,
        examples: [{ trace_id: 'checkout-17', span_name: 'answer', team: 'search' }],
        description:
          'Texts by name. `trace_id`, `span_id`, `parent_span_id` and `span_name` say where the request stands in a trace; `_user` says who sent it.',
      }),
    ),
  },
  strict,
);
/** One request that was sent somewhere else. */
export type ReportedLog = Static<typeof Log>;

/** What `POST /logs` takes: one, or a list. */
export const ReportedLogs = Type.Union([
  Log,
  Type.Array(Log, { minItems: 1, maxItems: mostReported, description: `At most ${mostReported}.` }),
]);
