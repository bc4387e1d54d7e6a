import { definePlugin, type Scope } from '../../core/pipeline/plugin.ts';
import type { Cache } from '../../core/ports/cache.ts';
import { AnswerCache } from './answer-cache.ts';
import { Flights } from './flights.ts';
import { cacheableEndpoints, CacheSchema, type SemanticOptions } from './options.ts';
import { QuestionVectors } from './question-vectors.ts';
import { SimilarQuestions } from './similar-questions.ts';

/** By store: pipelines and generations that share one also share the calls that are on their way. */
const flightsOf = new WeakMap<Cache, Flights>();

/** Answers from the cache when the same has been asked before, and keeps what providers answer. */
export default definePlugin({
  name: 'cache',
  description:
    'Answers a request that was answered before without asking the provider: no tokens, no cost. It acts where the provider would be called, after every plugin has had its say about the request, limits included. The header `cache-status` under the header prefix and the log tell what it did: HIT, SEMANTIC HIT, MISS, SEMANTIC MISS, REFRESH or DISABLED.',
  schema: CacheSchema,
  // Without `key`, the answers of one workspace would be found by another. No `reads`: the gateway itself has read the
  // bodies of all endpoints that can be cached, and others are to stream by. No bound: `max_wait_ms` rules.
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
      ...{ cache, clock, log, flights, mode, maxAgeLimitMs },
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
