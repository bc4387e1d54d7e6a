import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { ManualClock, settle } from '../../tests/conformance/manual-clock.ts';
import { testBench } from './running-gateway.test-support.ts';

const theirs = (name: string, more = ''): string => `
  import { definePlugin } from 'weir-gateway/plugin';
  import { word } from './lib/word.ts';
  export default definePlugin({ name: '${name}', create() { ${more} return { request() { return word; } }; } });`;

test('a plugin outside the tree is added, rewritten, reconfigured and removed by editing files', async (t) => {
  const bench = await testBench(t);
  await bench.configure(['provider']);
  const { reloader, watched } = bench.reloader();
  assert.deepEqual(await reloader.start(), { ok: true });
  const first = reloader.current;
  assert.equal(await reloader.reload('test'), 'unchanged');
  assert.equal(reloader.current, first);

  await bench.write({ 'p.ts': theirs('theirs'), 'lib/word.ts': `export const word = undefined;` });
  await bench.configure(['./p.ts', 'provider']);
  assert.equal(await reloader.reload('test'), 'swapped');
  assert.deepEqual(
    reloader.current.instances.map(({ name }) => name),
    ['theirs', 'provider'],
  );
  const expected = ['gateway.config.yaml', 'p.ts', 'lib/word.ts'].map(bench.path);
  assert.deepEqual(watched.files().sort(), expected.sort());

  const second = reloader.current;
  await bench.write({ 'lib/word.ts': `export const word = 'new';` });
  assert.equal(await reloader.reload('test'), 'swapped');
  assert.notEqual(reloader.current.hash, second.hash);
  assert.equal(reloader.current.instances[0]?.hooks.request?.({} as never), 'new');

  await bench.configure(['./p.ts: { on_error: skip }', 'provider']);
  assert.equal(await reloader.reload('test'), 'swapped');
  assert.equal(reloader.current.instances[0]?.onError, 'skip');

  await bench.configure(['provider']);
  assert.equal(await reloader.reload('test'), 'swapped');
  assert.deepEqual(watched.files(), [bench.path('gateway.config.yaml')]);
  await reloader.stop();
  assert.equal(watched.stopped, true);
  assert.deepEqual(
    reloader.history.map(({ outcome }) => outcome),
    ['swapped', 'swapped', 'swapped', 'swapped', 'started'],
  );
  assert.equal(bench.metrics.values.get('weir_config_reloads_total{result=success}'), 4);
  assert.equal(bench.metrics.values.get('weir_config_reloads_total{result=unchanged}'), 1);
});

const bad: {
  name: string;
  plugins: string[];
  files?: Record<string, string>;
  line: RegExp;
  watched: string;
}[] = [
  {
    name: 'YAML',
    plugins: ['limit: {'],
    line: /gateway\.config\.yaml:\d+:\d+: /,
    watched: 'gateway.config.yaml',
  },
  {
    name: 'an option',
    plugins: ['auth', 'limit: { sise: 1 }', 'provider'],
    line: /:7:18: .*did you mean "size"/,
    watched: 'gateway.config.yaml',
  },
  {
    name: 'plugin code',
    plugins: ['./p.ts', 'provider'],
    files: { 'p.ts': 'const = 1;' },
    line: /p\.ts:1:7: /,
    watched: 'p.ts',
  },
  {
    name: 'the version that a plugin is written for',
    plugins: ['./p.ts', 'provider'],
    files: { 'p.ts': `export default { name: 'p', apiVersion: 2, create: () => ({}) };` },
    line: /:6:9: plugin "\.\/p\.ts": it is written for version 2 .* speaks version 1/,
    watched: 'p.ts',
  },
  {
    name: 'a create',
    plugins: ['./p.ts', 'provider'],
    files: { 'p.ts': theirs('theirs', `throw new Error('no');`), 'lib/word.ts': 'export const word = 1;' },
    line: /:6:9: plugin "theirs" could not be created: no/,
    watched: 'lib/word.ts',
  },
];
for (const { name, plugins, files = {}, line, watched: watchedFile } of bad) {
  test(`a fault in ${name} leaves the old generation serving, says where and why, and is forgotten once mended`, async (t) => {
    const bench = await testBench(t);
    await bench.configure(['provider']);
    const { reloader, watched } = bench.reloader();
    await reloader.start();
    const serving = reloader.current;
    await bench.write(files);
    await bench.configure(plugins);
    assert.equal(await reloader.reload('test'), 'failed');
    assert.equal(reloader.current, serving);
    const errors = bench.lines.filter(({ level }) => level === 'error').map(({ message }) => message);
    assert.match(errors[0] ?? '', line);
    assert.match(errors.at(-1) ?? '', new RegExp(`generation ${serving.hash} keeps serving`));
    assert.equal(reloader.lastError?.problems.length, errors.length - 1);
    assert.ok((reloader.lastError?.at ?? 0) > 0);
    assert.equal(bench.metrics.values.get('weir_config_last_reload_success'), 0);
    assert.equal(bench.metrics.values.get('weir_config_reloads_total{result=failure}'), 1);
    assert.ok(watched.files().includes(bench.path(watchedFile)), watched.files().join());

    await bench.configure(['provider']);
    assert.equal(await reloader.reload('test'), 'unchanged');
    assert.equal(reloader.lastError, undefined);
    assert.equal(bench.metrics.values.get('weir_config_last_reload_success'), 1);
    assert.deepEqual(watched.files(), [bench.path('gateway.config.yaml')]);
    await reloader.stop();
    assert.deepEqual(bench.life, ['+provider', '-provider']);
  });
}

test('a first generation that fails starts nothing and says why', async (t) => {
  const bench = await testBench(t);
  await bench.configure(['auth']);
  const { reloader } = bench.reloader();
  const started = await reloader.start();
  assert.match(
    started.ok ? '' : (started.problems[0]?.message ?? ''),
    /nothing in pipeline "gateway" answers/,
  );
  assert.throws(() => reloader.current, /call start\(\) first/);
  assert.deepEqual(bench.life, []);
});

test('a changed variable swaps although the hash, which knows no secrets, stays the same', async (t) => {
  const bench = await testBench(t);
  await bench.configure(['provider'], 'providers: { openai: { api_key: "${KEY}" } }\n');
  const env = { KEY: 'first' };
  const { reloader } = bench.reloader(env);
  await reloader.start();
  const { hash } = reloader.current;
  assert.equal(await reloader.reload('test'), 'unchanged');
  env.KEY = 'second';
  assert.equal(await reloader.reload('test'), 'swapped');
  assert.equal(reloader.current.hash, hash);
  assert.equal(reloader.current.config.providers['openai']?.api_key, 'second');
  await reloader.stop();
});

test('a change of the server section goes live elsewhere and asks for a restart until it is taken back', async (t) => {
  const bench = await testBench(t);
  await bench.configure(['provider']);
  const { reloader } = bench.reloader();
  await reloader.start();
  await bench.configure(['provider', 'logger'], 'server: { port: 9999 }\n');
  assert.equal(await reloader.reload('test'), 'swapped');
  assert.match(reloader.restartNeeded ?? '', /[Rr]estart/);
  assert.ok(bench.lines.some(({ level, message }) => level === 'warn' && message === reloader.restartNeeded));
  await bench.configure(['provider', 'logger']);
  await reloader.reload('test');
  assert.equal(reloader.restartNeeded, undefined);
  await reloader.stop();
});

test('reloads run one at a time, and calls that come meanwhile share the one that follows', async (t) => {
  const bench = await testBench(t);
  await bench.configure(['provider']);
  let loads = 0;
  let letGo: () => void = () => undefined;
  const { reloader, watched } = bench.reloader({}, () => {
    loads += 1;
    return loads === 2 ? new Promise((resolve) => (letGo = resolve)) : Promise.resolve();
  });
  await reloader.start();
  const first = reloader.reload('first');
  await settle();
  const second = reloader.reload('second');
  const change = watched.change();
  assert.equal(reloader.reload('third'), second);
  await settle();
  assert.equal(loads, 2, 'the second waits for the first');
  await bench.configure(['auth', 'provider', 'logger']);
  letGo();
  assert.deepEqual(await Promise.all([first, second]), ['swapped', 'unchanged']);
  await change;
  assert.equal(loads, 3);
  assert.equal(reloader.current.instances.length, 3, 'the latest state is the one that serves');
  await reloader.stop();
  assert.equal(await reloader.reload('late'), 'stopped');
});

test('with the real watcher an edit of a file, a plugin or an included file is a reload', async (t) => {
  const bench = await testBench(t);
  await bench.write({ 'p.ts': theirs('theirs'), 'lib/word.ts': 'export const word = 1;' });
  await bench.configure(['./p.ts', 'provider'], 'include: ["more/*.yaml"]\n');
  await bench.write({ 'more/a.yaml': 'security: { key_prefix: a_ }\n' });
  const reloader = bench.watching();
  await reloader.start();
  const swapped = async (edit: () => Promise<void>): Promise<void> => {
    const before = reloader.current;
    await edit();
    while (reloader.current === before) await setTimeout(5);
  };
  await swapped(() => bench.write({ 'lib/word.ts': 'export const word = 2;' }));
  assert.equal(reloader.current.instances[0]?.hooks.request?.({} as never), 2);
  await swapped(() => bench.write({ 'more/b.yaml': 'security: { trusted_hosts: [b.example] }\n' }));
  const { key_prefix: prefix, trusted_hosts: hosts } = reloader.current.config.security;
  assert.deepEqual([prefix, hosts], ['a_', ['b.example']]);
  await swapped(() => bench.configure(['provider']));
  await reloader.stop();
});

test('a request keeps its generation through swaps, and twenty reloads leave nothing behind', async (t) => {
  const clock = new ManualClock();
  const bench = await testBench(t, clock);
  await bench.write({ 'p.ts': theirs('theirs'), 'lib/word.ts': 'export const word = 0;' });
  await bench.configure(['./p.ts', 'provider']);
  const { reloader } = bench.reloader();
  await reloader.start();
  const oldest = reloader.current;
  oldest.acquire();
  for (let turn = 1; turn <= 20; turn += 1) {
    if (turn % 2 === 0) await bench.write({ 'lib/word.ts': `export const word = ${turn};` });
    else await bench.configure(['./p.ts', 'auth', `limit: { size: ${turn} }`, 'provider']);
    assert.equal(await reloader.reload('test'), 'swapped');
  }
  await settle();
  assert.equal(reloader.retiring, 1, 'only the generation with an open request is left');
  assert.equal(oldest.instances[0]?.hooks.request?.({} as never), 0, 'the request still runs the old code');
  oldest.release();
  await settle();
  assert.equal(reloader.retiring, 0);
  const count = (event: string): number => bench.life.filter((one) => one === event).length;
  assert.deepEqual([count('+provider'), count('-provider')], [21, 20]);
  assert.deepEqual([count('+limit'), count('-limit')], [20, 19]);
  assert.equal(clock.waiting, 3, 'one interval for each of the three instances that serve');
  await reloader.stop();
  assert.equal(clock.waiting, 0);
  assert.equal(count('-provider'), 21);
});

test('a loader that fails unexpectedly is a failed reload and no more', async (t) => {
  const bench = await testBench(t);
  await bench.configure(['provider']);
  const { reloader } = bench.reloader();
  await reloader.start();
  bench.bundler.bundle = () => Promise.reject(new Error('out of memory'));
  await bench.configure(['./p.ts', 'provider']);
  await bench.write({ 'p.ts': theirs('theirs') });
  assert.equal(await reloader.reload('test'), 'failed');
  assert.match(reloader.lastError?.problems[0]?.message ?? '', /unexpected error: .*out of memory/);
  await reloader.stop();
});
