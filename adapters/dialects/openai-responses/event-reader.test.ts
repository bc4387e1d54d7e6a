import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import { collectAnswer } from '../../../core/dialects/canonical/collect-answer.ts';
import type { JsonObject } from '../json-reading.ts';
import { readEvents, streamOf } from './responses.test-support.ts';

const created = {
  type: 'response.created',
  response: { id: 'resp_1', model: 'sea-1', created_at: 7, status: 'in_progress' },
};

function completed(output: readonly JsonObject[] = [], others: JsonObject = {}): JsonObject {
  return {
    type: 'response.completed',
    response: { id: 'resp_1', model: 'sea-1', status: 'completed', output, ...others },
  };
}

function partsOf(...events: readonly JsonObject[]): readonly ChatPart[] {
  const read = readEvents(streamOf([created, ...events]));
  assert.equal(read.at(-1)?.type, 'end', JSON.stringify(read.at(-1)));
  return collectAnswer(read).choices[0]?.parts ?? [];
}

const message = (text: string, id = 'msg_1'): JsonObject => ({
  type: 'message',
  id,
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [] }],
});
const call = (args: string, id = 'fc_1'): JsonObject => ({
  type: 'function_call',
  id,
  call_id: 'call_1',
  name: 'find',
  arguments: args,
});
const read = { type: 'tool-call', id: 'call_1', name: 'find', kind: 'function', itemId: 'fc_1' };

describe('each character is said once, whichever events bring it', () => {
  const hello: ChatPart[] = [{ type: 'text', text: 'Hello' }];
  const delta = (text: string): JsonObject => ({
    type: 'response.output_text.delta',
    output_index: 0,
    content_index: 0,
    item_id: 'msg_1',
    delta: text,
  });
  const itemDone = (item: JsonObject, output_index = 0): JsonObject => ({
    type: 'response.output_item.done',
    output_index,
    item,
  });
  const added = (item: JsonObject, output_index = 0): JsonObject => ({
    type: 'response.output_item.added',
    output_index,
    item,
  });
  const textDone = { type: 'response.output_text.done', output_index: 0, content_index: 0, text: 'Hello' };

  const texts: Record<string, readonly JsonObject[]> = {
    'deltas alone': [delta('Hel'), delta('lo'), completed()],
    everything: [
      delta('Hel'),
      delta('lo'),
      textDone,
      itemDone(message('Hello')),
      completed([message('Hello')]),
    ],
    'only the finished item': [itemDone(message('Hello')), completed()],
    'only the final response': [completed([message('Hello')])],
    'a delta and the rest in the finished text': [delta('He'), textDone, completed([message('Hello')])],
    'ids that change with every event': [
      delta('Hello'),
      itemDone(message('Hello', 'msg_2')),
      completed([message('Hello', 'msg_3')]),
    ],
    'a start twice': [
      created,
      added({ ...message(''), content: [] }),
      delta('Hello'),
      created,
      completed([message('Hello')]),
    ],
    'an item twice': [
      added(message('')),
      added(message('')),
      delta('Hello'),
      itemDone(message('Hello')),
      itemDone(message('Hello')),
      completed(),
    ],
  };
  for (const [name, events] of Object.entries(texts)) {
    test(`text: ${name}`, () => assert.deepEqual(partsOf(...events), hello));
  }

  const argumentsDelta = (text: string): JsonObject => ({
    type: 'response.function_call_arguments.delta',
    output_index: 0,
    delta: text,
  });
  const calls: Record<string, readonly JsonObject[]> = {
    'deltas and all repeats': [
      added(call('')),
      argumentsDelta('{"a"'),
      argumentsDelta(':1}'),
      { type: 'response.function_call_arguments.done', output_index: 0, arguments: '{"a":1}' },
      itemDone(call('{"a":1}')),
      completed([call('{"a":1}')]),
    ],
    'whole in the first event': [added(call('{"a":1}')), completed()],
    'whole in the first event and in deltas': [
      added(call('{"a":1}')),
      argumentsDelta('{"a":1}'),
      itemDone(call('{"a":1}')),
      completed(),
    ],
    'only the finished item': [itemDone(call('{"a":1}')), completed()],
    'an object instead of its text': [completed([{ ...call(''), arguments: { a: 1 } }])],
  };
  for (const [name, events] of Object.entries(calls)) {
    test(`arguments: ${name}`, () =>
      assert.deepEqual(partsOf(...events), [{ ...read, arguments: '{"a":1}' }]));
  }

  test('a call without arguments has an empty object', () => {
    assert.deepEqual(partsOf(added(call('')), itemDone(call('')), completed()), [
      { ...read, arguments: '{}' },
    ]);
  });

  test('two items under one index are two', () => {
    assert.deepEqual(partsOf(itemDone(message('A', 'msg_1')), itemDone(message('B', 'msg_2')), completed()), [
      { type: 'text', text: 'A' },
      { type: 'text', text: 'B' },
    ]);
  });

  test('a call of a tool that the provider runs itself is no call for the client', () => {
    const item = { type: 'custom_tool_call', id: 'ctc_1', call_id: 'xs_1', name: 'x_search', input: 'q' };
    const events = readEvents(
      streamOf([
        { ...created, response: { ...created.response, tools: [{ type: 'x_search' }] } },
        added({ ...item, input: '' }),
        { type: 'response.custom_tool_call_input.delta', output_index: 0, delta: 'q' },
        itemDone(item),
        completed([item]),
      ]),
    );
    const { choices } = collectAnswer(events);
    assert.deepEqual(choices[0]?.parts, [
      {
        type: 'provider-tool',
        dialect: 'openai-responses',
        phase: 'call',
        id: 'ctc_1',
        name: 'x_search',
        value: item,
      },
    ]);
    assert.equal(choices[0]?.finish.reason, 'stop');
  });
});

test('a summary in several parts is one thought; its proof is that of the finished item', () => {
  const summary = (type: string, summary_index: number, text: string): JsonObject => ({
    type: `response.reasoning_summary_text.${type}`,
    output_index: 0,
    summary_index,
    [type === 'delta' ? 'delta' : 'text']: text,
  });
  const item = {
    type: 'reasoning',
    id: 'rs_1',
    summary: [{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }],
  };
  const parts = partsOf(
    {
      type: 'response.output_item.added',
      output_index: 0,
      item: { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'partial' },
    },
    summary('delta', 0, 'On'),
    summary('delta', 0, 'e.'),
    summary('done', 0, 'One.'),
    summary('done', 1, 'Two.'),
    { type: 'response.output_item.done', output_index: 0, item: { ...item, encrypted_content: 'proof' } },
    completed([{ ...item, encrypted_content: 'proof' }]),
  );
  assert.deepEqual(parts, [
    { type: 'reasoning', text: 'One.\n\nTwo.\n\nThree.', summary: true, itemId: 'rs_1', signature: 'proof' },
  ]);
});

test('thoughts that a model shows are no summary', () => {
  const parts = partsOf(
    {
      type: 'response.reasoning_text.delta',
      output_index: 0,
      content_index: 0,
      item_id: 'rs_1',
      delta: 'Hm.',
    },
    completed([
      { type: 'reasoning', id: 'rs_1', content: [{ type: 'reasoning_text', text: 'Hm.' }], summary: [] },
    ]),
  );
  assert.deepEqual(parts, [{ type: 'reasoning', text: 'Hm.', itemId: 'rs_1' }]);
});

test('pictures, tools of the provider and what nobody else knows come whole', () => {
  const picture = {
    type: 'image_generation_call',
    id: 'ig_1',
    status: 'completed',
    output_format: 'webp',
    result: 'AAAA',
  };
  const code = { type: 'code_interpreter_call', id: 'ci_1', code: '1', outputs: [] };
  const mcp = { type: 'mcp_call', id: 'mcp_1', name: 'look', arguments: '{}', output: 'x' };
  const compaction = { type: 'compaction', id: 'cmp_1', encrypted_content: 'e' };
  const parts = partsOf(completed([picture, code, mcp, compaction]));
  assert.deepEqual(
    parts.map((part) => [part.type, 'name' in part ? part.name : '']),
    [
      ['image', ''],
      ['provider-tool', 'code_interpreter'],
      ['provider-tool', 'look'],
      ['opaque', ''],
    ],
  );
  const [image] = parts;
  assert.ok(image?.type === 'image');
  assert.deepEqual(image.source, { kind: 'base64', mediaType: 'image/webp', data: 'AAAA' });
});

describe('how a stream ends', () => {
  const last = (...events: readonly JsonObject[]): unknown => readEvents(streamOf(events)).at(-1);
  const cases: Record<string, readonly [readonly JsonObject[], JsonObject]> = {
    'an error event with an error object': [
      [
        created,
        { type: 'error', error: { type: 'insufficient_quota', code: 'insufficient_quota', message: 'No.' } },
      ],
      { status: 429, message: 'No.', type: 'insufficient_quota', code: 'insufficient_quota' },
    ],
    'a flat error event': [
      [created, { type: 'error', code: 'server_error', message: 'Oh.', param: null }],
      { status: 500, message: 'Oh.', code: 'server_error' },
    ],
    'a failed response': [
      [
        created,
        {
          type: 'response.failed',
          response: { status: 'failed', error: { code: 'rate_limit_exceeded', message: 'Slow.' } },
        },
      ],
      { status: 429, message: 'Slow.', code: 'rate_limit_exceeded' },
    ],
    'a failed response whose code this wire alone has': [
      [{ type: 'response.failed', response: { error: { code: 'invalid_prompt', message: 'Bad.' } } }],
      { status: 400, message: 'Bad.', code: 'invalid_prompt' },
    ],
  };
  for (const [name, [events, error]] of Object.entries(cases)) {
    test(name, () => assert.deepEqual(last(...events), { type: 'error', error }));
  }

  test('without its final response it is torn, even between two items', () => {
    const end = last(created, { type: 'response.output_item.done', output_index: 0, item: message('A') });
    assert.equal((end as { type: string }).type, 'error');
    assert.equal((last(created) as { type: string }).type, 'error');
  });

  test('incomplete responses say why, and usage comes in full', () => {
    const response = {
      status: 'incomplete',
      incomplete_details: { reason: 'content_filter' },
      output: [],
      usage: {
        input_tokens: 10,
        input_tokens_details: { cached_tokens: 4, cache_write_tokens: 2 },
        output_tokens: 5,
        output_tokens_details: { reasoning_tokens: 3 },
        total_tokens: 15,
      },
    };
    const answer = collectAnswer(readEvents(streamOf([created, { type: 'response.incomplete', response }])));
    assert.deepEqual(answer.choices[0]?.finish, { reason: 'content-filter', raw: 'content_filter' });
    const { promptTokens, completionTokens, cachedTokens, cacheWriteTokens, reasoningTokens } =
      answer.usage ?? {};
    assert.deepEqual(
      [promptTokens, completionTokens, cachedTokens, cacheWriteTokens, reasoningTokens],
      [10, 5, 4, 2, 3],
    );
  });

  test('a whole response where a stream was asked for is read as one', () => {
    const events = readEvents(
      Buffer.from(JSON.stringify({ object: 'response', status: 'completed', output: [message('A')] })),
    );
    assert.equal(events.at(-1)?.type, 'end');
  });
});

test('where the bytes are cut makes no difference', () => {
  for (const file of ['text.sse', 'incomplete.sse', 'failed.sse', 'mixed.sse']) {
    const bytes = readFileSync(
      new URL(`../../../tests/fixtures/wire/openai-responses/${file}`, import.meta.url),
    );
    const whole = readEvents(bytes);
    for (let at = 1; at < bytes.length; at++) {
      assert.deepEqual(readEvents(bytes.subarray(0, at), bytes.subarray(at)), whole, `${file} cut at ${at}`);
    }
  }
});
