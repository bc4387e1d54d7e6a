import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
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
     import { existsSync } from 'node:fs';
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
  assert.equal(supervised.trouble, undefined);
  assert.match(lines[0] as string, /^the test engine ended with SIGKILL; it is started again in 5 ms/);
  await supervised.stop();
  assert.equal(supervised.pid, undefined);
  assert.equal(await answers(port), false);
});

test('a child that ends time and again is started for ever, after waits that grow to a bound', async () => {
  const clock = new ManualClock();
  const behaviour = "listen(port); setTimeout(() => { console.error('engine broke'); process.exit(3); }, 5)";
  const { supervised, lines } = await child(behaviour, { clock, backOffMs: 100, maxBackOffMs: 400 });
  await supervised.start();
  const waits: (number | undefined)[] = [];
  for (let end = 1; end <= 6; end += 1) {
    while (lines.filter((line) => line.includes('ended with code 3')).length < end) await delay(5);
    assert.match(String(supervised.trouble), /^the test engine ended with code 3.*it is started again in/);
    waits.push(clock.nextIn);
    clock.advance(clock.nextIn ?? 0);
  }
  assert.deepEqual(waits, [100, 200, 400, 400, 400, 400]);
  assert.match(
    lines.join('\n'),
    /ended with code 3, 6 times in a row; it is started again in 400 ms.*engine broke/s,
  );
  await supervised.stop();
});

test('a child that has run for a minute begins the row of ends anew', async () => {
  const clock = new ManualClock();
  const { supervised, lines } = await child('listen(port)', { clock, backOffMs: 100 });
  await supervised.start();
  for (const [upMs, wait] of [
    [0, 100],
    [1000, 200],
    [61_000, 100],
  ] as const) {
    clock.advance(upMs);
    const { restarts } = supervised;
    const told = lines.length;
    process.kill(supervised.pid as number, 'SIGKILL');
    while (lines.length === told) await delay(5);
    assert.equal(clock.nextIn, wait);
    clock.advance(wait);
    while (supervised.restarts === restarts) await delay(5);
    assert.equal(supervised.trouble, undefined);
  }
  await supervised.stop();
});

test('a restart that fails counts as well, and one that works ends the trouble', async () => {
  const clock = new ManualClock();
  const behaviour =
    "if (port === 0) { listen(0); setTimeout(() => process.exit(1), 20); } else if (existsSync(options.mark)) process.send({ type: 'failed', reason: 'other', message: 'no disk' }, () => process.exit(1)); else listen(port);";
  const mark = join(folder.path, 'disk-is-full');
  await writeFile(mark, '');
  const { supervised, lines } = await child(behaviour, { clock, options: { mark } });
  await supervised.start();
  for (let end = 1; end <= 6; end += 1) {
    while (lines.length < end) await delay(5);
    if (end === 6) break;
    clock.advance(clock.nextIn ?? 0);
  }
  assert.match(String(supervised.trouble), /did not start \(no disk\), 6 times in a row/);
  await rm(mark);
  clock.advance(clock.nextIn ?? 0);
  while (supervised.trouble !== undefined) await delay(5);
  assert.ok(await answers(supervised.port));
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

test('a slow start is told while it is waited for; one that never ends is killed at its bound', async () => {
  const clock = new ManualClock();
  const { supervised, lines } = await child('setInterval(() => undefined, 1000)', {
    clock,
    startTimeoutMs: 75_000,
  });
  const started = supervised.start();
  clock.advance(70_000);
  assert.ok(supervised.pid !== undefined);
  assert.equal(
    lines.filter((line) => /has not answered for (30|60) s; it is waited for/.test(line)).length,
    2,
  );
  clock.advance(5000);
  await assert.rejects(started, /it has not answered within 75 s \(storage\.engine_start_ms\)/);
  assert.equal(supervised.pid, undefined);
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
