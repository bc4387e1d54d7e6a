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
const CacheSchema = Type.Object(
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

/** The option `semantic`. */
type SemanticOptions = Static<typeof SemanticSchema>;

/** Flights by store: pipelines and generations that share a store also share its open calls. */
const flightsOf = new WeakMap<Cache, Flights>();

/** Answers repeated requests from the cache, and stores the answers of providers. */
export default definePlugin({
  name: 'cache',
  description:
    'Answers a request that was answered before without asking the provider: no tokens, no cost. It acts where the provider would be called, after every plugin has had its say about the request, limits included. The header `cache-status` under the header prefix and the log tell what it did: HIT, SEMANTIC HIT, MISS, SEMANTIC MISS, REFRESH or DISABLED.',
  schema: CacheSchema,
  // Without `key`, one workspace would get the answers of another. No `reads`: the gateway itself has read the bodies
  // of all cacheable endpoints, and other bodies must stream through. No timeout: `max_wait_ms` bounds the wait.
  capabilities: { needs: ['key'], timeoutMs: 0 },
  check({ mode, semantic }) {
    if (mode !== 'semantic' || semantic !== undefined) return [];
    const message =
      'semantic needs a provider that makes vectors of questions; name one beside it: semantic: { provider: openai }';
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
