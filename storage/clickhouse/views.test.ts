import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Analytics, StoredRows } from '../../core/ports/analytics.ts';
import { ndjson, requestRow } from '../../tests/conformance/analytics-rows.ts';
import { chdbMissing, recordingLog, startTestChdb, temporaryFolder } from '../embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../embedded/start-chdb.ts';
import { createAnalytics } from './create-analytics.ts';

const rowsPerBlock = 300;
/** The view takes 300 ms for a block, so most of these kills meet the store between the table and its view. */
const killedAfterMs = [25, 90, 160, 230];
/** By the hour and model, as a roll-up of ours would be; it is slow, so that a kill can come before its end. */
const rollUp = (target: string): string =>
  `CREATE MATERIALIZED VIEW ${target}_view TO ${target} AS
   SELECT toStartOfHour(created_at) AS hour, model, count() AS requests FROM requests
   WHERE sleepEachRow(0.001) = 0 GROUP BY hour, model`;
const table = (name: string, settings: string): string =>
  `CREATE TABLE ${name} (hour DateTime('UTC'), model String, requests UInt64)
   ENGINE = SummingMergeTree ORDER BY (hour, model) ${settings}`;

/** The embedded engine with our schema, on a folder of its own in which row files may lie. */
async function openStore(t: TestContext) {
  const folder = await temporaryFolder();
  const { engine, close } = await startTestChdb([folder.path]);
  const { url, username, password } = engine;
  const analytics = await createAnalytics({ url, username, password, log: recordingLog(), isEmbedded: true });
  t.after(async () => {
    await analytics.close();
    await close();
    await folder.remove();
  });
  return { engine, analytics, folder };
}

describe('a table with a materialized view', { skip: chdbMissing }, () => {
  test('a store killed between the two neither loses nor doubles a row', async (t) => {
    const { engine, analytics, folder } = await openStore(t);
    const window = 'SETTINGS non_replicated_deduplication_window = 10000';
    await run(engine, table('hourly', window));
    await run(engine, rollUp('hourly'));
    let between = 0;
    for (const [round, wait] of killedAfterMs.entries()) {
      const rows = await fileOfRows(join(folder.path, `${round}.sealed`));
      const token = `requests-${randomUUID()}`;
      const { restarts } = engine;
      const stored = insertUntilStored(analytics, rows, token, (attempt) => {
        if (attempt > 0) return Promise.resolve();
        setTimeout(() => process.kill(engine.pid as number, 'SIGKILL'), wait);
        return untilRestarted(engine, restarts).then(async () => {
          const [inTable, inView] = await counts(engine, 'hourly');
          between += inTable === inView ? 0 : 1;
        });
      });
      await stored;
      // An answer may be lost as well: the same token again changes nothing.
      await insertUntilStored(analytics, rows, token);
      const expected = (round + 1) * rowsPerBlock;
      assert.deepEqual(await counts(engine, 'hourly'), [expected, expected]);
    }
    assert.ok(between > 0, 'no kill came between the table and its view, which proves nothing');
  });

  test('our roll-ups neither lose nor double a row when a store is killed between any two of them', async (t) => {
    const { engine, analytics, folder } = await openStore(t);
    // Slow ones beside ours, so that kills come before, between and after them.
    for (const source of ['requests', 'usage_hours', 'usage_minutes']) {
      const window = 'SETTINGS non_replicated_deduplication_window = 10000';
      await run(engine, `CREATE TABLE pause_${source} (a UInt8) ENGINE = MergeTree ORDER BY a ${window}`);
      await run(
        engine,
        `CREATE MATERIALIZED VIEW usage_i_${source} TO pause_${source} AS
         SELECT toUInt8(1) AS a FROM (SELECT 1 FROM ${source} LIMIT 20) WHERE sleepEachRow(0.0075) = 0`,
      );
    }
    const seen = new Set<string>();
    for (const [round, wait] of [60, 200, 350, 500].entries()) {
      const rows = await fileOfRows(join(folder.path, `${round}.sealed`));
      const token = `requests-${randomUUID()}`;
      const { restarts } = engine;
      const before = round * rowsPerBlock;
      await insertUntilStored(analytics, rows, token, (attempt) => {
        if (attempt > 0) return Promise.resolve();
        setTimeout(() => process.kill(engine.pid as number, 'SIGKILL'), wait);
        return untilRestarted(engine, restarts).then(async () => {
          seen.add((await rolledUp(engine)).map((count) => (count === before ? '-' : '+')).join(''));
        });
      });
      await insertUntilStored(analytics, rows, token);
      const expected = before + rowsPerBlock;
      assert.deepEqual(
        await rolledUp(engine),
        [expected, expected, expected, expected],
        `killed after ${wait} ms`,
      );
    }
    const torn = [...seen].filter((state) => state.includes('+') && state.includes('-'));
    assert.ok(torn.length > 0, `no kill came between the tables, which proves nothing: ${[...seen].join()}`);
  });

  test('a target without a window of its own doubles, which is why migrations are checked for it', async (t) => {
    const { engine, analytics, folder } = await openStore(t);
    await run(engine, table('careless', ''));
    await run(engine, rollUp('careless'));
    const rows = await fileOfRows(join(folder.path, 'a.sealed'));
    for (let i = 0; i < 2; i += 1) await insertUntilStored(analytics, rows, 'requests-token');
    assert.deepEqual(await counts(engine, 'careless'), [rowsPerBlock, 2 * rowsPerBlock]);
  });
});

async function fileOfRows(path: string): Promise<StoredRows> {
  const bytes = ndjson(Array.from({ length: rowsPerBlock }, () => requestRow()));
  await writeFile(path, bytes);
  return { path, from: 0, end: bytes.length };
}

/** As the journal does: the same rows and token until the store has taken them. */
async function insertUntilStored(
  analytics: Analytics,
  rows: StoredRows,
  token: string,
  meanwhile: (attempt: number) => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    const [outcome] = await Promise.allSettled([
      analytics.insert('requests', rows, token),
      meanwhile(attempt),
    ]);
    if (outcome.status === 'fulfilled') return;
    const { reason } = outcome;
    assert.ok(GatewayError.is(reason) && reason.code === 'store_unavailable', String(reason));
    await delay(20);
  }
}

async function untilRestarted(engine: EmbeddedChdb, restarts: number): Promise<void> {
  while (engine.restarts === restarts) await delay(10);
}

async function counts(engine: EmbeddedChdb, target: string): Promise<number[]> {
  const sql = `SELECT (SELECT count() FROM requests), (SELECT sum(requests) FROM ${target})`;
  return (await run(engine, sql)).split('\t').map(Number);
}

/** The rows that the table and the roll-ups by the minute, hour and day know of. */
async function rolledUp(engine: EmbeddedChdb): Promise<number[]> {
  const sql = `SELECT (SELECT count() FROM requests), (SELECT sum(requests) FROM usage_minutes),
    (SELECT sum(requests) FROM usage_hours WHERE dimension = 'model'),
    (SELECT sum(requests) FROM usage_days WHERE dimension = '*')`;
  return (await run(engine, sql)).split('\t').map(Number);
}

async function run(engine: EmbeddedChdb, sql: string): Promise<string> {
  const authorization = `Basic ${Buffer.from(`${engine.username}:${engine.password}`).toString('base64')}`;
  const response = await fetch(`${engine.url}/?database=weir`, {
    method: 'POST',
    body: sql,
    headers: { authorization },
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return text.trim();
}
