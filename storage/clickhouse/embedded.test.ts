import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { rename } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from '@clickhouse/client';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Analytics, LogPlace } from '../../core/ports/analytics.ts';
import { analyticsConformance, type OpenedAnalytics } from '../../tests/conformance/analytics.ts';
import { storesRowsOfFiles } from '../../tests/conformance/analytics-files.ts';
import { bodyRow, dayStart, ndjson, requestRow, storedTime } from '../../tests/conformance/analytics-rows.ts';
import {
  chdbMissing,
  recordingLog,
  startTestChdb,
  temporaryFolder,
  testClock,
} from '../embedded/chdb-fixture.ts';
import { type EmbeddedChdb, startChdb } from '../embedded/start-chdb.ts';
import { createAnalytics } from './create-analytics.ts';
import { AnalyticsStartError } from './store-errors.ts';

const hasCode = (code: string) => (error: unknown) => GatewayError.is(error) && error.code === code;
const open = ({ url, username, password }: EmbeddedChdb, isEmbedded = false): Promise<Analytics> =>
  createAnalytics({ url, username, password, log: recordingLog(), isEmbedded });

/** The engine with a folder of rows, which it reads itself or gets sent. */
async function openWithFolder(isEmbedded: boolean): Promise<OpenedAnalytics> {
  const folder = await temporaryFolder();
  const { engine, close } = await startTestChdb(isEmbedded ? [folder.path] : []);
  const analytics = await open(engine, isEmbedded);
  return {
    analytics,
    folder: folder.path,
    async close() {
      await analytics.close();
      await close();
      await folder.remove();
    },
  };
}

if (chdbMissing === false) {
  analyticsConformance('ClickHouse, embedded engine', () => openWithFolder(true));
}

describe('rows of files that are sent, as to a server', { skip: chdbMissing }, () => {
  let opened: OpenedAnalytics;
  before(async () => {
    opened = await openWithFolder(false);
  });
  after(() => opened.close());
  storesRowsOfFiles(
    () => opened.analytics,
    () => opened.folder,
  );
});

test('the engine is asked for new entries only when some may have come', { skip: chdbMissing }, async (t) => {
  const { engine, close } = await startTestChdb();
  t.after(close);
  const analytics = await open(engine, true);
  const client = createClient({ url: engine.url, username: engine.username, password: engine.password });
  t.after(async () => {
    await client.close();
    await analytics.close();
  });
  const row = requestRow({ organisation_id: randomUUID(), created_at: storedTime(Date.now()) });
  const insert = (one: typeof row) => analytics.insert('requests', ndjson([one]), randomUUID());
  const visibility = { organisationId: row.organisation_id };
  const ask = (since?: LogPlace) => analytics.newLogs({ since, visibility, limit: 10 });
  /** Statements that read, with this one. */
  const reads = async (): Promise<number> => {
    const query = "SELECT toFloat64(value) AS reads FROM system.events WHERE event = 'SelectQuery'";
    const [counted] = await (await client.query({ query, format: 'JSONEachRow' })).json<{ reads: number }>();
    return counted?.reads ?? 0;
  };

  const first = await ask();
  const before = await reads();
  let { since } = first;
  for (let time = 0; time < 5; time += 1) ({ since } = await ask(since));
  assert.equal((await reads()) - before, 1);

  await insert(row);
  const told = await ask(since);
  assert.deepEqual(
    told.records.map(({ request }) => request.id),
    [row.id],
  );
  const answered = await reads();
  assert.deepEqual((await ask(told.since)).records, []);
  assert.equal((await reads()) - answered, 1);
  // Another question has to be asked, whatever this one knows.
  const narrow = await analytics.newLogs({
    since: told.since,
    visibility: { ...visibility, apiKeyId: 'k' },
    limit: 10,
  });
  assert.deepEqual(narrow.records, []);
  assert.equal((await reads()) - answered, 3);
});

describe('analytics on an engine that fails', { skip: chdbMissing }, () => {
  let engine: EmbeddedChdb;
  let analytics: Analytics;
  let closeEngine: () => Promise<void>;
  before(async () => {
    ({ engine, close: closeEngine } = await startTestChdb());
    analytics = await open(engine);
  });
  after(async () => {
    await analytics.close();
    await closeEngine();
  });

  /** As the journal does: the same bytes and token until the store has taken them. */
  async function insertUntilStored(rows: Buffer, token: string): Promise<number> {
    for (let failures = 0; ; failures += 1) {
      try {
        await analytics.insert('bodies', rows, token);
        return failures;
      } catch (error) {
        assert.ok(hasCode('store_unavailable')(error), String(error));
        await delay(50);
      }
    }
  }

  test('an engine killed in the middle of an insert stores the retried batch once', async () => {
    const requests = Array.from({ length: 300 }, () => requestRow({ organisation_id: randomUUID() }));
    await analytics.insert('requests', ndjson(requests), randomUUID());
    const bodies = ndjson(requests.map((row) => bodyRow(row, { request: randomUUID().repeat(1500) })));
    let interrupted = 0;
    for (const wait of [30, 90, 150]) {
      const token = randomUUID();
      const restarts = engine.restarts;
      const pid = engine.pid as number;
      const stored = insertUntilStored(bodies, token);
      await delay(wait);
      process.kill(pid, 'SIGKILL');
      interrupted += Math.sign(await stored);
      while (engine.restarts === restarts) await delay(20);
      // Whether the first attempt was acknowledged or not: the same token again changes nothing.
      await insertUntilStored(bodies, token);
    }
    assert.ok(interrupted > 0, 'no kill met an insert: the payload is too small');
    assert.deepEqual(await askEngine(engine, 'SELECT count() FROM weir.bodies'), [String(3 * 300)]);
  });

  /** The lines of an answer. */
  async function askEngine(
    { url, username, password }: EmbeddedChdb,
    query: string,
  ): Promise<readonly string[]> {
    const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
    const search = new URLSearchParams({ query });
    const response = await fetch(`${url}/?${search.toString()}`, {
      method: 'POST',
      headers: { authorization },
    });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return text.trim().split('\n');
  }

  test('an insert whose token was written, and whose rows were lost when the engine was killed, is stored when it comes again', async (t) => {
    const folder = await temporaryFolder();
    t.after(folder.remove);
    const bodies = ndjson([bodyRow(requestRow({ organisation_id: 'o' }), { request: 'lost' })]);
    const withEngine = async <T>(use: (engine: EmbeddedChdb) => Promise<T>): Promise<T> => {
      const log = recordingLog();
      const started = await startChdb({ directory: folder.path, log, clock: testClock, rowFolders: [] });
      const store = await open(started);
      try {
        await store.insert('bodies', bodies, 'token-1');
        return await use(started);
      } finally {
        await store.close();
        await started.close();
      }
    };
    const count = 'SELECT count() FROM weir.bodies';
    const parts = "SELECT path FROM system.parts WHERE active AND database = 'weir' AND table = 'bodies'";
    const [part = ''] = await withEngine((started) => askEngine(started, parts));
    // What a kill leaves behind after the token is written and before the part is moved.
    await rename(part, part.replace(/([^/]+)\/$/, 'tmp_insert_$1'));
    assert.deepEqual(await withEngine((started) => askEngine(started, count)), ['1']);
    // A part that is there, or was merged into another one, keeps its token.
    assert.deepEqual(await withEngine((started) => askEngine(started, count)), ['1']);
    await withEngine((started) => askEngine(started, 'OPTIMIZE TABLE weir.bodies FINAL'));
    assert.deepEqual(await withEngine((started) => askEngine(started, count)), ['1']);
  });

  test('an engine that is gone is reported as unavailable by every method', async () => {
    const { engine: other, close } = await startTestChdb();
    const store = await open(other);
    const address = {
      url: other.url,
      username: other.username,
      password: other.password,
      log: recordingLog(),
    };
    await close();
    const window = { from: dayStart, to: dayStart + 1 };
    const visibility = { organisationId: 'o' };
    const unavailable = hasCode('store_unavailable');
    await assert.rejects(store.ping(), unavailable);
    await assert.rejects(store.insert('requests', ndjson([requestRow()]), 't'), unavailable);
    await assert.rejects(store.requestById(randomUUID(), window, visibility), unavailable);
    const query = { by: 'model', columns: [], window, visibility, limit: 1, offset: 0 } as const;
    await assert.rejects(store.groups(query), unavailable);
    await assert.rejects(
      createAnalytics(address),
      (error) => error instanceof AnalyticsStartError && !error.lasting,
    );
    await store.close();
  });
});
