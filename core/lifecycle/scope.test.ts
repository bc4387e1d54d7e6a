import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock, settle } from '../../tests/conformance/manual-clock.ts';
import { recordingServices } from './recording-services.test-support.ts';
import { createPluginScope } from './scope.ts';

function start() {
  const clock = new ManualClock();
  const recorded = recordingServices(clock);
  return { clock, ...recorded, ...createPluginScope('watcher', recorded.services) };
}

test('the log carries the name of the plugin', () => {
  const { scope, lines } = start();
  scope.log.info('hello', { a: 1 });
  assert.deepEqual(lines, [{ level: 'info', message: 'hello', fields: { plugin: 'watcher', a: 1 } }]);
});

const failures: { name: string; fail: () => void | Promise<void> }[] = [
  {
    name: 'throws',
    fail: () => {
      throw new Error('boom');
    },
  },
  { name: 'rejects', fail: () => Promise.reject(new Error('boom')) },
];
for (const { name, fail } of failures) {
  test(`a timer that ${name} is logged with the plugin's name and counted`, async () => {
    const { scope, clock, lines, metrics } = start();
    scope.setTimeout(fail, 5);
    scope.setInterval(fail, 5);
    scope.clock.after(5, () => fail() as undefined);
    await clock.pass(5);
    assert.equal(metrics.values.get('weir_plugin_errors_total{plugin=watcher,hook=timer}'), 3);
    assert.match(lines[0]?.message ?? '', /plugin "watcher" failed in its timer/);
    assert.match(String(lines[0]?.fields['error']), /boom/);
    await clock.pass(5);
    assert.equal(metrics.values.get('weir_plugin_errors_total{plugin=watcher,hook=timer}'), 4);
  });
}

test('a timer can be cancelled, and an interval goes on until it is', async () => {
  const { scope, clock } = start();
  let once = 0;
  let turns = 0;
  const cancel = scope.setTimeout(() => void once++, 10);
  const stop = scope.setInterval(() => void turns++, 10);
  await clock.pass(9);
  cancel();
  await clock.pass(21);
  stop();
  await clock.pass(30);
  assert.deepEqual([once, turns, clock.waiting], [0, 3, 0]);
});

test('an interval leaves out turns while one is running', async () => {
  const { scope, clock } = start();
  let turns = 0;
  let finish: () => void = () => undefined;
  scope.setInterval(() => {
    turns += 1;
    return new Promise((resolve) => (finish = resolve));
  }, 10);
  await clock.pass(35);
  assert.equal(turns, 1);
  finish();
  await clock.pass(10);
  assert.equal(turns, 2);
});

test('disposing stops the timers before the clean-up, and starts none afterwards', async () => {
  const { scope, clock, dispose } = start();
  const seen: string[] = [];
  scope.setTimeout(() => void seen.push('timeout'), 1);
  scope.setInterval(() => void seen.push('interval'), 1);
  scope.onDispose(() => void seen.push('first'));
  scope.onDispose(async () => {
    await clock.pass(5);
    seen.push('second');
  });
  await dispose();
  scope.setTimeout(() => void seen.push('late'), 1);
  scope.onDispose(() => void seen.push('registered late'));
  await clock.pass(5);
  assert.deepEqual(seen, ['second', 'first', 'registered late']);
  assert.equal(clock.waiting, 0);
});

test('a clean-up step that fails is logged and counted, and the others run', async () => {
  const { scope, dispose, metrics, lines } = start();
  let ran = false;
  scope.onDispose(() => void (ran = true));
  scope.onDispose(() => Promise.reject(new Error('stuck')));
  await dispose();
  assert.equal(ran, true);
  assert.equal(metrics.values.get('weir_plugin_errors_total{plugin=watcher,hook=dispose}'), 1);
  assert.match(String(lines.at(-1)?.fields['error']), /stuck/);
});

test('what a plugin collects at scrapes ends with it, and a throw there is its own', async () => {
  const { scope, dispose, metrics } = start();
  scope.metrics.onScrape(() => {
    throw new Error('no numbers');
  });
  for (const collect of metrics.scrapes) collect();
  assert.equal(metrics.values.get('weir_plugin_errors_total{plugin=watcher,hook=scrape}'), 1);
  await dispose();
  assert.equal(metrics.scrapes.size, 0);
});

test('delays that the clock cannot keep are refused', () => {
  const { scope } = start();
  for (const ms of [-1, Number.NaN, 2 ** 31])
    assert.throws(() => scope.setTimeout(() => undefined, ms), RangeError);
  assert.throws(() => scope.setInterval(() => undefined, 0), /takes 1 to 2147483647 milliseconds, not 0/);
});

test('a scope whose timers fail with something that is no error still reports', async () => {
  const { scope, clock, lines } = start();
  scope.setTimeout(() => {
    throw Object.create(null);
  }, 1);
  await clock.pass(1);
  await settle();
  assert.equal(lines.length, 1);
});
