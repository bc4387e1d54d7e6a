/** One row of it. The names are prefixed, so that they cannot shadow columns of the table. */
export interface KeyUsageRow {
  readonly usage_key: string;
  readonly usage_cost: string;
  readonly usage_tokens: number;
}

/**
 * What keys used, one row for each that sent requests. `where` is a condition with placeholders; `keys` and `since`
 * are lists of the same length, the moments in milliseconds since the epoch.
 */
export function keyUsageSql(where: string): string {
  return [
    'SELECT api_key_id AS usage_key, sum(cost) AS usage_cost, sum(total_tokens) AS usage_tokens',
    `FROM requests WHERE ${where} AND api_key_id IN {keys:Array(String)}`,
    "AND created_at >= fromUnixTimestamp64Milli({since:Array(Int64)}[indexOf({keys:Array(String)}, api_key_id)], 'UTC')",
    'GROUP BY usage_key',
  ].join('\n');
}
