import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PathTree } from './route-table.ts';

function compile(pattern: string): (path: string) => boolean {
  const tree = new PathTree([{ place: 0, path: pattern, keeps: true }]);
  return (path) => tree.first('GET', path, false, 1) === 0;
}

describe('a path pattern', () => {
  const cases: readonly [pattern: string, yes: readonly string[], no: readonly string[]][] = [
    ['/**', ['/', '/a', '/a/b/c', '//'], []],
    ['/models', ['/models'], ['/', '/models/', '/models/x', '/Models', '/xmodels']],
    ['/files/*', ['/files/a', '/files/a%2Fb'], ['/files', '/files/', '/files/a/b']],
    ['/files/**', ['/files', '/files/', '/files/a', '/files/a/b'], ['/file', '/filesx/a']],
    ['/files/*/content', ['/files/a/content'], ['/files/content', '/files/a/b/content']],
    ['/**/content', ['/content', '/a/content', '/a/b/content'], ['/a/content/b', '/xcontent']],
    ['/a/**/b/**/c', ['/a/b/c', '/a/x/b/y/z/c', '/a/b/b/c'], ['/a/c/b', '/a/b', '/a/b/c/d']],
    ['/gpt-*/x', ['/gpt-4/x', '/gpt-/x'], ['/gpt/x', '/gpt-4/y']],
    ['/a*b*c', ['/abc', '/a1b2c', '/abbc'], ['/ac', '/acb', '/abcd']],
    ['/a*a', ['/aa', '/aba'], ['/a']],
    ['/a.b', ['/a.b'], ['/axb']],
  ];
  for (const [pattern, yes, no] of cases) {
    it(pattern, () => {
      const matches = compile(pattern);
      for (const path of yes) assert.equal(matches(path), true, `${path} should match`);
      for (const path of no) assert.equal(matches(path), false, `${path} should not match`);
    });
  }

  it('agrees with a regular expression', () => {
    const segment = fc.constantFrom('a', 'b', 'ab', '*', '**', 'a*', '*b', '');
    const given = fc.constantFrom('a', 'b', 'ab', 'ba', 'aab', '');
    fc.assert(
      fc.property(
        fc.array(segment, { minLength: 1, maxLength: 6 }),
        fc.array(given, { minLength: 1, maxLength: 7 }),
        (wanted, found) => {
          const source = wanted
            .map((one) =>
              one === '**' ? '(?:/[^/]*)*' : one === '*' ? '/[^/]+' : `/${one.replaceAll('*', '[^/]*')}`,
            )
            .join('');
          const path = `/${found.join('/')}`;
          const expected = new RegExp(`^${source}$`).test(path);
          assert.equal(compile(`/${wanted.join('/')}`)(path), expected);
        },
      ),
    );
  });

  it('needs no time that grows with the power of its wildcards', () => {
    const matches = compile(`/${'**/a/'.repeat(20)}b`);
    assert.equal(matches(`/${'a/'.repeat(20_000)}`), false);
  });
});
