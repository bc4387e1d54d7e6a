import assert from 'node:assert/strict';
import { test } from 'node:test';
import { headerNameList, isHeaderName } from './header-names.ts';

const lists: readonly [text: string, names: readonly string[]][] = [
  ['', []],
  [' , ,', []],
  ['X-A', ['x-a']],
  [' X-A ,\tx-b,x-a,', ['x-a', 'x-b']],
  ['a b,"c"', ['a b', '"c"']],
];
for (const [text, names] of lists) {
  test(`the names in "${text}"`, () => assert.deepEqual(headerNameList(text), names));
}

test('what a header can be called', () => {
  for (const name of ['x-a', 'X_A.1', "!#$%&'*+-.^_`|~09Az"]) assert.ok(isHeaderName(name), name);
  for (const name of ['', 'a b', 'a:b', 'ä', 'a\n', '(a)', 'a,b', 'a=b'])
    assert.ok(!isHeaderName(name), name);
});
