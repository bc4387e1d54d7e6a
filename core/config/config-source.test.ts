import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createSource, digestOf } from './config-source.ts';
import { parseYaml } from './parse-yaml.ts';

const file = { path: '/etc/weir/a.yaml', name: 'conf/a.yaml' };
const { root } = parseYaml('server:\n  basePath: /v1\nlist:\n  - x: 1\na/b: { "~": 2 }\n', file);
assert.ok(root);
const source = createSource(root, { files: [file.path], digest: 'd' });

describe('ConfigSource.locate', () => {
  const cases: readonly [string, 'key' | 'value', number, number][] = [
    ['', 'value', 1, 1],
    ['/server', 'key', 1, 1],
    ['/server', 'value', 2, 3],
    ['/server/basePath', 'value', 2, 13],
    ['/server/base_path', 'key', 2, 3],
    ['/server/port', 'key', 1, 1],
    ['/server/port', 'value', 1, 1],
    ['/list/0', 'key', 4, 5],
    ['/list/0/y/z', 'key', 4, 5],
    ['/list/7', 'value', 3, 1],
    ['/list/x', 'value', 3, 1],
    ['/a~1b/~0', 'value', 5, 13],
    ['/nothing', 'key', 1, 1],
  ];
  for (const [pointer, part, line, column] of cases)
    it(`${part} of ${pointer || 'the root'}`, () =>
      assert.deepEqual(source.locate(pointer, part), { file: 'conf/a.yaml', line, column }));
});

describe('digestOf', () => {
  const main = { ...file, text: 'a: 1\n' };
  const part = { path: '/etc/weir/d/b.yaml', name: 'x', text: 'b: 1\n' };
  it('does not depend on where the folder is', () => {
    const moved = [main, part].map((each) => ({ ...each, path: `/home${each.path}`, name: 'other' }));
    assert.equal(digestOf(moved), digestOf([main, part]));
  });
  it('changes with text, name, order and number of files', () => {
    const digests = [
      [main],
      [main, part],
      [part, main],
      [main, { ...part, text: 'b: 2\n' }],
      [main, { ...part, path: '/etc/weir/d/c.yaml' }],
      [{ ...main, text: 'a: 1\nb: 1\n' }],
    ].map(digestOf);
    assert.equal(new Set(digests).size, digests.length);
  });
});
