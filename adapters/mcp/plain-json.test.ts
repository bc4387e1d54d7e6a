import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { fittingMembers, storableText } from './create-mcp-clients.ts';

const nested = (depth: number): unknown => JSON.parse(`${'['.repeat(depth)}1${']'.repeat(depth)}`);

describe('what is kept of members that somebody else wrote', () => {
  test('plain JSON that fits comes back as it is', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue()), (members) => {
        const plain = JSON.parse(JSON.stringify(members).replaceAll('\\u0000', '')) as typeof members;
        assert.deepEqual(JSON.stringify(fittingMembers(plain, 1_000_000).kept), JSON.stringify(plain));
      }),
    );
  });

  test('it never is larger than allowed, and every text of it can be stored', () => {
    const texts = fc.string({ unit: 'binary' });
    fc.assert(
      fc.property(
        fc.dictionary(texts, fc.jsonValue({ stringUnit: 'binary' })),
        fc.nat(200),
        (members, more) => {
          const { kept, leftOut } = fittingMembers(members, more + 2);
          const text = JSON.stringify(kept);
          assert.ok(Buffer.byteLength(text) <= more + 2);
          assert.doesNotMatch(text, /\\u0000|\\ud[89a-f]/);
          assert.ok(Object.keys(kept).length + leftOut <= Object.keys(members).length);
        },
      ),
      { numRuns: 40 },
    );
  });

  test('the first that fit, counted with their names', () => {
    const members = { a: 'x'.repeat(20), b: 1, c: 'y', d: undefined };
    // {"b":1,"c":"y"} is 15 bytes; a comma is counted for each.
    assert.deepEqual(fittingMembers(members, 16), { kept: { b: 1, c: 'y' }, leftOut: 1 });
    assert.deepEqual(fittingMembers(members, 9), { kept: { b: 1 }, leftOut: 2 });
  });

  test('one that is nested deeper than 64 is left out, however deep it is', () => {
    for (const depth of [65, 10_000, 1_000_000]) {
      assert.deepEqual(fittingMembers({ deep: nested(depth), flat: 1 }, 1_000_000), {
        kept: { flat: 1 },
        leftOut: 1,
      });
    }
    assert.equal(fittingMembers({ deep: nested(63) }, 1_000_000).leftOut, 0);
  });

  test('a member called __proto__ is a member', () => {
    const members = JSON.parse('{"a":{"__proto__":{"b":1}},"__proto__":{"c":1}}') as Record<string, unknown>;
    const { kept } = fittingMembers(members, 1_000);
    assert.equal(JSON.stringify(kept), JSON.stringify(members));
    assert.equal(Object.getPrototypeOf(kept), Object.prototype);
  });

  test('NUL and halves of pairs become U+FFFD, pairs stay', () => {
    assert.equal(storableText('a\0b\ud800c\udc00d\u{1f600}'), 'a\ufffdb\ufffdc\ufffdd\u{1f600}');
  });
});
