import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ProtobufWriter } from '../../../tests/kit/protobuf-writer.ts';
import { otlp } from './otlp.ts';

const write = (build: (writer: ProtobufWriter) => unknown): ProtobufWriter => {
  const writer = new ProtobufWriter();
  build(writer);
  return writer;
};
const attribute = (key: string, value: ProtobufWriter): ProtobufWriter =>
  write((pair) => pair.text(1, key).message(2, value));

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const span = write((one) =>
  one
    .bytes(1, Buffer.from(traceId, 'hex'))
    .bytes(2, Buffer.from('00f067aa0ba902b7', 'hex'))
    .text(3, 'state=1')
    .text(5, 'chat gpt-ü')
    .varint(6, 3n)
    .fixed(7, 1_763_000_000_123_456_789n)
    .fixed(8, 1_763_000_001_123_456_789n)
    .message(
      9,
      attribute(
        'text',
        write((value) => value.text(1, 'a')),
      ),
    )
    .message(
      9,
      attribute(
        'flag',
        write((value) => value.varint(2, 1n)),
      ),
    )
    .message(
      9,
      attribute(
        'minus',
        write((value) => value.varint(3, 2n ** 64n - 5n)),
      ),
    )
    .message(
      9,
      attribute(
        'half',
        write((value) => value.double(4, 0.5)),
      ),
    )
    .message(
      9,
      attribute(
        'list',
        write((value) =>
          value.message(
            5,
            write((items) =>
              items.message(
                1,
                write((item) => item.text(1, 'b')),
              ),
            ),
          ),
        ),
      ),
    )
    .message(
      9,
      attribute(
        'bytes',
        write((value) => value.bytes(7, Buffer.from([1]))),
      ),
    )
    .message(
      11,
      write((event) =>
        event
          .fixed(1, 1n)
          .text(2, 'e')
          .message(
            3,
            attribute(
              'k',
              write((value) => value.text(1, 'v')),
            ),
          ),
      ),
    )
    .varint(12, 7n)
    .message(
      15,
      write((status) => status.text(2, 'broken').varint(3, 2n)),
    )
    .fixed32(16, 257),
);
const whole = write((request) =>
  request.message(
    1,
    write((one) =>
      one
        .message(
          1,
          write((resource) =>
            resource.message(
              1,
              attribute(
                'service.name',
                write((value) => value.text(1, 's')),
              ),
            ),
          ),
        )
        .message(
          2,
          write((group) =>
            group
              .message(
                1,
                write((scope) => scope.text(1, 'lib').text(2, '1')),
              )
              .message(2, span),
          ),
        )
        .text(3, 'https://schema'),
    ),
  ),
).result;

describe('an export in protocol buffers', () => {
  test('is read as its JSON says it, without fields that nobody asks for', () => {
    const pair = (key: string, value: object): object => ({ key, value });
    assert.deepEqual(otlp.readRequest(whole), {
      resourceSpans: [
        {
          resource: { attributes: [pair('service.name', { stringValue: 's' })] },
          scopeSpans: [
            {
              scope: { name: 'lib', version: '1' },
              spans: [
                {
                  traceId,
                  spanId: '00f067aa0ba902b7',
                  name: 'chat gpt-ü',
                  startTimeUnixNano: '1763000000123456789',
                  endTimeUnixNano: '1763000001123456789',
                  attributes: [
                    pair('text', { stringValue: 'a' }),
                    pair('flag', { boolValue: true }),
                    pair('minus', { intValue: '-5' }),
                    pair('half', { doubleValue: 0.5 }),
                    pair('list', { arrayValue: { values: [{ stringValue: 'b' }] } }),
                    pair('bytes', {}),
                  ],
                  events: [{ name: 'e', attributes: [pair('k', { stringValue: 'v' })] }],
                  status: { message: 'broken', code: '2' },
                },
              ],
            },
          ],
        },
      ],
    });
  });

  test('cut anywhere is refused, or is a shorter one: never anything else', () => {
    for (let length = 0; length < whole.length; length++) {
      try {
        assert.deepEqual(Object.keys(otlp.readRequest(whole.subarray(0, length)) as object).slice(1), []);
      } catch (error) {
        assert.ok(error instanceof RangeError, String(error));
      }
    }
  });

  const broken: readonly [string, ProtobufWriter, RegExp][] = [
    ['a message in place of a text', write((one) => one.varint(1, 1n)), /another type/],
    ['a length beyond the end', write((one) => one.raw([0x0a, 0x7f])), /beyond/],
    [
      'a length that no machine holds',
      write((one) => one.raw([0x0a, ...Array<number>(9).fill(0xff), 0x01])),
      /beyond/,
    ],
    ['a number without an end', write((one) => one.raw(Array<number>(11).fill(0xff))), /no end/],
    ['a group', write((one) => one.raw([0x13])), /unknown type/],
  ];
  for (const [name, message, reason] of broken) {
    test(`with ${name} is refused`, () => assert.throws(() => otlp.readRequest(message.result), reason));
  }

  test('nested without end is refused', () => {
    let value = write((leaf) => leaf.text(1, 'x'));
    for (let i = 0; i < 100; i++) {
      const inner = value;
      value = write((outer) =>
        outer.message(
          5,
          write((items) => items.message(1, inner)),
        ),
      );
    }
    const request = write((one) =>
      one.message(
        1,
        write((resources) =>
          resources.message(
            1,
            write((resource) => resource.message(1, attribute('k', value))),
          ),
        ),
      ),
    );
    assert.throws(() => otlp.readRequest(request.result), /too deep/);
  });
});

test('the answer holds nothing when every span was taken, else how many were not, and why', () => {
  assert.equal(otlp.writeResponse(0, '').length, 0);
  const partial = write((one) => one.varint(1, 300n).text(2, 'é'.repeat(100)));
  assert.deepEqual(otlp.writeResponse(300, 'é'.repeat(100)), write((one) => one.message(1, partial)).result);
});
