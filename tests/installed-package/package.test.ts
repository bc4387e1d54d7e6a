import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import OpenAI from 'openai';
import { publint } from 'publint';
import { registryMissing, strangerFolder, type StrangerFolder } from './stranger-folder.ts';

const configuration = `version: 1
storage: { analytics: { url: 'none:' }, resources: { url: 'none:' } }
pipelines:
  - name: gateway
    match: { path: /** }
    plugins:
      - ./guards/no-names.ts: { names: [Initech] }
      - provider: { default: mock }
      - logger
`;

const plugin = `import {
  definePlugin, defineKey, defineRoute, GatewayError, linearPattern, pluginApi, redactor, Type,
  type StreamEvent, type Hooks,
} from 'weir-gateway/plugin';

const found = defineKey<string>('found');
const more: readonly unknown[] = [defineRoute, linearPattern, redactor];
const first: StreamEvent['type'] = 'text-delta';

export default definePlugin({
  name: 'no-names',
  apiVersion: pluginApi,
  schema: Type.Object({ names: Type.Array(Type.String(), { minItems: 1 }) }),
  capabilities: { reads: ['request.text'] },
  create({ names }): Hooks {
    return {
      settled() {
        more.includes(first);
      },
      request(context) {
        const name = names.find((one) => context.conversation.texts.some(({ text }) => text.includes(one)));
        if (name === undefined) return;
        context.set(found, name);
        throw new GatewayError('hooks_failed', \`The prompt mentions \${name}.\`);
      },
    };
  },
});
`;

const compiler = (more: object): string =>
  JSON.stringify({
    compilerOptions: {
      strict: true,
      noEmit: true,
      target: 'ES2022',
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      allowImportingTsExtensions: true,
      types: ['node'],
      ...more,
    },
    include: ['guards', 'theirs', 'my-check'],
  });

const theirs = new URL('./stranger/', import.meta.url);

const nothingToInstall = await registryMissing();

describe('the package, installed in a folder of somebody else', () => {
  let folder: StrangerFolder;
  before(async () => {
    folder = await strangerFolder();
    await folder.write({
      'package.json': JSON.stringify({ name: 'mine', type: 'module', private: true }),
      'gateway.config.yaml': configuration,
      'guards/no-names.ts': plugin,
      'tsconfig.node.json': compiler({ module: 'nodenext', skipLibCheck: false }),
      'tsconfig.bundler.json': compiler({
        module: 'preserve',
        moduleResolution: 'bundler',
        skipLibCheck: true,
      }),
    });
  });
  after(() => folder.remove());

  test('holds what runs and what documents it, and no test, bench or source', () => {
    for (const name of [
      'dist/main.mjs',
      'dist/plugin.mjs',
      'dist/sbom.cdx.json',
      'dist/gateway.schema.json',
      'dist/LICENSES.txt',
      'docs/plugins.md',
      'LICENSE',
      'NOTICE',
      'gateway.config.yaml',
      'README.md',
    ])
      assert.ok(folder.packed.includes(name), name);
    const own = folder.packed.filter((name) => /\.ts$/.test(name) && !/^(dist\/types|examples)\//.test(name));
    assert.deepEqual(own, []);
    assert.deepEqual(
      folder.packed.filter((name) => /(^|\/)(tests?|bench)\/|\.test|\.spec/.test(name)),
      [],
    );
  });

  test('is in order for those that check packages: entries, files, and types in every kind of resolution', async () => {
    const { messages } = await publint({
      pkgDir: path.join(folder.path, 'node_modules', 'weir-gateway'),
      pack: false,
      level: 'suggestion',
    });
    assert.deepEqual(messages, []);
    const types = await folder.node('attw', folder.tarball, '--profile', 'esm-only', '--no-color');
    assert.equal(types.code, 0, types.stdout + types.stderr);
  });

  test('says what it is made of, with a licence for each part', async () => {
    const own = path.join(folder.path, 'node_modules', 'weir-gateway');
    for (const name of ['sbom.cdx.json', 'console-sbom.cdx.json']) {
      const bill = JSON.parse(await readFile(path.join(own, 'dist', name), 'utf8')) as {
        readonly bomFormat: string;
        readonly components: readonly { readonly name: string; readonly licenses?: readonly unknown[] }[];
      };
      assert.equal(bill.bomFormat, 'CycloneDX');
      assert.ok(bill.components.length > 50);
    }
    const texts = await readFile(path.join(own, 'dist', 'LICENSES.txt'), 'utf8');
    for (const name of ['hono', 'react-dom']) assert.match(texts, new RegExp(`^${name} \\d`, 'm'));
  });

  test('makes a plugin to begin from, which it checks and documents', async () => {
    const made = await folder.node('weir', 'plugin', 'new', 'my-check');
    assert.equal(made.code, 0, made.stderr);
    assert.match(made.stdout, /cd my-check\n {2}npm install\n.*weir-gateway-.*tgz.*\n {2}npm test/);
    const again = await folder.node('weir', 'plugin', 'new', 'my-check');
    assert.equal(again.code, 1);
    assert.match(again.stderr, /my-check exists already\. Take another name/);
    const file = './my-check/my-check.ts';
    const matrix = await folder.node('weir', 'plugin', 'test', file, '--options', '{"words":["fox"]}');
    assert.equal(matrix.code, 0, matrix.stdout + matrix.stderr);
    assert.match(matrix.stdout, /\nok {3}gemini {7}streamed, 38 cuts\n[^]*nothing wrong\.\n$/);
    const reference = await folder.node('weir', 'plugin', 'docs', file);
    assert.match(reference.stdout, /^# my-check\n[^]*\| `words` \|[^]*\| `stream` \| window \|/);
    const valid = await folder.node('weir', 'check', 'my-check/gateway.config.yaml');
    assert.equal(valid.code, 0, valid.stderr);
    const wrong = await folder.node('weir', 'plugin', 'test', './gone.ts');
    assert.deepEqual([wrong.code, /does not exist/.test(wrong.stderr)], [1, true], wrong.stderr);
  });

  test('runs the tests of three plugins that somebody else has written', async () => {
    const names = await readdir(theirs);
    for (const name of names)
      await folder.write({ [`theirs/${name}`]: await readFile(new URL(name, theirs), 'utf8') });
    const specs = names.filter((name) => name.endsWith('.spec.ts')).map((name) => `theirs/${name}`);
    const own = 'my-check/my-check.test.ts';
    const args = ['--test', '--test-reporter=spec', '--test-concurrency=2', ...specs, own];
    const { code, stdout } = await folder.node('--import', 'tsx', ...args);
    assert.equal(code, 0, stdout);
    assert.match(stdout, /pass 8\n/);
  });

  test('has types that a strict compiler takes, libraries, plugins and their tests included', async () => {
    const { code, stdout } = await folder.node('tsc', '-p', 'tsconfig.node.json');
    assert.equal(code, 0, stdout);
  });

  test('has them for bundlers as well, and they refuse what is wrong', async () => {
    await folder.write({
      'guards/no-names.ts': plugin.replace('context.set(found, name)', 'context.set(found, 1)'),
    });
    const { code, stdout } = await folder.node('tsc', '-p', 'tsconfig.bundler.json');
    assert.equal(code, 2);
    assert.match(stdout, /^guards\/no-names\.ts\(\d+,28\): error TS2345: [^\n]*\n$/, 'and nothing else');
    await folder.write({ 'guards/no-names.ts': plugin });
  });

  test('checks a configuration and says which version a plugin is of', async () => {
    const { code, stdout, stderr } = await folder.node('weir', 'check');
    assert.deepEqual([code, stdout, stderr], [0, 'gateway.config.yaml is valid.\n', '']);
    await folder.write({ 'guards/no-names.ts': plugin.replace('pluginApi,\n  schema', '2,\n  schema') });
    const refused = await folder.node('weir', 'check');
    assert.equal(refused.code, 1);
    assert.match(
      refused.stderr,
      /gateway\.config\.yaml:7:9: plugin "\.\/guards\/no-names\.ts": it is written for version 2 .* speaks version 1;/,
    );
    await folder.write({ 'guards/no-names.ts': plugin });
  });

  test('serves in an empty folder with its embedded stores, says how, and answers the official SDK', async () => {
    const { url, said, stop } = await folder.start('empty');
    const key = /Owner key +(wk_\S+)/.exec(said)?.[1];
    assert.match(said, /Config +gateway\.config\.yaml \(new;/);
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key ?? '' });
    const { data, response } = await client.chat.completions
      .create({ model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] })
      .withResponse();
    assert.match(data.choices[0]?.message.content ?? '', /Hello/);
    const id = response.headers.get('x-service-request-id') ?? '';
    const headers = { authorization: `Bearer ${key}` };
    const row = await fetch(`${url}/v1/logs/${id}`, { headers });
    assert.equal(row.status, 200, await row.text());
    const workspaces = await fetch(`${url}/v1/workspaces`, { headers });
    assert.equal(workspaces.status, 200, await workspaces.text());
    const page = await fetch(`${url}/console`);
    assert.match(await page.text(), /<div id="root">/);
    await stop();
  });

  test(
    'serves by npx in an empty folder, with an empty cache of npm',
    { skip: nothingToInstall },
    async (t) => {
      const began = performance.now();
      const { url, said, stop } = await folder.npx();
      const seconds = (): string => `${((performance.now() - began) / 1000).toFixed(1)} s`;
      t.diagnostic(`npx printed the address after ${seconds()}`);
      try {
        const client = new OpenAI({
          baseURL: `${url}/v1`,
          apiKey: /Owner key +(wk_\S+)/.exec(said)?.[1] ?? '',
        });
        const asked = { model: 'mock-gpt', messages: [{ role: 'user' as const, content: 'Hello' }] };
        const whole = await client.chat.completions.create(asked);
        assert.match(whole.choices[0]?.message.content ?? '', /Hello/);
        let streamed = '';
        for await (const chunk of await client.chat.completions.create({ ...asked, stream: true }))
          streamed += chunk.choices[0]?.delta.content ?? '';
        assert.equal(streamed, whole.choices[0]?.message.content);
        // Not asserted: most of it is the way to the registry.
        t.diagnostic(`the SDK was answered, whole and streamed, after ${seconds()}`);
        const printed = said.slice(said.indexOf('curl -s'), said.indexOf('Its record'));
        const curl = await promisify(execFile)('bash', ['-c', printed.trim()]);
        const told = JSON.parse(curl.stdout) as OpenAI.ChatCompletion;
        assert.match(told.choices[0]?.message.content ?? '', /Hello/);
      } finally {
        await stop();
      }
    },
  );

  test('serves with a plugin of the folder, which has the classes of the gateway', async () => {
    const { url, stop } = await folder.start();
    const ask = async (content: string) => {
      const body = JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content }] });
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body });
      return { status: answer.status, text: await answer.text() };
    };
    const refused = await ask('Buy Initech');
    assert.equal(refused.status, 446);
    assert.match(refused.text, /"The prompt mentions Initech\."/);
    assert.equal((await ask('Hello')).status, 200);
    await stop();
  });
});
