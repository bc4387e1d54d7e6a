import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readBaggage } from './facts.ts';

const cases: readonly [name: string, header: string, read: Readonly<Record<string, string>>][] = [
  ['members', 'user=ann,team=blue', { user: 'ann', team: 'blue' }],
  ['spaces and tabs around everything', ' user =\tann , team= blue ', { user: 'ann', team: 'blue' }],
  ['properties', 'user=ann;ttl=3;flag, team=blue ; a=b', { user: 'ann', team: 'blue' }],
  ['an equals sign in a value', 'k=a=b==', { k: 'a=b==' }],
  ['an empty value', 'k=', { k: '' }],
  ['percent-encoding', 'k=%C3%A4%20%2C%3b%25', { k: 'ä ,;%' }],
  ['octets that are no UTF-8', 'k=a%FFb%C3%A4', { k: 'a\ufffdbä' }],
  ['a plus sign stands for itself', 'k=a+b', { k: 'a+b' }],
  ['names are not decoded', 'k%41=1', { 'k%41': '1' }],
  ['the last of equal names', 'k=1,j=2,k=3', { k: '3', j: '2' }],
  [
    'wrong members between right ones',
    'a=1,,b,=2,c d=3,e="4",f=5 6,g=\\,h=%zz,i=%4,j=ä,k=7',
    { a: '1', k: '7' },
  ],
  ['nothing', '', {}],
];
for (const [name, header, expected] of cases) {
  test(`baggage: ${name}`, () => {
    assert.deepEqual(Object.fromEntries(readBaggage(header)), expected);
  });
}

test('baggage: 64 members are read, the 65th is not', () => {
  const list = Array.from({ length: 65 }, (_, i) => `k${i}=${i}`);
  const read = readBaggage(list.join(','));
  assert.equal(read.size, 64);
  assert.equal(read.get('k63'), '63');
  assert.equal(read.has('k64'), false);
});

test('baggage: what ends within 8192 bytes is read, what ends behind them is not', () => {
  const fits = `a=1,b=${'x'.repeat(8192 - 6)}`;
  assert.equal(fits.length, 8192);
  assert.deepEqual([...readBaggage(fits).keys()], ['a', 'b']);
  assert.deepEqual([...readBaggage(`${fits}x`).keys()], ['a']);
});

test('baggage: whatever was encoded comes out as it was', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), fc.string({ unit: 'grapheme', maxLength: 40 })),
      (members) => {
        const entries = Object.entries(members).slice(0, 20);
        const header = entries.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join(',');
        fc.pre(header.length <= 8192);
        assert.deepEqual([...readBaggage(header)], entries);
      },
    ),
  );
});
