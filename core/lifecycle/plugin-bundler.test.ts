import assert from 'node:assert/strict';
import { readdir, readFile, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { GatewayError } from '../errors/gateway-error.ts';
import * as pluginModule from '../pipeline/plugin.ts';
import { type PluginBundle, pluginModuleName } from './plugin-bundler.ts';
import { installedPackage, pluginFolder, type PluginFolder } from './plugin-files.test-support.ts';

const place = { file: 'gateway.config.yaml', line: 3, column: 9 };

function bundleOf(where: PluginFolder, name = 'plugin.ts') {
  return where.bundler.bundle({
    entry: where.path(name),
    folder: where.folder,
    place,
    pointer: '/pipelines/0/plugins/0',
  });
}

function good(result: Awaited<ReturnType<typeof bundleOf>>): PluginBundle {
  assert.equal(result.ok, true, JSON.stringify(result));
  return result.ok ? result.bundle : assert.fail();
}

async function exportsOf(where: PluginFolder, name?: string): Promise<Readonly<Record<string, unknown>>> {
  return (await where.bundler.load(good(await bundleOf(where, name)))).exports;
}

test('a plugin outside the project imports weir-gateway/plugin, its own modules, builtins and packages', async (t) => {
  const where = await pluginFolder(t);
  await where.write({
    ...installedPackage('word-list', 'from the package'),
    'plugin.ts': `
      import { definePlugin, Type, GatewayError, type RequestContext } from 'weir-gateway/plugin';
      import { join } from 'node:path';
      import { value, place } from 'word-list';
      import { own } from './lib/own.ts';
      import names from './names.json';
      interface Options { readonly deep: boolean }
      export const facts = { own, value, place, names, joined: join('a', 'b'), Type, GatewayError };
      export default definePlugin({ name: 'theirs', create: (_: unknown) => ({ request(_: RequestContext) {} }) });
    `,
    'lib/own.ts': `export const own: string = 'own';`,
    'names.json': '["Initech"]',
  });
  const exports = await exportsOf(where);
  const packagePlace = pathToFileURL(where.path('node_modules/word-list/main.js')).href;
  assert.deepEqual(exports['facts'], {
    own: 'own',
    value: 'from the package',
    place: packagePlace,
    names: ['Initech'],
    joined: 'a/b',
    Type: pluginModule.Type,
    GatewayError,
  });
  const { inputs } = await bundleOf(where);
  assert.deepEqual([...inputs].sort(), ['lib/own.ts', 'names.json', 'plugin.ts'].map(where.path));
});

test('the module that plugins import is an export of this package', async () => {
  const text = await readFile(new URL('../../package.json', import.meta.url), 'utf8');
  const { name, exports } = JSON.parse(text) as { name: string; exports: Record<string, unknown> };
  const names = Object.keys(exports).map((path) => path.replace('.', name));
  const others = ['testing', 'gateway.schema.json', 'package.json'].map((one) => `${name}/${one}`);
  assert.deepEqual(names, [pluginModuleName, ...others]);
});

test('a CommonJS plugin and its require calls work, native module names included', async (t) => {
  const where = await pluginFolder(t);
  await where.write({
    'node_modules/old/package.json': '{ "name": "old", "main": "main.js" }',
    'node_modules/old/main.js': 'module.exports = { old: __filename };',
    'plugin.cjs': `
      const { definePlugin } = require('weir-gateway/plugin');
      const { old } = require('old');
      const { sep } = require('path');
      module.exports = definePlugin({ name: 'older', old, sep, here: __dirname, create: () => ({}) });
    `,
  });
  const definition = (await exportsOf(where, 'plugin.cjs'))['default'] as Record<string, unknown>;
  assert.equal(definition['old'], where.path('node_modules/old/main.js'));
  assert.deepEqual([definition['sep'], definition['here']], ['/', where.folder]);
});

test('each module knows its own place, and a require of its own does not collide', async (t) => {
  const where = await pluginFolder(t);
  await where.write({
    'plugin.ts': `#!/usr/bin/env node
      import { createRequire } from 'node:module';
      import { readFileSync } from 'node:fs';
      import { deep } from './deep/module.ts';
      const require = createRequire(import.meta.url);
      export const words = readFileSync(new URL('./words.txt', import.meta.url), 'utf8');
      export const json = require('./data.json');
      export { deep };
      export default {};
    `,
    'words.txt': 'Initech',
    'data.json': '{"a":1}',
    'deep/module.ts': 'export const deep = import.meta.url;',
  });
  const { words, json, deep } = await exportsOf(where);
  assert.deepEqual({ words, json }, { words: 'Initech', json: { a: 1 } });
  assert.equal(deep, pathToFileURL(where.path('deep/module.ts')).href);
});

test('rewriting the plugin or a module that it imports changes the hash, and going back finds the old module', async (t) => {
  const where = await pluginFolder(t);
  const plugin = `import { version } from '../outside/version.ts';\nexport default version;\nexport const stamp = {};`;
  const write = (source: string, version: number) =>
    where.write({
      'plugin.ts': source,
      '../outside/version.ts': `export const version: number = ${version};`,
    });
  await write(plugin, 1);
  const first = good(await bundleOf(where));
  const firstModule = await where.bundler.load(first);
  await write(plugin, 2);
  const second = good(await bundleOf(where));
  assert.equal((await where.bundler.load(second)).exports['default'], 2);
  await write(`${plugin}\nexport const more = 1;`, 2);
  const third = good(await bundleOf(where));
  assert.equal(new Set([first.hash, second.hash, third.hash]).size, 3);
  await write(plugin, 1);
  const again = good(await bundleOf(where));
  assert.equal(again.hash, first.hash);
  assert.equal(await where.bundler.load(again), firstModule, 'the same code is imported once');
});

const broken: {
  name: string;
  files: Record<string, string>;
  problem: RegExp;
  line: number;
  column: number;
  file: string;
}[] = [
  {
    name: 'a syntax error in an imported module',
    files: { 'plugin.ts': `import './lib.ts';`, 'lib.ts': `const a = 1;\nconst = 2;` },
    problem: /Expected identifier but found "="/,
    file: 'lib.ts',
    line: 2,
    column: 7,
  },
  {
    name: 'a module that is missing',
    files: { 'plugin.ts': `\nimport { a } from './missing.ts';\nexport default a;` },
    problem: /Could not resolve ".\/missing.ts"; correct the path/,
    file: 'plugin.ts',
    line: 2,
    column: 19,
  },
  {
    name: 'a package that is missing, in a file that asks for its own place',
    files: { 'plugin.ts': `import a from 'no-such-package'; export default [a, import.meta.url];` },
    problem: /Could not resolve "no-such-package"; .*install the package/,
    file: 'plugin.ts',
    line: 1,
    column: 15,
  },
  {
    name: 'a name that weir-gateway/plugin does not export',
    files: {
      'plugin.js': '',
      'plugin.ts': `import { defineplugin } from 'weir-gateway/plugin';\nexport default defineplugin({});`,
    },
    problem: /No matching export in "weir-gateway\/plugin" for import "defineplugin"/,
    file: 'plugin.ts',
    line: 1,
    column: 10,
  },
  {
    name: 'the name that weir-gateway/plugin had before',
    files: {
      ...installedPackage('weir', "somebody else's package"),
      'plugin.ts': `\nimport { definePlugin } from 'weir/plugin';\nexport default definePlugin({});`,
    },
    problem: /^"weir\/plugin" is now "weir-gateway\/plugin"; change the import$/,
    file: 'plugin.ts',
    line: 2,
    column: 30,
  },
];
for (const { name, files, problem, line, column, file } of broken) {
  test(`${name} is reported at its place in the plugin's source`, async (t) => {
    const where = await pluginFolder(t);
    await where.write(files);
    const result = await bundleOf(where);
    assert.equal(result.ok, false);
    const [first] = result.ok ? [] : result.problems;
    assert.match(first?.message ?? '', problem);
    assert.deepEqual(
      { file: first?.file, line: first?.line, column: first?.column, path: first?.path },
      { file: where.path(file), line, column, path: '/pipelines/0/plugins/0' },
    );
    assert.ok(result.inputs.includes(where.path(file)), 'a failed bundle is watched as well');
  });
}

test('a missing module is watched for, so that creating it mends the plugin', async (t) => {
  const where = await pluginFolder(t);
  await where.write({ 'plugin.ts': `import { a } from './later.ts'; export default a;` });
  const { inputs } = await bundleOf(where);
  assert.ok(inputs.includes(where.path('later.ts')));
});

test('a module whose top level failed is tried again', async (t) => {
  const where = await pluginFolder(t);
  await where.write({
    'plugin.ts': `import { readFileSync } from 'node:fs';
      export default readFileSync(new URL('./rules.txt', import.meta.url), 'utf8');`,
  });
  const bundle = good(await bundleOf(where));
  await assert.rejects(where.bundler.load(bundle), /ENOENT/);
  await where.write({ 'rules.txt': 'be kind' });
  assert.equal((await where.bundler.load(bundle)).exports['default'], 'be kind');
});

test('a module whose top level never ends is given up', async (t) => {
  const where = await pluginFolder(t);
  await where.write({ 'plugin.ts': `await new Promise(() => {}); export default 1;` });
  await assert.rejects(exportsOf(where), /top level has not ended within 500 ms/);
});

test('bundles are written whole, and old ones are pruned except those in use and the newest five', async (t) => {
  const where = await pluginFolder(t);
  const hashes: string[] = [];
  for (let version = 0; version < 8; version += 1) {
    await where.write({ 'plugin.ts': `export default ${version};` });
    const bundle = good(await bundleOf(where));
    const { file } = await where.bundler.load(bundle);
    await utimes(file, version, version);
    hashes.push(bundle.hash);
  }
  assert.match(
    await readFile(join(where.bundles, `${hashes[0]}.mjs`), 'utf8'),
    /sourceMappingURL=data:\S+\n$/,
  );
  await where.bundler.prune(new Set([hashes[0] ?? '']));
  const kept = await readdir(where.bundles);
  assert.deepEqual(kept.sort(), [hashes[0], ...hashes.slice(3)].map((hash) => `${hash}.mjs`).sort());
});

test('pruning a folder that does not exist is harmless', async (t: TestContext) => {
  const where = await pluginFolder(t);
  await where.bundler.prune(new Set());
  assert.deepEqual(where.lines, []);
});
