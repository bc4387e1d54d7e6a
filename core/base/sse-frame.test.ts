import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSseFrame, replaceSseData, writeSseFrame } from './sse.ts';

test('reads event and data', () => {
  const cases: readonly (readonly [string, string, string | undefined])[] = [
    ['data: {"a":1}\n\n', '', '{"a":1}'],
    ['data:{"a":1}\n\n', '', '{"a":1}'],
    ['data:  two spaces\n\n', '', ' two spaces'],
    ['data: 1\r\n\r\n', '', '1'],
    ['data: 1\r\r', '', '1'],
    ['data: 1\ndata: 2\n\n', '', '1\n2'],
    ['data: 1\ndata\n\n', '', '1\n'],
    ['event: error\ndata: 1\nid: 3\n\n', 'error', '1'],
    ['\ufeffdata: 1\n\n', '', '1'],
    ['\ufeffevent: a\ndata: 1\n\n', 'a', '1'],
    [': comment\n\n', '', undefined],
    ['database: 1\n\n', '', undefined],
    ['\n', '', undefined],
    ['data: torn', '', 'torn'],
    ['data: torn\n', '', 'torn'],
  ];
  for (const [text, event, data] of cases) {
    assert.deepEqual(readSseFrame(Buffer.from(text)), { event, data }, JSON.stringify(text));
  }
});

test('what is written is read again', () => {
  for (const [data, event] of [
    ['{"a":1}', ''],
    ['1\n2', 'x'],
    ['', ''],
  ] as const) {
    assert.deepEqual(readSseFrame(writeSseFrame(data, event)), { event, data });
  }
});

test('replaces the data and keeps the rest of the frame', () => {
  const cases: readonly (readonly [string, string])[] = [
    ['data: 1\n\n', 'data: new\n\n'],
    [
      'id: 7\r\nevent: e\r\ndata: 1\r\ndata: 2\r\nretry: 5\r\n\r\n',
      'id: 7\r\nevent: e\r\ndata: new\r\nretry: 5\r\n\r\n',
    ],
    [': comment\ndata:1\n\n', ': comment\ndata: new\n\n'],
    ['data: 1\r\r', 'data: new\r\r'],
    ['event: e\n\n', 'event: e\ndata: new\n\n'],
  ];
  for (const [before, after] of cases) {
    assert.equal(replaceSseData(Buffer.from(before), 'new').toString(), after);
  }
});
