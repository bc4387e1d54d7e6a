import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { AwsEventReader, createPayloadReader, SseReader } from './payload-reader.ts';
import type { StreamPayload } from './stream-payload.ts';
import { chunksAt, everySplit, readAll } from './split-bytes.test-support.ts';
import { writeSseFrame } from '../../core/base/sse.ts';
import { writeAwsEventStreamMessage } from './write-aws-event-stream.test-support.ts';

const plain = (...data: readonly string[]): StreamPayload[] => data.map((one) => ({ event: '', data: one }));

describe('server-sent events, wherever the bytes are cut', () => {
  const cases: readonly [string, string, readonly StreamPayload[]][] = [
    ['LF', 'data: {"a":1}\n\ndata: [DONE]\n\n', plain('{"a":1}', '[DONE]')],
    ['CRLF', 'data: {"a":1}\r\n\r\ndata: 2\r\n\r\n', plain('{"a":1}', '2')],
    ['CR', 'data: {"a":1}\r\rdata: 2\r\r', plain('{"a":1}', '2')],
    ['comments', ': hi\n\ndata: 1\n\n: there\n\n', plain('1')],
    ['a byte order mark', '\ufeffdata: 1\n\n', plain('1')],
    ['lines of data', 'data: {"a":\ndata: 1}\n\n', plain('{"a":\n1}')],
    ['names, ids and retries', 'event: ping\nid: 7\nretry: 3\ndata: {}\n\n', [{ event: 'ping', data: '{}' }]],
    ['an event without data', 'event: ping\n\ndata: 1\n\n', plain('1')],
    ['blank lines first', '\n\r\n\ndata: 1\n\n', plain('1')],
    ['split characters', 'data: "ü€🌊"\n\n', plain('"ü€🌊"')],
    ['a whole last frame without its blank line', 'data: 1\n\ndata: {"b":2}', plain('1', '{"b":2}')],
    ['the end mark without its blank line', 'event: x\ndata: [DONE]\n', [{ event: 'x', data: '[DONE]' }]],
    ['a comment at the end', 'data: 1\n\n: by', plain('1')],
    ['a whole line without data at the end', 'data: 1\n\nevent: end\n', plain('1')],
    ['nothing', '', []],
  ];
  for (const [name, text, expected] of cases) {
    test(name, () => {
      for (const chunks of everySplit(Buffer.from(text))) {
        assert.deepEqual(readAll(createPayloadReader('text/event-stream; charset=utf-8'), chunks), expected);
      }
    });
  }

  const broken: readonly [string, string, RegExp][] = [
    ['data that is cut off', 'data: 1\n\ndata: {"b":', /truncated/],
    ['a field name that is cut off', 'data: 1\n\nda', /truncated/],
    ['a first field that is cut off', 'data: 1\n\nevent: messa', /truncated/],
    ['a frame beyond the bound', `data: 1\n\ndata: ${'x'.repeat(50)}\n\ndata: 2\n\n`, /longer than 40 bytes/],
  ];
  for (const [name, text, reason] of broken) {
    test(`${name} is an error and nothing follows it`, () => {
      for (const chunks of everySplit(Buffer.from(text))) {
        const payloads = readAll(new SseReader(40), chunks);
        assert.deepEqual([payloads.length, payloads[0]?.data], [2, '1'], JSON.stringify(payloads));
        assert.equal(payloads[1]?.data, '');
        assert.match(payloads[1]?.error ?? '', reason);
      }
    });
  }

  test('any frames in any portions', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.array(fc.nat(300)), (values, cuts) => {
        const texts = values.map((value) => JSON.stringify(value));
        const bytes = Buffer.concat(texts.map((text) => writeSseFrame(text, 'e')));
        assert.deepEqual(
          readAll(createPayloadReader('text/event-stream'), chunksAt(bytes, cuts)),
          texts.map((data) => ({ event: 'e', data })),
        );
      }),
    );
  });
});

describe('AWS event streams', () => {
  const bytes = Buffer.concat([
    writeAwsEventStreamMessage(
      { ':message-type': 'event', ':event-type': 'messageStart' },
      '{"role":"assistant"}',
    ),
    writeAwsEventStreamMessage({ ':event-type': 'untyped' }, '{}'),
    writeAwsEventStreamMessage(
      { ':message-type': 'exception', ':exception-type': 'modelStreamErrorException' },
      '{"message":"x"}',
    ),
    writeAwsEventStreamMessage(
      { ':message-type': 'error', ':error-code': '500', ':error-message': 'bad "end"' },
      '',
    ),
  ]);
  const expected = [
    { event: 'messageStart', data: '{"role":"assistant"}', messageType: 'event' },
    { event: 'untyped', data: '{}', messageType: 'event' },
    { event: 'modelStreamErrorException', data: '{"message":"x"}', messageType: 'exception' },
    { event: '500', data: '{"message":"bad \\"end\\""}', messageType: 'error' },
  ];

  test('events, exceptions and errors, wherever the bytes are cut', () => {
    for (const chunks of everySplit(bytes)) {
      assert.deepEqual(readAll(createPayloadReader('application/vnd.amazon.eventstream'), chunks), expected);
    }
  });

  test('cut off, damaged, too long or of an unknown type: an error, and nothing follows it', () => {
    const odd = writeAwsEventStreamMessage({ ':message-type': 'gossip' }, '');
    const damaged = Buffer.from(bytes);
    damaged[20]! ^= 1;
    for (const [wire, reason] of [
      [bytes.subarray(0, 50), /truncated/],
      [damaged, /checksum/],
      [Buffer.concat([odd, bytes]), /unknown type "gossip"/],
    ] as const) {
      for (const chunks of everySplit(wire)) {
        const payloads = readAll(new AwsEventReader(), chunks);
        assert.deepEqual([payloads.length, payloads[0]?.data], [1, '']);
        assert.match(payloads[0]?.error ?? '', reason);
      }
    }
    assert.match(readAll(new AwsEventReader(50), [bytes])[0]?.error ?? '', /more than the 50/);
  });
});

describe('the content type chooses', () => {
  const cases: readonly [string, string, readonly StreamPayload[]][] = [
    ['application/json', '[{"a":1},\n{"b":2}]', plain('{"a":1}', '{"b":2}')],
    ['Application/JSON; charset=UTF-8', '{"a":\n1}', plain('{"a":\n1}')],
    ['application/x-ndjson', 'x\n{"a":1}', plain('x', '{"a":1}')],
    ['application/jsonl', '1 2\n', plain('1 2')],
    ['application/stream+json', '1 2\n', plain('1 2')],
    ['', 'data: 1\n\n', plain('1')],
    ['text/plain', 'data: 1\n\n', plain('1')],
    ['constructor', 'data: 1\n\n', plain('1')],
    ['text/event-stream', '[{"a":1},\n{"b":2}]', plain('{"a":1}', '{"b":2}')],
    ['text/event-stream', '\ufeff \n{"a":1}\r\n{"b":2}', plain('{"a":1}', '{"b":2}')],
    ['text/event-stream', '{\n  "error": {}\n}\n', plain('{\n  "error": {}\n}')],
  ];
  for (const [contentType, text, expected] of cases) {
    test(`"${contentType}" with ${JSON.stringify(text)}`, () => {
      for (const chunks of everySplit(Buffer.from(text))) {
        assert.deepEqual(readAll(createPayloadReader(contentType), chunks), expected);
      }
    });
  }
});
