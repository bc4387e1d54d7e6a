import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from '@clickhouse/client';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Analytics, AnalyticsServerSettings } from '../../core/ports/analytics.ts';
import { analyticsConformance } from '../../tests/conformance/analytics.ts';
import { newToken } from '../../tests/conformance/analytics-probe.ts';
import { ndjson, requestRow } from '../../tests/conformance/analytics-rows.ts';
import { clickHouseUnderTest } from '../../tests/conformance/analytics-server.ts';
import { otherAuthority, startFront, testAuthority, type Front } from '../../tests/kit/front.ts';
import {
  chdbMissing,
  recordingLog,
  startTestChdb,
  testClock,
  temporaryFolder,
} from '../embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../embedded/start-chdb.ts';
import { openServer } from './open-server.ts';
import { schemaSql } from './migrate.ts';
import { shardSql } from './shards.ts';

const single = {
  replicated: false,
  replica_path: '',
  replica_name: 'r',
  sharded: false,
  insert_quorum_parallel: true,
};
const open = (settings: AnalyticsServerSettings, folder = '.', log = recordingLog()): Promise<Analytics> =>
  openServer(settings, folder, { clock: testClock, log });

const server = clickHouseUnderTest(process.env);
if (server === undefined) {
  const skip =
    'CLICKHOUSE_TEST_URL is not set (http://host:8123 of a ClickHouse server; see docs/clickhouse.md)';
  test('analytics: ClickHouse server', { skip }, () => undefined);
} else {
  analyticsConformance('ClickHouse server', async () => {
    const database = `weir_test_${randomUUID().replaceAll('-', '')}`;
    const analytics = await open({ ...server, url: `${server.url}/${database}` });
    const folder = await temporaryFolder();
    return {
      analytics,
      folder: folder.path,
      async close() {
        await analytics.close();
        const { url, username, password, cluster, sharded } = server;
        const client = createClient({ url, username, password });
        for (const name of sharded ? [shardSql.databaseOfAll(database), database] : [database]) {
          await client.command({
            query: `DROP DATABASE {database:Identifier}${schemaSql.onCluster({ cluster })} SYNC`,
            query_params: { database: name },
          });
        }
        await client.close();
        await folder.remove();
      },
    };
  });
}

if (chdbMissing === false) {
  analyticsConformance(
    'ClickHouse by URL, user, password and TLS (the embedded engine behind it)',
    async () => {
      const folder = await temporaryFolder();
      await writeFile(join(folder.path, 'ca.pem'), testAuthority);
      const { engine, close } = await startTestChdb();
      const front = await startFront(Number(new URL(engine.url).port), { tls: true });
      const { username, password } = engine;
      const analytics = await open(
        { ...single, url: `${front.url}/over_tls`, username, password, ca_file: 'ca.pem' },
        folder.path,
      );
      return {
        analytics,
        folder: folder.path,
        async close() {
          await analytics.close();
          await front.close();
          await close();
          await folder.remove();
        },
      };
    },
    // Its engine is the embedded one, whose answers `embedded.test.ts` tests.
    'connection',
  );
}

describe('a ClickHouse server that cannot be used', { skip: chdbMissing }, () => {
  let engine: EmbeddedChdb;
  let closeEngine: () => Promise<void>;
  let port = 0;
  let secure: Front;
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'weir-test-'));
    await writeFile(join(folder, 'ca.pem'), testAuthority);
    await writeFile(join(folder, 'other.pem'), otherAuthority);
    ({ engine, close: closeEngine } = await startTestChdb());
    port = Number(new URL(engine.url).port);
    secure = await startFront(port, { tls: true });
  });
  after(async () => {
    await secure.close();
    await closeEngine();
    await rm(folder, { recursive: true });
  });
  const credentials = (): Pick<AnalyticsServerSettings, 'username' | 'password'> => ({
    username: engine.username,
    password: engine.password,
  });

  test('the certificate of an authority that is not named, or another one, ends the start', async () => {
    for (const ca of [{}, { ca_file: 'other.pem' }]) {
      await assert.rejects(
        open({ ...single, url: secure.url, ...credentials(), ...ca }, folder),
        /certificate is not accepted \(\w+\)\. Name the authority that signed it in storage\.analytics\.ca_file/,
      );
    }
  });

  test('HTTPS to a port of HTTP ends the start', () =>
    assert.rejects(open({ ...single, url: `https://127.0.0.1:${port}`, ...credentials() }), /TLS failed/));

  test('a wrong password ends the start and is not repeated', async () => {
    const log = recordingLog();
    const settings = { ...single, url: engine.url, username: 'weir', password: 'guessed-word' };
    await assert.rejects(open(settings, '.', log), (error: Error) => {
      assert.match(error.message, /refuses the user or the password \(error 516 AUTHENTICATION_FAILED\)/);
      assert.doesNotMatch(`${error.message}${error.stack}${log.lines.join()}`, /guessed-word/);
      return true;
    });
  });

  test('a cluster or macro that the server does not know ends the start', async () => {
    const settings = { ...single, url: `${engine.url}/nowhere`, ...credentials() };
    await assert.rejects(
      open({ ...settings, cluster: 'absent' }),
      /no such cluster.*"absent"; SHOW CLUSTERS/,
    );
    await assert.rejects(
      open({ ...settings, replicated: true, replica_path: '/k/{shard}/{database}/{table}' }),
      /not set up for replicated tables.*No macro 'shard'/,
    );
  });

  test('one that is away is waited for, gets its schema when it comes, and is used again after it went', async () => {
    const front = await startFront(port, { away: true });
    const analytics = await open({ ...single, url: `${front.url}/comes_later`, ...credentials() });
    const isAway = (error: unknown): boolean => GatewayError.is(error) && error.code === 'store_unavailable';
    const rows = [requestRow({ organisation_id: 'late' })];
    const seen = { organisationId: 'late' };
    const token = newToken();
    const insert = (): Promise<void> => analytics.insert('requests', ndjson(rows), token);
    await assert.rejects(insert(), isAway);
    for (let round = 0; round < 2; round += 1) {
      front.away(false);
      await untilResolved(insert);
      front.away(true);
      await assert.rejects(analytics.ping(), isAway);
    }
    front.away(false);
    await untilResolved(() => analytics.ping());
    const query = { by: 'model', columns: [], window: { from: 0, to: 8e15 }, limit: 1, offset: 0 } as const;
    assert.equal((await analytics.groups({ ...query, visibility: seen })).rows[0]?.requests, 1);
    await analytics.close();
    await front.close();
  });
});

/** Repeats what fails while the server is away; the runner's own limit ends a test that never succeeds. */
async function untilResolved(run: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await run();
    } catch (error) {
      assert.ok(GatewayError.is(error) && error.code === 'store_unavailable', String(error));
      await delay(50);
    }
  }
}
