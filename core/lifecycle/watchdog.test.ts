import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { keepSystemdInformed } from './process-guards.ts';

const here = fileURLToPath(new URL('.', import.meta.url)).replace(/\/$/, '');

const main = `
import { startWatchdog } from '${here}/process-guards.ts';
import { recordingServices } from '${here}/recording-services.test-support.ts';
const { services, lines, metrics } = recordingServices();
const { exit } = process;
startWatchdog({
  limitMs: 400, log: services.log, metrics: services.metrics,
  attribute: (thrown) => (/holds\\w+/.test(thrown.stack) ? 'careless' : undefined),
  exit: (code) => {
    console.log(lines.map(({ message, fields }) => message + ' ' + fields.plugin + '\\n' + fields.error).join('\\n'));
    console.log([...metrics.values].join());
    exit(code);
  },
});
const ways = {
  loop: function holdsLoop() { for (;;); },
  microtasks: function holdsMicrotasks() { void Promise.resolve().then(holdsMicrotasks); },
  pattern: function holdsPattern() { /^(a+)+$/.test('a'.repeat(64) + 'b'); },
  wait: function holdsWait() { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); },
  busy: () => { const end = Date.now() + 150; while (Date.now() < end); },
};
// Turns that take long and end are no stall.
if (process.argv[2] === 'busy') { setInterval(ways.busy, 1); setTimeout(() => { console.log('still there'); exit(0); }, 2000); }
else setTimeout(ways[process.argv[2]], 100);
`;

async function run(t: TestContext, way: string) {
  const folder = await mkdtemp(path.join(tmpdir(), 'weir-watchdog-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await writeFile(path.join(folder, 'main.mts'), main);
  const args = ['--import', import.meta.resolve('tsx'), path.join(folder, 'main.mts'), way];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], timeout: 60_000 });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output };
}

for (const [way, frame] of [
  ['loop', 'holdsLoop'],
  ['microtasks', 'holdsMicrotasks'],
  ['pattern', 'holdsPattern'],
  ['wait', 'holdsWait'],
] as const) {
  test(`an event loop that stands still (${way}) ends the process with a report`, async (t) => {
    const { code, output } = await run(t, way);
    assert.equal(code, 70, output);
    assert.match(output, /plugin "careless" holds the event loop.* careless\n/);
    assert.match(output, /the event loop has taken no turn for 400 ms/);
    assert.match(output, new RegExp(`at (?:\\S+\\.)?${frame}\\b`));
    assert.match(output, /weir_plugin_errors_total\{plugin=careless,hook=event_loop\},1/);
  });
}

test('turns that take long but end are no stall', async (t) => {
  const { code, output } = await run(t, 'busy');
  assert.deepEqual([code, output.trim()], [0, 'still there']);
});

test('systemd is told three times within WatchdogSec, by systemd-notify, and only where it asks', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'weir-watchdog-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const calls: string[] = [];
  const note = (program: string, args: readonly string[]): void =>
    void calls.push([program, ...args].join(' '));
  for (const env of [{}, { WATCHDOG_USEC: '90000' }, { NOTIFY_SOCKET: '/run/x' }])
    keepSystemdInformed(env, note)();
  assert.deepEqual(calls, []);
  const stop = keepSystemdInformed({ WATCHDOG_USEC: '90000', NOTIFY_SOCKET: '/run/x' }, note);
  while (calls.length < 3) await new Promise((resolve) => setTimeout(resolve, 10));
  stop();
  assert.equal(calls[0], 'systemd-notify WATCHDOG=1');
  const after = calls.length;
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(calls.length, after);
  const unit = await readFile(fileURLToPath(new URL('../../deploy/weir.service', import.meta.url)), 'utf8');
  assert.match(unit, /^WatchdogSec=60$/m);
});
