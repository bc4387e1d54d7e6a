import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { describe, test, type TestContext } from 'node:test';
import { completion } from '../../core/administration/cli/arguments.ts';
import { doctor } from '../../main/doctor.ts';
import { formatConfig } from '../../main/format-config.ts';
import { temporaryFolder } from '../../storage/embedded/chdb-fixture.ts';

const root = path.resolve(import.meta.dirname, '../..');
const embedded = `version: 1
server: { port: 0 }
pipelines: [{ name: gateway, match: { path: /** }, plugins: [auth, provider] }]
`;

async function folderWith(context: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder();
  context.after(() => folder.remove());
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(folder.path, name), text);
  return folder.path;
}

interface Found {
  readonly code: number;
  readonly bad: number;
  readonly findings: Readonly<Record<string, { state: string; says: string; remedy?: string }>>;
}

async function examine(
  folder: string,
  options: { port?: number; environment?: object } = {},
): Promise<Found> {
  const { port, environment = {} } = options;
  const lines: string[] = [];
  const code = await doctor(path.join(folder, 'gateway.config.yaml'), {
    data: path.join(folder, 'data'),
    port,
    json: true,
    environment: { ...environment },
    print: (line) => lines.push(line),
  });
  const { findings, bad } = JSON.parse(lines.join('\n')) as {
    findings: readonly { name: string; state: string; says: string; remedy?: string }[];
    bad: number;
  };
  return { code, bad, findings: Object.fromEntries(findings.map(({ name, ...rest }) => [name, rest])) };
}

describe('weir doctor', () => {
  test('finds nothing in the way of the shipped set-up, and makes nothing', async (context) => {
    const folder = await folderWith(context, { 'gateway.config.yaml': embedded });
    const { code, bad, findings } = await examine(folder);
    assert.deepEqual([code, bad], [0, 0]);
    assert.match(findings['data folder']?.says ?? '', /will be made by the first start/);
    await assert.rejects(readFile(path.join(folder, 'data')), { code: 'ENOENT' });
  });

  test('says which port is taken and how to find the program', async (context) => {
    const folder = await folderWith(context, { 'gateway.config.yaml': embedded });
    const other = createServer().listen(0, '127.0.0.1');
    context.after(() => other.close());
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const { code, findings } = await examine(folder, { port });
    assert.equal(code, 1);
    assert.match(findings['port']?.says ?? '', /EADDRINUSE/);
    assert.match(findings['port']?.remedy ?? '', new RegExp(`ss -ltnp 'sport = :${port}'`));
  });

  test('says of each store that is away what to do, without its password', async (context) => {
    const text = `version: 1
server: { port: 0 }
storage:
  counters: { url: 'redis://:hunter2@127.0.0.1:1/0' }
  resources: { url: 'postgres://weir@127.0.0.1:1/weir', password: hunter2 }
  analytics: { url: 'http://127.0.0.1:1/weir', username: weir, password: hunter2 }
pipelines: [{ name: gateway, match: { path: /** }, plugins: [auth, provider] }]
`;
    const folder = await folderWith(context, { 'gateway.config.yaml': text });
    const { code, bad, findings } = await examine(folder);
    assert.deepEqual([code, bad], [1, 3]);
    for (const name of ['redis (counters, cache)', 'resources', 'analytics']) {
      assert.equal(findings[name]?.state, 'bad', name);
      assert.match(findings[name]?.says ?? '', /ECONNREFUSED/);
      assert.match(findings[name]?.remedy ?? '', /\w/);
    }
    assert.equal(findings['secret key']?.state, 'warn');
    assert.doesNotMatch(JSON.stringify(findings), /hunter2/);
  });

  test('says when others can read the key of secrets, and where a configuration is wrong', async (context) => {
    const folder = await folderWith(context, { 'gateway.config.yaml': embedded });
    const key = path.join(folder, 'data', 'secret.key');
    await mkdir(path.dirname(key), { mode: 0o700 });
    await writeFile(key, 'x');
    await chmod(key, 0o644);
    const { code, findings } = await examine(folder);
    assert.equal(code, 1);
    assert.match(findings['secret key']?.remedy ?? '', /^chmod 600 .*secret\.key$/);
    await writeFile(path.join(folder, 'gateway.config.yaml'), embedded.replace('pipelines', 'pipelinez'));
    const wrong = await examine(folder);
    assert.match(
      wrong.findings['configuration']?.says ?? '',
      /3:1: unknown key "pipelinez"; did you mean "pipelines"\?/,
    );
    assert.match(wrong.findings['configuration']?.remedy ?? '', /^weir check /);
  });
});

describe('weir fmt', () => {
  test('formats without a change of meaning, keeps comments, and names what is not formatted', async (context) => {
    const text = '# mine\nversion:   1\npipelines: [{name: a,   plugins: [auth]}] # all\n';
    const folder = await folderWith(context, { 'a.yaml': text, 'bad.yaml': 'a: [1\n' });
    const file = path.join(folder, 'a.yaml');
    assert.equal(await formatConfig([file], true), 1);
    assert.equal(await readFile(file, 'utf8'), text);
    assert.equal(await formatConfig([file], false), 0);
    assert.equal(
      await readFile(file, 'utf8'),
      '# mine\nversion: 1\npipelines: [{ name: a, plugins: [auth] }] # all\n',
    );
    assert.equal(await formatConfig([file], true), 0);
    const bad = path.join(folder, 'bad.yaml');
    assert.equal(await formatConfig([bad], false), 1);
    assert.equal(await readFile(bad, 'utf8'), 'a: [1\n');
  });
});

describe('weir check --watch', () => {
  test('checks again whenever the file changes', async (context) => {
    const folder = await folderWith(context, { 'gateway.config.yaml': embedded });
    const file = path.join(folder, 'gateway.config.yaml');
    const args = ['--import', 'tsx', path.join(root, 'main.ts'), 'check', file, '--watch'];
    const child = spawn(process.execPath, [...args, '--data', path.join(folder, 'data')], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    context.after(() => child.kill());
    const said = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const faults = createInterface({ input: child.stderr })[Symbol.asyncIterator]();
    assert.match((await said.next()).value as string, /is valid\.$/);
    assert.match((await said.next()).value as string, /^Waiting for a change/);
    await writeFile(file, embedded.replace('pipelines', 'pipelinez'));
    assert.match((await faults.next()).value as string, /:3:1: unknown key "pipelinez"/);
    assert.match((await said.next()).value as string, /^Waiting for a change/);
    await writeFile(file, embedded);
    assert.match((await said.next()).value as string, /is valid\.$/);
  });
});

describe('weir completion', () => {
  for (const shell of ['bash', 'zsh', 'fish'] as const)
    test(`offers each command, its words and its options in ${shell}`, () => {
      const script = completion(shell);
      for (const word of ['doctor', 'rotate-secrets', 'replay', 'one-server', 'no-plugins'])
        assert.match(script, new RegExp(`\\b${word}\\b`));
      assert.doesNotMatch(script, /undefined/);
    });
});
