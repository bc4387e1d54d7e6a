import { definePlugin, type Scope, type Static, Type } from '../../core/pipeline/plugin.ts';
import type { Cache } from '../../core/ports/cache.ts';
import { AnswerCache, Flights } from './answer-cache.ts';
import { QuestionVectors, SimilarQuestions } from './similar-questions.ts';
import type { EndpointId } from '../../core/dialects/endpoint.ts';

/** Cacheable endpoints: the gateway reads their bodies, and they give the same answer to the same request. */
const cacheableEndpoints = [
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
      description: 'Configured provider that computes the embeddings of questions.',
    }),
    model: Type.Optional(
      Type.String({
        minLength: 1,
        default: 'text-embedding-3-small',
        description: 'Embedding model.',
      }),
    ),
    threshold: Type.Optional(
      Type.Number({
        default: 0.95,
        minimum: 0,
        maximum: 1,
        description: 'Least similarity between a question and an answered one: cosine of their embeddings.',
      }),
    ),
    max_entries: Type.Optional(
      Type.Integer({
        default: 10_000,
        minimum: 1,
        maximum: 1_000_000,
        description:
          'Most answered questions in the index of this process; the least recently used ones are evicted. Each takes about 4 bytes per dimension of its embedding.',
      }),
    ),
    timeout_ms: Type.Optional(
      Type.Integer({
        default: 2000,
        minimum: 10,
        maximum: 60_000,
        description:
          'Longest time that a request waits for the embedding of its question; after that it is a miss.',
      }),
    ),
    ignore_system_prompt: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Also match requests with different instructions (`system`, `developer`). By default these must be the same.',
      }),
    ),
  },
  {
    additionalProperties: false,
    description: 'Search for similar questions, for `mode: semantic` and for configs that request it.',
  },
);

/** Options of `cache`. */
const CacheSchema = Type.Object(
  {
    mode: Type.Optional(
      Type.Union([Type.Literal('simple'), Type.Literal('semantic'), Type.Literal('config')], {
        default: 'simple',
        description:
          'Cache mode where the config of the request sets none. `simple`: an answer matches only the same request. `semantic`: it also matches requests with a similar question; needs the option `semantic`. `config`: no caching. The `cache` setting of a config replaces this mode.',
      }),
    ),
    max_age: Type.Optional(
      Type.Integer({
        default: 3600,
        minimum: 1,
        maximum: 7_776_000,
        description: 'Lifetime of an answer, in seconds, where no config sets one.',
      }),
    ),
    max_age_limit: Type.Optional(
      Type.Integer({
        default: 7_776_000,
        minimum: 1,
        maximum: 7_776_000,
        description:
          'Upper bound for the `max_age` of configs, in seconds; 90 days at most. The lower bound is one second.',
      }),
    ),
    semantic: Type.Optional(SemanticSchema),
    max_value_bytes: Type.Optional(
      Type.Integer({
        default: 1_048_576,
        minimum: 1024,
        maximum: 67_108_864,
        description:
          'Largest answer that is cached. The store has its own limit (`storage.cache.max_value_bytes`).',
      }),
    ),
    max_wait_ms: Type.Optional(
      Type.Integer({
        default: 30_000,
        minimum: 0,
        maximum: 600_000,
        description:
          'Longest time that a request waits for the answer to an identical request in progress; 0: each request makes its own call.',
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
          description:
            'Endpoints whose answers are cached. Uploads and endpoints that are not modelled are never cached.',
        },
      ),
    ),
  },
  { additionalProperties: false },
);

export type CacheOptions = Static<typeof CacheSchema>;

/** The option `semantic`. */
type SemanticOptions = Static<typeof SemanticSchema>;

/** Flights by store: pipelines and generations that share a store also share its open calls. */
const flightsOf = new WeakMap<Cache, Flights>();

/** Answers repeated requests from the cache, and stores the answers of providers. */
export default definePlugin({
  name: 'cache',
  description:
    'Answers repeated requests from the cache without a call to the provider: no tokens, no cost. It acts immediately before the call to the provider, after all plugins have processed the request, including limits. The header `cache-status` under the header prefix and the log show the result: HIT, SEMANTIC HIT, MISS, SEMANTIC MISS, REFRESH or DISABLED.',
  schema: CacheSchema,
  // Without `key`, one workspace would get the answers of another. No `reads`: the gateway itself has read the bodies
  // of all cacheable endpoints, and other bodies must stream through. No timeout: `max_wait_ms` bounds the wait.
  capabilities: { needs: ['key'], timeoutMs: 0 },
  check({ mode, semantic }) {
    if (mode !== 'semantic' || semantic !== undefined) return [];
    const message =
      'semantic needs a provider for the embeddings of questions; name one next to it: semantic: { provider: openai }';
    return [{ path: '/mode', message }];
  },
  create(options, scope) {
    const { cache, clock, log } = scope;
    const { mode = 'simple', semantic } = options;
    let flights = flightsOf.get(cache);
    if (flights === undefined) flightsOf.set(cache, (flights = new Flights()));
    const maxAgeLimitMs = (options.max_age_limit ?? 7_776_000) * 1000;
    const answers = new AnswerCache({
      cache,
      clock,
      log,
      flights,
      mode,
      maxAgeLimitMs,
      maxAgeMs: (options.max_age ?? 3600) * 1000,
      maxValueBytes: options.max_value_bytes ?? 1_048_576,
      maxWaitMs: options.max_wait_ms ?? 30_000,
      endpoints: new Set<string>(options.endpoints ?? cacheableEndpoints),
      similar: semantic === undefined ? undefined : similarQuestions(semantic, scope),
    });
    return {
      attempt: (context) => answers.attempt(context),
      attempted: (context, answer) => answers.attempted(context, answer),
      settled: (context, outcome) => answers.settled(context, outcome),
    };
  },
});

/** Throws when no vectors can be made with these options. */
function similarQuestions(semantic: SemanticOptions, scope: Scope): SimilarQuestions {
  const { embeddings, vectors: index, clock, log, metrics } = scope;
  const { provider, model = 'text-embedding-3-small', timeout_ms: timeoutMs = 2000 } = semantic;
  const settings = { provider, model, timeoutMs };
  const problem = embeddings.problem(settings);
  if (problem !== undefined) throw new Error(`semantic: ${problem}`);
  return new SimilarQuestions({
    vectors: new QuestionVectors({ embeddings, settings, clock, log, metrics }),
    index,
    rules: {
      ignoreSystemPrompt: semantic.ignore_system_prompt ?? false,
      space: JSON.stringify([provider, model]),
    },
    threshold: semantic.threshold ?? 0.95,
    maxEntries: semantic.max_entries ?? 10_000,
  });
}
