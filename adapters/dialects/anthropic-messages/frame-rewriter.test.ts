import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import type { JsonObject } from '../json-reading.ts';
import { recorded, streamOf } from './chat-setting.test-support.ts';
import { createFrameReader } from './frame-events.ts';
import { anthropicMessages } from './index.ts';
import { MessageFrameRewriter } from './frame-rewriter.ts';

function read(bytes: Uint8Array): readonly StreamFrame[] {
  const reader = createFrameReader();
  return [...reader.push(bytes), ...reader.finish()];
}

/** A recorded stream up to the frame whose JSON holds `needle`, and what is written instead of that frame. */
function rewritten(
  name: string,
  needle: string,
  change: (own: readonly StreamEvent[]) => readonly StreamEvent[],
): readonly JsonObject[] {
  const rewriter = new MessageFrameRewriter();
  for (const frame of read(streamOf(recorded(name)))) {
    if (!Buffer.from(frame.bytes).includes(needle)) rewriter.write(frame, frame.events);
    else return jsonOf(rewriter.write(frame, change(frame.events)));
  }
  assert.fail(needle);
}

/** What a recorded stream becomes when each event becomes others, and `late` comes at the end. */
function through(
  bytes: Uint8Array,
  change: (event: StreamEvent) => readonly StreamEvent[],
  late: () => readonly StreamEvent[] = () => [],
): readonly StreamFrame[] {
  const rewriter = new MessageFrameRewriter();
  const out: StreamFrame[] = [];
  for (const frame of read(bytes)) {
    if (frame.events[0]?.type === 'done') out.push(...rewriter.late(late()));
    out.push(...rewriter.write(frame, frame.events.flatMap(change)));
  }
  // Each frame that leaves says what its events say: the next tap sees those.
  const again = read(Buffer.concat(out.map((frame) => frame.bytes)));
  assert.deepEqual(
    again.map(({ events }) => events),
    out.map(({ events }) => events),
  );
  return out;
}

function jsonOf(frames: readonly StreamFrame[]): readonly JsonObject[] {
  return frames.flatMap(({ bytes }) =>
    Buffer.from(bytes)
      .toString()
      .split('\n')
      .filter((line) => line.startsWith('data: '))
      .map((line) => JSON.parse(line.slice(6)) as JsonObject),
  );
}

/** `content_block_delta 0`. */
const brief = (frames: readonly JsonObject[]): readonly string[] =>
  frames.map(({ type, index }) => `${String(type)}${typeof index === 'number' ? ` ${index}` : ''}`);

const fixture = (file: string): Buffer =>
  readFileSync(new URL(`../../../tests/fixtures/wire/anthropic-messages/${file}`, import.meta.url));
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
  assert.deepEqual(rewritten('parallel-calls', 'Two of them', () => [said('One'), said('.')]).slice(-1), [
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'One.' } },
  ]);
  assert.deepEqual(
    rewritten('parallel-calls', 'Two of them', () => []),
    [],
  );
});

test('text that comes late stands before the end of its block', () => {
  const [delta, stop] = rewritten('parallel-calls', '"content_block_stop","index":0', () => [
    said(' Late.'),
    opaque,
  ]);
  assert.deepEqual(delta, {
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'text_delta', text: ' Late.' },
  });
  // Its end waits for more.
  assert.equal(stop, undefined);
});

const holdTexts =
  (held: StreamEvent[]) =>
  (event: StreamEvent): readonly StreamEvent[] => {
    if (event.type !== 'text-delta') return [event];
    held.push(event);
    return [];
  };

test('text that is held to the end is the block that it was, when nothing follows it', () => {
  for (const name of ['text.sse', 'grid-text.events'] as const) {
    const bytes = name.endsWith('.sse') ? fixture(name) : streamOf(recorded('grid-text'));
    const held: StreamEvent[] = [];
    const out = through(bytes, holdTexts(held), () => held);
    const { frames } = anthropicMessages;
    assert.ok(frames !== undefined);
    const sum = (list: readonly StreamFrame[]): unknown =>
      JSON.parse(Buffer.from(frames.assemble('messages', list)).toString());
    assert.deepEqual(sum(out), sum(read(bytes)));
  }
});

test('held text whose block is over is a block of its own behind the others, before the reason for the end', () => {
  const held: StreamEvent[] = [];
  const out = jsonOf(through(streamOf(recorded('parallel-calls')), holdTexts(held), () => held));
  assert.deepEqual(brief(out).slice(-5), [
    ...[
      'content_block_start 3',
      'content_block_delta 3',
      'content_block_stop 3',
      'message_delta',
      'message_stop',
    ],
  ]);
  const starts = out.filter(({ type }) => type === 'content_block_start');
  assert.deepEqual(
    starts.map(({ index, content_block: block }) => [index, (block as JsonObject).type]),
    [0, 1, 2, 3].map((index) => [index, index === 3 ? 'text' : 'tool_use']),
  );
});

test('text between two blocks moves the numbers of those behind it', () => {
  let late = true;
  const out = jsonOf(
    through(streamOf(recorded('parallel-calls')), (event) => {
      const isThird = event.type === 'tool-arguments-delta' && event.name === 'third';
      const added = isThird && late;
      if (added) late = false;
      return added ? [said('Between.'), event] : [event];
    }),
  );
  const starts = out.filter(({ type }) => type === 'content_block_start');
  assert.deepEqual(
    starts.map(({ index, content_block: block }) => [index, (block as JsonObject).name ?? 'text']),
    [
      [0, 'text'],
      [1, 'first'],
      [2, 'second'],
      [3, 'text'],
      [4, 'third'],
    ],
  );
  assert.deepEqual(brief(out).slice(-3), ['content_block_stop 4', 'message_delta', 'message_stop']);
});

test('text that comes while a call is told waits for its end', () => {
  let late = true;
  const out = through(streamOf(recorded('parallel-calls')), (event) => {
    const isFirst = event.type === 'tool-arguments-delta' && event.text.includes('qu');
    const added = isFirst && late;
    if (added) late = false;
    return added ? [event, said('Waits.')] : [event];
  });
  const at = brief(jsonOf(out)).indexOf('content_block_stop 1');
  assert.deepEqual(brief(jsonOf(out)).slice(at, at + 5), [
    ...['content_block_stop 1', 'content_block_start 2', 'content_block_delta 2', 'content_block_stop 2'],
    'content_block_start 3',
  ]);
});

test('a call that may not be told is gone with all its frames, and the others move up', () => {
  const out = jsonOf(
    through(streamOf(recorded('parallel-calls')), (event) =>
      event.type === 'tool-arguments-delta' && event.call === 1 ? [] : [event],
    ),
  );
  const starts = out.filter(({ type }) => type === 'content_block_start');
  assert.deepEqual(
    starts.map(({ index, content_block: block }) => [index, (block as JsonObject).name ?? 'text']),
    [
      [0, 'text'],
      [1, 'second'],
      [2, 'third'],
    ],
  );
  assert.doesNotMatch(JSON.stringify(out), /quote|toolu_a/);
});

test('calls that are held to the end are told there whole', () => {
  const held: StreamEvent[] = [];
  const out = through(
    streamOf(recorded('parallel-calls')),
    (event) => {
      if (event.type !== 'tool-arguments-delta') return [event];
      held.push(event);
      return [];
    },
    () => held,
  );
  const { frames } = anthropicMessages;
  const sum = (list: readonly StreamFrame[]): unknown =>
    (JSON.parse(Buffer.from(frames?.assemble('messages', list) ?? '').toString()) as JsonObject).content;
  assert.deepEqual(sum(out), sum(read(streamOf(recorded('parallel-calls')))));
});

test('what proves changed thoughts is taken out with them', () => {
  const bytes = streamOf(recorded('grid-reasoning'));
  assert.match(bytes.toString(), /signature_delta/);
  const out = jsonOf(
    through(bytes, (event) => [event.type === 'reasoning-delta' ? { ...event, text: '#' } : event]),
  );
  assert.doesNotMatch(JSON.stringify(out), /signature_delta/);
});

test('a tap that says the same in other objects changes no byte', () => {
  for (const name of ['parallel-calls', 'server-tools', 'prepopulated', 'grid-citations', 'grid-reasoning']) {
    const bytes = streamOf(recorded(name));
    const out = through(bytes, (event) => [
      event.type === 'opaque' || event.type === 'done' ? event : { ...event },
    ]);
    assert.equal(Buffer.concat(out.map((frame) => frame.bytes)).toString(), bytes.toString(), name);
  }
});

test('text with which a message begins is judged and replaced, too', () => {
  const start = '{"type":"message_start","message":{"id":"m","content":[{"type":"text","text":"secret"}]}}';
  const out = jsonOf(
    through(streamOf([start, '{"type":"message_stop"}']), (event) =>
      event.type === 'text-delta' ? [{ ...event, text: '###' }] : [event],
    ),
  );
  assert.deepEqual(out[0], {
    type: 'message_start',
    message: { id: 'm', content: [{ type: 'text', text: '###' }] },
  });
});

test('a call is renamed and gets other input', () => {
  const [start] = rewritten('parallel-calls', '"third"', ([event]) => {
    assert.ok(event?.type === 'tool-arguments-delta');
    return [{ ...event, name: 'other', text: '{"b":2}' }];
  });
  assert.deepEqual(start, {
    type: 'content_block_start',
    index: 3,
    content_block: { type: 'tool_use', id: 'toolu_c', name: 'other', input: { b: 2 } },
  });
});

test('another reason, another usage, an error', () => {
  const out = jsonOf(
    through(streamOf(recorded('parallel-calls')), (event) => {
      if (event.type === 'finish') return [{ ...event, reason: 'refusal' }];
      if (event.type === 'usage')
        return [{ ...event, usage: { ...event.usage, completionTokens: 1, totalTokens: 21 } }];
      return [event];
    }),
  );
  assert.deepEqual(out.at(-2), {
    type: 'message_delta',
    delta: { stop_reason: 'refusal', stop_sequence: null },
    usage: { input_tokens: 20, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 1 },
  });
  const error: StreamEvent = { type: 'error', message: 'No.', code: '' };
  assert.deepEqual(
    rewritten('parallel-calls', 'message_stop', () => [error]),
    [{ type: 'error', error: { type: 'api_error', message: 'No.' } }],
  );
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
    { type: 'tool_use', id: 'toolu_a', name: 'first', input: { q: 'a "quote"' }, caller: { type: 'direct' } },
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
    promptTokens: 3,
    completionTokens: 2,
    totalTokens: 5,
    cachedTokens: 1,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
  };
  const answer = frames.assemble('messages', read(streamOf([start])), usage);
  assert.deepEqual((JSON.parse(Buffer.from(answer).toString()) as JsonObject).usage, {
    input_tokens: 2,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 1,
    output_tokens: 2,
  });
  const torn = read(streamOf([start, '{"type":"content_bl']));
  assert.equal(torn[1]?.unread, true);
  assert.throws(() => frames.assemble('messages', torn), { code: 'upstream_invalid' });
  assert.throws(() => frames.disassemble('messages', Buffer.from('[]')), { code: 'upstream_invalid' });
});
