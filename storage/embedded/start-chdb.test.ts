import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { chdbMissing, recordingLog, temporaryFolder, testClock } from './chdb-fixture.ts';
import { DataFolderInUse, processIdentity } from './data-lock.ts';
import { memoryBudget } from './memory-budget.ts';
import { defaultQueries, explainStart, startChdb, type EmbeddedChdb } from './start-chdb.ts';
import { ChildStartError } from './supervised-child.ts';

async function ask(engine: EmbeddedChdb, sql: string): Promise<string> {
  const authorization = `Basic ${Buffer.from(`${engine.username}:${engine.password}`).toString('base64')}`;
  const response = await fetch(engine.url, { method: 'POST', body: sql, headers: { authorization } });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return text.trim();
}

const memoryBytes = 900_000_000;

describe('the embedded engine', { skip: chdbMissing }, () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  beforeEach(async () => {
    folder = await temporaryFolder();
  });
  afterEach(() => folder.remove());

  const start = (): Promise<EmbeddedChdb> =>
    startChdb({ directory: folder.path, log: recordingLog(), clock: testClock, memoryBytes });

  test('keeps its data over a stop, and a kill, with the same address', async () => {
    const first = await start();
    await ask(first, 'CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a');
    await ask(first, 'INSERT INTO t VALUES (1)');
    process.kill(first.pid as number, 'SIGKILL');
    while (first.restarts === 0) await delay(10);
    assert.equal(await ask(first, 'SELECT count() FROM t'), '1');
    await first.close();
    assert.equal(first.pid, undefined);
    const second = await start();
    assert.notEqual(second.password, first.password);
    assert.equal(await ask(second, 'SELECT count() FROM t'), '1');
    await second.close();
  });

  test('memory and caches are bounded', async () => {
    const engine = await start();
    const names = "('max_server_memory_usage', 'mark_cache_size', 'primary_index_cache_size')";
    const values = await ask(
      engine,
      `SELECT value FROM system.server_settings WHERE name IN ${names} ORDER BY name`,
    );
    const { engine: all, caches } = memoryBudget(memoryBytes, defaultQueries);
    assert.deepEqual(values.split('\n'), [caches.marks, all, caches.primaryIndex].map(String));
    await engine.close();
  });

  const noThreads = process.platform !== 'linux' && 'only Linux gives each thread a priority';
  test('all its threads give way to serving', { skip: noThreads }, async () => {
    const engine = await start();
    await ask(engine, 'CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a');
    await ask(engine, 'INSERT INTO t SELECT number FROM numbers(100000)');
    await ask(engine, 'SELECT sum(cityHash64(number)) FROM numbers_mt(10000000)');
    const tasks = `/proc/${engine.pid}/task`;
    const eager: string[] = [];
    for (const thread of await readdir(tasks)) {
      const stat = await readFile(`${tasks}/${thread}/stat`, 'utf8').catch(() => undefined);
      if (stat === undefined) continue;
      const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
      const nice = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]);
      // The engine's watch over its memory chooses a priority of its own; it seldom does anything.
      if (nice <= 0 && name !== 'MemoryWorker') eager.push(`${name}: ${nice}`);
    }
    assert.deepEqual(eager, []);
    await engine.close();
  });

  test('a folder in use is refused', async () => {
    const engine = await start();
    await assert.rejects(start(), DataFolderInUse);
    await engine.close();
  });

  test('a gateway killed with -9 takes its engine with it, and the next start gets the folder', async () => {
    const source = join(folder.path, 'gateway.mts');
    const data = join(folder.path, 'data');
    const fixture = JSON.stringify(new URL('./chdb-fixture.ts', import.meta.url).href);
    const module = JSON.stringify(new URL('./start-chdb.ts', import.meta.url).href);
    await writeFile(
      source,
      `import { recordingLog, testClock } from ${fixture};
       import { startChdb } from ${module};
       const options = { directory: ${JSON.stringify(data)}, log: recordingLog(), clock: testClock };
       startChdb(options).then((engine) => process.send(engine.pid));`,
    );
    const gateway = fork(source, { execArgv: ['--import', import.meta.resolve('tsx')] });
    const [pid] = (await once(gateway, 'message')) as [number];
    const gone = once(gateway, 'exit');
    gateway.kill('SIGKILL');
    await gone;
    const next = await startChdb({ directory: data, log: recordingLog(), clock: testClock });
    assert.equal(await processIdentity(pid), undefined);
    assert.equal(await ask(next, 'SELECT 1'), '1');
    await next.close();
  });

  test('a folder that cannot be opened is named in the error', async () => {
    await mkdir(join(folder.path, 'status')); // where the engine wants to write a file
    await assert.rejects(start(), (error: Error) => {
      assert.ok(error.message.includes(`could not open ${folder.path}: `), error.message);
      return true;
    });
  });
});

test('a missing engine is explained with the remedy', async () => {
  const error = await explainStart(
    '/data/analytics',
    new ChildStartError("Cannot find package 'chdb'\nat x", 'absent', ''),
  );
  assert.match(error.message, /optional package chdb\) cannot run here: Cannot find package 'chdb'\./);
  assert.match(error.message, /storage\.analytics\.url to "none:"/);
});

test('an engine that holds the folder on its own is named as the reason', async () => {
  const output =
    'Code: 76. DB::Exception: Cannot lock file /data/analytics/status. Another server instance ...';
  const error = await explainStart(
    '/data/analytics',
    new ChildStartError('Failed to create connection', 'other', output),
  );
  assert.match(
    error.message,
    /^the analytics folder \/data\/analytics is in use by another process: stop it/,
  );
});
