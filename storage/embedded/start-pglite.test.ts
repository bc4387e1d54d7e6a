import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { PGlite } from '@electric-sql/pglite';
import pg from 'pg';
import { recordingLog, temporaryFolder, testClock } from './chdb-fixture.ts';
import { processIdentity } from './data-lock.ts';
import { DurableFiles, engineParameters } from './pglite-files.ts';
import { startPglite, type EmbeddedPglite } from './start-pglite.ts';

async function ask(engine: Pick<EmbeddedPglite, 'socketFolder'>, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ host: engine.socketFolder, user: 'postgres', database: 'postgres' });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

describe('the embedded relational engine', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  beforeEach(async () => {
    folder = await temporaryFolder();
  });
  afterEach(() => folder.remove());

  const start = (): Promise<EmbeddedPglite> =>
    startPglite({ directory: folder.path, log: recordingLog(), clock: testClock, patienceMs: 200 });

  test('keeps what was committed over kills and a stop, and a second gateway is refused the folder', async () => {
    const first = await start();
    await ask(first, 'CREATE TABLE t (a int PRIMARY KEY)');
    for (let round = 1; round <= 2; round += 1) {
      for (let row = 1; row <= 20; row += 1) await ask(first, `INSERT INTO t VALUES (${round * 100 + row})`);
      if (round === 1) process.kill(first.pid as number, 'SIGKILL');
      else first.replace();
      while (first.restarts < round) await delay(10);
      assert.deepEqual(await ask(first, 'SELECT count(*)::int AS n FROM t'), [{ n: round * 20 }]);
    }
    await assert.rejects(start(), (error: Error) => {
      assert.match(error.message, /^the data folder .* is in use by process \d+: stop that process/);
      return true;
    });
    await first.close();
    assert.equal(first.pid, undefined);
    const second = await start();
    assert.deepEqual(await ask(second, 'SELECT count(*)::int AS n FROM t'), [{ n: 40 }]);
    await second.close();
  });

  test('a gateway killed with -9 takes its engine with it, and the next start waits for the folder', async () => {
    const source = join(folder.path, 'gateway.mts');
    const data = join(folder.path, 'data');
    const fixture = JSON.stringify(new URL('./chdb-fixture.ts', import.meta.url).href);
    const module = JSON.stringify(new URL('./start-pglite.ts', import.meta.url).href);
    await writeFile(
      source,
      `import { recordingLog, testClock } from ${fixture};
       import { startPglite } from ${module};
       const options = { directory: ${JSON.stringify(data)}, log: recordingLog(), clock: testClock };
       startPglite(options).then((engine) => process.send({ pid: engine.pid, socketFolder: engine.socketFolder }));`,
    );
    const gateway = fork(source, { execArgv: ['--import', import.meta.resolve('tsx')] });
    const [told] = (await once(gateway, 'message')) as [{ pid: number; socketFolder: string }];
    await ask(told, 'CREATE TABLE t AS SELECT 1 AS a');
    const gone = once(gateway, 'exit');
    gateway.kill('SIGKILL');
    await gone;
    const next = await startPglite({ directory: data, log: recordingLog(), clock: testClock });
    assert.equal(await processIdentity(told.pid), undefined);
    assert.deepEqual(await ask(next, 'SELECT a FROM t'), [{ a: 1 }]);
    await next.close();
  });

  test('a folder that cannot be opened is named in the error', async () => {
    const path = join(folder.path, 'resources');
    await mkdir(path);
    await writeFile(join(path, 'PG_VERSION'), 'none');
    await assert.rejects(
      startPglite({ directory: path, log: recordingLog(), clock: testClock }),
      (error: Error) => {
        assert.ok(error.message.includes(`could not open ${path}: `), error.message);
        return true;
      },
    );
  });

  test('a damaged database is named as such with the way back, and the file stays as it is', async () => {
    const path = join(folder.path, 'damaged');
    const options = { directory: path, log: recordingLog(), clock: testClock };
    await (await startPglite(options)).close();
    const log = join(path, 'pg_wal');
    const [segment = ''] = (await readdir(log)).filter((name) => /^0/.test(name));
    await writeFile(join(log, segment), randomBytes(1024 * 1024));
    await assert.rejects(startPglite(options), ({ message }: Error) => {
      assert.match(
        message,
        /the database in it is damaged \(the engine says: [^)]+\)+\. Move .* "weir restore FILE"/,
      );
      assert.doesNotMatch(message, /ASSERTIONS|\n/);
      return true;
    });
    assert.equal((await readFile(join(log, segment))).length, 1024 * 1024);
  });

  test('a commit is synced before it is acknowledged, and the cache of pages stays small', async (t) => {
    const sync = t.mock.method(fs, 'fdatasyncSync');
    const engine = await PGlite.create({
      fs: new DurableFiles(join(folder.path, 'synced')),
      startParams: [...engineParameters],
    });
    try {
      await engine.exec('CREATE TABLE t (a int)');
      for (let n = 0; n < 3; n += 1) {
        const before = sync.mock.callCount();
        await engine.query('INSERT INTO t VALUES ($1)', [n]);
        assert.ok(sync.mock.callCount() > before);
      }
      const before = sync.mock.callCount();
      await engine.query('SELECT a FROM t');
      assert.equal(sync.mock.callCount(), before);
      assert.deepEqual((await engine.query('SHOW shared_buffers')).rows, [{ shared_buffers: '16MB' }]);
    } finally {
      await engine.close();
    }
  });
});
