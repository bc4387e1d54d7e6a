import type { ClickHouseClient } from '@clickhouse/client';

/** From when on the roll-ups of a store hold every request, milliseconds since the epoch; 0: always. */
export async function usageStart(client: ClickHouseClient): Promise<number> {
  const result = await client.query({
    query: 'SELECT min(complete_from) AS first, count() AS stored FROM usage_starts',
    format: 'JSONEachRow',
    clickhouse_settings: { output_format_json_quote_64bit_integers: 0 },
  });
  const [row] = await result.json<{ first: number; stored: number }>();
  return row === undefined || row.stored === 0 ? Infinity : row.first;
}
