import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { compilePattern } from './compile-pattern.ts';

function compiled(pattern: string): (value: unknown) => boolean {
  const test = compilePattern(pattern);
  assert.ok(typeof test !== 'string', `${pattern} ${typeof test === 'string' ? test : ''}`);
  return test;
}

describe('a pattern that is accepted', () => {
  const cases: readonly [pattern: string, yes: string, no: string][] = [
    ['^gpt', 'gpt-4o', 'my-gpt'],
    ['gpt', 'my-gpt-4', 'GPT'],
    ['gpt-4.*', 'a gpt-4', 'gpt-3'],
    ['.*gpt.*turbo.*', 'a gpt-3.5-turbo!', 'turbo gpt'],
    ['^.*gpt.*turbo.*$', 'gpt-3.5-turbo', 'turbo gpt'],
    ['foo.*bar.*baz', 'foo bar baz', 'foo baz bar'],
    ['(gpt-4|gpt-3|claude|gemini|llama|o1|o3).*mini', 'o3-mini', 'o4-mini'],
    ['^claude-(?:3|3-5)-(?:opus|sonnet)$', 'claude-3-5-sonnet', 'claude-4-sonnet'],
    ['^[a-z0-9]+(?:-[a-z0-9]+)*$', 'a-slug-2', 'a--slug'],
    ['^(\\d{1,3}\\.){3}\\d{1,3}$', '10.0.0.1', '10.0.1'],
    ['^[\\w.+-]+@[\\w-]+\\.[\\w.-]+$', 'ada@example.com', 'ada@example'],
    ['user-\\d+-\\w+-.*', 'user-12-ab-', 'user-12-ab'],
    ['^((?!foo).)*$', 'bar', 'a foo'],
    ['(?:foo|bar)+!', 'foobar!', 'foobaz!'],
    ['(?<year>\\d{4})-(?<month>\\d\\d)', '2026-11', '2026-x'],
    ['\\bword\\b', 'a word.', 'swords'],
    ['[^]x', '\nx', 'x'],
    ['a\\.*$', 'a...', 'a..b'],
    ['a\\\\.*$', 'a\\b', 'ab'],
    ['x{,3}', 'x{,3}', 'xxx'],
    ['[\\u0400-\\u04ff]+x', 'яx', 'zx'],
    ['[\\d-]+x', '1-2x', 'x'],
    ['[\\b]', '\b', 'b'],
  ];
  for (const [pattern, yes, no] of cases)
    it(pattern, () => {
      const test = compiled(pattern);
      assert.equal(test(yes), true, yes);
      assert.equal(test(no), false, no);
    });

  it('sees texts and numbers alone', () => {
    const any = compiled('.*');
    for (const value of ['', 'x', 5, 2n ** 60n]) assert.equal(any(value), true);
    for (const value of [undefined, null, true, ['x'], { x: 1 }]) assert.equal(any(value), false);
    assert.equal(compiled('^1152')(2n ** 60n), true);
    assert.equal(compiled('^0\\.5$')(0.5), true);
  });

  it('looks at the first 4,096 characters, or 256 where more could take long', () => {
    const quick = compiled('key');
    assert.equal(quick(`${'x'.repeat(4093)}key`), true);
    assert.equal(quick(`${'x'.repeat(4094)}key`), false);
    const slow = compiled('a.*b.*key');
    assert.equal(slow(`ab${'x'.repeat(251)}key`), true);
    assert.equal(slow(`ab${'x'.repeat(252)}key`), false);
  });

  it('keeps no state between texts', () => {
    const test = compiled('a');
    for (let again = 0; again < 3; again++) assert.equal(test('a'), true);
  });

  it('finds what the plain expression finds', () => {
    const piece = fc.constantFrom(
      'a',
      'b',
      '.*',
      '.*?',
      'a+',
      '[ab]',
      '\\.',
      '(a|b)',
      'c?',
      '$',
      '^',
      '\\\\',
      '|',
    );
    const text = fc.stringMatching(/^[abc.\\\n]{0,12}$/);
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 5 }), text, (pieces, subject) => {
        const pattern = pieces.join('');
        const test = compilePattern(pattern);
        if (typeof test === 'string') return;
        assert.equal(test(subject), new RegExp(pattern).test(subject), pattern);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('a pattern that is refused', () => {
  const nested = /repeats something/;
  const many = /too many repetitions/;
  const broken = /no valid regular expression/;
  const cases: readonly [pattern: unknown, message: RegExp][] = [
    ['(a+)+$', nested],
    ['(a*)*', nested],
    ['(.*)*x', nested],
    ['^(\\w+)*$', nested],
    ['([a-z]+)*x', nested],
    ['(\\w+\\s?)*$', nested],
    ['(x+x+)+y', nested],
    ['(a|a)*b', nested],
    ['(a|ab)*c', nested],
    ['(?:\\d|\\d\\d)+x', nested],
    ['(?:a?){30}a{30}', nested],
    ['(?:a{1,9}){1,9}$', nested],
    ['(?:[я]+[ж]?)*$', nested],
    ['(?:\\u044f+\\W?)+$', nested],
    ['(?:(?:a|b)+c?)+$', nested],
    ['(?:a|b|[a-c])*$', nested],
    ['(?:a+|b)+$', nested],
    ['\\s*\\s*\\s*\\s*x', many],
    ['a.*b.*c.*d.*e', many],
    [`${'a?'.repeat(30)}${'a'.repeat(30)}`, many],
    [`^${'a*'.repeat(6)}b`, many],
    ['(?:a|a)'.repeat(30), many],
    ['(a)\\1', /back-reference/],
    ['(?<x>a)\\k<x>', /back-reference/],
    ['\\012', /octal/],
    ['(a', broken],
    ['[', broken],
    ['*', broken],
    ['x\\', broken],
    ['a(.*', broken],
    ['[a.*', broken],
    ['a'.repeat(1001), /more than 1000 characters/],
    [5, /must be a text, not 5/],
    [null, /must be a text/],
    [['a'], /must be a text/],
  ];
  for (const [pattern, message] of cases)
    it(String(pattern).slice(0, 40), () => {
      const problem = compilePattern(pattern);
      assert.ok(typeof problem === 'string');
      assert.match(problem, message);
    });

  it('says what is wrong without repeating the expression', () => {
    assert.equal(compilePattern('(a'), 'is no valid regular expression: Unterminated group');
  });

  it('is every one that takes long on a text made for it', () => {
    const piece = fc.constantFrom(
      'a',
      'b',
      'a*',
      'a+',
      '[ab]*',
      '.*',
      '(a|b)*',
      '(a*b)*',
      '(ab?)*',
      '(a|ab)+',
      '(a+)+',
      'b?',
      'a{2,5}',
      '$',
      '^',
    );
    const worst = ['ab'.repeat(64), 'a'.repeat(128), 'aab'.repeat(43)];
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 5 }), (pieces) => {
        const test = compilePattern(`${pieces.join('')}!`);
        // One that were exponential would never come back from these.
        if (typeof test !== 'string') for (const text of worst) test(text);
      }),
      { numRuns: 400 },
    );
  });
});
