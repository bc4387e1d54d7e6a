import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

const sources = ['main.ts', 'main', 'core', 'plugins', 'adapters', 'storage', 'scripts', 'package.json'];

// A copy of the sources, with the packages of this one.
describe('the sources, made into a few files', () => {
  let copy: string;
  const made = (): readonly string[] =>
    readdirSync(path.join(copy, 'node_modules', '.weir')).filter((name) => name.startsWith('sources-'));
  const run = (...args: readonly string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/run.mjs', ...args], {
      cwd: copy,
      encoding: 'utf8',
      timeout: 60_000,
      env: { PATH: process.env['PATH'] },
    });
    return { status, stdout, stderr };
  };

  before(() => {
    copy = mkdtempSync(path.join(tmpdir(), 'weir-sources-'));
    for (const name of [...sources, 'tsconfig.json', 'package-lock.json'])
      cpSync(name, path.join(copy, name), { recursive: true });
    cpSync('gateway.config.yaml', path.join(copy, 'gateway.config.yaml'));
    // The packages are not copied, and what is made stays here.
    const packages = readdirSync('node_modules').filter((name) => name !== '.weir');
    cpSync('package.json', path.join(copy, 'node_modules', 'package.json'));
    for (const name of packages)
      symlinkSync(path.resolve('node_modules', name), path.join(copy, 'node_modules', name));
  });
  after(() => rmSync(copy, { recursive: true, force: true }));

  test('are made once, again when one has changed, and not while one has a mistake in it', () => {
    assert.match(run('check').stdout, /is valid/);
    const first = made();
    assert.equal(first.length, 1);
    assert.match(run('check').stdout, /is valid/);
    assert.deepEqual(made(), first, 'used again');
    const built = path.join(copy, 'node_modules', '.weir', first[0] ?? '');
    const files = readdirSync(built).filter((name) => name.endsWith('.mjs'));
    assert.ok(files.includes('main.mjs'));
    const wide = files.filter((name) => /[^\0-\x7f]/.test(readFileSync(path.join(built, name), 'utf8')));
    assert.deepEqual(wide, [], 'in memory, a character of a file takes one byte');

    appendFileSync(path.join(copy, 'main', 'check.ts'), "\nconsole.log('changed');\n");
    assert.match(run('check').stdout, /changed\n.*is valid/);
    assert.equal(made().length, 2);

    appendFileSync(path.join(copy, 'main', 'check.ts'), '\nconst const;\n');
    const broken = run('check');
    assert.notEqual(broken.status, 0);
    assert.match(broken.stderr, /main\/check\.ts:\d+/, 'the mistake has a place');
    assert.equal(made().length, 2, 'nothing half made is left');
  });

  test('an index that is damaged is no reason not to start', () => {
    cpSync(path.resolve('main', 'check.ts'), path.join(copy, 'main', 'check.ts'));
    writeFileSync(path.join(copy, 'node_modules', '.weir', 'sources.json'), '{');
    assert.match(run('check').stdout, /is valid/);
  });

  test('errors name the lines of the sources', () => {
    appendFileSync(path.join(copy, 'main', 'check.ts'), "\nthrow new Error('on purpose');\n");
    const { stderr } = run('check');
    assert.match(stderr, /main\/check\.ts:\d+:\d+/);
    const longest = Math.max(...stderr.split('\n').map((line) => line.length));
    assert.ok(longest < 1000, `no line of a built file is shown whole: ${longest} characters`);
  });
});
