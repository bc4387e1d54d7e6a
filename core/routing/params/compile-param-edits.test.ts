import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { compileParamEdits, parseParamPath } from './compile-param-edits.ts';

describe('parseParamPath', () => {
  const cases: readonly [string, (string | number)[] | undefined][] = [
    ['a', ['a']],
    ['a.b', ['a', 'b']],
    ['tools[0].x', ['tools', 0, 'x']],
    ['tools[*].x', ['tools', '*', 'x']],
    ['tools[*][2]', ['tools', '*', 2]],
    ['a["b.c"].d', ['a', 'b.c', 'd']],
    ['["x"]', ['x']],
    ['a["q\\"uote"]', ['a', 'q"uote']],
    ['a["\\u0062"]', ['a', 'b']],
    ['response-format.json_schema', ['response-format', 'json_schema']],
    [' a . b ', ['a', 'b']],
    ['', undefined],
    ['.a', undefined],
    ['a.', undefined],
    ['a..b', undefined],
    ['a[', undefined],
    ['a[]', undefined],
    ['a[-1]', undefined],
    ['a[1.5]', undefined],
    ['a[1234567890]', undefined],
    ['a[b]', undefined],
    ['a]b', undefined],
    ['a[0]b', undefined],
    ['a.*', undefined],
    ['*', undefined],
    ['[*]', undefined],
    ['[0].a', undefined],
    ['a["*"]', undefined],
    ['a["\\x"]', undefined],
  ];
  for (const [text, expected] of cases)
    test(text === '' ? 'nothing' : text, () => assert.deepEqual(parseParamPath(text), expected));

  test('reads every quoted name', () => {
    fc.assert(
      fc.property(
        fc.string().filter((name) => name !== '*'),
        (name) => assert.deepEqual(parseParamPath(`a[${JSON.stringify(name)}]`), ['a', name]),
      ),
    );
  });
});

describe('compileParamEdits', () => {
  test('compiles what a config says', () => {
    const { edits, issues } = compileParamEdits({
      defaults: { temperature: 0.2, stop: null },
      overrides: { seed: 9223372036854775807n, response_format: { type: 'text' } },
      drops: ['user', 'tools[*].strict'],
    });
    assert.deepEqual(issues, []);
    assert.deepEqual(edits, {
      defaults: [
        ['temperature', 0.2],
        ['stop', null],
      ],
      overrides: [
        ['seed', 9223372036854775807n],
        ['response_format', { type: 'text' }],
      ],
      drops: [['user'], ['tools', '*', 'strict']],
    });
  });

  for (const sources of [
    {},
    { defaults: {}, overrides: {}, drops: [] },
    { defaults: null, drops: undefined },
  ])
    test(`nothing to change: ${JSON.stringify(sources)}`, () =>
      assert.deepEqual(compileParamEdits(sources), { edits: undefined, issues: [] }));

  const deep = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels));
  const cyclic: unknown[] = [];
  cyclic.push(cyclic);
  const wrong: readonly [string, Parameters<typeof compileParamEdits>[0], string, RegExp][] = [
    ['defaults that are a list', { defaults: [1] }, 'default_params', /must be an object/],
    ['overrides that are a text', { overrides: 'x' }, 'override_params', /must be an object/],
    ['a value that is a date', { overrides: { at: new Date(0) } }, 'override_params.at', /no JSON value/],
    ['a value that is no number', { defaults: { n: [Number.NaN] } }, 'default_params.n', /no JSON value/],
    ['a value within itself', { overrides: { n: cyclic } }, 'override_params.n', /nested deeper than 64/],
    [
      'a value that is too deep',
      { overrides: { n: deep(65) } },
      'override_params.n',
      /nested deeper than 64/,
    ],
    ['__proto__', { overrides: JSON.parse('{"__proto__":1}') }, 'override_params.__proto__', /cannot be/],
    ['drops that are a text', { drops: 'user' }, 'drop_params', /must be a list/],
    [
      'a drop that is no text',
      { drops: ['a', 'b', 3] },
      'drop_params[2]',
      /no path to a parameter. Write it like/,
    ],
    ['a drop that is no path', { drops: ['a..b'] }, 'drop_params[0]', /"a\.\.b" is no path/],
    [
      'a path that is too long',
      { drops: [`a${'.b'.repeat(16)}`] },
      'drop_params[0]',
      /17 steps; it may have 16/,
    ],
    ['too many paths', { drops: Array(65).fill('a') }, 'drop_params', /65 paths; it may have 64/],
    [
      'too many bytes',
      { defaults: { a: 'ä'.repeat(66_000) }, overrides: { b: 'ä'.repeat(66_000) } },
      'override_params',
      /together they may be 262144/,
    ],
  ];
  for (const [name, sources, path, message] of wrong)
    test(name, () => {
      const { issues } = compileParamEdits(sources);
      assert.deepEqual(
        issues.map((issue) => issue.path),
        [path],
      );
      assert.match(issues[0]?.message ?? '', message);
    });

  test('what is right stays beside what is wrong', () => {
    const { edits, issues } = compileParamEdits({ overrides: { a: 1, b: () => 1 }, drops: ['x', ''] });
    assert.deepEqual(edits, { defaults: [], overrides: [['a', 1]], drops: [['x']] });
    assert.equal(issues.length, 2);
  });

  test('what is at the bounds is accepted', () => {
    const { issues } = compileParamEdits({
      overrides: { n: deep(64), text: 'x'.repeat(262_144 - 400) },
      drops: [...Array<string>(63).fill('a'), `a${'.b'.repeat(15)}`],
    });
    assert.deepEqual(issues, []);
  });
});
