import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { type ClickHouseClient, createClient } from '@clickhouse/client';
import fc from 'fast-check';
import type { Analytics, TimeWindow } from '../../core/ports/analytics.ts';
import type { PriceChange, Repricing } from '../../core/ports/repricing.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { days, manyRows } from '../../tests/conformance/analytics-many-rows.ts';
import { ndjson } from '../../tests/conformance/analytics-rows.ts';
import { chdbMissing, recordingLog, startTestChdb } from '../embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../embedded/start-chdb.ts';
import { createAnalytics } from './create-analytics.ts';
import { repricingOf } from './price-changes.ts';
import { rollUpSql } from './price-roll-ups.ts';
import { selectOf } from './select.ts';

const window: TimeWindow = days(-2, 3);
const version = "data 1 'x'";

/** The exact sum of amounts with 12 digits after the point. */
const picos = (amounts: readonly string[]): bigint =>
  amounts.reduce((sum, amount) => sum + BigInt(amount.replace('.', '')), 0n);
/** A price that differs from row to row. */
const priceOf = (id: string): string => {
  const digits = String(Number.parseInt(id.slice(0, 8), 16)).padStart(12, '0');
  return `${digits.at(-1)}.${digits}`;
};

describe('changes of prices', { skip: chdbMissing }, () => {
  let engine: EmbeddedChdb;
  let closeEngine: () => Promise<void>;
  let serial = 0;
  before(async () => {
    ({ engine, close: closeEngine } = await startTestChdb());
  });
  after(() => closeEngine());

  async function openStore() {
    const { url, username, password } = engine;
    const database = `prices_${(serial += 1)}`;
    const analytics = await createAnalytics({ url, username, password, database, log: recordingLog() });
    const client = createClient({ url, username, password, database });
    const parts = { select: selectOf(client), graceMs: 0 };
    return {
      analytics,
      client,
      repricing: repricingOf({ client, ...parts }),
      /** Changes of prices by a command whose statements pass through `run`. */
      repricingThrough: (run: (query: string, send: () => Promise<unknown>) => Promise<unknown>): Repricing => {
        const command = (options: Parameters<ClickHouseClient['command']>[0]) =>
          run(options.query, () => client.command(options));
        return repricingOf({ client: { command } as ClickHouseClient, ...parts });
      },
      async close() {
        await client.command({ query: `DROP DATABASE ${database}` });
        await client.close();
        await analytics.close();
      },
    };
  }
  type Store = Awaited<ReturnType<typeof openStore>>;

  const unpricedRows = (count: number, seed: number): RequestRow[] =>
    manyRows(count, { organisationId: `organisation ${seed % 2}`, window, seed }).map((row) => ({
      ...row,
      ...(row.ai_service === 'mock' ? {} : { cost: '0', pricing: 'unpriced' as const, price_version: 'old' }),
    }));

  const insert = (analytics: Analytics, rows: readonly RequestRow[]) =>
    analytics.insert('requests', ndjson(rows), `requests-${randomUUID()}`);

  /** Prices everything that has none, in batches; gives up after as many turns as it could take. */
  async function repriceAll(repricing: Repricing, limit = 40): Promise<number> {
    for (let batches = 0; batches < 100; batches += 1) {
      const turn = await repricing.turn();
      const found = await turn.unpriced({ window, limit });
      if (found.length === 0) return batches;
      const changes = found.map(({ createdAt, id }): PriceChange => ({ createdAt, id, cost: priceOf(id) }));
      await turn.change({ version, changes });
    }
    throw new Error('There is no end.');
  }

  const rowsOf = async <Row>(client: ClickHouseClient, query: string): Promise<Row[]> =>
    (
      await client.query({
        query,
        format: 'JSONEachRow',
        clickhouse_settings: {
          output_format_json_quote_decimals: 1,
          output_format_decimal_trailing_zeros: 1,
          output_format_json_quote_64bit_integers: 0,
        },
      })
    ).json<Row>();

  /** Every bucket of every roll-up says what its own view would say of the rows now. */
  async function rollUpsAgree(client: ClickHouseClient): Promise<void> {
    const views = await rowsOf<{ name: string; as_select: string }>(
      client,
      "SELECT name, as_select FROM system.tables WHERE database = currentDatabase() AND engine = 'MaterializedView' ORDER BY name",
    );
    const selectOfView = new Map(views.map(({ name, as_select }) => [name, as_select]));
    const minutes = 'organisation_id, workspace_id, bucket';
    const hours = 'organisation_id, dimension, workspace_id, bucket, value';
    for (const [table, key] of [
      ['usage_minutes', minutes],
      ['usage_hours', hours],
      ['usage_days', hours],
    ] as const) {
      const of = (from: string) =>
        `SELECT ${key}, sum(requests) AS n, sum(cost_sum) AS c, min(first_at) AS f, max(last_at) AS l, sum(total_tokens_sum) AS t, sum(errors) AS e FROM ${from} WHERE organisation_id != 'weir reprice' GROUP BY ${key} ORDER BY ${key}`;
      const [stored, meant] = await Promise.all(
        [table, `(${selectOfView.get(`${table}_view`)})`].map((from) => rowsOf(client, of(from))),
      );
      assert.deepEqual(stored, meant, table);
    }
  }

  async function holds(client: ClickHouseClient, rows: readonly RequestRow[]): Promise<void> {
    const found = await rowsOf<{ id: string; cost: string; pricing: string; price_version: string }>(
      client,
      'SELECT toString(id) AS id, cost, pricing, price_version FROM requests ORDER BY id',
    );
    const meant = rows.map(({ id, cost, pricing, price_version }) =>
      pricing === 'unpriced'
        ? { id, cost: priceOf(id), pricing: 'priced', price_version: version }
        : { id, cost, pricing, price_version },
    );
    const inOrder = (list: readonly { readonly id: string }[]) =>
      [...list].sort((one, other) => (one.id < other.id ? -1 : 1));
    assert.deepEqual(inOrder(found), inOrder(meant));
    const sum = picos(meant.map(({ cost }) => cost));
    for (const [table, where] of [
      ['usage_minutes', 'true'],
      ['usage_hours', "dimension = '*'"],
      ['usage_days', "dimension = ''"],
    ]) {
      const [total] = await rowsOf<{ sum: string }>(
        client,
        `SELECT sum(cost_sum) AS sum FROM ${table} WHERE ${where}`,
      );
      assert.equal(picos([total?.sum ?? '']), sum, table);
    }
    await rollUpsAgree(client);
  }

  test('reach rows and roll-ups, once', async () => {
    const store = await openStore();
    const rows = unpricedRows(300, 1);
    await insert(store.analytics, rows);
    assert.equal(await repriceAll(store.repricing), Math.ceil(rows.filter(({ pricing }) => pricing === "unpriced").length / 40));
    await holds(store.client, rows);
    assert.equal(await repriceAll(store.repricing), 0);
    await holds(store.client, rows);
    await store.close();
  });
});
