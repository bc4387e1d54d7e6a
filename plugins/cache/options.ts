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

/** Options of `cache`. */
export const CacheSchema = Type.Object(
  {
    mode: Type.Optional(
      Type.Literal('simple', {
        default: 'simple',
        description:
          '`simple`: an answer is found again when the very same is asked. The only mode; answers to similar questions (`semantic`) are not cached yet.',
      }),
    ),
    max_age: Type.Optional(
      Type.Integer({
        default: 3600,
        minimum: 1,
        maximum: 7_776_000,
        description: 'How long an answer is used, in seconds; 90 days at the most.',
      }),
    ),
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
