import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { parseObject, type JsonObject } from '../json-reading.ts';
import { ResponsesFrameRewriter, responsesFrames } from './frame-rewriter.ts';
import { createFrameReader } from './frame-reader.ts';
import { streamOf } from './responses.test-support.ts';

const fixture = (file: string): Buffer =>
  readFileSync(new URL(`../../../tests/fixtures/wire/openai-responses/${file}`, import.meta.url));
const files = ['text.sse', 'incomplete.sse', 'failed.sse', 'mixed.sse'];

function read(...chunks: readonly Uint8Array[]): readonly StreamFrame[] {
  const reader = responsesFrames.reader('responses');
  return [...chunks.flatMap((chunk) => reader.push(Buffer.from(chunk))), ...reader.finish()];
}

/** What a stream says in sum. */
function said(frames: readonly StreamFrame[]): Record<string, unknown> {
  const sum: Record<string, unknown> = {};
  for (const event of frames.flatMap(({ events }) => events)) {
    const key = event.type === 'tool-arguments-delta' ? `arguments:${event.call}` : event.type;
    if ('text' in event) sum[key] = (typeof sum[key] === 'string' ? sum[key] : '') + event.text;
    else if (event.type !== 'opaque') sum[key] = event;
  }
  return sum;
}

/** The stream as it leaves when every event goes through `change`. */
function through(
  bytes: Buffer,
  change: (event: StreamEvent) => readonly StreamEvent[],
  late: readonly StreamEvent[] = [],
): Buffer {
  const rewriter = new ResponsesFrameRewriter();
  const out: StreamFrame[] = [];
  for (const frame of read(bytes)) {
    if (late.length > 0 && frame.events.some(({ type }) => type === 'done')) out.push(...rewriter.late(late));
    out.push(...rewriter.write(frame, frame.events.flatMap(change)));
  }
  const written = Buffer.concat(out.map((frame) => frame.bytes));
  const again = read(written);
  // Each frame that leaves says what its events say: the next tap sees those.
  assert.deepEqual(said(again), said(out));
  assert.equal(again.length, out.length);
  return written;
}

const upper = (event: StreamEvent): readonly StreamEvent[] =>
  event.type === 'text-delta' ? [{ ...event, text: event.text.toUpperCase() }] : [event];

for (const file of files) {
  describe(file, () => {
    const bytes = fixture(file);

    test('frames are the very bytes, however they are cut, and repeats say nothing', () => {
      const whole = read(bytes);
      for (let at = 1; at < bytes.length; at += 7) {
        const frames = read(bytes.subarray(0, at), bytes.subarray(at));
        assert.deepEqual(Buffer.concat(frames.map((frame) => frame.bytes)), bytes);
        assert.deepEqual(
          frames.map(({ events }) => events),
          whole.map(({ events }) => events),
        );
      }
    });

    test('a replayed answer says what the stream said', () => {
      const frames = read(bytes);
      const answer = responsesFrames.assemble('responses', frames);
      const replayed = read(...responsesFrames.disassemble('responses', answer));
      assert.deepEqual(said(replayed), { ...said(frames), done: { type: 'done' } });
      assert.deepEqual(
        parseObject(Buffer.from(responsesFrames.assemble('responses', replayed)).toString()),
        parseObject(Buffer.from(answer).toString()),
      );
    });

    test('what nobody changes leaves byte for byte', () => {
      assert.deepEqual(
        through(bytes, (event) => [event]),
        bytes,
      );
    });

    test('text that is replaced is nowhere to be read any more, and everything repeats the new one', () => {
      const frames = read(bytes);
      const texts = frames.flatMap(({ events }) => events.filter((event) => event.type === 'text-delta'));
      const changed = through(bytes, upper);
      const [text] = [texts.map((event) => event.text).join('')];
      assert.ok(text !== '' && !changed.includes(JSON.stringify(text).slice(1, -1)));
      assert.deepEqual(said(read(changed)), { ...said(frames), 'text-delta': text.toUpperCase() });
    });

    test('a text that is taken out is in no repeat either', () => {
      const without = said(read(through(bytes, (event) => (event.type === 'text-delta' ? [] : [event]))));
      assert.equal(without['text-delta'], undefined);
    });
  });
}

const message = (text: string): JsonObject => ({
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [{ type: 'url_citation', title: 'secret' }] }],
});
const completed = (...output: readonly JsonObject[]): JsonObject => ({
  type: 'response.completed',
  response: { status: 'completed', output, usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3 } },
});

test('a text that no delta says is judged where it stands, and replaced there', () => {
  const bytes = streamOf([
    { type: 'response.output_item.done', output_index: 0, item: message('secret') },
    completed(message('secret')),
  ]);
  const [first, second] = read(bytes);
  assert.deepEqual(first?.events, [{ type: 'text-delta', choice: 0, text: 'secret' }]);
  assert.deepEqual(
    second?.events.map(({ type }) => type),
    ['finish', 'usage', 'done'],
  );
  const changed = through(bytes, (event) =>
    event.type === 'text-delta' ? [{ ...event, text: '###' }] : [event],
  );
  assert.ok(!changed.includes('secret'));
  assert.deepEqual(said(read(changed))['text-delta'], '###');
});

test('what a tap held back leaves before the end, and the final response has it', () => {
  const bytes = fixture('mixed.sse');
  const held: StreamEvent[] = [];
  const hold = (event: StreamEvent): readonly StreamEvent[] => {
    if (event.type === 'text-delta') held.push({ ...event, text: event.text.toUpperCase() });
    return event.type === 'text-delta' ? [] : [event];
  };
  through(bytes, hold);
  const late = held.splice(0);
  const frames = read(through(bytes, hold, late));
  assert.equal(said(frames)['text-delta'], 'ICH SEHE 🌊 NACH.');
  const { output } = parseObject(Buffer.from(responsesFrames.assemble('responses', frames)).toString()) as {
    output: { content?: { text: string }[] }[];
  };
  assert.ok(output.some(({ content }) => content?.[0]?.text === 'ICH SEHE 🌊 NACH.'));
});

test('a text where the provider said none is a message of its own', () => {
  const bytes = streamOf([{ type: 'response.created', response: { status: 'in_progress' } }, completed()]);
  const frames = read(
    through(bytes, (event) => [event], [{ type: 'text-delta', choice: 0, text: 'Added.' }]),
  );
  assert.equal(said(frames)['text-delta'], 'Added.');
  const { output } = parseObject(Buffer.from(responsesFrames.assemble('responses', frames)).toString()) as {
    output: unknown[];
  };
  assert.equal(output.length, 1);
});

test('reason, usage and the name of a call can be changed', () => {
  const changed = through(fixture('mixed.sse'), (event) => {
    if (event.type === 'finish') return [{ ...event, reason: 'content_filter' }];
    if (event.type === 'usage') return [{ ...event, usage: { ...event.usage, promptTokens: 99 } }];
    return event.type === 'tool-arguments-delta' && event.name !== undefined
      ? [{ ...event, name: 'seek' }]
      : [event];
  });
  const last = read(changed).at(-1);
  assert.deepEqual(last?.events[0], { type: 'finish', choice: 0, reason: 'content_filter' });
  assert.ok(last?.events[1]?.type === 'usage' && last.events[1].usage.promptTokens === 99);
  assert.match(Buffer.from(last.bytes).toString(), /^event: response\.incomplete\n/);
  assert.equal(changed.toString().split('"name":"seek"').length - 1, 3);
});

test('a frame that cannot be read is marked, and no answer is made of it', () => {
  const frames = read(Buffer.from('data: {"type":\n\n'));
  assert.equal(frames[0]?.unread, true);
  assert.throws(
    () => responsesFrames.assemble('responses', frames),
    (error) => GatewayError.is(error) && error.code === 'upstream_invalid',
  );
  assert.throws(() => responsesFrames.disassemble('responses', Buffer.from('[')), /replayed/);
});

const textDelta = (delta: string): JsonObject => ({
  type: 'response.output_text.delta',
  output_index: 0,
  content_index: 0,
  item_id: 'msg_1',
  sequence_number: 1,
  delta,
});

test('more text than is remembered cannot be read', () => {
  const reader = createFrameReader(300);
  const frames = reader.push(streamOf(Array.from({ length: 5 }, () => textDelta('x'.repeat(100)))));
  assert.deepEqual(
    frames.map(({ unread }) => unread === true),
    [false, false, false, true, true],
  );
});

test('a text that comes when its item is over is an item of its own at the end; numbers stay in order', () => {
  const call = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'f', arguments: '' };
  const done = { ...call, arguments: '{}' };
  const events = [
    {
      type: 'response.output_item.added',
      output_index: 0,
      item: { type: 'message', id: 'msg_1', content: [] },
    },
    textDelta('one'),
    { type: 'response.output_text.done', output_index: 0, content_index: 0, text: 'one' },
    { type: 'response.output_item.done', output_index: 0, item: message('one') },
    { type: 'response.output_item.added', output_index: 1, item: call },
    { type: 'response.output_item.done', output_index: 1, item: done },
    completed(message('one'), done),
  ];
  const bytes = streamOf(events.map((event, sequence_number) => ({ ...event, sequence_number })));
  const held: StreamEvent[] = [];
  const hold = (event: StreamEvent): readonly StreamEvent[] => {
    if (event.type !== 'text-delta') return [event];
    held.push(event);
    return [];
  };
  through(bytes, hold);
  const late = held.splice(0);
  const written = read(through(bytes, hold, late)).map(
    (frame) =>
      parseObject(/^data: (.*)$/m.exec(Buffer.from(frame.bytes).toString())?.[1] ?? '') as JsonObject,
  );
  assert.deepEqual(
    written.map(({ sequence_number: number }) => number),
    written.map((_event, i) => i),
  );
  const { output } = written.at(-1)?.response as { output: JsonObject[] };
  assert.deepEqual(
    output.map(({ type, content }) => [type, (content as JsonObject[] | undefined)?.[0]?.text]),
    [
      ['message', ''],
      ['function_call', undefined],
      ['message', 'one'],
    ],
  );
});

test('a call that is taken out is in no frame and not in the final response', () => {
  const bytes = fixture('mixed.sse');
  const without = through(bytes, (event) => (event.type === 'tool-arguments-delta' ? [] : [event]));
  assert.match(bytes.toString(), /function_call/);
  assert.doesNotMatch(without.toString(), /"type":"function_call"|custom_tool_call/);
});
