import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CreatedPipeline, Generation } from './generation.ts';
import { ManualClock, settle } from '../../tests/conformance/manual-clock.ts';
import { testBench, type TestBench } from './running-gateway.test-support.ts';

type Built = Generation<readonly CreatedPipeline[]>;

async function good(bench: TestBench): Promise<Built> {
  const result = await bench.build();
  return result.ok ? result.generation : assert.fail(JSON.stringify(result.problems, null, 2));
}

async function bad(bench: TestBench): Promise<string[]> {
  const result = await bench.build();
  if (result.ok) assert.fail('it was built');
  return result.problems.map(
    ({ file, line, column, message }) => `${file.split('/').at(-1)}:${line}:${column}: ${message}`,
  );
}

test('a generation is created in file order and disposed backwards', async (t) => {
  const bench = await testBench(t);
  await bench.configure(['auth', 'limit: { size: 3 }', 'provider', 'logger']);
  const generation = await good(bench);
  assert.deepEqual(
    generation.compiled.map(({ config, instances }) => [config.name, instances.length]),
    [['gateway', 4]],
  );
  assert.match(generation.hash, /^[0-9a-f]{12}$/);
  await generation.retire();
  assert.deepEqual(bench.life, [
    '+auth',
    '+limit',
    '+provider',
    '+logger',
    '-logger',
    '-provider',
    '-limit',
    '-auth',
  ]);
});

test('retirement waits until the last request has released', async (t) => {
  const bench = await testBench(t);
  await bench.configure(['provider']);
  const generation = await good(bench);
  generation.acquire();
  generation.acquire();
  const retirement = generation.retire();
  generation.release();
  await settle();
  assert.deepEqual(bench.life, ['+provider']);
  generation.release();
  generation.acquire();
  await settle();
  assert.deepEqual(bench.life, ['+provider'], 'taken again before the disposal began');
  generation.release();
  await retirement;
  assert.deepEqual(bench.life, ['+provider', '-provider']);
  assert.throws(() => generation.acquire(), /has been disposed/);
  assert.throws(() => generation.release(), /released more often/);
  assert.equal(generation.retire(), retirement);
});

test('plugins are told once that no request will come, before the last one has ended', async (t) => {
  const bench = await testBench(t);
  await bench.configure(['auth', 'provider', 'logger']);
  const generation = await good(bench);
  const told: string[] = [];
  for (const { name, hooks } of generation.instances) {
    const retiring = (): void => {
      told.push(name);
      if (name === 'provider') throw new Error('cannot');
    };
    Object.assign(hooks, { retiring });
  }
  generation.acquire();
  generation.retiring();
  const retirement = generation.retire();
  assert.deepEqual(told, ['auth', 'provider', 'logger']);
  assert.ok(bench.lines.some(({ message }) => message === 'plugin "provider" failed in its retiring'));
  generation.release();
  await retirement;
  assert.deepEqual(told.length, 3);
});

test('the same plugin may be used twice, with options of its own each', async (t) => {
  const bench = await testBench(t);
  await bench.configure(['auth', 'limit: { size: 1 }', 'limit: { size: 2 }', 'provider']);
  const generation = await good(bench);
  assert.deepEqual(
    generation.instances.map(({ name }) => name),
    ['auth', 'limit', 'limit', 'provider'],
  );
  await generation.retire();
});

const observer = (stream: string, hooks: string): string =>
  `export default { name: 'theirs', capabilities: { stream: '${stream}' }, create: () => ({ ${hooks} }) };`;
const defaults: { name: string; entry: string; source: string; onError: string; timeoutMs?: number }[] = [
  {
    name: 'a plugin that only settles',
    entry: './p.js',
    source: observer('ignore', 'settled() {}'),
    onError: 'skip',
  },
  {
    name: 'a plugin that observes streams',
    entry: './p.js',
    source: observer('observe', 'stream() {}'),
    onError: 'skip',
  },
  {
    name: 'a plugin that judges streams',
    entry: './p.js',
    source: observer('window', 'stream() {}'),
    onError: 'fail',
  },
  {
    name: 'a plugin with a request hook',
    entry: './p.js',
    source: observer('ignore', 'settled() {}, request() {}'),
    onError: 'fail',
  },
  {
    name: 'what the entry says',
    entry: './p.js: { on_error: fail, timeout_ms: 7 }',
    source: observer('ignore', 'settled() {}'),
    onError: 'fail',
    timeoutMs: 7,
  },
  {
    name: 'what the plugin declares',
    entry: './p.js',
    source: `export default { name: 'theirs', capabilities: { timeoutMs: 9 }, create: () => ({ request() {} }) };`,
    onError: 'fail',
    timeoutMs: 9,
  },
];
for (const { name, entry, source, onError, timeoutMs = 30_000 } of defaults) {
  test(`${name} has on_error ${onError} and timeout ${timeoutMs}`, async (t) => {
    const bench = await testBench(t);
    await bench.write({ 'p.js': source });
    await bench.configure([entry, 'provider']);
    const generation = await good(bench);
    const [instance] = generation.instances;
    assert.deepEqual(
      [instance?.name, instance?.builtIn, instance?.onError, instance?.timeoutMs],
      ['theirs', false, onError, timeoutMs],
    );
    await generation.retire();
  });
}

test('all problems are reported at once in file order, and nothing is created', async (t) => {
  const bench = await testBench(t);
  await bench.write({ 'broken.ts': 'const = 1;' });
  await bench.configure([
    'limt',
    'limit: { sice: 3 }',
    './broken.ts',
    'provider',
    './gone.ts',
    'logger: { size: 1 }',
  ]);
  const problems = await bad(bench);
  assert.deepEqual(
    problems.map((text) => text.replace(/: .*/s, '')),
    [
      'gateway.config.yaml:6:9',
      'gateway.config.yaml:7:18',
      'gateway.config.yaml:10:9',
      'gateway.config.yaml:11:19',
      'broken.ts:1:7',
    ],
  );
  assert.match(problems[0] ?? '', /unknown plugin "limt"; did you mean "limit"\?/);
  assert.match(problems[1] ?? '', /sice.*did you mean "size"/);
  assert.deepEqual(bench.life, []);
});

test('the type check of the pipeline runs before anything is created', async (t) => {
  const bench = await testBench(t);
  await bench.configure(['limit', 'auth', 'provider', 'provider']);
  const problems = await bad(bench);
  assert.match(problems[0] ?? '', /:6:9: plugin "limit" needs the key .* move "auth" before it/);
  assert.match(problems[1] ?? '', /:9:9: plugin "provider" would never answer/);
  assert.deepEqual(bench.life, []);
});

const failing: { name: string; source: string; message: RegExp }[] = [
  {
    name: 'throws',
    source: `throw new Error('no licence');`,
    message: /plugin "theirs" could not be created: no licence \(at .*p\.ts:1:\d+\)/,
  },
  {
    name: 'rejects',
    source: `return Promise.reject(new Error('no licence'));`,
    message: /could not be created: no licence/,
  },
  { name: 'returns nothing', source: '', message: /must return an object of hooks, not undefined/ },
  {
    name: 'misspells a hook',
    source: 'return { reqest() {} };',
    message: /cannot have a member "reqest"; did you mean "request"\?/,
  },
  {
    name: 'returns a hook that is no function',
    source: 'return { request: true };',
    message: /its request hook must be a function, not true/,
  },
  {
    name: 'returns a hook that would be skipped',
    source: 'return { response() {} };',
    message: /has a response hook and does not say/,
  },
];
for (const { name, source, message } of failing) {
  test(`a create that ${name} is reported at its place, and what was created is disposed`, async (t) => {
    const bench = await testBench(t);
    await bench.write({ 'p.ts': `export default { name: 'theirs', create() { ${source} } };` });
    await bench.configure(['auth', './p.ts', 'provider']);
    const problems = await bad(bench);
    assert.match(problems[0] ?? '', /^gateway\.config\.yaml:7:9: /);
    assert.match(problems[0] ?? '', message);
    const created = bench.life.filter((event) => event.startsWith('+'));
    const disposed = bench.life.filter((event) => event.startsWith('-'));
    assert.deepEqual(disposed, created.map((event) => event.replace('+', '-')).reverse());
    assert.ok(created.includes('+auth'));
  });
}

test('a create that never ends is given up after ten seconds and named; what it sets up later is undone', async (t) => {
  const clock = new ManualClock();
  const bench = await testBench(t, clock);
  await bench.configure(['auth', 'hanging', 'provider']);
  const building = bad(bench);
  while (!bench.life.includes('+auth')) await settle();
  await clock.pass(9_999);
  assert.deepEqual(bench.life, ['+auth']);
  await clock.pass(1);
  const [problem] = await building;
  assert.match(
    problem ?? '',
    /:7:9: plugin "hanging" could not be created: it has not finished within 10000 ms/,
  );
  assert.deepEqual(bench.life, ['+auth', '-auth']);
  assert.equal(clock.waiting, 0);
});

const checking = (body: string): string =>
  `import { Type } from 'weir-gateway/plugin';
  const schema = Type.Object({ rules: Type.Array(Type.String()) });
  export default { name: 'theirs', schema, check({ rules }) { ${body} }, create: () => ({}) };`;

test('what the check of a plugin finds is reported where each option stands, and nothing is created', async (t) => {
  const bench = await testBench(t);
  const found = `return rules.flatMap((rule, index) =>
    rule === 'bad' ? [{ path: '/rules/' + index, message: 'this rule is bad; mend it' }] : []);`;
  await bench.write({ 'p.ts': checking(found) });
  await bench.configure(['auth', './p.ts: { rules: [good, bad, bad] }', 'provider']);
  assert.deepEqual(await bad(bench), [
    'gateway.config.yaml:7:33: this rule is bad; mend it',
    'gateway.config.yaml:7:38: this rule is bad; mend it',
  ]);
  assert.deepEqual(bench.life, []);
  await bench.configure(['auth', './p.ts: { rules: [good] }', 'provider']);
  await (await good(bench)).retire();
});

test('options that their schema refuses are not given to the check', async (t) => {
  const bench = await testBench(t);
  await bench.write({ 'p.ts': checking(`throw new Error('asked');`) });
  await bench.configure(['auth', './p.ts: { rules: 7 }', 'provider']);
  const problems = await bad(bench);
  assert.equal(problems.length, 1, problems.join('\n'));
  assert.doesNotMatch(problems[0] ?? '', /asked/);
});

const failingChecks: { name: string; source: string; message: RegExp }[] = [
  {
    name: 'throws',
    source: `throw new Error('no dictionary');`,
    message: /could not be checked: no dictionary$/,
  },
  { name: 'returns nothing', source: '', message: /its check must return a list of \{ path, message \}/ },
  {
    name: 'returns texts',
    source: `return ['bad'];`,
    message: /must return each fault as \{ path, message \}/,
  },
];
for (const { name, source, message } of failingChecks) {
  test(`a check that ${name} is reported at its plugin`, async (t) => {
    const bench = await testBench(t);
    await bench.write({ 'p.ts': checking(source) });
    await bench.configure(['auth', './p.ts: { rules: [] }', 'provider']);
    const problems = await bad(bench);
    assert.match(problems[0] ?? '', /^gateway\.config\.yaml:7:9: the options of plugin "theirs"/);
    assert.match(problems[0] ?? '', message);
  });
}

test('a check that never ends is given up after ten seconds', async (t) => {
  const clock = new ManualClock();
  const bench = await testBench(t, clock);
  await bench.write({ 'p.ts': checking('return new Promise(() => undefined);') });
  await bench.configure(['auth', './p.ts: { rules: [] }', 'provider']);
  const building = bad(bench);
  while (clock.waiting === 0) await settle();
  await clock.pass(10_000);
  assert.match((await building)[0] ?? '', /could not be checked: it has not finished within 10000 ms/);
  assert.equal(clock.waiting, 0);
});

test('the hash covers the text and the code of plugins, and only them', async (t) => {
  const bench = await testBench(t);
  const source = (reply: number): string =>
    `export default { name: 'theirs', create: () => ({ request() { ${reply}; } }) };`;
  const hashes: string[] = [];
  const build = async (): Promise<void> => {
    const generation = await good(bench);
    hashes.push(generation.hash);
    await generation.retire();
  };
  await bench.write({ 'p.js': source(1) });
  await bench.configure(['./p.js', 'provider']);
  await build();
  await build();
  await bench.write({ 'p.js': source(2) });
  await build();
  await bench.configure(['./p.js', 'provider', 'logger']);
  await build();
  assert.equal(hashes[0], hashes[1]);
  assert.equal(new Set(hashes).size, 3);
});

test('the breaker of a plugin is what the operator says, else what its author says, else none', async (t) => {
  const bench = await testBench(t);
  const declared = (capabilities: string): string =>
    `import { definePlugin } from 'weir-gateway/plugin';\n` +
    `export default definePlugin({ name: 'theirs', capabilities: ${capabilities}, create: () => ({ settled() {} }) });\n`;
  const settings = async (plugin: string): Promise<unknown> => {
    await bench.configure([plugin, 'provider']);
    const { instances } = await good(bench);
    return instances[0]?.breaker?.settings;
  };
  await bench.write({
    'silent.ts': declared('{}'),
    'on.ts': declared('{ breaker: true }'),
    'own.ts': declared('{ breaker: { failureThreshold: 2, cooldownMs: 1000, whenOpen: "refuse" } }'),
    'wrong.ts': declared('{ breaker: { failureThreshold: 0 } }'),
  });
  const usual = { failureThreshold: 5, cooldownMs: 30_000, whenOpen: 'bypass' };
  assert.equal(await settings('auth'), undefined);
  assert.equal(await settings('./silent.ts'), undefined);
  assert.deepEqual(await settings('auth: { breaker: true }'), { ...usual, whenOpen: 'refuse' });
  assert.deepEqual(await settings('./silent.ts: { breaker: true }'), usual);
  assert.deepEqual(await settings('./on.ts'), usual);
  assert.equal(await settings('./on.ts: { breaker: false }'), undefined);
  assert.deepEqual(await settings('./own.ts: { breaker: { cooldown_interval: 2000, when_open: bypass } }'), {
    failureThreshold: 2,
    cooldownMs: 2000,
    whenOpen: 'bypass',
  });
  await bench.configure(['./wrong.ts', 'provider']);
  assert.match(
    (await bad(bench)).join(),
    /breaker is wrong: its failureThreshold must be a whole number of at least 1/,
  );
});
