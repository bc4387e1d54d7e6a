import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { type ClickHouseClient, createClient } from '@clickhouse/client';
import fc from 'fast-check';
import type { Analytics, TimeWindow } from '../../core/ports/analytics.ts';
import {
  maxPriceChanges,
  type PriceChange,
  type Repricing,
  type RequestPlace,
} from '../../core/ports/prices.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { days, manyRows } from '../../tests/conformance/analytics-many-rows.ts';
import { ndjson } from '../../tests/conformance/analytics-rows.ts';
import { chdbMissing, recordingLog, startTestChdb } from '../embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../embedded/start-chdb.ts';
import { createAnalytics } from './create-analytics.ts';
import { repricingOf, rollUpSql } from './price-changes.ts';
import { selectOf } from './select.ts';

const window: TimeWindow = days(-2, 3);
/** Editions of price data, in turns. */
const versionOf = (id: string): string => (id < '8' ? "data 1 'x'" : 'file');

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
      repricingThrough: (
        run: (query: string, send: () => Promise<unknown>) => Promise<unknown>,
      ): Repricing => {
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

  const changeOf = ({ createdAt, id }: RequestPlace): PriceChange => ({
    createdAt,
    id,
    cost: priceOf(id),
    version: versionOf(id),
  });

  const insert = (analytics: Analytics, rows: readonly RequestRow[], token: string = randomUUID()) =>
    analytics.insert('requests', ndjson(rows), `requests-${token}`);

  /** Prices everything that has none, in batches; gives up after as many turns as it could take. */
  async function repriceAll(repricing: Repricing, limit = 40): Promise<number> {
    for (let batches = 0; batches < 100; batches += 1) {
      const turn = await repricing.turn();
      const found = await repricing.unpriced({ window, limit });
      if (found.length === 0) return batches;
      await turn.change(found.map(changeOf));
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
        ? { id, cost: priceOf(id), pricing: 'priced', price_version: versionOf(id) }
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
    await insert(store.analytics, rows, 'first');
    const unpriced = rows.filter(({ pricing }) => pricing === 'unpriced');
    assert.equal(await repriceAll(store.repricing), Math.ceil(unpriced.length / 40));
    await holds(store.client, rows);
    assert.equal(await repriceAll(store.repricing), 0);
    // A gateway that does not know whether its rows were stored sends them again.
    await insert(store.analytics, rows, 'first');
    await store.client.command({ query: 'OPTIMIZE TABLE requests FINAL' });
    await insert(store.analytics, rows, 'first');
    await holds(store.client, rows);
    await store.close();
  });

  /** Where a command is killed: before or behind its nth statement; or the store is, between hours and days. */
  type Fault =
    | { readonly at: number; readonly place: 'before' | 'behind' }
    | { readonly at: number; readonly place: 'hours alone' | 'days alone' };
  const killed = new Error('killed');
  const fault: fc.Arbitrary<Fault> = fc.oneof(
    fc.record({ at: fc.integer({ min: 1, max: 8 }), place: fc.constantFrom('before', 'behind') }),
    fc.record({ at: fc.integer({ min: 1, max: 2 }), place: fc.constantFrom('hours alone', 'days alone') }),
  );

  /** Reprices with a command that is killed; resolves to whether it was. */
  async function killedAt(store: Store, { at, place }: Fault): Promise<boolean> {
    const isBetween = place === 'hours alone' || place === 'days alone';
    let count = 0;
    const repricing = store.repricingThrough(async (query, send) => {
      if (isBetween && !query.startsWith('INSERT INTO usage_hours')) return send();
      if ((count += 1) !== at) return send();
      if (place === 'behind') await send();
      else if (place === 'hours alone') {
        await store.client.command({ query: 'DETACH TABLE usage_days_view' });
        await send().finally(() => store.client.command({ query: 'ATTACH TABLE usage_days_view' }));
      } else if (place === 'days alone') {
        const [, batch = '', number] = /batch = ('(\d+)-[^']+')/.exec(query) ?? [];
        const [, step] = /'\d+\+(\d+)'/.exec(query) ?? [];
        const mark = { table: 'usage_days', sign: '+', step: Number(step) } as const;
        await store.client.command({ query: rollUpSql(mark, Number(number), batch) });
      }
      throw killed;
    });
    try {
      await repriceAll(repricing, 25);
      return false;
    } catch (error) {
      if ((error as Error).cause !== killed && error !== killed && !String(error).includes('killed'))
        throw error;
      return true;
    }
  }

  test('are complete after the next command, wherever the ones before it were killed', async () => {
    const store = await openStore();
    const rows: RequestRow[] = [];
    let seed = 100;
    let kills = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(fault, { minLength: 1, maxLength: 4 }), async (faults) => {
        const added = unpricedRows(70, (seed += 1));
        rows.push(...added);
        await insert(store.analytics, added);
        for (const one of faults) kills += (await killedAt(store, one)) ? 1 : 0;
        await repriceAll(store.repricing);
        await holds(store.client, rows);
      }),
      { numRuns: 8, endOnFailure: true },
    );
    assert.ok(kills >= 8, String(kills));
    await store.close();
  });

  test('that another command has just begun are left to it for a while', async () => {
    const store = await openStore();
    const rows = unpricedRows(30, 15);
    await insert(store.analytics, rows);
    assert.equal(await killedAt(store, { at: 3, place: 'before' }), true);
    const patient = repricingOf({ client: store.client, select: selectOf(store.client), graceMs: 2500 });
    const begun = performance.now();
    const turn = await patient.turn();
    assert.ok(performance.now() - begun > 1000, 'it has not waited');
    assert.equal(turn.completed, true);
    await repriceAll(store.repricing);
    await holds(store.client, rows);
    await store.close();
  });

  test('do not meet when two commands run at once', async () => {
    const store = await openStore();
    const rows = unpricedRows(200, 7);
    await insert(store.analytics, rows);
    const other = store.repricingThrough((_query, send) => send());
    await Promise.all([repriceAll(store.repricing, 30), repriceAll(other, 23), repriceAll(other, 30)]);
    await holds(store.client, rows);
    await store.close();
  });

  test('leave alone what was stored since, also under the same id', async () => {
    const store = await openStore();
    const rows = unpricedRows(40, 9);
    await insert(store.analytics, rows);
    const turn = await store.repricing.turn();
    const found = await store.repricing.unpriced({ window, limit: 4000 });
    const [first] = rows.filter(({ pricing }) => pricing === 'unpriced');
    const since = [
      ...unpricedRows(40, 11),
      { ...(first as RequestRow), created_at: '2026-05-17 12:00:00.001', total_tokens: 9 },
    ];
    await insert(store.analytics, since);
    const changes = found.map(changeOf);
    assert.equal(await turn.change(changes), true);
    await rollUpsAgree(store.client);
    const [left] = await rowsOf<{ rows: number; cost: string }>(
      store.client,
      "SELECT count() AS rows, sum(cost) AS cost FROM requests WHERE pricing = 'unpriced'",
    );
    assert.deepEqual(left, {
      rows: since.filter(({ pricing }) => pricing === 'unpriced').length,
      cost: '0.000000000000',
    });
    assert.equal(await turn.change(changes), false);
    await rollUpsAgree(store.client);
    await store.close();
  });

  test('are one block in every table, however much roll-ups tell apart', async () => {
    const store = await openStore();
    const rows = unpricedRows(maxPriceChanges, 13).map((row, index) => ({
      ...row,
      created_at: `2026-05-${String(1 + (index % 28)).padStart(2, '0')} ${String(index % 24).padStart(2, '0')}:00:00.000`,
      ...{
        cost: '0',
        pricing: 'unpriced' as const,
        model: `m${index}`,
        config: `c${index}`,
        prompt: `p${index}`,
      },
      ...{ api_key_id: `k${index}`, user_id: `u${index}`, metadata: {}, provider: `v${index}` },
    }));
    await insert(store.analytics, rows);
    await store.client.command({ query: 'SYSTEM STOP MERGES' });
    const parts = () =>
      rowsOf<{ table: string; parts: number }>(
        store.client,
        "SELECT table, count() AS parts FROM system.parts WHERE database = currentDatabase() AND active AND table IN ('price_changes', 'usage_minutes', 'usage_hours', 'usage_days') GROUP BY table ORDER BY table",
      );
    const before = new Map((await parts()).map((row) => [row.table, row.parts]));
    await store.client.command({ query: 'SYSTEM START MERGES requests' });
    const turn = await store.repricing.turn();
    const month = { from: Date.UTC(2026, 4, 1), to: Date.UTC(2026, 5, 1) };
    const found = await store.repricing.unpriced({ window: month, limit: maxPriceChanges });
    assert.equal(found.length, maxPriceChanges);
    const changes = found.map(changeOf);
    assert.equal(await turn.change(changes), true);
    for (const { table, parts: now } of await parts()) assert.equal(now - (before.get(table) ?? 0), 1, table);
    await store.client.command({ query: 'SYSTEM START MERGES' });
    await holds(store.client, rows);
    await store.close();
  });
});
