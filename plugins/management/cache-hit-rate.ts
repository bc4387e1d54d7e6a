import { Type } from '../../core/pipeline/plugin.ts';
import type { Measures } from '../../core/ports/analytics.ts';
import { dataPoints, type Graph } from './graph.ts';
import { Count, counted, dollars, Figure, measured, per, percent, Timestamp } from './graph-values.ts';

const Saved = (description: string) =>
  Type.Union([Type.Number(), Type.Null()], {
    description: `${description} An estimate; null without an answer from the cache, or without any other.`,
  });

/**
 * How often the cache answered, and what that has saved until the end of each point. The estimate takes every hit for an
 * average request that was none, of the whole window.
 */
export const cacheHitRate: Graph = {
  path: 'cache/hit-rate',
  alias: 'cache-hit-rate',
  title: 'Answers from the cache over time, and what they saved',
  summary: {
    total: Count('Requests that the cache answered.'),
    rate: Figure('Percent of the requests: 0 to 100.'),
  },
  point: {
    timestamp: Timestamp,
    simple_hits: Count('Answered by an equal request.'),
    semantic_hits: Count('Answered by a request of the same meaning.'),
    rate: Figure('Percent of the requests: 0 to 100.'),
    cumulative_simple_cache_savings: Saved('US dollars that the former have saved since the window began.'),
    cumulative_semantic_cache_savings: Saved('US dollars that the latter have saved since the window began.'),
    cumulative_time_savings: Saved('Milliseconds that both have saved since the window began.'),
  },
  async read(source) {
    const { totals, points } = await source.series([
      ...(['requests', 'simple_hits', 'semantic_hits', 'cost'] as const),
      ...(['avg_hit_latency', 'avg_miss_latency'] as const),
    ]);
    const all = totals[0]?.values ?? {};
    const saved = savingsOf(all);
    let [simple, semantic] = [0, 0];
    return {
      summary: { total: hitsOf(all), rate: percent(hitsOf(all), counted(all, 'requests')) },
      data_points: await dataPoints(points, ({ values }) => {
        simple += counted(values, 'simple_hits');
        semantic += counted(values, 'semantic_hits');
        return {
          simple_hits: counted(values, 'simple_hits'),
          semantic_hits: counted(values, 'semantic_hits'),
          rate: percent(hitsOf(values), counted(values, 'requests')),
          cumulative_simple_cache_savings: times(saved.cost, simple),
          cumulative_semantic_cache_savings: times(saved.cost, semantic),
          cumulative_time_savings: times(saved.ms, simple + semantic),
        };
      }),
    };
  },
};

/** Requests that the cache answered. */
export function hitsOf(values: Measures): number {
  return counted(values, 'simple_hits') + counted(values, 'semantic_hits');
}

/** What one hit saves. */
function savingsOf(all: Measures): { readonly cost: number | null; readonly ms: number | null } {
  const [hit, miss] = [measured(all, 'avg_hit_latency'), measured(all, 'avg_miss_latency')];
  return {
    cost: per(dollars(all.cost), counted(all, 'requests') - hitsOf(all)),
    ms: hit === null || miss === null ? null : miss - hit,
  };
}

function times(one: number | null, count: number): number | null {
  return one === null ? null : one * count;
}
