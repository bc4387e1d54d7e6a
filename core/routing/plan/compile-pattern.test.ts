import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { RE2Set } from 're2js';
import { linearPattern } from '../../base/linear-pattern.ts';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { compileConfig } from './compile-config.ts';
import { compileCondition, PatternBudget } from './conditions.ts';

function compilePattern(operand: unknown): ((value: unknown) => boolean) | string {
  return new PatternBudget().compile(operand);
}

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
    ['(a+)+$', 'baa', 'aab'],
    ['(a|a)*b', 'aab', 'aac'],
    ['(\\w+\\s?)*!', 'a b!', 'a b'],
    ['(?i)GPT', 'my-gpt', 'claude'],
    ['a.*b.*c.*d.*e', 'a1b2c3d4e', 'abcd'],
    ['\\cA', '\x01', 'A'],
    ['(?:foo|bar)+!', 'foobar!', 'foobaz!'],
    ['(?<year>\\d{4})-(?<month>\\d\\d)', '2026-11', '2026-x'],
    ['\\bword\\b', 'a word.', 'swords'],
    ['[^]x', '\nx', 'x'],
    ['a\\.*$', 'a...', 'a..b'],
    ['a\\\\.*$', 'a\\b', 'ab'],
    ['x{,3}', 'x{,3}', 'xxx'],
    ['[\\u0400-\\u04ff]+x', 'яx', 'zx'],
    ['[\\d-]+x', '1-2x', 'x'],
    ['[^\\pL]x', '1x', 'ax'],
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

  it('looks at the first 4,096 characters, and at fewer beside large ones, but at 256 in any case', () => {
    const patterns = new PatternBudget();
    const quick = patterns.compile('key');
    assert.ok(typeof quick !== 'string');
    assert.equal(quick(`${'x'.repeat(4093)}key`), true);
    assert.equal(quick(`${'x'.repeat(4094)}key`), false);
    for (const pattern of ['a{500}', 'b{500}', 'c{20}'])
      assert.ok(typeof patterns.compile(pattern) !== 'string');
    assert.equal(quick(`${'x'.repeat(253)}key`), true);
    assert.equal(quick(`${'x'.repeat(254)}key`), false);
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
  const behind = /looks ahead or behind/;
  const large = /too large: it expands to \d+ steps/;
  const back = /back-reference/;
  const broken = /no valid regular expression/;
  const cases: readonly [pattern: unknown, message: RegExp][] = [
    ['^((?!foo).)*$', behind],
    ['(?=a)b', behind],
    ['(?<=a)b', behind],
    ['x(?<!a)b', behind],
    ['(a)\\1', back],
    ['(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)\\10', back],
    ['(?<x>a)\\k<x>', back],
    ['\\Qa[\\E(?:a{30}){30}', /has "\\Q"/],
    ['a{1000}b{1000}c{1000}', large],
    ['(?:a{30}){30}(?:b{30}){30}', large],
    ['(?:(?:a?){10}){90}', large],
    ['(a?){1000}', large],
    ['[]{](?:a{30}){30}(?:b{30}){30}', large],
    ['\\pL'.repeat(150), large],
    ['[^\\pL]'.repeat(150), large],
    ['(?:\\x{61}{30}){30}(?:b{30}){30}', large],
    ['a{1001}', broken],
    ['[\\b]', broken],
    ['a++', broken],
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

  it('says what is wrong and where in the expression', () => {
    assert.equal(compilePattern('x(a'), 'is no valid regular expression: missing closing ): `x(a`');
    const long = compilePattern(`(${'a'.repeat(900)}`);
    assert.ok(typeof long === 'string' && long.length < 260, String(long));
  });
});

describe('all the patterns of one config', () => {
  const steps = (patterns: readonly string[]) => ({
    strategy: {
      mode: 'conditional' as const,
      conditions: patterns.map(($regex) => ({ query: { 'metadata.a': { $regex } }, then: 'one' })),
      default: 'one',
    },
    targets: [{ name: 'one', provider: 'mock' }],
  });
  const compile = (patterns: readonly string[]) =>
    compileConfig(steps(patterns), {
      id: 'x',
      slug: undefined,
      configs: new Map(),
      knowsProvider: () => undefined,
    });
  const hostile = [
    '(a+)+',
    '(?:a*)*',
    'a.*a.*a.*',
    '(?:a?){30}a{30}',
    '(a|b|ab)*c',
    '(?:a|aa)+',
    '\\pL+.*\\pN',
  ];

  it('are refused with their places when they are 1,250 hostile ones, and hold the loop for a moment alone', async () => {
    await nextTurn();
    const before = process.cpuUsage().user;
    const result = compile(
      Array.from({ length: 1250 }, (_, index) => `${hostile[index % 7] ?? ''}x${index}`),
    );
    // Backtracking would take minutes for the texts and a linear engine seconds for building them all.
    assert.ok(process.cpuUsage().user - before < 3_000_000);
    assert.ok(!result.ok);
    assert.match(
      result.issues[0]?.message ?? '',
      /too large|one expression too many: .* 2048 steps together/,
    );
    assert.match(result.issues[0]?.path ?? '', /^config\.strategy\.conditions\[\d+\]\.query/);
  });

  it('take bounded work for the worst text, however many there are', () => {
    const patterns = new PatternBudget();
    const tests: ((value: unknown) => boolean)[] = [];
    for (let index = 0; ; index++) {
      const test = patterns.compile(`${hostile[index % 6] ?? ''}x${index}`);
      if (typeof test === 'string') break;
      tests.push(test);
    }
    assert.ok(tests.length > 20, `${tests.length} fit`);
    const before = process.cpuUsage().user;
    for (const text of ['a'.repeat(100_000), 'ab'.repeat(50_000), 'aab'.repeat(30_000)])
      for (const test of tests) test(text);
    assert.ok(process.cpuUsage().user - before < 3_000_000);
  });

  it('share their room across queries and with those that are refused', () => {
    const patterns = new PatternBudget();
    const refused = { 'metadata.a': { $regex: `(${'a'.repeat(900)}` } };
    for (let index = 0; index < 3; index++) assert.ok(!compileCondition(refused, patterns).ok);
    const last = compileCondition({ 'metadata.a': { $regex: 'a' } }, patterns);
    assert.ok(!last.ok);
    assert.match(last.issues[0]?.message ?? '', /one expression too many/);
  });

  it('are as large as they say, or smaller', () => {
    const piece = fc.constantFrom(
      'a',
      '[ab]',
      '(?:ab|c)',
      '(a)',
      'a*',
      'b+?',
      'c?',
      '\\d',
      '.',
      '(?:a|b|cd)',
    );
    const counted = fc
      .tuple(piece, fc.nat(8), fc.nat(8))
      .map(([body, least, more]) => `(?:${body}){${least},${least + more}}`);
    fc.assert(
      fc.property(fc.array(fc.oneof(piece, counted), { maxLength: 6 }), (pieces) => {
        const source = pieces.join('');
        const pattern = linearPattern(source, 1e6);
        assert.ok(typeof pattern !== 'string', `${source} ${JSON.stringify(pattern)}`);
        const engine = new RE2Set();
        engine.add(source);
        engine.compile();
        // Two of the engine's instructions frame every expression, whatever it is.
        assert.ok(
          engine.prog.numInst() <= pattern.steps * 2 + 8,
          `${source}: ${engine.prog.numInst()} for ${pattern.steps}`,
        );
      }),
      { numRuns: 500 },
    );
  });
});
