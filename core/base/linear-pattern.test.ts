import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { RE2JS } from 're2js';
import { findLinearly, linearPattern } from './linear-pattern.ts';

/** Pieces that may or may not be in each match, and those that only look like it. */
const piece = fc.constantFrom(
  ...['abc', 'kelvin', 'as', 'x', 'Abc ', 'b+', 'c?', 'a*', 'c{2}', 'b{0,2}', 'a{0}', 'bc{1,}'],
  ...['(abc)', '(?:abc|ask)', '(abc)?', '(?i:abc)', '(?i)', '(?-i)', '(?s)', '|', '||'],
  ...['\\.', '\\-', '\\d', '\\bas\\b', '\\x61', '\\x{61}', '\\u0061bc', '\\cA', '\\01', '\\pL', '\\0'],
  ...[
    '[abc]',
    '[^a]',
    '[]a]',
    '[^]',
    '[]',
    '[\\]a]',
    '[[:alpha:]]',
    '.',
    '^',
    '$',
    '}',
    '{,3}',
    '-',
    'ſ',
    'K',
  ],
);
const text = fc
  .array(
    fc.constantFrom(
      ...['abc', 'ABC ', 'as', 'Kelvin', '\u212Aelvin', 'a\u017F', 'x', 'b', 'cc', '.', '-', '1', ']'],
      ...['bbc', 'a', 'Abc ', '\x01', '{,3}', '}', '\n', ' ', 'def'],
    ),
    { maxLength: 8 },
  )
  .map((pieces) => pieces.join(''));

/** Whether the engine alone finds it; undefined for an expression that it does not accept. */
function found(source: string, subject: string): boolean | undefined {
  try {
    return RE2JS.compile(RE2JS.translateRegExp(source)).matcher(subject).find();
  } catch {
    return undefined;
  }
}

function reasonOf(source: string): string {
  const refused = linearPattern(source, 100);
  return typeof refused === 'string' ? refused : 'it is accepted';
}

describe('an expression whose literals are looked for first', () => {
  test('is found where the engine alone finds it', () => {
    let isFound = 0;
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 5 }), text, (pieces, subject) => {
        const source = pieces.join('');
        const pattern = linearPattern(source, 1e6);
        const expected = found(source, subject);
        if (typeof pattern === 'string' || expected === undefined) return;
        isFound += expected ? 1 : 0;
        assert.equal(pattern.test(subject), expected, `${source} in ${JSON.stringify(subject)}`);
      }),
      { numRuns: 20_000 },
    );
    assert.ok(isFound > 1000, `only ${isFound} of them are found at all`);
  });

  const cases: readonly [source: string, subject: string][] = [
    ['abc', 'xabc'],
    ['xa+bc', 'xaaabc'],
    ['abc|def', 'def'],
    ['(?:abc)?def', 'def'],
    ['abc*def', 'abdef'],
    ['(?i)kelvin', '\u212AELVIN'],
    ['(?i)mass', 'MA\u017FS'],
    ['(?i:abc)def', 'ABCdef'],
    ['\\cAbc', '\x01bc'],
    ['a{0}bcd', 'bcd'],
    ['a\\.b\\*c', 'a.b*c'],
  ];
  for (const [source, subject] of cases)
    test(`${source} is found in ${JSON.stringify(subject)}`, () => {
      const pattern = linearPattern(source, 1000);
      assert.ok(typeof pattern !== 'string' && pattern.test(subject));
      assert.equal(found(source, subject), true);
    });

  test('is counted as large as it is behind a set that only JavaScript knows', () => {
    assert.match(reasonOf('[^](?:a{60}){60}'), /expands to \d{4} steps/);
    assert.match(reasonOf('(?<n>a)\\k<n>'), /back-reference/);
  });

  test('has its places found as well', () => {
    const find = findLinearly('(?i)secret-[0-9]{2}', 1000);
    assert.ok(typeof find !== 'string');
    assert.deepEqual(
      [...find('a SECRET-12, a secret-34')],
      [
        { start: 2, end: 11 },
        { start: 15, end: 24 },
      ],
    );
    assert.deepEqual([...find('no such thing')], []);
  });
});
