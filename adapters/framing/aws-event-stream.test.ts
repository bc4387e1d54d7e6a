import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { AwsEventStreamParser, type AwsEventStreamItem } from './payload-reader.ts';
import { chunksAt, everySplit } from './split-bytes.test-support.ts';
import {
  writeAwsEventStreamFrame,
  writeAwsEventStreamMessage,
} from './write-aws-event-stream.test-support.ts';

interface Read {
  readonly messages: readonly { headers: Record<string, string>; payload: string }[];
  readonly faults: readonly string[];
}

function read(chunks: readonly Uint8Array[], maxBytes?: number): Read {
  const parser = new AwsEventStreamParser(maxBytes);
  const items: AwsEventStreamItem[] = chunks.flatMap((chunk) => [...parser.push(chunk)]);
  const last = parser.finish();
  if (last !== undefined) items.push(last);
  const messages = items.flatMap((item) =>
    item.kind === 'message' ? [{ headers: { ...item.headers }, payload: item.payload.toString() }] : [],
  );
  return { messages, faults: items.flatMap((item) => (item.kind === 'broken' ? [item.reason] : [])) };
}

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(/\s/g, ''), 'hex');
const json = Buffer.from("{'foo':'bar'}").toString('hex');

describe('the examples of the specification', () => {
  const cases: readonly [string, Buffer, Record<string, string>, string][] = [
    ['empty', hex('00000010 00000000 05c248eb 7d98c8ff'), {}, ''],
    ['payload only', hex(`0000001d 00000000 fd528c5a ${json} c3653936`), {}, "{'foo':'bar'}"],
    [
      'one string header',
      hex(
        `0000003d 00000020 07fd8396 0c ${Buffer.from('content-type').toString('hex')} 07 0010 ` +
          `${Buffer.from('application/json').toString('hex')} ${json} 8d9c08b1`,
      ),
      { 'content-type': 'application/json' },
      "{'foo':'bar'}",
    ],
    [
      'one int32 header',
      hex(
        `0000002d 00000010 41c424b8 0a ${Buffer.from('event-type').toString('hex')} 04 0000a00c ${json} 36f480a0`,
      ),
      { 'event-type': '40972' },
      "{'foo':'bar'}",
    ],
  ];
  for (const [name, bytes, headers, payload] of cases) {
    test(name, () => assert.deepEqual(read([bytes]), { messages: [{ headers, payload }], faults: [] }));
  }
});

const event = writeAwsEventStreamMessage(
  { ':event-type': 'contentBlockDelta', ':content-type': 'application/json', ':message-type': 'event' },
  '{"delta":{"text":"grüße 🌊"}}',
);
const exception = writeAwsEventStreamMessage(
  { ':message-type': 'exception', ':exception-type': 'throttlingException' },
  '{"message":"slow down"}',
);

test('a written message is read again wherever the bytes are cut', () => {
  const empty = writeAwsEventStreamMessage({}, '');
  const bytes = Buffer.concat([event, empty, exception]);
  const whole = read([bytes]);
  assert.equal(whole.messages.length, 3);
  assert.deepEqual(whole.messages[0], {
    headers: {
      ':event-type': 'contentBlockDelta',
      ':content-type': 'application/json',
      ':message-type': 'event',
    },
    payload: '{"delta":{"text":"grüße 🌊"}}',
  });
  for (const chunks of everySplit(bytes)) assert.deepEqual(read(chunks), whole);
});

test('any headers and payloads survive any portions', () => {
  const name = fc.string({ minLength: 1, maxLength: 20, unit: 'binary' });
  const headers = fc.dictionary(name, fc.string({ unit: 'binary', maxLength: 30 }), {
    noNullPrototype: true,
  });
  const message = fc.record({ headers, payload: fc.string({ unit: 'binary' }) }, { noNullPrototype: true });
  fc.assert(
    fc.property(fc.array(message, { maxLength: 4 }), fc.array(fc.nat(400)), (messages, cuts) => {
      const bytes = Buffer.concat(
        messages.map((one) => writeAwsEventStreamMessage(one.headers, one.payload)),
      );
      const result = read(chunksAt(bytes, cuts));
      assert.deepEqual(result, { messages, faults: [] });
    }),
  );
});

test('headers of all ten types', () => {
  const values: readonly [number, string, string][] = [
    [0, '', 'true'],
    [1, '', 'false'],
    [2, 'ff', '-1'],
    [3, '8000', '-32768'],
    [4, '7fffffff', '2147483647'],
    [5, '7fffffffffffffff', '9223372036854775807'],
    [6, '0003 000102', 'AAEC'],
    [7, `0003 ${Buffer.from('abc').toString('hex')}`, 'abc'],
    [8, '0000018bcfe56800', '1700000000000'],
    [9, '00112233445566778899aabbccddeeff', '00112233-4455-6677-8899-aabbccddeeff'],
  ];
  const block = Buffer.concat(
    values.map(([type, value]) =>
      hex(`02 68${type.toString(16).padStart(2, '3')} 0${type.toString(16)} ${value}`),
    ),
  );
  const bytes = writeAwsEventStreamFrame(block, 'x');
  const headers = Object.fromEntries(values.map(([type, , text]) => [`h${type}`, text]));
  for (const chunks of everySplit(bytes)) {
    assert.deepEqual(read(chunks), { messages: [{ headers, payload: 'x' }], faults: [] });
  }
});

test('a header named __proto__ is a header', () => {
  const parser = new AwsEventStreamParser();
  const [item] = parser.push(writeAwsEventStreamMessage({ ['__proto__']: 'a' }, ''));
  assert.equal(item?.kind === 'message' && item.headers['__proto__'], 'a');
});

describe('what cannot be read is a fault that says why, and nothing after it is read', () => {
  const broken = (change: (bytes: Buffer) => void): Buffer => {
    const bytes = Buffer.from(event);
    change(bytes);
    return bytes;
  };
  const prelude = (total: number, headers: number): Buffer => {
    const bytes = Buffer.alloc(12);
    bytes.writeUInt32BE(total, 0);
    bytes.writeUInt32BE(headers, 4);
    bytes.writeUInt32BE(crc32(bytes.subarray(0, 8)), 8);
    return bytes;
  };
  const frame = (headers: string): Buffer => writeAwsEventStreamFrame(hex(headers), '');
  const cases: readonly [string, Buffer, RegExp][] = [
    ['a prelude with a wrong checksum', broken((one) => (one[8]! ^= 1)), /checksum of its prelude/],
    ['a length that was changed', broken((one) => (one[3]! ^= 1)), /checksum of its prelude/],
    ['a payload that was changed', broken((one) => (one[one.length - 6]! ^= 1)), /checksum of the message/],
    ['a header that was changed', broken((one) => (one[14]! ^= 1)), /checksum of the message/],
    ['a checksum that was changed', broken((one) => (one[one.length - 1]! ^= 1)), /checksum of the message/],
    ['a length below the smallest', prelude(15, 0), /impossible: 15 bytes/],
    ['headers longer than the message', prelude(32, 17), /impossible: 32 bytes with 17/],
    ['headers beyond the format', prelude(0x30000, 0x20001), /impossible/],
    ['a message beyond the bound', prelude(0x7fffffff, 0), /more than the 16777216/],
    ['a header without a name', frame('00 07 0001 61'), /no name/],
    ['a header name that is cut off', frame('05 6161'), /cut off/],
    ['a header value that is cut off', frame('01 61 07 0005 61'), /"a" is cut off/],
    ['a header without its length', frame('01 61 07 00'), /no length/],
    ['an unknown header type', frame('01 61 0a'), /unknown type 10/],
  ];
  for (const [name, bytes, reason] of cases) {
    test(name, () => {
      for (const chunks of everySplit(Buffer.concat([exception, bytes, exception]))) {
        const { messages, faults } = read(chunks);
        assert.equal(messages.length, 1);
        assert.equal(faults.length, 1);
        assert.match(faults[0] as string, reason);
        assert.match(faults[0] as string, new RegExp(`at byte ${exception.length}:`));
      }
    });
  }

  test('the bound counts the whole message', () => {
    assert.deepEqual(read([event], event.length).faults, []);
    assert.match(read([event], event.length - 1).faults[0] as string, /more than/);
  });

  test('every single flipped bit is noticed', () => {
    for (let bit = 0; bit < event.length * 8; bit++) {
      const bytes = broken((one) => (one[bit >> 3]! ^= 1 << (bit & 7)));
      const { messages, faults } = read([bytes]);
      assert.deepEqual([messages.length, faults.length], [0, 1], `bit ${bit}`);
    }
  });
});

test('a last message that is cut off anywhere is reported', () => {
  for (let length = 1; length < event.length; length++) {
    const { messages, faults } = read([exception, event.subarray(0, length)]);
    assert.equal(messages.length, 1);
    assert.match(
      faults[0] as string,
      new RegExp(`at byte ${exception.length}: truncated: .* after ${length} bytes`),
    );
  }
});

test('the writer refuses what the format cannot hold', () => {
  assert.throws(() => writeAwsEventStreamMessage({ ['n'.repeat(256)]: '' }, ''), RangeError);
  assert.throws(() => writeAwsEventStreamMessage({ n: 'v'.repeat(65_536) }, ''), RangeError);
});
