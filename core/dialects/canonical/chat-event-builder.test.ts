import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ToolCallPart } from './chat-part.ts';
import { ChatEventBuilder, cutShort } from './chat-event-builder.ts';

const call = (id: string): ToolCallPart => ({
  type: 'tool-call',
  id,
  name: 'weather',
  kind: 'function',
  arguments: '',
});
const stop = { reason: 'stop', raw: 'stop' } as const;
const types = (builder: ChatEventBuilder) => builder.take().map(({ type }) => type);

describe('a stream of chat events is well-formed whatever the wire says', () => {
  test('a second start is ignored, and a stream without one gets one', () => {
    const builder = new ChatEventBuilder();
    builder.start({ id: 'a', model: 'm' });
    builder.start({ id: 'b', model: 'n' });
    const events = builder.take();
    assert.equal(events.length, 1);
    assert.deepEqual([events[0]?.type === 'start' && events[0].id], ['a']);
    const bare = new ChatEventBuilder();
    bare.text(0, bare.flow(0, 'text'), 'hi');
    assert.deepEqual(types(bare), ['start', 'part-start', 'text-delta']);
  });

  test('text after reasoning ends the reasoning; calls stay open beside text', () => {
    const builder = new ChatEventBuilder();
    builder.reasoning(0, builder.flow(0, 'reasoning'), 'hm');
    builder.text(0, builder.flow(0, 'text'), 'a');
    builder.open(0, 'call:0', call('x'));
    builder.text(0, builder.flow(0, 'text'), 'b');
    builder.arguments(0, 'call:0', '{}');
    const events = builder.take();
    assert.deepEqual(
      events.map((event) => ('part' in event ? `${event.type}:${event.part}` : event.type)),
      [
        ...['start', 'part-start:0', 'reasoning-delta:0', 'part-end:0', 'part-start:1', 'text-delta:1'],
        ...['part-start:2', 'text-delta:1', 'arguments-delta:2'],
      ],
    );
  });

  test('a function call without arguments gets an empty object, a custom one nothing', () => {
    const builder = new ChatEventBuilder();
    builder.open(0, 'a', call('a'));
    builder.open(0, 'b', { ...call('b'), kind: 'custom' });
    builder.open(0, 'c', call('c'));
    builder.arguments(0, 'c', '{"x":1}');
    builder.finish(0, { reason: 'tool-calls', raw: 'tool_use' });
    const written = builder
      .take()
      .flatMap((event) => (event.type === 'arguments-delta' ? [[event.part, event.text]] : []));
    assert.deepEqual(written, [
      [2, '{"x":1}'],
      [0, '{}'],
    ]);
  });

  test('a part that has ended takes no late delta and is not begun again', () => {
    const builder = new ChatEventBuilder();
    builder.open(0, 'k', { type: 'text', text: '' });
    builder.close(0, 'k');
    builder.open(0, 'k', { type: 'text', text: '' });
    builder.text(0, 'k', 'late');
    assert.deepEqual(types(builder), ['start', 'part-start', 'part-end']);
  });

  test('everything open ends before its choice; only the first finish counts', () => {
    const builder = new ChatEventBuilder();
    builder.open(1, 'k', { type: 'text', text: '' });
    builder.finish(1, stop);
    builder.finish(1, { reason: 'length', raw: 'length' });
    builder.complete();
    assert.deepEqual(types(builder), ['start', 'part-start', 'part-end', 'finish', 'end']);
    assert.equal(builder.ended, true);
  });

  test('a choice that began and never finished was torn: an error instead of an end, and nothing after it', () => {
    const builder = new ChatEventBuilder();
    builder.text(0, builder.flow(0, 'text'), 'half');
    builder.complete();
    builder.usage({
      promptTokens: 1,
      completionTokens: 1,
      totalTokens: 2,
      cachedTokens: 0,
      cacheWriteTokens: 0,
      reasoningTokens: 0,
      inputAudioTokens: 0,
      outputAudioTokens: 0,
    });
    const events = builder.take();
    assert.deepEqual(events.at(-1), { type: 'error', error: cutShort });
  });

  test('a stream that brought nothing at all was cut short, too', () => {
    const builder = new ChatEventBuilder();
    builder.complete();
    assert.deepEqual(types(builder), ['error']);
  });
});
