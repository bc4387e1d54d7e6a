import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import type { JsonObject } from '../json-reading.ts';
import { recorded, streamOf } from './chat-setting.test-support.ts';
import { createFrameReader } from './frame-events.ts';
import { anthropicMessages } from './index.ts';
import { rewriteFrame } from './rewrite-frame.ts';

function read(bytes: Uint8Array): readonly StreamFrame[] {
  const reader = createFrameReader();
  return [...reader.push(bytes), ...reader.finish()];
}

/** The frame of a recorded stream whose JSON holds this. */
function frameWith(name: string, needle: string): StreamFrame {
  const frame = read(streamOf(recorded(name))).find(({ bytes }) => Buffer.from(bytes).includes(needle));
  assert.ok(frame !== undefined, needle);
  return frame;
}

function rewritten(frame: StreamFrame, events: readonly StreamEvent[]): readonly JsonObject[] {
  const bytes = rewriteFrame(frame, events);
  return bytes === undefined
    ? []
    : Buffer.from(bytes)
        .toString()
        .split('\n')
        .filter((line) => line.startsWith('data: '))
        .map((line) => JSON.parse(line.slice(6)) as JsonObject);
}

const said = (text: string): StreamEvent => ({ type: 'text-delta', choice: 0, text });
const opaque: StreamEvent = { type: 'opaque' };

test('the texts of a stream, its usage as a whole, its reason and its end', () => {
  const events = read(streamOf(recorded('parallel-calls'))).flatMap((frame) => frame.events);
  const calls = events.flatMap((event) =>
    event.type === 'tool-arguments-delta' ? [`${event.call}:${event.name ?? ''}:${event.text}`] : [],
  );
  assert.deepEqual(calls, [
    ...['1:first:', '1::', '1::{"q": "a \\"qu', '1::ote\\""}', '2:second:', '2::', '3:third:{"whole":true}'],
  ]);
  const last = events.slice(-3);
  assert.deepEqual(
    last.map(({ type }) => type),
    ['finish', 'usage', 'done'],
  );
  assert.deepEqual(last[0], { type: 'finish', choice: 0, reason: 'tool_use' });
  assert.ok(last[1]?.type === 'usage');
  assert.deepEqual([last[1].usage.promptTokens, last[1].usage.completionTokens], [20, 30]);
});

test('text is replaced in its frame, and a frame without any is gone', () => {
  const frame = frameWith('parallel-calls', 'Two of them');
  assert.deepEqual(rewritten(frame, [said('One'), said('.')]), [
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'One.' } },
  ]);
  assert.equal(rewriteFrame(frame, []), undefined);
});

test('text that comes late stands before the end of its block', () => {
  const frame = frameWith('parallel-calls', '"content_block_stop","index":0');
  assert.deepEqual(rewritten(frame, [said('Late.'), opaque]), [
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Late.' } },
    { type: 'content_block_stop', index: 0 },
  ]);
  // Also when another plugin has written the frame anew.
  const again = rewritten({ bytes: frame.bytes, events: frame.events }, [said('Late.'), opaque]);
  assert.deepEqual(again[0]?.index, 0);
});

test('text that comes with the end of the message goes to the last text, or behind all blocks where there is none', () => {
  const withText = frameWith('parallel-calls', 'message_delta');
  const [late, own] = rewritten(withText, [said('Late.'), ...withText.events]);
  assert.deepEqual([late?.type, late?.index], ['content_block_delta', 0]);
  assert.equal(own?.type, 'message_delta');
  const without = frameWith('refused', 'message_delta');
  const added = rewritten(without, [said('Late.'), ...without.events]);
  assert.deepEqual(
    added.map(({ type, index }) => `${String(type)} ${String(index)}`),
    ['content_block_start 0', 'content_block_delta 0', 'content_block_stop 0', 'message_delta undefined'],
  );
});

test('a late text in a copy of a call’s frame does not repeat it', () => {
  const frame = frameWith('parallel-calls', 'ote');
  assert.deepEqual(rewritten(frame, [said('Late.')]), [
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Late.' } },
  ]);
});

test('a call that may not be told leaves an empty text, so that the blocks keep their numbers', () => {
  const frame = frameWith('parallel-calls', '"second"');
  assert.deepEqual(rewritten(frame, []), [
    { type: 'content_block_start', index: 2, content_block: { type: 'text', text: '' } },
  ]);
});

test('a call is renamed and gets other input', () => {
  const frame = frameWith('parallel-calls', '"third"');
  const [event] = frame.events;
  assert.ok(event?.type === 'tool-arguments-delta');
  assert.deepEqual(rewritten(frame, [{ ...event, name: 'other', text: '{"b":2}' }]), [
    {
      ...{ type: 'content_block_start', index: 3 },
      content_block: { type: 'tool_use', id: 'toolu_c', name: 'other', input: { b: 2 } },
    },
  ]);
});

test('another reason, another usage, an error', () => {
  const frame = frameWith('parallel-calls', 'message_delta');
  const [, usage] = frame.events;
  assert.ok(usage?.type === 'usage');
  const [changed] = rewritten(frame, [
    { type: 'finish', choice: 0, reason: 'refusal' },
    { type: 'usage', usage: { ...usage.usage, completionTokens: 1 } },
  ]);
  assert.deepEqual(changed, {
    ...{ type: 'message_delta', delta: { stop_reason: 'refusal', stop_sequence: null } },
    usage: {
      ...{ input_tokens: 20, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 1 },
    },
  });
  const error: StreamEvent = { type: 'error', message: 'No.', code: '' };
  assert.deepEqual(rewritten(frameWith('parallel-calls', 'message_stop'), [error]), [
    { type: 'error', error: { type: 'api_error', message: 'No.' } },
  ]);
});

test('a stream adds up to the message that it tells, and to the same again when it is replayed', () => {
  const { frames } = anthropicMessages;
  assert.ok(frames !== undefined);
  for (const name of ['server-tools', 'parallel-calls', 'prepopulated', 'refused', 'grid-citations']) {
    const answer = frames.assemble('messages', read(streamOf(recorded(name))));
    const replayed = read(Buffer.concat(frames.disassemble('messages', answer)));
    assert.deepEqual(replayed.at(-1)?.events, [{ type: 'done' }]);
    const again = frames.assemble('messages', replayed);
    assert.deepEqual(
      JSON.parse(Buffer.from(again).toString()),
      JSON.parse(Buffer.from(answer).toString()),
      name,
    );
  }
  const message = JSON.parse(
    Buffer.from(frames.assemble('messages', read(streamOf(recorded('parallel-calls'))))).toString(),
  ) as JsonObject;
  assert.deepEqual(message.content, [
    { type: 'text', text: 'Two of them.' },
    {
      ...{ type: 'tool_use', id: 'toolu_a', name: 'first', input: { q: 'a "quote"' } },
      caller: { type: 'direct' },
    },
    { type: 'tool_use', id: 'toolu_b', name: 'second', input: {} },
    { type: 'tool_use', id: 'toolu_c', name: 'third', input: { whole: true } },
  ]);
  assert.deepEqual(
    [message.stop_reason, message.usage],
    ['tool_use', { input_tokens: 20, output_tokens: 30 }],
  );
});

test('a usage that the stream does not tell is written in; a torn frame cannot be put together', () => {
  const { frames } = anthropicMessages;
  assert.ok(frames !== undefined);
  const start = '{"type":"message_start","message":{"id":"m","content":[]}}';
  const usage = {
    ...{ promptTokens: 3, completionTokens: 2, totalTokens: 5, cachedTokens: 1, cacheWriteTokens: 0 },
    ...{ reasoningTokens: 0, inputAudioTokens: 0, outputAudioTokens: 0 },
  };
  const answer = frames.assemble('messages', read(streamOf([start])), usage);
  assert.deepEqual((JSON.parse(Buffer.from(answer).toString()) as JsonObject).usage, {
    ...{ input_tokens: 2, cache_creation_input_tokens: 0, cache_read_input_tokens: 1, output_tokens: 2 },
  });
  const torn = read(streamOf([start, '{"type":"content_bl']));
  assert.equal(torn[1]?.unread, true);
  assert.throws(() => frames.assemble('messages', torn), { code: 'upstream_invalid' });
  assert.throws(() => frames.disassemble('messages', Buffer.from('[]')), { code: 'upstream_invalid' });
});
