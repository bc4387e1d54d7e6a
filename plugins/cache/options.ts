import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { EndpointId } from '../../core/dialects/endpoint.ts';

/** The endpoints that can be cached: those whose bodies the gateway reads and that answer the same question alike. */
export const cacheableEndpoints = [
  'chat.completions',
  'completions',
  'embeddings',
  'moderations',
  'rerank',
  'responses',
  'messages',
  'generate-content',
] as const satisfies readonly EndpointId[];

const SemanticSchema = Type.Object(
  {
    provider: Type.String({
      minLength: 1,
      description: 'Which of the configured providers makes the vectors of questions.',
    }),
    model: Type.Optional(
      Type.String({
        minLength: 1,
        default: 'text-embedding-3-small',
        description: 'The model that makes them.',
      }),
    ),
    threshold: Type.Optional(
      Type.Number({
        default: 0.95,
        minimum: 0,
        maximum: 1,
        description:
          'How similar a question must be to one that was answered: the least cosine of their vectors.',
      }),
    ),
    max_entries: Type.Optional(
      Type.Integer({
        default: 10_000,
        minimum: 1,
        maximum: 1_000_000,
        description:
          'How many answered questions are known in this process; the ones used longest ago leave first. One takes about 4 bytes for each number of its vector.',
      }),
    ),
    timeout_ms: Type.Optional(
      Type.Integer({
        default: 2000,
        minimum: 10,
        maximum: 60_000,
        description: 'How long a request waits for the vector of its question; after that it is a miss.',
      }),
    ),
    ignore_system_prompt: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Gives answers also to requests with other instructions (`system`, `developer`). By default these must be the same.',
      }),
    ),
  },
  {
    additionalProperties: false,
    description: 'How similar questions are found, for `mode: semantic` and for configs that ask for it.',
  },
);

/** Options of `cache`. */
export const CacheSchema = Type.Object(
  {
    mode: Type.Optional(
      Type.Union([Type.Literal('simple'), Type.Literal('semantic'), Type.Literal('config')], {
        default: 'simple',
        description:
          'What is cached where no config says anything. `simple`: an answer is found again when the very same is asked. `semantic`: also when a similar question is asked; needs the option `semantic`. `config`: nothing. A config that says something about caching stands in its place.',
      }),
    ),
    max_age: Type.Optional(
      Type.Integer({
        default: 3600,
        minimum: 1,
        maximum: 7_776_000,
        description: 'How long an answer is used, in seconds, where no config says otherwise.',
      }),
    ),
    max_age_limit: Type.Optional(
      Type.Integer({
        default: 7_776_000,
        minimum: 1,
        maximum: 7_776_000,
        description:
          'The longest `max_age` that a config gets, in seconds, whatever it asks for; 90 days at the most. The shortest is one second.',
      }),
    ),
    semantic: Type.Optional(SemanticSchema),
    max_value_bytes: Type.Optional(
      Type.Integer({
        default: 1_048_576,
        minimum: 1024,
        maximum: 67_108_864,
        description:
          'A longer answer is not cached. The store has a bound of its own (`storage.cache.max_value_bytes`).',
      }),
    ),
    max_wait_ms: Type.Optional(
      Type.Integer({
        default: 30_000,
        minimum: 0,
        maximum: 600_000,
        description:
          'How long a request waits for the answer to the same one that is on its way already; 0 lets each make its own call.',
      }),
    ),
    endpoints: Type.Optional(
      Type.Array(
        Type.Union([
          Type.Literal('chat.completions'),
          Type.Literal('completions'),
          Type.Literal('embeddings'),
          Type.Literal('moderations'),
          Type.Literal('rerank'),
          Type.Literal('responses'),
          Type.Literal('messages'),
          Type.Literal('generate-content'),
        ]),
        {
          default: [...cacheableEndpoints],
          minItems: 1,
          uniqueItems: true,
          description: 'Which endpoints are cached. Uploads and endpoints that are not modelled never are.',
        },
      ),
    ),
  },
  { additionalProperties: false },
);

export type CacheOptions = Static<typeof CacheSchema>;

/** Its part `semantic`. */
export type SemanticOptions = Static<typeof SemanticSchema>;
