import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { collectAnswer } from '../../../core/dialects/canonical/collect-answer.ts';
import { everySplit } from '../../framing/split-bytes.test-support.ts';
import type { JsonObject } from '../json-reading.ts';
import { asStream, baseRequest, decodeContext, fixture, readStream } from './cohere.test-support.ts';
import { cohereV2Provider } from './index.ts';

const start = { id: 'm', type: 'message-start', delta: { message: { role: 'assistant' } } };
const end = (finish_reason = 'COMPLETE', more: JsonObject = {}) => ({
  type: 'message-end',
  delta: { finish_reason, ...more },
});
const content = (type: string, index: number, block: JsonObject) => ({
  type: `content-${type}`,
  index,
  delta: { message: { content: block } },
});
const call = (type: string, index: number | undefined, block: JsonObject) => ({
  type: `tool-call-${type}`,
  ...(index !== undefined && { index }),
  delta: { message: { tool_calls: block } },
});

function read(...events: readonly object[]) {
  return readStream(asStream(events.map((event) => JSON.stringify(event)).join('\n')));
}
const partsOf = (...events: readonly object[]) => collectAnswer(read(...events)).choices[0]?.parts;

describe('a stream of Cohere', () => {
  it('tells thoughts, text and citations', () => {
    const events = readStream(asStream(fixture('reasoning-citations.chunks.txt')));
    assert.deepEqual(events.at(-1), { type: 'end' });
    const { choices, usage, extras, id } = collectAnswer(events);
    assert.equal(id, '5b1c2f0e-0a3e-4d0f-9d57-1f7a4f2f9a01');
    const [thought, text] = choices[0]?.parts ?? [];
    assert.deepEqual(thought, { type: 'reasoning', text: 'The note names the river.' });
    assert.ok(text?.type === 'text');
    assert.equal(text.text, '🐟 The weir lies in the Lahn.');
    const { raw, ...citation } = text.citations?.[0] ?? { kind: 'file' };
    assert.deepEqual(citation, {
      kind: 'document',
      title: 'weirs.txt',
      quote: 'The weir in the Lahn was built in 1902.',
      document: 0,
      start: 24,
      end: 28,
    });
    assert.equal(text.text.slice(24, 28), 'Lahn');
    assert.equal(raw?.value.content_index, 1);
    assert.deepEqual(choices[0]?.finish, { reason: 'stop', raw: 'COMPLETE' });
    assert.deepEqual([usage?.promptTokens, usage?.completionTokens, usage?.cachedTokens], [902, 41, 640]);
    const own = extras?.['cohere-v2'];
    assert.deepEqual(own?.billed_units, { input_tokens: 31, output_tokens: 22 });
    assert.equal((own.citations as JsonObject[])[0]?.type, 'THINKING_CONTENT');
  });

  it('tells a plan and complete arguments', () => {
    const { choices } = collectAnswer(readStream(asStream(fixture('tool-calls.chunks.txt'))));
    const tool = { type: 'tool-call', kind: 'function' };
    assert.deepEqual(choices[0]?.parts, [
      { type: 'reasoning', text: 'I will read the gauge.', extras: { 'cohere-v2': { tool_plan: true } } },
      { ...tool, id: 'gauge_a1b2c3d4e5f6', name: 'gauge', arguments: '{"place": "Weilburg — Süd"}' },
      { ...tool, id: 'now_g7h8i9j0k1l2', name: 'now', arguments: '{}' },
      { ...tool, id: 'now_m3n4o5p6q7r8', name: 'now', arguments: '{}' },
    ]);
    assert.deepEqual(choices[0].finish, { reason: 'tool-calls', raw: 'TOOL_CALL' });
  });

  for (const name of ['reasoning-citations.chunks.txt', 'tool-calls.chunks.txt']) {
    it(`says the same wherever it is cut: ${name}`, () => {
      const bytes = asStream(fixture(name));
      const expected = readStream(bytes);
      for (const chunks of everySplit(bytes)) assert.deepEqual(readStream(...chunks), expected);
    });
  }

  it('ends with its own word, also without [DONE] and only once', () => {
    const reader = cohereV2Provider.eventReader('text/event-stream', decodeContext());
    const frames = [start, content('start', 0, { type: 'text', text: 'a' }), end(), end('ERROR'), start];
    const events = reader.push(
      Buffer.from(frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join('')),
    );
    assert.deepEqual(events.at(-1), { type: 'end' });
    assert.deepEqual(reader.finish(), []);
  });

  const torn = [[], [start], [start, content('start', 0, { type: 'text', text: '' })]];
  for (const events of torn) {
    it(`is torn after ${events.length} events`, () => {
      const last = read(...events).at(-1);
      assert.ok(last?.type === 'error');
      assert.deepEqual([last.error.status, last.error.type], [502, 'upstream_error']);
    });
  }

  it('survives repeated starts, late deltas and unknown events', () => {
    const parts = partsOf(
      start,
      content('start', 0, { type: 'text', text: '' }),
      start,
      content('start', 0, { type: 'text', text: '' }),
      content('delta', 0, { text: 'a' }),
      { type: 'debug', prompt: 'x' },
      { type: 'ping' },
      { type: 'content-end', index: 0 },
      call('start', 0, { id: 'c', function: { name: 'f', arguments: '' } }),
      call('start', 0, { id: 'c', function: { name: 'f', arguments: '{"x"' } }),
      content('delta', 0, { text: 'late' }),
      call('delta', 0, { function: { arguments: '{"a":1}' } }),
      { type: 'tool-call-end', index: 0 },
      call('delta', 0, { function: { arguments: '}' } }),
      end(),
    );
    assert.deepEqual(parts, [
      { type: 'text', text: 'a' },
      { type: 'tool-call', kind: 'function', id: 'c', name: 'f', arguments: '{"a":1}' },
    ]);
  });

  it('needs neither starts nor indexes nor ids', () => {
    const parts = partsOf(
      { type: 'content-delta', delta: { message: { content: { thinking: 'h' } } } },
      content('delta', 1, { text: 'b' }),
      call('start', undefined, { function: { name: 'f', arguments: { a: 1 } } }),
      call('start', undefined, { function: { name: 'g' } }),
      call('delta', undefined, { function: { arguments: '{}' } }),
      end('TOOL_CALL'),
    );
    assert.deepEqual(parts, [
      { type: 'reasoning', text: 'h' },
      { type: 'text', text: 'b' },
      { type: 'tool-call', kind: 'function', id: 'call_0', name: 'f', arguments: '{"a":1}' },
      { type: 'tool-call', kind: 'function', id: 'call_1', name: 'g', arguments: '{}' },
    ]);
  });

  const inputs = [
    ['{"input":"ls -l"}', 'ls -l'],
    ['{"other":1}', '{"other":1}'],
    ['null', ''],
  ] as const;
  for (const [given, input] of inputs) {
    it(`gives back the input of a custom tool: ${given}`, () => {
      const context = decodeContext({ ...baseRequest, tools: [{ type: 'custom', name: 'sh' }] });
      const reader = cohereV2Provider.eventReader('text/event-stream', context);
      const lines = [
        call('start', 0, { id: 'c', function: { name: 'sh', arguments: '' } }),
        ...Array.from(given, (one) => call('delta', 0, { function: { arguments: one } })),
        end('TOOL_CALL'),
      ].map((event) => JSON.stringify(event));
      const events = [...reader.push(asStream(lines.join('\n'))), ...reader.finish()];
      const expected = { type: 'tool-call', kind: 'custom', id: 'c', name: 'sh', arguments: input };
      assert.deepEqual(collectAnswer(events).choices[0]?.parts, [expected]);
      const tool_calls = [{ id: 'c', function: { name: 'sh', arguments: given } }];
      const whole = cohereV2Provider.decodeAnswer(
        Buffer.from(JSON.stringify({ message: { tool_calls } })),
        context,
      );
      assert.deepEqual(whole.choices[0]?.parts, [expected]);
    });
  }

  it('takes two calls of one index for two', () => {
    const parts = partsOf(
      start,
      call('start', 0, { id: 'a', function: { name: 'f', arguments: '' } }),
      call('delta', 0, { function: { arguments: '{"n":1}' } }),
      call('start', 0, { id: 'b', function: { name: 'f', arguments: '' } }),
      call('delta', 0, { function: { arguments: '{"n":2}' } }),
      end(),
    );
    assert.deepEqual(
      parts?.map((part) => part.type === 'tool-call' && part.arguments),
      ['{"n":1}', '{"n":2}'],
    );
  });

  it('tells log probabilities with their text', () => {
    const delta = content('delta', 0, { text: 'Hi' });
    const answer = collectAnswer(
      read(start, { ...delta, logprobs: { text: 'Hi', token_ids: [1], logprobs: [-0.5] } }, end()),
    );
    assert.deepEqual(answer.choices[0]?.logprobs, [{ token: 'Hi', logprob: -0.5, top: [] }]);
  });

  it('keeps blocks that are not known, and citations of a text that is over', () => {
    const block = { type: 'hologram', data: 1 };
    const citation = { start: 0, end: 1, text: 'a', content_index: 0, sources: [] };
    const answer = collectAnswer(
      read(
        start,
        content('start', 0, { type: 'text', text: 'a' }),
        content('start', 1, block),
        { type: 'citation-start', index: 0, delta: { message: { citations: citation } } },
        end(),
      ),
    );
    assert.deepEqual(answer.choices[0]?.parts, [
      { type: 'text', text: 'a' },
      { type: 'opaque', dialect: 'cohere-v2', value: block },
    ]);
    assert.deepEqual(answer.extras, { 'cohere-v2': { citations: [citation] } });
  });

  const failures: readonly (readonly [object, object])[] = [
    [end('ERROR', { error: 'ran out of luck' }), { status: 500, message: 'ran out of luck', type: 'ERROR' }],
    [
      end('TIMEOUT'),
      { status: 504, message: 'The provider ended its answer with TIMEOUT.', type: 'TIMEOUT' },
    ],
    [
      { message: 'too many requests', status_code: 429 },
      { status: 429, message: 'too many requests' },
    ],
    [
      { type: 'error', error: { message: 'no', type: 'odd' } },
      { status: 502, message: 'no', type: 'odd' },
    ],
  ];
  for (const [event, error] of failures) {
    it(`fails with ${JSON.stringify(event)}`, () => {
      const events = read(start, content('delta', 0, { text: 'a' }), event, end());
      assert.deepEqual(events.at(-1), { type: 'error', error });
    });
  }

  it('fails when an event cannot be read', () => {
    const events = readStream(Buffer.from('data: {"type":"message-st\n\n'));
    assert.deepEqual(
      events.map(({ type }) => type),
      ['error'],
    );
  });
});

describe('a stream and a whole answer of Cohere', () => {
  const piece = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 });
  const block = fc.record({
    type: fc.constantFrom('text', 'thinking'),
    pieces: fc.array(piece, { minLength: 1 }),
  });
  const tool = fc.record({
    id: fc.uuid(),
    value: fc.oneof(fc.constant(null), fc.dictionary(piece, fc.jsonValue())),
  });
  const finish = fc.constantFrom('COMPLETE', 'MAX_TOKENS', 'TOOL_CALL');

  it('mean the same', () => {
    fc.assert(
      fc.property(fc.array(block), fc.array(tool), finish, (blocks, tools, finish_reason) => {
        const whole = {
          id: 'm',
          message: {
            content: blocks.map(({ type, pieces }) => ({ type, [type]: pieces.join('') })),
            tool_calls: tools.map(({ id, value }) => ({
              id,
              function: { name: 'f', arguments: JSON.stringify(value) },
            })),
          },
          finish_reason,
        };
        const streamed = blocks.flatMap(({ type, pieces }, index) => [
          content('start', index, { type, [type]: '' }),
          ...pieces.map((one) => content('delta', index, { [type]: one })),
          { type: 'content-end', index },
        ]);
        const called = tools.flatMap(({ id, value }, index) => [
          call('start', index, { id, function: { name: 'f', arguments: '' } }),
          ...Array.from(JSON.stringify(value), (one) =>
            call('delta', index, { function: { arguments: one } }),
          ),
          { type: 'tool-call-end', index },
        ]);
        const answer = cohereV2Provider.decodeAnswer(Buffer.from(JSON.stringify(whole)), decodeContext());
        assert.deepEqual(collectAnswer(read(start, ...streamed, ...called, end(finish_reason))), answer);
      }),
    );
  });
});
