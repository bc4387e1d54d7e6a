import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { createClient, type ClickHouseClient } from '@clickhouse/client';
import { createAnalytics } from '../../storage/clickhouse/create-analytics.ts';
import { chdbMissing, recordingLog, startTestChdb } from '../../storage/embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../../storage/embedded/start-chdb.ts';
import { fill, type FillOptions, type StoreClient } from './fill.ts';

const home = {
  organisationId: '0e000000-0000-4000-8000-000000000001',
  workspaceId: '0e000000-0000-4000-8000-000000000002',
};
// A block has a week at the most.
const options: FillOptions = {
  rows: 400,
  days: 28,
  bodies: 0.3,
  seed: 3,
  home,
  end: Date.UTC(2026, 11, 4, 12),
};

/** A client whose second insert into a table fails. */
function failingClient(client: ClickHouseClient, table: string, when: 'before' | 'after'): StoreClient {
  let inserts = 0;
  return {
    query: (...asked) => client.query(...asked),
    async command(asked) {
      const fails = asked.query.startsWith(`INSERT INTO ${table} `) && (inserts += 1) === 2;
      if (fails && when === 'before') throw new Error('the store is gone');
      const result = await client.command(asked);
      if (fails) throw new Error('the store is gone');
      return result;
    },
  };
}

describe('a demo', { skip: chdbMissing }, () => {
  let engine: EmbeddedChdb;
  let close: () => Promise<void>;
  const clients: ClickHouseClient[] = [];
  /** What a fill that nothing disturbs makes. */
  let whole: Record<string, unknown>;
  let blocks = -1;
  before(async () => {
    ({ engine, close } = await startTestChdb());
    const client = await emptyStore();
    await fill(client, options, () => (blocks += 1));
    whole = await digest(client);
  });
  after(async () => {
    for (const client of clients) await client.close();
    await close();
  });

  /** A client of an empty store. */
  async function emptyStore(): Promise<ClickHouseClient> {
    const { url, username, password } = engine;
    const database = `demo_${randomUUID().replaceAll('-', '')}`;
    await (await createAnalytics({ url, username, password, database, log: recordingLog() })).close();
    const client = createClient({ url, username, password, database });
    clients.push(client);
    return client;
  }

  async function one<T>(client: ClickHouseClient, query: string): Promise<T> {
    const result = await client.query({ query, query_params: home, format: 'JSONEachRow' });
    return ((await result.json<T>())[0] ?? {}) as T;
  }

  /** Numbers that no two different contents share. */
  async function digest(client: ClickHouseClient): Promise<Record<string, unknown>> {
    const sums: Record<string, unknown> = {};
    for (const table of ['requests', 'bodies', 'feedback']) {
      sums[table] = await one(
        client,
        `SELECT count() AS rows, toString(groupBitXor(cityHash64(*))) AS hash, toString(sum(cityHash64(*))) AS sum FROM ${table}`,
      );
    }
    sums['usage'] = await one(
      client,
      "SELECT toString(sum(requests)) AS requests, toString(sum(cost_sum)) AS cost FROM usage_hours WHERE dimension = ''",
    );
    return sums;
  }

  test('makes the same rows for the same options, and other ones for another seed', async () => {
    const [first, second, other] = await Promise.all([emptyStore(), emptyStore(), emptyStore()]);
    const day = { ...options, rows: 60, days: 1 };
    await fill(first, day, () => undefined);
    await fill(second, day, () => undefined);
    await fill(other, { ...day, seed: 4 }, () => undefined);
    const made = await digest(first);
    assert.deepEqual(await digest(second), made);
    assert.notDeepEqual(await digest(other), made);
  });

  test('goes on where it was broken off, with the same end, and stores nothing twice', async () => {
    assert.ok(blocks >= 4, `only ${blocks} blocks: too few to break them off`);
    const client = await emptyStore();
    const stop = new AbortController();
    const half = await fill(client, options, ({ own }) => void (own > 0 && stop.abort()), stop.signal);
    assert.ok(half.stored > 0 && half.stored < options.rows);
    const later = { ...options, end: options.end + 86_400_000 };
    const again = await fill(client, later, () => undefined);
    assert.deepEqual([again.stored, again.end], [options.rows, options.end]);
    assert.deepEqual(await digest(client), whole);
    const third = await fill(client, later, () => undefined);
    assert.deepEqual([third.stored, third.own], [options.rows, 0]);
  });

  for (const when of ['before', 'after'] as const) {
    test(`an insert that fails ${when} it has done its work is done once in the end`, async () => {
      const client = await emptyStore();
      for (const table of ['bodies', 'feedback', 'requests']) {
        const failing = failingClient(client, table, when);
        await assert.rejects(
          fill(failing, options, () => undefined),
          /the store is gone/,
        );
      }
      assert.equal((await fill(client, options, () => undefined)).stored, options.rows);
      assert.deepEqual(await digest(client), whole);
    });
  }

  test('looks like a month of a company: what belongs together agrees', async () => {
    const client = await emptyStore();
    await fill(client, { ...options, rows: 20_000, days: 2, bodies: 0.05 }, () => undefined);
    const told = await one<Record<string, number>>(
      client,
      `SELECT toUInt32(count()) AS rows, toUInt32(uniqExact(id)) AS ids, toUInt32(uniqExact(workspace_id)) AS workspaces,
        toUInt32(uniqExact(api_key_id)) AS keys, toUInt32(uniqExact(metadata['_user'])) AS users,
        toUInt32(uniqExact(ai_service, model)) AS models, toUInt32(uniqExact(ai_service)) AS services,
        countIf(workspace_id = {workspaceId:String}) / count() AS own, countIf(status >= 400) / count() AS failed,
        countIf(cache_status IN ('HIT', 'SEMANTIC HIT')) / count() AS hits, countIf(parent_span_id != '') / count() AS spans,
        toUInt32(countIf(is_success != (status = 200) OR (cost > 0 AND NOT is_success) OR total_tokens != prompt_tokens + completion_tokens OR latency_ms < upstream_ms)) AS wrong,
        toUInt32(countIf(parent_span_id != '' AND (trace_id, parent_span_id) NOT IN (SELECT trace_id, span_id FROM requests))) AS lost_parents,
        toUInt32(countIf(fell_back)) AS fallbacks, toUInt32(countIf(retries > 0)) AS retries
      FROM requests WHERE organisation_id = {organisationId:String}`,
    );
    assert.deepEqual([told['rows'], told['ids'], told['workspaces'], told['keys']], [20_000, 20_000, 12, 60]);
    assert.deepEqual([told['models'], told['services'], told['wrong'], told['lost_parents']], [25, 8, 0, 0]);
    const between = (name: string, least: number, most: number): void => {
      const value = told[name] ?? NaN;
      assert.ok(value >= least && value <= most, `${name}: ${value}`);
    };
    between('users', 550, 600);
    between('own', 0.15, 0.6);
    between('failed', 0.01, 0.08);
    between('hits', 0.03, 0.2);
    between('spans', 0.05, 0.4);
    between('fallbacks', 10, 2000);
    between('retries', 10, 2000);
    const bodies = await one<Record<string, number>>(
      client,
      `SELECT toUInt32(count()) AS rows, avg(length(request) + length(response)) AS bytes,
        toUInt32(countIf(NOT isValidJSON(request) OR NOT isValidJSON(response))) AS broken,
        toUInt32(countIf(id NOT IN (SELECT id FROM requests))) AS strangers FROM bodies`,
    );
    assert.ok((bodies['rows'] ?? 0) > 800 && (bodies['rows'] ?? 0) < 1200, `${bodies['rows']} bodies`);
    assert.ok((bodies['bytes'] ?? 0) > 1500 && (bodies['bytes'] ?? 0) < 3000, `${bodies['bytes']} bytes`);
    assert.deepEqual([bodies['broken'], bodies['strangers']], [0, 0]);
    const feedback = await one<Record<string, number>>(
      client,
      'SELECT toUInt32(count()) AS rows, toUInt32(countIf(trace_id NOT IN (SELECT trace_id FROM requests))) AS strangers FROM feedback',
    );
    assert.ok((feedback['rows'] ?? 0) > 100);
    assert.equal(feedback['strangers'], 0);
  });
});
