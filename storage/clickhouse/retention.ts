import type { ClickHouseClient } from '@clickhouse/client';
import type { Log } from '../../core/ports/log.ts';
import { onCluster, schemaSettings, type TableLayout } from './migrate.ts';

/** How long rows are kept, in days; 0 for ever. */
export interface Retention {
  readonly logsDays: number;
  readonly bodiesDays: number;
  /** Roll-ups, feedback and changes of prices. */
  readonly metricsDays: number;
}

interface Table {
  readonly name: string;
  readonly engine_full: string;
  /** The column that says when: of a roll-up the beginning of its bucket. */
  readonly time: string;
}

/** As `system.tables` shows it; anything else is a rule of the operator's own. */
const ownRule = / TTL (toDateTime\(\w+\) \+ toIntervalDay\((\d+)\))(?= SETTINGS |$)/;
const anyRule = / TTL /;
/**
 * Rows that are due go while a part is merged, once a day at the most; a part of which all rows are due is dropped
 * whole. Bodies stand in partitions of a day, so only that is done with them, and nothing is ever rewritten. A new rule
 * makes a note in each part of when it is due, and rewrites none.
 */
const rowByRow = ['merge_with_ttl_timeout = 86400', 'materialize_ttl_recalculate_only = 1'];
const byParts = ['ttl_only_drop_parts = 1', 'materialize_ttl_recalculate_only = 1'];

/**
 * Makes the tables of the client's database delete rows by themselves when these days have passed. Changes nothing
 * where a table does so already, and leaves a table alone that has another rule, which an operator has made.
 */
export async function applyRetention(
  client: ClickHouseClient,
  retention: Retention,
  layout: TableLayout,
  log: Log,
): Promise<void> {
  for (const table of await tablesOf(client)) {
    const days = daysOf(table.name, retention);
    const now = ownRule.exec(table.engine_full);
    if (now === null && anyRule.test(table.engine_full)) {
      log.warn(
        'A table of the analytics store has a TTL of its own, which stays; `retention` does not hold for it',
        {
          table: table.name,
        },
      );
      continue;
    }
    if ((now === null ? 0 : Number(now[2])) === days) continue;
    await setRule(client, table, days, layout);
    log.info('Retention of a table of the analytics store is set', { table: table.name, days });
  }
}

/** Those that Weir makes; a view's own table is not one of them. */
async function tablesOf(client: ClickHouseClient): Promise<Table[]> {
  const result = await client.query({
    query: `SELECT t.name AS name, t.engine_full AS engine_full, any(c.name) AS time
      FROM system.tables AS t INNER JOIN system.columns AS c ON c.database = t.database AND c.table = t.name
      WHERE t.database = currentDatabase() AND t.engine LIKE '%MergeTree' AND c.is_in_partition_key
        AND (t.name IN ('requests', 'bodies', 'feedback', 'price_changes') OR startsWith(t.name, 'usage_'))
      GROUP BY t.name, t.engine_full ORDER BY t.name`,
    format: 'JSONEachRow',
  });
  return result.json<Table>();
}

function daysOf(table: string, { logsDays, bodiesDays, metricsDays }: Retention): number {
  if (table === 'requests') return logsDays;
  return table === 'bodies' ? bodiesDays : metricsDays;
}

async function setRule(
  client: ClickHouseClient,
  { name, time }: Table,
  days: number,
  layout: TableLayout,
): Promise<void> {
  const table = `ALTER TABLE {table:Identifier}${onCluster(layout)}`;
  const run = (query: string): Promise<unknown> =>
    client.command({
      query: `${table} ${query}`,
      query_params: { table: name, time },
      clickhouse_settings: { ...schemaSettings, materialize_ttl_after_modify: 1, mutations_sync: '0' },
    });
  if (days === 0) return void (await run('REMOVE TTL'));
  await run(`MODIFY SETTING ${(name === 'bodies' ? byParts : rowByRow).join(', ')}`);
  await run(`MODIFY TTL toDateTime({time:Identifier}) + toIntervalDay(${days})`);
}
