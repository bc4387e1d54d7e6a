import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { cutsOf, redactPieces, redactText, type TextRule, namedPattern } from './redact-text.ts';

type PatternName = Parameters<typeof namedPattern>[0];

const rule = (name: PatternName): TextRule => ({ find: namedPattern(name, 'wk_'), replacement: `<${name}>` });
const of = (expression: RegExp, replacement: string): TextRule => ({
  find: function* (text) {
    for (const { index, 0: match } of text.matchAll(expression))
      yield { start: index, end: index + match.length };
  },
  replacement,
});

describe('named patterns', () => {
  const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N';
  const cases: Record<PatternName, [string, string][]> = {
    email: [
      ['write to Ann.O+x@mail.example.com.', 'write to <email>.'],
      ['<a@b.co>,c_d@e-f.org', '<<email>>,<email>'],
      ['user@localhost and @handle and a@b', 'user@localhost and @handle and a@b'],
      ['a@b.com@c.org', '<email>@c.org'],
    ],
    phone: [
      ['call +49 (30) 1234-5678 now', 'call <phone> now'],
      ['or (415) 555-0132, 415.555.0132', 'or <phone>, <phone>'],
      ['+14155550132', '<phone>'],
      ['at 1700000000 in 2026-11-21, version 1.2.3', 'at 1700000000 in 2026-11-21, version 1.2.3'],
    ],
    credit_card: [
      ['4111 1111 1111 1111.', '<credit_card>.'],
      ['pay 5500-0000-0000-0004 with 378282246310005', 'pay <credit_card> with <credit_card>'],
      ['4111 1111 1111 1112 fails its check digit', '4111 1111 1111 1112 fails its check digit'],
      ['41111111111111110000000000', '41111111111111110000000000'],
    ],
    api_key: [
      ['sk-proj-abcdefghij0123456789', '<api_key>'],
      ['key=wk_abcdefghij0123456789ABCDEFGHIJ0123456789;', 'key=<api_key>;'],
      [`Bearer ${jwt}`, 'Bearer <api_key>'],
      ['AKIAIOSFODNN7EXAMPLE ghp_abcdefghijklmnopqrstuvwxyz012345', '<api_key> <api_key>'],
      ['task-management-of-all-the-things, sk-short', 'task-management-of-all-the-things, sk-short'],
    ],
    ip_address: [
      ['from 192.168.1.255 and 2001:db8::ff00:42:8329.', 'from <ip_address> and <ip_address>.'],
      ['::ffff:10.0.0.1, fe80::1', '<ip_address>, <ip_address>'],
      ['300.1.1.1, 1.2.3.4.5, std::vector, 12:30:45, ::', '300.1.1.1, 1.2.3.4.5, std::vector, 12:30:45, ::'],
    ],
  };
  for (const [name, texts] of Object.entries(cases) as [PatternName, [string, string][]][]) {
    for (const [text, expected] of texts) {
      test(`${name}: ${text}`, () => assert.equal(redactText(text, [rule(name)]), expected));
    }
  }
});

test('of two rules that find the same, the first counts', () => {
  const rules = [of(/bc/g, '1'), of(/ab|cd|e/g, '2')];
  assert.equal(redactText('abcde', rules), 'a1d2');
  assert.equal(redactText('ab cd e', rules), '2 2 2');
});

test('nothing is found, nothing changes; an empty match is none', () => {
  assert.equal(redactText('abc', [of(/x*/g, '!')]), 'abc');
  assert.equal(redactText('', [of(/.*/g, '!')]), '');
});

test('what stands across pieces is cut from all of them', () => {
  const pieces = ['Mail ', 'ali', 'ce', '@exam', 'ple.com', ' now'];
  assert.deepEqual(redactPieces(pieces, [rule('email')]), ['Mail ', '<email>', '', '', '', ' now']);
});

test('pieces together say what the whole says', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '@', '.', 'c', 'o', 'm', ' ', '1') });
  const rules = [rule('email'), of(/ab/g, '<ab>'), of(/1+/g, '')];
  fc.assert(
    fc.property(fc.array(text, { maxLength: 8 }), (pieces) => {
      assert.equal(redactPieces(pieces, rules).join(''), redactText(pieces.join(''), rules));
    }),
  );
});

test('cuts are in order and do not overlap', () => {
  const rules = [of(/a+b?/g, '1'), of(/b+a/g, '2'), of(/c/g, '3')];
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('a', 'b', 'c') }), (text) => {
      let last = 0;
      for (const { start, end } of cutsOf(text, rules)) {
        assert.ok(start >= last && end > start);
        last = end;
      }
    }),
  );
});
