import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { after, describe, it } from 'node:test';
import { globs } from './read-file.ts';

describe('expandGlob', () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-glob-'));
  after(() => rmSync(folder, { recursive: true }));
  for (const name of [
    'a.yaml',
    'b.yaml',
    'b.yml',
    '.a.yaml.swp',
    '.hidden.yaml',
    'b.yaml~',
    'd/c.yaml',
    'd/e/f.yaml',
    '.git/g.yaml',
    'x+(1).yaml',
  ]) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), '');
  }
  mkdirSync(join(folder, 'dir.yaml'));
  symlinkSync(folder, join(folder, 'd/up'));

  for (const [pattern, expected] of [
    ['*.yaml', ['a.yaml', 'b.yaml', 'x+(1).yaml']],
    ['?.yaml', ['a.yaml', 'b.yaml']],
    ['b.y*', ['b.yaml', 'b.yaml~', 'b.yml']],
    ['.*.yaml', ['.hidden.yaml']],
    ['d/*.yaml', ['d/c.yaml']],
    ['*/c.yaml', ['d/c.yaml']],
    ['d/**/*.yaml', ['d/c.yaml', 'd/e/f.yaml']],
    ['x+(?).yaml', ['x+(1).yaml']],
    ['*a*.y*l', ['a.yaml']],
    ['**b*?aml', ['b.yaml']],
    ['nowhere/*.yaml', []],
  ] as const)
    it(pattern, async () =>
      assert.deepEqual(
        (await globs.expand(join(folder, pattern))).map((path) => relative(folder, path)),
        expected,
      ),
    );

  it('does not go round in linked directories', async () => {
    const found = await globs.expand(join(folder, '**/a.yaml'));
    assert.deepEqual(found, [join(folder, 'a.yaml')]);
  });
});

it('knows patterns and where they begin', () => {
  assert.equal(globs.is('/etc/weir/a.yaml'), false);
  assert.equal(globs.is('/etc/weir/*.yaml'), true);
  assert.equal(globs.base('/etc/weir/*/x-?.yaml'), '/etc/weir');
  assert.equal(globs.base('/etc/weir/**/*.yaml'), '/etc/weir');
});

it('knows which names matter', () => {
  assert.equal(globs.concerns('/etc/w/*.yaml', '/etc/w', 'a.yaml'), true);
  assert.equal(globs.concerns('/etc/w/*.yaml', '/etc/w', 'a.txt'), false);
  assert.equal(globs.concerns('/etc/w/*.yaml', '/etc/other', 'a.yaml'), false);
  assert.equal(globs.concerns('/etc/w/**/*.yaml', '/etc/w/deep', 'new'), true);
});
