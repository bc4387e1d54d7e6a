import type { Measure, Measures, RequestSeries, RequestSeriesQuery } from '../../core/ports/analytics.ts';
import { arrangeSeries, seriesStatement, type SeriesResult } from './arrange-series.ts';
import { bucketStarts } from './bucket-starts.ts';
import { measureSql } from './measure-sql.ts';
import type { Select } from './select.ts';
import type { UsageColumn } from './usage-columns.ts';
import type { UsageReach } from './usage-plan.ts';
import { usageSettings, usageSql } from './usage-sql.ts';
import { moments } from './visible.ts';

type Result = SeriesResult & Readonly<Record<string, number | string | null>>;

/** See `Analytics.series`. */
export async function series(
  select: Select,
  query: RequestSeriesQuery,
  reach: UsageReach,
): Promise<RequestSeries> {
  const { split } = query;
  const measures = [...new Set(query.measures)];
  const starts = bucketStarts(moments(query.window), query.buckets);
  const columns = new Set<UsageColumn>(['requests', ...measures.flatMap((one) => measureSql[one].needs)]);
  const usage = usageSql({ ...query, columns: [...columns], starts }, reach);
  const sql = seriesStatement(
    `FROM (${usage.sql})`,
    measures.map((measure) => `${measureSql[measure].sql} AS ${alias(measure)}`),
    { isSplit: split !== undefined, weight: 'sum(requests)' },
  );
  const named = measures.map((measure) => ({ measure, name: alias(measure) }));
  const settings = usageSettings;
  const results = starts.length === 0 ? [] : await select<Result>(sql, usage.parameters, { settings });
  return arrangeSeries(results, starts, split !== undefined, {
    of: (result) => {
      const values: Partial<Record<Measure, number | string | null>> = {};
      for (const { measure, name } of named) values[measure] = result[name] ?? null;
      return { values };
    },
    nothing: { values: valuesOfNothing(measures) },
  });
}

/** Prefixed, so that it cannot shadow a column. */
function alias(measure: Measure): string {
  return `computed_${measure}`;
}

/** What is measured where nothing happened: no requests have no average. */
function valuesOfNothing(measures: readonly Measure[]): Measures {
  const nothing = (measure: Measure): number | string | null => {
    if (measure === 'cost') return '0.000000000000';
    return /^(avg|p\d+)_/.test(measure) ? null : 0;
  };
  return Object.fromEntries(measures.map((measure) => [measure, nothing(measure)]));
}
