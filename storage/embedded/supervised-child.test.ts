import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { recordingLog, temporaryFolder, testClock } from './chdb-fixture.ts';
import { ChildStartError, SupervisedChild, type SupervisedChildOptions } from './supervised-child.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
before(async () => {
  folder = await temporaryFolder();
});
after(() => folder.remove());

/** A child whose behaviour is plain JavaScript over `options`, `listen` and `process`. */
async function child(
  behaviour: string,
  settings: Partial<SupervisedChildOptions> = {},
): Promise<{ supervised: SupervisedChild; lines: string[] }> {
  const file = join(folder.path, `child-${Math.random().toString(36).slice(2)}.mjs`);
  await writeFile(
    file,
    `import { createServer } from 'node:net';
     const listen = (port) => { const server = createServer((s) => s.end('hello')); server.listen(port, '127.0.0.1', () => process.send({ type: 'ready', port: server.address().port })); };
     process.on('disconnect', () => process.exit(0));
     process.on('message', ({ type, port, options }) => { if (type === 'stop') process.exit(0); ${behaviour} });`,
  );
  const log = recordingLog();
  const supervised = new SupervisedChild({
    name: 'test engine',
    entry: pathToFileURL(file),
    options: {},
    log,
    clock: testClock,
    backOffMs: 5,
    ...settings,
  });
  return { supervised, lines: log.lines };
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    return String((await once(socket, 'data'))[0]) === 'hello';
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

test('a child that ends unasked runs again on the same port', async () => {
  const { supervised, lines } = await child('listen(port)');
  await supervised.start();
  const { port, pid } = supervised;
  assert.ok(await answers(port));
  for (let round = 1; round <= 2; round += 1) {
    process.kill(supervised.pid as number, 'SIGKILL');
    while (supervised.restarts < round) await delay(5);
    assert.equal(supervised.port, port);
    assert.ok(await answers(port));
  }
  assert.notEqual(supervised.pid, pid);
  assert.equal(supervised.failure, undefined);
  assert.match(lines[0] as string, /^the test engine ended with SIGKILL; it is started again in 5 ms/);
  await supervised.stop();
  assert.equal(supervised.pid, undefined);
  assert.equal(await answers(port), false);
});

test('after too many ends within a minute it stays down and says why', async () => {
  const behaviour = "listen(port); setTimeout(() => { console.error('engine broke'); process.exit(3); }, 20)";
  const { supervised, lines } = await child(behaviour, { maxFailuresPerMinute: 3 });
  await supervised.start();
  while (supervised.failure === undefined) await delay(5);
  assert.match(
    supervised.failure,
    /^the test engine ended with code 3, 3 times within a minute, and stays down/,
  );
  assert.equal(supervised.restarts, 2);
  assert.equal(supervised.pid, undefined);
  assert.match(lines.at(-1) as string, /stays down.*engine broke/s);
  await supervised.stop();
});

test('a restart that fails counts as well', async () => {
  const behaviour =
    "if (port === 0) { listen(0); setTimeout(() => process.exit(1), 20); } else process.send({ type: 'failed', reason: 'other', message: 'no disk' }, () => process.exit(1));";
  const { supervised } = await child(behaviour, { maxFailuresPerMinute: 3 });
  await supervised.start();
  while (supervised.failure === undefined) await delay(5);
  assert.match(supervised.failure, /did not start \(no disk\), 3 times/);
  await supervised.stop();
});

test('the first start fails with the reason and the output, and nothing is retried', async () => {
  const behaviour =
    "console.error('Cannot lock file'); process.send({ type: 'failed', reason: 'absent', message: 'no package' }, () => process.exit(1));";
  const { supervised, lines } = await child(behaviour);
  await assert.rejects(supervised.start(), (error) => {
    assert.ok(error instanceof ChildStartError);
    assert.deepEqual(
      [error.message, error.reason, error.output],
      ['no package', 'absent', 'Cannot lock file\n'],
    );
    return true;
  });
  assert.deepEqual(lines, []);
});

test('a child that never becomes ready is killed', async () => {
  const { supervised } = await child('setInterval(() => undefined, 1000)', { startTimeoutMs: 300 });
  await assert.rejects(supervised.start(), /ended with SIGKILL/);
});

test('a child that does not stop when asked is killed', async () => {
  const behaviour =
    "process.removeAllListeners('message'); process.on('message', () => undefined); listen(port)";
  const { supervised } = await child(behaviour, { stopTimeoutMs: 100 });
  await supervised.start();
  await supervised.stop();
  assert.equal(supervised.pid, undefined);
});

test('the options reach the child, the environment of this process does not', async () => {
  process.env['WEIR_TEST_SECRET'] = 'secret';
  const behaviour =
    "if (options.word !== 'yes' || process.env.WEIR_TEST_SECRET !== undefined || process.env.GIVEN !== 'given') process.exit(7); listen(port)";
  const { supervised } = await child(behaviour, {
    options: { word: 'yes' },
    environment: { GIVEN: 'given' },
  });
  await supervised.start();
  await supervised.stop();
  delete process.env['WEIR_TEST_SECRET'];
});
