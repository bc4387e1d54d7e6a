import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { nodeValue } from './config-node.ts';
import { createSource } from './config-source.ts';
import { parseYaml } from './parse-yaml.ts';
import { formatProblem } from './problem.ts';

const file = { path: '/etc/a.yaml', name: 'a.yaml' };

function problemsOf(text: string): string[] {
  return parseYaml(text, file).problems.map(formatProblem);
}

function valueOf(text: string): unknown {
  const { root, problems } = parseYaml(text, file);
  assert.deepEqual(problems, []);
  assert.ok(root);
  return nodeValue(root);
}

describe('parseYaml', () => {
  const refused: readonly [string, string, RegExp][] = [
    ['a tab', 'a: 1\nb:\n\tc: 2\n', /^a\.yaml:3:1: a tab is used as indentation/],
    ['two documents', 'a: 1\n---\nb: 2\n', /^a\.yaml:2:1: the file holds several documents/],
    [
      'a key given twice',
      'a: 1\nb: 2\n"a": 3\n',
      /^a\.yaml:3:1: the key "a" is given twice, first at a\.yaml:1:1/,
    ],
    ['a colon in a plain value', 'a: b: c\n', /^a\.yaml:1:4: .*put the value in quotes/],
    ['a reserved first character', 'a: @b\n', /^a\.yaml:1:4: .*put it in quotes/],
    ['a tag', 'a: !js x\n', /^a\.yaml:1:4: tags/],
    ['a binary value', 'a: !!binary aGk=\n', /^a\.yaml:1:4: tags/],
    ['an alias without anchor', 'a: *b\n', /^a\.yaml:1:4: "\*b" has no anchor/],
    ['an alias to what holds it', 'a: &b [1, *b]\n', /^a\.yaml:1:11: "\*b" stands within its own anchor/],
    ['a key that is a list', '? [a]\n: 1\n', /^a\.yaml:1:3: a key must be plain text/],
    ['a merge key', 'a: &a {b: 1}\nc:\n  <<: *a\n', /^a\.yaml:3:3: merge keys/],
    ['YAML 1.1', '%YAML 1.1\n---\na: yes\n', /^a\.yaml:1:1: only YAML 1\.2/],
    [
      'a number that would be rounded',
      'seed: 12345678901234567890\n',
      /^a\.yaml:1:7: this number is too large/,
    ],
    ['infinity', 'a: .inf\n', /^a\.yaml:1:4: infinite/],
    ['__proto__', '__proto__: { admin: true }\n', /^a\.yaml:1:1: "__proto__"/],
    ['an open quote', 'a: "b\n', /^a\.yaml:2:1: this is not valid YAML: Missing closing/],
  ];
  for (const [name, text, expected] of refused)
    it(`refuses ${name}`, () => {
      assert.match(problemsOf(text)[0] ?? '', expected);
      assert.equal(parseYaml(text, file).root, undefined);
    });

  it('reports all problems of a text', () => {
    assert.deepEqual(
      problemsOf('a: 1\na: 2\nb: *none\n').map((problem) => problem.split(' ')[0]),
      ['a.yaml:2:1:', 'a.yaml:3:4:'],
    );
  });

  it('asks for quotes around placeholders within brackets, and for nothing else', () => {
    const text = 'a: { b: ${A}, c: [x-${B}] }\nd: ${C}\n\ne: ["${D}", $]\n';
    assert.deepEqual(
      problemsOf(text).map((problem) => problem.slice(0, 42)),
      ['a.yaml:1:9: a value with "${…}" must be in', 'a.yaml:1:21: a value with "${…}" must be i'],
    );
  });

  it('does not stumble over every word behind a mistake', () => {
    assert.deepEqual(problemsOf('a: { b: 1 } x\nc: [1, 2]\nd: hunter2\n'), [
      'a.yaml:1:13: this cannot stand here; check the quotes, brackets and indentation just before it',
    ]);
  });

  const bombs: readonly [string, string][] = [
    ['brackets', '['.repeat(200_000)],
    ['braces', '{a: '.repeat(50_000)],
    ['lists on one line', '- '.repeat(100_000)],
    ['explicit keys', '? '.repeat(100_000)],
    ['indentation', Array.from({ length: 300 }, (_, depth) => `${' '.repeat(depth)}a:`).join('\n')],
  ];
  for (const [name, text] of bombs)
    it(`survives too many nested ${name}`, () => {
      assert.match(problemsOf(text)[0] ?? '', /nested too deeply; at most 64 levels/);
    });

  it('survives aliases that multiply', () => {
    const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]'];
    for (let level = 1; level < 10; level++)
      lines.push(`a${level}: &a${level} [${Array.from({ length: 10 }, () => `*a${level - 1}`).join(', ')}]`);
    assert.match(problemsOf(lines.join('\n')).join('\n'), /more than 50000 values/);
  });

  it('takes brackets within texts for text', () => {
    const brackets = '['.repeat(500);
    assert.deepEqual(valueOf(`a: "${brackets}"\nb: |\n  ${brackets}\n# ${brackets}\n`), {
      a: brackets,
      b: `${brackets}\n`,
    });
  });

  it('reads what YAML 1.2 says', () => {
    const text =
      'a: yes\nb: 0x10\nc: 010\nd: "1"\ne:\nf: ~\n1: x\ntrue: y\ng: &g [1]\nh: *g\ni: 2026-01-31\n';
    assert.deepEqual(valueOf(text), {
      a: 'yes',
      b: 16,
      c: 10,
      d: '1',
      e: null,
      f: null,
      1: 'x',
      true: 'y',
      g: [1],
      h: [1],
      i: '2026-01-31',
    });
  });

  it('keeps places through comments, CRLF, unicode and block texts', () => {
    const text = [
      '# größe 😀',
      'größe: { "ключ": "😀", next: 1 }   # comment',
      'block: |',
      '  one',
      '',
      '  two',
      'after:',
      '  - x',
      '  # between',
      '  -   deep: &anchor { a: 1 }',
      'alias: *anchor',
      'empty:',
    ].join('\r\n');
    const { root } = parseYaml(text, file);
    assert.ok(root);
    const source = createSource(root, { files: [], digest: '' });
    const place = (pointer: string, part: 'key' | 'value'): string => {
      const { line, column } = source.locate(pointer, part);
      return `${line}:${column}`;
    };
    assert.equal(place('/größe', 'key'), '2:1');
    assert.equal(place('/größe/ключ', 'key'), '2:10');
    assert.equal(place('/größe/ключ', 'value'), '2:18');
    assert.equal(place('/größe/next', 'value'), '2:30');
    assert.equal(place('/block', 'value'), '3:8');
    assert.equal(place('/after/0', 'value'), '8:5');
    assert.equal(place('/after/1', 'value'), '10:7');
    assert.equal(place('/after/1/deep/a', 'value'), '10:26');
    assert.equal(place('/alias', 'value'), '11:8');
    assert.equal(place('/alias/a', 'key'), '10:23');
    assert.equal(place('/empty', 'value'), '12:1');
  });
});
