import type { ClickHouseSettings } from '@clickhouse/client';
import { bucketSql } from './bucket-sql.ts';
import { filterSql } from './filter-sql.ts';
import { rolledUpAs, type RollUp } from './rolled-up.ts';
import { splitColumn } from './split-column.ts';
import { usageColumns } from './usage-columns.ts';
import { planUsage, type UsagePlan, type UsageReach, type UsageTable } from './usage-plan.ts';
import type { UsageQuestion } from './usage-question.ts';
import { moments, visible } from './visible.ts';

/** The last second that the buckets' type can hold. */
const lastSecond = 4_294_967_295;

/**
 * How such statements read rows: in larger blocks, and a map as one column. To take one name's values out of it in a
 * column of their own reads no less and costs a tenth more.
 */
export const usageSettings: ClickHouseSettings = {
  preferred_block_size_bytes: '4194304',
  optimize_functions_to_subcolumns: 0,
};

/**
 * A sub-select of requests in numbers, with the values of its placeholders: `at` (seconds since the epoch, 0 without
 * buckets), `split` (empty without one) and the columns, in parts that are still to be added up or merged. Reads
 * roll-ups where they say the same as the rows.
 */
export function usageSql(
  question: UsageQuestion,
  reach: UsageReach,
): { readonly sql: string; readonly parameters: Readonly<Record<string, unknown>> } {
  const { visibility, filter, split, columns, starts } = question;
  const window = moments(question.window);
  const rollUp = rolledUpAs(question);
  const need = { window, starts, rolledUp: rollUp !== undefined, byTheMinute: rollUp?.dimension === '' };
  const plan = planUsage(need, reach);
  const { where, owned, parameters: seen } = visible(window, visibility);
  const filtered = filterSql(filter);
  const buckets = bucketSql(starts);
  const told = splitColumn(split);
  const parameters: Record<string, unknown> = {
    ...{ ...seen, ...filtered.parameters, ...buckets.parameters, ...told.parameters, ...rollUp?.parameters },
  };
  const selects: string[] = [];

  for (const table of ['usage_days', 'usage_hours', 'usage_minutes'] as const) {
    const times = timesOf(plan, table, parameters);
    if (rollUp === undefined || times === undefined) continue;
    const conditions = [owned, times, ...ofRollUp(rollUp, table)];
    const value = rollUp.split === '' ? "''" : `toString(${rollUp.split})`;
    selects.push(
      `SELECT ${[`${buckets.of('toUnixTimestamp(bucket)')} AS at`, `${value} AS split`, ...columns].join(', ')} FROM ${table} WHERE ${conditions.join(' AND ')}`,
    );
  }
  const times = timesOf(plan, 'requests', parameters);
  if (times !== undefined) {
    const [span, ...more] = plan.spans.requests;
    // Said once, where everything is read of the rows: each comparison costs a pass over them.
    const isWhole =
      more.length === 0 && plan.torn.length === 0 && span?.from === window.from && span.to === window.to;
    const conditions = [where, ...(isWhole ? [] : [times]), ...told.conditions, ...filtered.conditions];
    const computed = columns.map((column) => `${usageColumns[column]} AS ${column}`);
    const at = buckets.of('intDiv(toUnixTimestamp64Milli(created_at), 1000)');
    selects.push(
      `SELECT ${[`${at} AS at`, `${told.sql} AS split`, ...computed].join(', ')} FROM requests WHERE ${conditions.join(' AND ')} GROUP BY at, split`,
    );
  }
  return { sql: selects.join('\nUNION ALL\n'), parameters };
}

function ofRollUp({ dimension, isWhole, conditions }: RollUp, table: UsageTable): string[] {
  if (table === 'usage_minutes') return [...conditions];
  return [`dimension = '${isWhole ? '*' : ''}${dimension}'`, ...conditions];
}

/** The condition that chooses what a plan reads from a table, or undefined for nothing; adds what it binds. */
function timesOf(
  { spans, torn, finer }: UsagePlan,
  table: UsageTable,
  parameters: Record<string, unknown>,
): string | undefined {
  const isRows = table === 'requests';
  const placeOf = (at: number): number => (isRows ? at : Math.min(at / 1000, lastSecond));
  const ranges = spans[table].map((span, index) => {
    const bound = (end: 'from' | 'to', comparison: string): string => {
      const name = `${table}_${end}_${index}`;
      parameters[name] = placeOf(span[end]);
      return isRows
        ? `created_at ${comparison} fromUnixTimestamp64Milli({${name}:Int64}, 'UTC')`
        : `bucket ${comparison} toDateTime({${name}:UInt32}, 'UTC')`;
    };
    return `${bound('from', '>=')} AND ${bound('to', '<')}`;
  });
  if (torn.length > 0 && (table === 'usage_hours' || table === finer)) {
    parameters['torn_hours'] = torn.map((hour) => hour / 1000);
    const hour = isRows ? "toStartOfHour(toDateTime(created_at, 'UTC'))" : 'toStartOfHour(bucket)';
    const isTorn = `toUnixTimestamp(${hour}) IN {torn_hours:Array(UInt32)}`;
    if (table === 'usage_hours') return `(${ranges.join(' OR ')}) AND NOT ${isTorn}`;
    ranges.push(isTorn);
  }
  if (ranges.length === 0) return undefined;
  return ranges.length === 1 ? ranges.join('') : `(${ranges.map((range) => `(${range})`).join(' OR ')})`;
}
