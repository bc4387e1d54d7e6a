import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventsOf, type ServerEvent, serverEvents } from './app/src/lib/events.ts';

async function read(pieces: readonly (string | Uint8Array)[], silenceMs?: number): Promise<ServerEvent[]> {
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      for (const piece of pieces)
        controller.enqueue(typeof piece === 'string' ? encoder.encode(piece) : Uint8Array.from(piece));
      if (silenceMs === undefined) controller.close();
    },
  });
  const events: ServerEvent[] = [];
  for await (const event of serverEvents({ body }, silenceMs)) events.push(event);
  return events;
}

const text = [
  ': a comment\r\nretry: 3000\r\nid: 1\r\n\r\n',
  'event: log\nid: 2\ndata: {"a":\ndata:1}\n\n',
  'data:  two spaces: é🙂\r\r',
  'event: nothing\n\n',
  'data\n\nid\ndata: [DONE]\n\n',
].join('');
const wanted: ServerEvent[] = [
  { event: 'message', data: '', id: '1' },
  { event: 'log', data: '{"a":\n1}', id: '2' },
  { event: 'message', data: ' two spaces: é🙂', id: '2' },
  { event: 'message', data: '[DONE]', id: '' },
];

test('events with every line end, names, ids, comments and several lines of data', async () => {
  assert.deepEqual(await read([text]), wanted);
});

test('events are the same, wherever the stream is cut into pieces', async () => {
  const bytes = new TextEncoder().encode(text);
  for (const size of [1, 2, 3, 7]) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
      bytes.slice(index * size, (index + 1) * size),
    );
    assert.deepEqual(await read(pieces), wanted, `pieces of ${size}`);
  }
});

test('an event without its end is not told, nor is its id', async () => {
  assert.deepEqual(await read(['id: 1\ndata: a\n\nid: 2\ndata: b\n']), [
    { event: 'message', data: 'a', id: '1' },
  ]);
});

test('of a text that was a stream the last event may lack its end', () => {
  assert.deepEqual(
    eventsOf('data: a\n\nid: 3\n\ndata: b').map(({ data }) => data),
    ['a', 'b'],
  );
  assert.deepEqual(eventsOf(''), []);
});

test('a stream that falls silent, and an event that does not end, are refused', async () => {
  await assert.rejects(read(['data: a\n\n'], 20), /fallen silent/);
  const long = 'x'.repeat(1_000_000);
  await assert.rejects(read(Array.from({ length: 5 }, () => long)), /too long/);
  await assert.rejects(read(Array.from({ length: 5 }, () => `data: ${long}\n`)), /too long/);
});
