import { definePlugin } from '../../core/pipeline/plugin.ts';
import type { Cache } from '../../core/ports/cache.ts';
import { AnswerCache } from './answer-cache.ts';
import { Flights } from './flights.ts';
import { cacheableEndpoints, CacheSchema } from './options.ts';

/** By store: pipelines and generations that share one also share the calls that are on their way. */
const flightsOf = new WeakMap<Cache, Flights>();

/** Answers from the cache when the same has been asked before, and keeps what providers answer. */
export default definePlugin({
  name: 'cache',
  description:
    'Answers a request that was answered before without asking the provider: no tokens, no cost. It acts where the provider would be called, after every plugin has had its say about the request, limits included. The header `cache-status` under the header prefix and the log tell what it did: HIT, MISS, REFRESH or DISABLED.',
  schema: CacheSchema,
  // Without `key`, the answers of one workspace would be found by another. No `reads`: the gateway itself has read the
  // bodies of all endpoints that can be cached, and others are to stream by. No bound: `max_wait_ms` rules.
  capabilities: { needs: ['key'], timeoutMs: 0 },
  create(options, { cache, clock, headerPrefix }) {
    let flights = flightsOf.get(cache);
    if (flights === undefined) flightsOf.set(cache, (flights = new Flights()));
    const answers = new AnswerCache({
      ...{ cache, clock, flights },
      statusHeader: `${headerPrefix}-cache-status`,
      maxAgeMs: (options.max_age ?? 3600) * 1000,
      maxValueBytes: options.max_value_bytes ?? 1_048_576,
      maxWaitMs: options.max_wait_ms ?? 30_000,
      endpoints: new Set<string>(options.endpoints ?? cacheableEndpoints),
    });
    return {
      attempt: (context) => answers.attempt(context),
      attempted: (context, answer) => answers.attempted(context, answer),
      settled: (context, outcome) => answers.settled(context, outcome),
    };
  },
});
