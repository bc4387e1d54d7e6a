import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { NdjsonReader } from './payload-reader.ts';
import { chunksAt, everySplit, readAll } from './split-bytes.test-support.ts';

const cases: readonly [string, string, readonly string[]][] = [
  ['LF', '{"a":1}\n{"b":2}\n', ['{"a":1}', '{"b":2}']],
  ['CRLF', '{"a":1}\r\n{"b":2}\r\n', ['{"a":1}', '{"b":2}']],
  ['blank lines', '\n\r\n{"a":1}\n \n\n{"b":2}\n\n', ['{"a":1}', '{"b":2}']],
  ['no line end at the end', '{"a":1}\n{"b":2}', ['{"a":1}', '{"b":2}']],
  ['split characters', '{"a":"ü€🌊"}\n', ['{"a":"ü€🌊"}']],
  ['a byte order mark', '\ufeff{"a":1}\n', ['{"a":1}']],
  ['a line that is no JSON', 'oops\n{"a":1}\n', ['oops', '{"a":1}']],
  ['nothing', '', []],
];

for (const [name, text, expected] of cases) {
  test(`${name}, wherever the bytes are cut`, () => {
    for (const chunks of everySplit(Buffer.from(text))) {
      assert.deepEqual(
        readAll(new NdjsonReader(), chunks),
        expected.map((data) => ({ event: '', data })),
      );
    }
  });
}

test('any lines come out as they went in', () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), fc.array(fc.nat(300)), (values, cuts) => {
      const lines = values.map((value) => JSON.stringify(value));
      const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
      const payloads = readAll(new NdjsonReader(), chunksAt(bytes, cuts));
      assert.deepEqual(
        payloads.map(({ data }) => data),
        lines.map((line) => line.trim()),
      );
    }),
  );
});

test('a last line that is cut off and a line beyond the bound are errors, and nothing follows them', () => {
  for (const [text, reason] of [
    ['{"a":1}\n{"b":', /truncated/],
    ['{"a":1}\n{"b":"0123456789"}\n{"c":3}\n', /longer than 12 bytes/],
  ] as const) {
    for (const chunks of everySplit(Buffer.from(text))) {
      const payloads = readAll(new NdjsonReader(12), chunks);
      assert.deepEqual([payloads.length, payloads[0]?.data], [2, '{"a":1}']);
      assert.match(payloads[1]?.error ?? '', reason);
    }
  }
});
