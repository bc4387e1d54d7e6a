import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PluginEntry } from '../config/schema.ts';
import { definePlugin } from '../pipeline/plugin.ts';
import { loadPlugin } from './prepare.ts';
import { realClock } from './recording-services.test-support.ts';
import { installedPackage, pluginFolder, type PluginFolder } from './plugin-files.test-support.ts';

const auth = definePlugin({ name: 'auth', create: () => ({}) });
const builtIns = new Map([
  ['auth', auth],
  ['provider', definePlugin({ name: 'provider', create: () => ({}) })],
]);
const place = { file: 'gateway.config.yaml', line: 3, column: 9 };

function load(
  where: PluginFolder,
  use: string,
  isolate?: NonNullable<PluginEntry['isolate']>,
): ReturnType<typeof loadPlugin> {
  const entry: PluginEntry = {
    use,
    ...(isolate !== undefined && { isolate }),
    options: {},
    onError: undefined,
    timeoutMs: undefined,
    pointer: '/pipelines/0/plugins/0',
    optionsPointer: '/pipelines/0/plugins/0',
    file: where.path('gateway.config.yaml'),
  };
  return loadPlugin(entry, place, { builtIns, bundler: where.bundler, clock: realClock });
}

const source = (name: string): string =>
  `import { definePlugin, Type } from 'weir-gateway/plugin';
   export default definePlugin({ name: '${name}', schema: Type.Object({}), create() { return {}; } });`;

test('a built-in name gives the built-in, and nothing to watch', async (t) => {
  const loaded = await load(await pluginFolder(t), 'auth');
  assert.deepEqual(loaded, {
    ok: true,
    plugin: { definition: auth, builtIn: true, codeHash: undefined },
    inputs: [],
  });
});

for (const use of ['./guards/deny.ts', 'guards/deny.ts', '../their folder/guards/deny.ts']) {
  test(`the path ${use} starts from the configuration's folder`, async (t) => {
    const where = await pluginFolder(t);
    await where.write({ 'guards/deny.ts': source('deny') });
    const loaded = await load(where, use);
    assert.ok(loaded.ok, JSON.stringify(loaded));
    assert.deepEqual([loaded.plugin.definition.name, loaded.plugin.builtIn], ['deny', false]);
    assert.match(loaded.plugin.codeHash ?? '', /^[0-9a-f]{20}$/);
    assert.deepEqual(loaded.inputs, [where.path('guards/deny.ts')]);
  });
}

for (const name of ['weir-redact', '@initech/weir-redact']) {
  test(`the installed package ${name} is found from the configuration's folder and may import weir-gateway/plugin`, async (t) => {
    const where = await pluginFolder(t);
    const files = installedPackage(name, '');
    await where.write({ ...files, [`node_modules/${name}/main.js`]: source('redact') });
    const loaded = await load(where, name);
    assert.ok(loaded.ok, JSON.stringify(loaded));
    assert.equal(loaded.plugin.definition.name, 'redact');
  });
}

test('a plugin compiled to CommonJS with a default export is understood', async (t) => {
  const where = await pluginFolder(t);
  const text = `exports.__esModule = true; exports.default = { name: 'compiled', create() { return {}; } };`;
  await where.write({ 'compiled.cjs': text });
  const loaded = await load(where, './compiled.cjs');
  assert.ok(loaded.ok, JSON.stringify(loaded));
});

const wrong: { use: string; files?: Record<string, string>; message: RegExp }[] = [
  { use: 'auht', message: /unknown plugin "auht"; did you mean "auth"\? \(built in are auth, provider/ },
  { use: 'zebra', message: /unknown plugin "zebra" \(built in are .*a package must be installed for/ },
  { use: './gone.ts', message: /plugin file ".\/gone.ts" does not exist/ },
  {
    use: './p.ts',
    files: { 'p.ts': 'export const a = 1;' },
    message: /it has no default export; end it with/,
  },
  { use: './p.ts', files: { 'p.ts': 'export default 7;' }, message: /it exports 7 as default/ },
  {
    use: './p.ts',
    files: { 'p.ts': `export default { name: 'Bad Name', create() {} };` },
    message: /must be kebab-case, .*"Bad Name"/,
  },
  { use: './p.ts', files: { 'p.ts': `export default { name: 'p' };` }, message: /it has no create function/ },
  {
    use: './p.ts',
    files: { 'p.ts': `export default { name: 'p', shema: {}, create() {} };` },
    message: /cannot have a member "shema"; did you mean "schema"\?/,
  },
  {
    use: './p.ts',
    files: { 'p.ts': `export default { name: 'p', capabilities: { stream: 'windows' }, create() {} };` },
    message: /capabilities.stream must be one of ignore, observe, window, hold/,
  },
  {
    use: './p.ts',
    files: { 'p.ts': `export default { name: 'p', capabilities: { reads: ['request.txt'] }, create() {} };` },
    message: /capabilities.reads has no part "request.txt"; did you mean "request.text"\?/,
  },
  ...(
    [
      ['{}', /its offers must be a list of checks, not an object/],
      ['[7]', /its offers\[0\] must be made with defineCheck/],
      [
        `[{ ...check, id: 'tone' }]`,
        /its check "tone" must have ids like "acme\.tone", with a dot, not "tone"/,
      ],
      [`[{ ...check, id: 'default.tone' }]`, /what begins with "default\." comes with the gateway/],
      [`[{ ...check, aliases: ['acme.tone'] }]`, /its check "acme\.tone" has the same id twice/],
      [`[{ ...check, phase: ['input'] }]`, /cannot have a member "phase"; did you mean "phases"\?/],
      [`[{ ...check, phases: ['before'] }]`, /must have phases: \["input"\]/],
      [
        `[{ ...check, schema: { type: 'object', propertys: {} } }]`,
        /has a schema that cannot be used: .*propertys/,
      ],
      [`[{ ...check, create: undefined }]`, /must have a function create, not undefined/],
    ] as const
  ).map(([offers, message]) => ({
    use: './p.ts',
    files: {
      'p.ts': `const check = { id: 'acme.tone', description: 'Tone.', phases: ['input'], schema: { type: 'object' }, create() {} };
        export default { name: 'p', offers: ${offers}, create() {} };`,
    },
    message,
  })),
  {
    use: './p.ts',
    files: { 'p.ts': `export default { name: 'p', apiVersion: 2, create() {} };` },
    message:
      /plugin ".\/p.ts": it is written for version 2 of the plugin contract, and this gateway speaks version 1; install a newer gateway, or .*"apiVersion: 1"/,
  },
  {
    use: './p.ts',
    files: { 'p.ts': `export default { name: 'p', apiVersion: 0, create() {} };` },
    message: /written for version 0 of .* speaks version 1; install a newer version of the plugin/,
  },
  {
    use: './p.ts',
    files: { 'p.ts': `export default { name: 'p', apiVersion: '1', create() {} };` },
    message: /its apiVersion must be a whole number, 1 for this gateway, not "1"/,
  },
  {
    use: './p.ts',
    files: { 'p.ts': source('auth') },
    message: /the name "auth" belongs to a built-in plugin/,
  },
];
for (const { use, files = {}, message } of wrong) {
  test(`${use} ${JSON.stringify(files).slice(0, 90)} is refused at its place in the configuration`, async (t) => {
    const where = await pluginFolder(t);
    await where.write(files);
    const loaded = await load(where, use);
    assert.equal(loaded.ok, false);
    const [problem] = loaded.ok ? [] : loaded.problems;
    assert.match(problem?.message ?? '', message);
    assert.deepEqual([problem?.file, problem?.line, problem?.column], ['gateway.config.yaml', 3, 9]);
    if (use.startsWith('./')) assert.ok(loaded.inputs.includes(where.path(use)), 'mending it is noticed');
  });
}

test('a plugin of another version of the contract is told so, and of nothing else', async (t) => {
  const where = await pluginFolder(t);
  await where.write({ 'p.ts': `export default { name: 'p', apiVersion: 9, hooks: {}, make() {} };` });
  const loaded = await load(where, './p.ts');
  assert.equal(loaded.ok ? 0 : loaded.problems.length, 1);
});

test('a plugin may say the version that this gateway speaks', async (t) => {
  const where = await pluginFolder(t);
  await where.write({
    'p.ts': `import { definePlugin, pluginApi } from 'weir-gateway/plugin';
      if (pluginApi !== 1) throw new Error('not 1');
      export default definePlugin({ name: 'p', apiVersion: 1, create: () => ({}) });`,
  });
  const loaded = await load(where, './p.ts');
  assert.ok(loaded.ok, JSON.stringify(loaded));
});

test('every fault of a definition is named at once', async (t) => {
  const where = await pluginFolder(t);
  await where.write({ 'p.ts': `export default { name: 3, capabilities: { answers: 'yes' } };` });
  const loaded = await load(where, './p.ts');
  assert.equal(loaded.ok ? 0 : loaded.problems.length, 3);
});

test('a module that throws while loading is reported at the line that threw', async (t) => {
  const where = await pluginFolder(t);
  await where.write({ 'p.ts': `interface A {}\n\nexport default JSON.parse('{');` });
  const loaded = await load(where, './p.ts');
  const [problem] = loaded.ok ? [] : loaded.problems;
  assert.match(problem?.message ?? '', /plugin ".\/p.ts": its module failed while loading: .*JSON/);
  assert.deepEqual([problem?.file, problem?.line], [where.path('p.ts'), 3]);
});

const limits = { memoryMb: 64, cpuMs: 1000 };

test('an isolated plugin runs none of its code here', async (t) => {
  const where = await pluginFolder(t);
  const text = `globalThis.hasRunHere = true;\n${source('theirs')}`;
  await where.write({
    'theirs.ts': text,
    'broken.ts': 'throw new Error("at the top");',
    'loop.ts': 'for (;;);',
  });
  const loaded = await load(where, './theirs.ts', limits);
  assert.ok(loaded.ok);
  assert.equal(loaded.plugin.definition.name, 'theirs');
  assert.equal('hasRunHere' in globalThis, false);
  const problems = async (use: string): Promise<string> => {
    const found = await load(where, use, limits);
    return found.ok ? 'loaded' : found.problems.map(({ message }) => message).join();
  };
  assert.match(await problems('./broken.ts'), /its module failed while loading: at the top/);
  assert.match(await problems('auth'), /plugin "auth" is a part of the gateway, .*remove "isolate"/);
});
