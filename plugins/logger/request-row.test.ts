import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { loggedBodies } from './index.ts';

const json = '{"a":"ü"}';
const jpeg = Buffer.from([0xff, 0xd8, 0xff, 0xe0]);

describe('log format', () => {
  const cases: [string, string | Buffer, string | Buffer, string, string][] = [
    ['JSON both ways', json, json, 'application/json', 'json'],
    ['JSON behind white space', ` \n${json}`, `\t[1]`, 'text/plain', 'json'],
    ['an answer alone', '', json, 'application/json', 'json'],
    ['an event stream', json, 'data: {}\n\n', 'text/event-stream; charset=utf-8', 'sse'],
    ['an event stream in capitals', json, 'data: {}\n\n', 'Text/Event-Stream', 'sse'],
    ['a page', json, '<html>', 'text/html', 'text'],
    ['a form', 'a=b', json, 'application/json', 'text'],
    ['an image as the answer', json, jpeg, 'image/jpeg', 'base64'],
    ['an image as the question', jpeg, json, 'application/json', 'base64'],
    [
      'bytes that only call themselves JSON',
      json,
      Buffer.from('{"a":"\xfc"}', 'latin1'),
      'application/json',
      'base64',
    ],
  ];
  for (const [name, request, response, contentType, format] of cases) {
    test(name, () => {
      const kept = [request, response].map((body) => ({
        bytes: Buffer.from(body as string),
        truncated: false,
      }));
      const row = loggedBodies(kept[0]!, kept[1]!, contentType);
      assert.equal(row.log_format, format);
      const encoding = format === 'base64' ? 'base64' : 'utf8';
      assert.deepEqual(Buffer.from(row.request, encoding), kept[0]!.bytes);
      assert.deepEqual(Buffer.from(row.response, encoding), kept[1]!.bytes);
    });
  }

  test('says which of the two was cut', () => {
    const row = loggedBodies(
      { bytes: Buffer.from('a'), truncated: true },
      { bytes: Buffer.from('b'), truncated: false },
      '',
    );
    assert.deepEqual([row.request_truncated, row.response_truncated], [true, false]);
  });
});
