import type { GroupColumn, GroupQuery, GroupRow } from '../../core/ports/analytics.ts';
import { checkRange } from './check-range.ts';
import { alias, groupSql } from './group-sql.ts';
import type { Select } from './select.ts';
import type { UsageReach } from './usage-plan.ts';
import { usageSettings } from './usage-sql.ts';
import { moments } from './visible.ts';

const maxPage = 10_000;
const maxOffset = 1_000_000;

type GroupResult = Readonly<Record<string, number | string | null>> & {
  readonly group_value: string;
  readonly group_requests: number;
  readonly group_total: number;
};

/** See `Analytics.groups`. */
export async function groups(
  select: Select,
  query: GroupQuery,
  reach: UsageReach,
): Promise<{ total: number; rows: readonly GroupRow[] }> {
  const { limit, offset } = query;
  checkRange('limit', limit, maxPage);
  checkRange('offset', offset, maxOffset);
  const { from, to } = moments(query.window);
  if (from >= to) return { total: 0, rows: [] };
  const { sql, parameters } = groupSql(query, reach);
  const results = await select<GroupResult>(sql, parameters, { settings: usageSettings });
  const first = results[0];
  if (first === undefined && offset > 0) {
    return {
      total: (await groups(select, { ...query, columns: [], limit: 1, offset: 0 }, reach)).total,
      rows: [],
    };
  }
  return {
    total: first?.group_total ?? 0,
    rows: results.slice(0, limit).map((result) => groupRow(result, query.columns)),
  };
}

function groupRow(result: GroupResult, wanted: readonly GroupColumn[]): GroupRow {
  const columns: Partial<Record<GroupColumn, number | string | null>> = {};
  for (const column of wanted) {
    const value = result[alias(column)] ?? null;
    const isTime = column === 'last_seen' || column === 'first_seen';
    columns[column] = isTime && typeof value === 'number' ? new Date(value).toISOString() : value;
  }
  return { value: result.group_value, requests: result.group_requests, columns };
}
