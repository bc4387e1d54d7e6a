import type {
  CountedBy,
  CountedUsage,
  CountedUsageQuery,
  CountedValues,
} from '../../core/ports/analytics.ts';
import { moment } from './filter-sql.ts';
import type { Select } from './select.ts';

/** Values and their placeholders. */
class Bound {
  readonly parameters: Record<string, unknown> = {};
  #count = 0;

  add(type: string, value: unknown): string {
    const name = `counted_${(this.#count += 1)}`;
    this.parameters[name] = value;
    return `{${name}:${type}}`;
  }
}

const columns = {
  api_key: 'api_key_id',
  workspace_id: 'workspace_id',
  organisation_id: 'organisation_id',
  // Rows name the operation of an MCP request, and budgets its endpoint.
  endpoint_type: "if(startsWith(endpoint, 'mcp.'), 'mcp', toString(endpoint))",
  provider: 'toString(provider)',
} as const;

function valueOf(by: CountedBy, bound: Bound): string {
  return typeof by === 'string' ? columns[by] : `metadata[${bound.add('String', by.metadata)}]`;
}

/** Same as for conditions of policies: empty conditions match nothing. */
function conditionSql({ by, whole, beginnings, ...not }: CountedValues, bound: Bound): string {
  const value = valueOf(by, bound);
  const oneOf = (values: readonly string[], starts: readonly string[]): string =>
    `(${value} IN ${bound.add('Array(String)', values)} OR arrayExists(beginning -> startsWith(${value}, beginning), ${bound.add('Array(String)', starts)}))`;
  return `${value} != '' AND ${oneOf(whole, beginnings)} AND NOT ${oneOf(not.notWhole, not.notBeginnings)}`;
}

interface CountedRow {
  readonly counted_group: string;
  readonly counted_cost: number;
  readonly counted_tokens: number;
  readonly counted_requests: number;
  readonly counted_attempted: number;
}

/**
 * See `Analytics.countedUsage`. Each request is rounded to billionths separately, as budgets count it; a cached answer
 * costs nothing, and records without a proxied request (reported logs, spans) do not count.
 */
export async function countedUsage(
  select: Select,
  { organisationId, workspaceId, conditions, groupBy, groups, endedBy }: CountedUsageQuery,
): Promise<readonly CountedUsage[]> {
  const froms = [...groups.values()];
  const from = Math.min(...froms);
  if (!(from < endedBy)) return [];
  const bound = new Bound();
  const parts = groupBy.map(({ text, by }) => `${bound.add('String', text)}, ${valueOf(by, bound)}`);
  const names = bound.add('Array(String)', [...groups.keys()]);
  const ended = bound.add('Int64', moment(endedBy));
  const where = [
    `organisation_id = ${bound.add('String', organisationId)}`,
    ...(workspaceId === undefined ? [] : [`workspace_id = ${bound.add('String', workspaceId)}`]),
    `created_at >= fromUnixTimestamp64Milli(${bound.add('Int64', moment(from))}, 'UTC')`,
    `created_at <= fromUnixTimestamp64Milli(${ended}, 'UTC')`,
    `toUnixTimestamp64Milli(created_at) + latency_ms <= ${ended}`,
    `source = '' AND (attempts > 0 OR is_hit)`,
    `counted_group IN ${names}`,
    `toUnixTimestamp64Milli(created_at) >= transform(counted_group, ${names}, ${bound.add('Array(Int64)', froms.map(moment))}, ${ended})`,
    ...conditions.map((condition) => conditionSql(condition, bound)),
  ];
  const rows = await select<CountedRow>(
    [
      `WITH concat(${parts.join(", ',', ")}, '') AS counted_group, position(cache_status, 'HIT') > 0 AS is_hit`,
      'SELECT counted_group,',
      'toInt64(sumIf(floor((toFloat64(cost) + toFloat64(lost_cost)) * 1e9 + 0.5), NOT is_hit)) AS counted_cost,',
      'toInt64(sumIf(total_tokens, NOT is_hit)) AS counted_tokens, count() AS counted_requests, countIf(NOT is_hit) AS counted_attempted',
      `FROM requests WHERE ${where.join(' AND ')} GROUP BY counted_group`,
    ].join('\n'),
    bound.parameters,
  );
  return rows.map((row) => ({
    group: row.counted_group,
    cost: row.counted_cost,
    tokens: row.counted_tokens,
    requests: row.counted_requests,
    attempted: row.counted_attempted,
  }));
}
