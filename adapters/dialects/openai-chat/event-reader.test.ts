import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { ChatAnswer, ChatChoice } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import { AnswerCollector, collectAnswer } from '../../../core/dialects/canonical/collect-answer.ts';
import { everySplit } from '../../framing/split-bytes.test-support.ts';
import type { JsonObject } from '../json-reading.ts';
import { answerContext, readAll, sse, usageOf } from './codec.test-support.ts';
import { chatAnswer } from './decode-answer.ts';

const fixture = (name: string): Buffer =>
  readFileSync(new URL(`../../../tests/fixtures/wire/openai-chat/${name}`, import.meta.url));

const read = (bytes: Uint8Array): ReturnType<typeof readAll> =>
  readAll(chatAnswer.createEventReader('text/event-stream', answerContext()), [bytes]);

const answers: Readonly<Record<string, ChatAnswer>> = {
  'host-parallel.sse': {
    id: 'chatcmpl-1',
    model: 'river-1',
    createdAt: 1_730_000_000,
    systemFingerprint: 'fp_1',
    choices: [
      {
        index: 0,
        parts: [
          { type: 'reasoning', text: 'Größe?' },
          { type: 'text', text: 'Let me 🌊' },
          { type: 'tool-call', id: 'call_a', name: 'depth', kind: 'function', arguments: '{"river":"Elbe"}' },
          { type: 'tool-call', id: 'call_b', name: 'now', kind: 'function', arguments: '{}' },
        ],
        finish: { reason: 'tool-calls', raw: 'tool_calls' },
        extras: { 'openai-chat': { content_filter_results: { hate: { filtered: false } } } },
      },
    ],
    usage: usageOf(20, 15, { cachedTokens: 4, reasoningTokens: 5 }),
    extras: { 'openai-chat': { prompt_filter_results: [{ prompt_index: 0 }] } },
  },
  'host-thinking-parts.sse': {
    id: 'm1',
    model: 'river-think',
    createdAt: 1_730_000_001,
    choices: [
      {
        index: 0,
        parts: [
          { type: 'reasoning', text: '17 by 3 is 51.' },
          { type: 'text', text: '51' },
        ],
        finish: { reason: 'stop', raw: 'stop' },
      },
    ],
    usage: usageOf(8, 12),
  },
  'host-search.sse': {
    id: 'p1',
    model: 'river-search',
    createdAt: 1_730_000_002,
    choices: [
      {
        index: 0,
        parts: [
          {
            type: 'text',
            text: 'It flows[1]',
            citations: [{ kind: 'url', url: 'https://a.example/1', title: 'One' }],
          },
        ],
        finish: { reason: 'stop', raw: 'stop' },
      },
    ],
    usage: usageOf(3, 2),
    extras: {
      'openai-chat': {
        citations: ['https://a.example/1'],
        search_results: [{ title: 'One', url: 'https://a.example/1' }],
      },
    },
  },
};

for (const [name, expected] of Object.entries(answers)) {
  test(`${name} says the same wherever its bytes are cut`, () => {
    const bytes = fixture(name);
    const whole = read(bytes);
    assert.deepEqual(collectAnswer(whole), expected);
    assert.equal(whole.at(-1)?.type, 'end');
    for (const chunks of everySplit(bytes)) {
      const events = readAll(chatAnswer.createEventReader('text/event-stream', answerContext()), chunks);
      assert.deepEqual(events, whole);
    }
  });
}

const chunk = (delta: JsonObject, finish: string | null = null, more: JsonObject = {}): JsonObject => ({
  id: 'c',
  model: 'river-1',
  choices: [{ index: 0, delta, finish_reason: finish }],
  ...more,
});

const call = (members: JsonObject): JsonObject => chunk({ tool_calls: [members] });

/** The first choice of a stream of these chunks. */
function choiceOf(...chunks: readonly JsonObject[]): ChatChoice {
  const [choice] = collectAnswer(read(sse(...chunks, '[DONE]'))).choices;
  assert.ok(choice !== undefined);
  return choice;
}

const toolCall = (id: string, name: string, text: string): ChatPart => ({
  type: 'tool-call',
  id,
  name,
  kind: 'function',
  arguments: text,
});

test('tool calls are put together however a host delivers them', () => {
  const cases: readonly (readonly [string, readonly JsonObject[], readonly ChatPart[]])[] = [
    [
      'whole, without index, type and id',
      [
        call({ function: { name: 'a', arguments: '{"x":1}' } }),
        call({ function: { name: 'b', arguments: '{}' } }),
      ],
      [toolCall('call_1', 'a', '{"x":1}'), toolCall('call_2', 'b', '{}')],
    ],
    [
      'every call under index 0',
      [
        call({ index: 0, id: 'one', function: { name: 'a', arguments: '{"x":1}' } }),
        call({ index: 0, id: 'two', function: { name: 'a', arguments: '{"x":2}' } }),
      ],
      [toolCall('one', 'a', '{"x":1}'), toolCall('two', 'a', '{"x":2}')],
    ],
    [
      'interleaved',
      [
        call({ index: 0, id: 'one', function: { name: 'a', arguments: '{"x"' } }),
        call({ index: 1, id: 'two', function: { name: 'b', arguments: '{"y"' } }),
        call({ index: 0, function: { arguments: ':1}' } }),
        call({ index: 1, function: { arguments: ':2}' } }),
      ],
      [toolCall('one', 'a', '{"x":1}'), toolCall('two', 'b', '{"y":2}')],
    ],
    [
      'the head repeated with every piece',
      [
        call({ index: 0, id: 'one', function: { name: 'a', arguments: '{"x"' } }),
        call({ index: 0, id: 'one', function: { name: 'a', arguments: ':1}' } }),
      ],
      [toolCall('one', 'a', '{"x":1}')],
    ],
    [
      'arguments repeated in a last event',
      [
        call({ index: 0, id: 'one', function: { name: 'a', arguments: '{"x":' } }),
        call({ index: 0, function: { arguments: '1}' } }),
        call({ index: 0, function: { arguments: '{"x":1}' } }),
      ],
      [toolCall('one', 'a', '{"x":1}')],
    ],
    [
      'a placeholder before the arguments',
      [
        call({ index: 0, id: 'one', function: { name: 'a', arguments: '{}' } }),
        call({ index: 0, function: { arguments: '{"x":1}' } }),
      ],
      [toolCall('one', 'a', '{"x":1}')],
    ],
    [
      'the name after the arguments have begun',
      [
        call({ index: 0, id: 'one', function: { arguments: '{"x":' } }),
        call({ index: 0, function: { name: 'a', arguments: '1}' } }),
      ],
      [toolCall('one', 'a', '{"x":1}')],
    ],
    [
      'arguments as an object, or missing',
      [
        call({ index: 0, id: 'one', function: { name: 'a', arguments: { x: 1 } } }),
        call({ index: 1, id: 'two', function: { name: 'b' } }),
      ],
      [toolCall('one', 'a', '{"x":1}'), toolCall('two', 'b', '{}')],
    ],
    [
      'the legacy form',
      [
        chunk({ function_call: { name: 'a', arguments: '{"x"' } }),
        chunk({ function_call: { arguments: ':1}' } }),
      ],
      [toolCall('call_1', 'a', '{"x":1}')],
    ],
    [
      'free text and a proof of thinking',
      [
        call({ index: 0, id: 'one', type: 'custom', custom: { name: 'sql', input: 'select' } }),
        call({
          index: 0,
          custom: { input: ' 1' },
          extra_content: { google: { thought_signature: 'proof' } },
        }),
      ],
      [
        {
          type: 'tool-call',
          id: 'one',
          name: 'sql',
          kind: 'custom',
          arguments: 'select 1',
          signature: 'proof',
        },
      ],
    ],
  ];
  for (const [name, chunks, expected] of cases) {
    const choice = choiceOf(...chunks, chunk({}, 'tool_calls'));
    assert.deepEqual(choice.parts, expected, name);
    assert.equal(choice.finish.reason, 'tool-calls', name);
  }
});

test('what the hosts say beside text becomes parts of their own', () => {
  const cases: readonly (readonly [JsonObject, readonly ChatPart[]])[] = [
    [
      { reasoning: 'Hm.', content: 'Yes.' },
      [
        { type: 'reasoning', text: 'Hm.' },
        { type: 'text', text: 'Yes.' },
      ],
    ],
    [{ reasoning: 'Hm.', reasoning_content: 'Hm.' }, [{ type: 'reasoning', text: 'Hm.' }]],
    [
      {
        reasoning: 'Hm.',
        reasoning_details: [
          { type: 'reasoning.text', text: 'Hm.', signature: 'proof' },
          { type: 'reasoning.encrypted', data: 'secret' },
        ],
      },
      [
        { type: 'reasoning', text: 'Hm.', signature: 'proof' },
        { type: 'reasoning', text: '', redacted: 'secret' },
      ],
    ],
    [{ refusal: 'No.' }, [{ type: 'refusal', text: 'No.' }]],
    [{ content: '<think>x</think>y' }, [{ type: 'text', text: '<think>x</think>y' }]],
    [
      { content: '', images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] },
      [{ type: 'image', source: { kind: 'base64', mediaType: 'image/png', data: 'AAAA' } }],
    ],
    [
      {
        content: 'See.',
        annotations: [
          {
            type: 'url_citation',
            url_citation: { url: 'https://a.example', title: 'A', start_index: 0, end_index: 4 },
          },
        ],
      },
      [
        {
          type: 'text',
          text: 'See.',
          citations: [
            {
              kind: 'url',
              url: 'https://a.example',
              title: 'A',
              start: 0,
              end: 4,
              raw: {
                dialect: 'openai-chat',
                value: {
                  type: 'url_citation',
                  url_citation: { url: 'https://a.example', title: 'A', start_index: 0, end_index: 4 },
                },
              },
            },
          ],
        },
      ],
    ],
    [
      { executed_tools: [{ index: 0, type: 'search', arguments: '{}', output: 'found' }] },
      [
        {
          type: 'provider-tool',
          dialect: 'openai-chat',
          phase: 'call',
          id: 'executed_tool_0',
          name: 'search',
          value: { index: 0, type: 'search', arguments: '{}' },
        },
        {
          type: 'provider-tool',
          dialect: 'openai-chat',
          phase: 'result',
          id: 'executed_tool_0',
          name: 'search',
          value: { output: 'found' },
        },
      ],
    ],
    [
      { audio: { id: 'audio_1', data: 'AAAA', transcript: 'Hi', expires_at: 5 } },
      [
        {
          type: 'audio',
          id: 'audio_1',
          expiresAt: 5,
          source: { kind: 'base64', mediaType: 'audio/wav', data: 'AAAA' },
          transcript: 'Hi',
        },
      ],
    ],
  ];
  for (const [delta, expected] of cases)
    assert.deepEqual(choiceOf(chunk(delta), chunk({}, 'stop')).parts, expected);
});

test('finish reasons mean the same from every host, and calls decide what is waited for', () => {
  const cases: readonly (readonly [string, string])[] = [
    ['eos', 'stop'],
    ['COMPLETE', 'stop'],
    ['max_tokens', 'length'],
    ['content_filter', 'content-filter'],
    ['insufficient_system_resource', 'error'],
    ['error', 'error'],
    // A tool that the host ran itself.
    ['tool_calls', 'stop'],
    ['constructor', 'unknown'],
  ];
  for (const [raw, reason] of cases) {
    assert.deepEqual(choiceOf(chunk({ content: 'x' }), chunk({}, raw)).finish, { reason, raw });
  }
  const forced = choiceOf(
    call({ index: 0, id: 'one', function: { name: 'a', arguments: '{}' } }),
    chunk({}, 'stop'),
  );
  assert.equal(forced.finish.reason, 'tool-calls');
});

test('several choices are kept apart, and usage that is said twice counts once', () => {
  const events = read(
    sse(
      { id: 'c', model: 'm', choices: [{ index: 1, delta: { content: 'b' } }] },
      { id: 'c', model: 'm', choices: [{ index: 0, delta: { content: 'a' } }] },
      { id: 'c', model: 'm', choices: [{ index: 1, delta: {}, finish_reason: 'length' }] },
      {
        id: 'c',
        model: 'm',
        choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
        x_groq: {
          usage: { prompt_tokens: 4, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 1 } },
        },
      },
      { id: 'c', model: 'm', choices: [], usage: { prompt_tokens: 5, completion_tokens: 2 } },
    ),
  );
  const { choices, usage } = collectAnswer(events);
  assert.deepEqual(
    choices.map(({ parts, finish }) => [parts, finish.reason]),
    [
      [[{ type: 'text', text: 'a' }], 'stop'],
      [[{ type: 'text', text: 'b' }], 'length'],
    ],
  );
  assert.deepEqual(usage, usageOf(5, 2, { cachedTokens: 1 }));
});

test('log probabilities travel with their text', () => {
  const tokens = [
    { token: 'Hi', logprob: -0.5, bytes: [72, 105], top_logprobs: [{ token: 'Yo', logprob: -2 }] },
  ];
  const choice = choiceOf(
    {
      id: 'c',
      model: 'm',
      choices: [{ index: 0, delta: { content: 'Hi' }, logprobs: { content: tokens } }],
    },
    chunk({}, 'stop'),
  );
  assert.deepEqual(choice.logprobs, [
    { token: 'Hi', logprob: -0.5, bytes: [72, 105], top: [{ token: 'Yo', logprob: -2 }] },
  ]);
});

test('a stream that breaks off, or says nothing, is an error; a missing end marker is not', () => {
  const error = (bytes: Buffer): unknown => {
    const last = read(bytes).at(-1);
    return last?.type === 'error' ? last.error.status : last?.type;
  };
  assert.equal(error(sse(chunk({ content: 'Hal' }))), 502);
  assert.equal(error(sse(chunk({ content: 'Hal' }), '[DONE]')), 502);
  assert.equal(error(Buffer.alloc(0)), 502);
  assert.equal(error(sse('[DONE]')), 502);
  assert.equal(error(sse('{"torn"')), 502);
  assert.equal(error(sse(chunk({ content: 'Hallo' }, 'stop'))), 'end');
});

test('an error inside a stream is an error, with the status that it stands for', () => {
  const cases: readonly (readonly [JsonObject, number, string])[] = [
    [{ error: { message: 'Slow down.', type: 'rate_limit_error' } }, 429, 'Slow down.'],
    [{ error: { message: 'Busy.', type: 'overloaded_error' } }, 529, 'Busy.'],
    [{ error: { message: 'Gone.', code: 503 } }, 503, 'Gone.'],
    [{ error: { message: 'Key.', code: 'invalid_api_key' } }, 401, 'Key.'],
    [{ error: 'Something broke.' }, 502, 'Something broke.'],
    [{ object: 'error', message: 'Too long.', code: 400 }, 400, 'Too long.'],
  ];
  for (const [event, status, message] of cases) {
    const collector = new AnswerCollector();
    for (const one of read(sse(chunk({ content: 'Hal' }), event, '[DONE]'))) collector.add(one);
    assert.equal(collector.error?.status, status);
    assert.equal(collector.error?.message, message);
    assert.equal(collector.complete, false);
  }
});
