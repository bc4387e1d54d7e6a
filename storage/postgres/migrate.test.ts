import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import pg from 'pg';
import { startEngine, type EngineKind, type TestEngine } from '../../tests/kit/postgres-kit.ts';
import { postgresMissing } from '../../tests/kit/postgres-server.ts';
import { recordingLog, testClock } from '../embedded/chdb-fixture.ts';
import { migrate, type Migration, readMigrations } from './migrate.ts';
import { openDatabase, type EmbeddedPlace } from './open-database.ts';
import type { PostgresPlace } from './postgres-address.ts';

const step = (id: number, sql: string, sha256 = `sum ${id}`, readableFrom = 0): Migration => ({
  id,
  name: `000${id}-step.sql`,
  sha256,
  sql,
  readableFrom,
});
const first = step(1, 'CREATE TABLE a (x int); INSERT INTO a VALUES (1); -- a comment; with "quotes\'\n');
const second = step(2, 'INSERT INTO a VALUES (2); DO $body$ BEGIN INSERT INTO a VALUES (3); END; $body$;');
const broken = step(2, 'INSERT INTO a VALUES (9); INSERT INTO missing VALUES (1)');

for (const kind of ['embedded', 'server'] as const satisfies readonly EngineKind[]) {
  describe(`migrations, ${kind}`, { skip: kind === 'server' && postgresMissing }, () => {
    let engine: TestEngine;
    let client: pg.Client;
    const log = recordingLog();
    before(async () => {
      engine = await startEngine(kind);
      const place = engine.place as PostgresPlace & EmbeddedPlace;
      client = new pg.Client(
        kind === 'server'
          ? place.connection
          : { host: place.socketFolder, user: 'postgres', database: 'postgres' },
      );
      await client.connect();
    });
    afterEach(() => client.query('DROP TABLE IF EXISTS a, weir_migrations'));
    after(async () => {
      await client.end();
      await engine.close();
    });
    const run = (...migrations: readonly Migration[]): Promise<void> =>
      migrate({ client, migrations, log, embedded: kind === 'embedded' });
    const rows = async (): Promise<unknown[]> =>
      (await client.query<{ x: number }>('SELECT x FROM a ORDER BY x')).rows.map(({ x }) => x);

    test('each step runs once, in order, and is recorded', async () => {
      log.lines.length = 0;
      await run(first);
      assert.deepEqual(await rows(), [1]);
      await run(first, second);
      await run(first, second);
      assert.deepEqual(await rows(), [1, 2, 3]);
      const recorded = await client.query(
        "SELECT id, name, sha256, applied_at > now() - interval '1 hour' AS recent FROM weir_migrations ORDER BY id",
      );
      assert.deepEqual(recorded.rows, [
        { id: 1, name: '0001-step.sql', sha256: 'sum 1', recent: true },
        { id: 2, name: '0002-step.sql', sha256: 'sum 2', recent: true },
      ]);
      assert.equal(log.lines.length, 2);
    });

    test('of a step that fails nothing remains, and it can be mended', async () => {
      await assert.rejects(
        run(first, broken),
        /migration 0002-step\.sql failed: relation "missing" does not exist/,
      );
      assert.deepEqual(await rows(), [1]);
      await run(first, second);
      assert.deepEqual(await rows(), [1, 2, 3]);
    });

    test('a step that reads differently than it did is refused', async () => {
      await run(first, second);
      await assert.rejects(run(step(1, first.sql, 'other'), second), (error: Error) => {
        assert.match(
          error.message,
          /^migration 0001-step\.sql was applied with other contents .*restore the file/,
        );
        return true;
      });
    });

    test('a database that a newer version has only added to is used as it is', async () => {
      await run(first, second);
      log.lines.length = 0;
      await run(first);
      assert.deepEqual(await rows(), [1, 2, 3]);
      assert.match(log.lines.join(), /extended by a newer version.*0002-step\.sql/);
    });

    test('a table of steps from before the rule is read, and none beside them is taken for readable', async () => {
      await run(first, second);
      await client.query('ALTER TABLE weir_migrations DROP COLUMN readable_from');
      await run(first, second);
      await assert.rejects(run(first), /0002-step\.sql, which this version does not know/);
      await run(first, second, step(3, 'INSERT INTO a VALUES (4)'));
      await run(first, second);
    });

    test('a database that is newer than this version can read is refused at start, with the remedy', async () => {
      await run(first, { ...second, readableFrom: 2 });
      const options = { place: engine.place, log, clock: testClock, migrations: [first] };
      await assert.rejects(openDatabase(options), (error: Error) => {
        assert.match(
          error.message,
          /^the resources store \(.*\) cannot be opened: it has migration 0002-step\.sql, which this version does not know and cannot work beside: start the newer version/,
        );
        return true;
      });
      assert.deepEqual(await rows(), [1, 2, 3]);
    });

    test('a step that fails is explained at start', async () => {
      const options = { place: engine.place, log, clock: testClock, migrations: [first, broken] };
      await assert.rejects(
        openDatabase(options),
        /cannot be opened: migration 0002-step\.sql failed: .* \(error 42P01\)/,
      );
    });

    if (kind === 'server') {
      test('another gateway that migrates is waited for', async () => {
        const other = new pg.Client((engine.place as PostgresPlace).connection);
        await other.connect();
        await other.query('SELECT pg_advisory_lock(7310579625114301)');
        let done = false;
        const waiting = run(first).then(() => (done = true));
        await other.query('SELECT pg_sleep(0.2)');
        assert.equal(done, false);
        await other.end();
        await waiting;
        const locks = await client.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'");
        assert.equal(locks.rowCount, 0);
      });
    }
  });
}

test('files are read in order; a gap or another name is refused', async (t) => {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'weir-test-'));
  t.after(() => rm(folder, { recursive: true }));
  const url = pathToFileURL(`${folder}/`);
  await writeFile(path.join(folder, '0001-one.sql'), 'SELECT 1;\r\n');
  await writeFile(path.join(folder, '0002-two.sql'), 'SELECT 2;\n');
  const migrations = await readMigrations(url);
  assert.deepEqual(
    migrations.map(({ id, name, sql }) => [id, name, sql]),
    [
      [1, '0001-one.sql', 'SELECT 1;\n'],
      [2, '0002-two.sql', 'SELECT 2;\n'],
    ],
  );
  await writeFile(path.join(folder, '0001-one.sql'), 'SELECT 1;\n');
  assert.equal((await readMigrations(url))[0]?.sha256, migrations[0]?.sha256);
  await writeFile(path.join(folder, '0004-four.sql'), '');
  await assert.rejects(readMigrations(url), /migration 0004-four\.sql must be named 0003-some-words\.sql/);
});

test('the files of this version are numbered without gaps', async () => {
  assert.ok((await readMigrations()).length > 0);
});

describe('migrations: expand, then contract', () => {
  /** The fifth migration after those that are from before the rule. */
  async function fifth(sql: string): Promise<number | string> {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'weir-test-'));
    try {
      for (const id of [1, 2, 3, 4])
        await writeFile(path.join(folder, `000${id}-step.sql`), 'DROP TABLE old;');
      await writeFile(path.join(folder, '0005-step.sql'), sql);
      return (await readMigrations(pathToFileURL(`${folder}/`))).at(-1)?.readableFrom ?? 'none';
    } catch (error) {
      return (error as Error).message;
    } finally {
      await rm(folder, { recursive: true });
    }
  }

  for (const sql of [
    "ALTER TABLE a ADD COLUMN b text NOT NULL DEFAULT 'DROP TABLE a';",
    'CREATE TABLE b (x int); -- instead of DROP TABLE a',
    'CREATE INDEX c ON a (x); /* RENAME\n comes later */ DROP INDEX d; DROP TRIGGER e ON a;',
  ])
    test(`adds: ${sql.slice(0, 60)}`, async () => assert.equal(await fifth(sql), 0));

  for (const sql of [
    'DROP TABLE a;',
    'alter table a drop column b;',
    'ALTER TABLE a RENAME COLUMN b TO c;',
    'ALTER TABLE a RENAME TO b;',
    'ALTER TABLE a ALTER COLUMN b TYPE bigint;',
    'ALTER TABLE a ALTER b SET DATA TYPE bigint;',
    'ALTER TABLE a ALTER COLUMN b SET NOT NULL;',
    'DROP VIEW a;',
  ]) {
    test(`takes away: ${sql}`, async () => {
      assert.match(String(await fifth(sql)), /^migration 0005-step\.sql says ".*\. Add what is new/);
      assert.equal(await fifth(`-- contract 0004: nothing reads it since.\n${sql}`), 4);
      assert.match(String(await fifth(`-- contract 0005\n${sql}`)), /name a migration before this one/);
    });
  }
});
