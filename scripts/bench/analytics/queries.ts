import { GatewayError } from '../../../core/errors/gateway-error.ts';
import type {
  Analytics,
  GroupQuery,
  Measure,
  RequestSeriesQuery,
  TimeWindow,
  Visibility,
} from '../../../core/ports/analytics.ts';
import type { SeededStore } from './store.ts';

/** One kind of question and its times, in milliseconds. */
export interface QueryFigures {
  readonly name: string;
  readonly clients: number;
  readonly asked: number;
  /** Questions that the gate refused; their wait counts as their time. */
  readonly refused: number;
  readonly median_ms: number;
  readonly p99_ms: number;
  readonly bound_median_ms: number;
  readonly bound_p99_ms: number | undefined;
}

interface Kind {
  readonly name: string;
  readonly clients: number;
  readonly median: number;
  readonly p99?: number;
  /** Of the rounds, how many it is asked; default all. Slow ones need no more to be known. */
  readonly share?: number;
  /** Asks one after the other; client and number make each question unique. */
  readonly ask: readonly ((number: number) => Promise<unknown>)[];
}

const dayMs = 86_400_000;
const hourMs = 3_600_000;
const percentiles: readonly Measure[] = [
  'requests',
  'cost',
  'avg_latency',
  'p50_latency',
  'p95_latency',
  'p99_latency',
];
const columns: GroupQuery['columns'] = [
  ...(['cost', 'total_tokens', 'avg_latency', 'p95_latency', 'p99_latency'] as const),
  ...(['success_rate', 'error_count', 'cache_hit_rate', 'last_seen'] as const),
];

/** Asks every kind of question that has a bound, through the port as the routes do, `rounds` times each. */
export async function askAll(
  analytics: Analytics,
  store: SeededStore,
  rounds: number,
): Promise<QueryFigures[]> {
  const figures: QueryFigures[] = [];
  for (const kind of kindsOf(analytics, store)) {
    // Once before, so that code and caches are as they are in a gateway that runs.
    for (const ask of kind.ask) await ask(-1);
    const times: number[] = [];
    let refused = 0;
    const client = async (number: number): Promise<void> => {
      for (let round = 0; round < rounds * (kind.share ?? 1); round += 1) {
        for (let place = 0; place < kind.ask.length; place += 1) {
          const ask = kind.ask[(place + number) % kind.ask.length] as Kind['ask'][number];
          const from = performance.now();
          await ask(number * rounds + round).catch((error: unknown) => {
            if (!GatewayError.is(error) || error.code !== 'too_many_queries') throw error;
            refused += 1;
          });
          times.push(performance.now() - from);
        }
      }
    };
    await Promise.all(Array.from({ length: kind.clients }, (_, number) => client(number)));
    times.sort((a, b) => a - b);
    console.log(
      `${kind.name}: ${quantile(times, 0.5).toFixed(0)} ms, p99 ${quantile(times, 0.99).toFixed(0)}`,
    );
    figures.push({
      name: kind.name,
      clients: kind.clients,
      asked: times.length,
      refused,
      median_ms: quantile(times, 0.5),
      p99_ms: quantile(times, 0.99),
      bound_median_ms: kind.median,
      bound_p99_ms: kind.p99,
    });
  }
  return figures;
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

function kindsOf(analytics: Analytics, { organisationId, workspaceId, end }: SeededStore): Kind[] {
  const month: TimeWindow = { from: end - 30 * dayMs, to: end };
  const all: Visibility = { organisationId };
  const own: Visibility = { organisationId, workspaceId };
  /** A window that another question does not have, of the same length. */
  const shifted = (number: number, { from, to }: TimeWindow): TimeWindow => {
    const by = ((number + 1) % 24) * hourMs;
    return { from: from - by, to: to - by };
  };
  const graph =
    (unit: 'hour' | 'day', visibility: Visibility, more: Partial<RequestSeriesQuery> = {}) =>
    (number: number) =>
      analytics.series({
        measures: percentiles,
        buckets: { unit, size: 1, timeZone: 'UTC' },
        visibility,
        window: shifted(number, month),
        ...more,
      });
  const group =
    (by: GroupQuery['by'], visibility: Visibility, filter: GroupQuery['filter'] = undefined) =>
    (number: number) =>
      analytics.groups({
        by,
        columns,
        visibility,
        limit: 50,
        offset: 0,
        window: shifted(number, month),
        ...(filter !== undefined && { filter }),
      });
  const team = { metadata: { team: 'search' } };
  // The day before the last Saturday: a busy one.
  const friday = end - ((new Date(end).getUTCDay() + 1) % 7) * dayMs - dayMs;
  return [
    {
      name: 'a graph or group over 30 days, with p95 and p99',
      clients: 8,
      median: 300,
      p99: 800,
      ask: [
        graph('day', all),
        graph('hour', own),
        graph('day', all, { split: 'model' }),
        graph('day', own, { split: 'ai_service' }),
        group('model', all),
        group('ai_service', all),
        group('workspace', all),
        group('api_key', own),
        group('status_code', own),
      ],
    },
    {
      name: 'one of them with arbitrary filters',
      clients: 8,
      median: 2000,
      share: 0.15,
      ask: [
        graph('day', all, { filter: team }),
        graph('day', own, { filter: { latencyMs: { min: 2000 }, isSuccess: true } }),
        group('model', all, { statusCodes: [500, 503], metadata: { environment: 'production' } }),
        group({ metadata: 'team' }, all),
        group('user', own, { cost: { min: 0.001 } }),
      ],
    },
    {
      name: 'the newest 50 entries of a workspace',
      clients: 1,
      median: 30,
      ask: [
        (number) =>
          analytics.logs({ visibility: own, order: 'newest', limit: 50, window: shifted(number, month) }),
      ],
    },
    {
      name: 'full-text search over a day',
      clients: 1,
      median: 500,
      ask: ['invoice March', 'paid later whether', 'nobody wrote this'].map((text) => (number: number) => {
        const window = shifted(number % 4, { from: friday, to: friday + dayMs });
        return analytics.logs({ visibility: all, order: 'newest', limit: 50, window, filter: { text } });
      }),
    },
    {
      name: 'a year of hourly graph',
      clients: 1,
      median: 100,
      ask: [
        graph('hour', own, { window: { from: end - 365 * dayMs, to: end }, measures: ['requests', 'cost'] }),
        graph('hour', all, {
          window: { from: end - 365 * dayMs, to: end },
          measures: ['requests', 'errors'],
        }),
      ],
    },
  ];
}
