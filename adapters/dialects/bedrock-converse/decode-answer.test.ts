import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { answerOf, decoded } from './converse.test-support.ts';

const schema = { responseFormat: { type: 'json-schema', schema: { type: 'object' } } } as const;
const toolUse = (name: string, input: unknown, more: object = {}) => ({
  toolUse: { toolUseId: 't1', name, input, ...more },
});

interface Row {
  readonly says: string;
  readonly content: readonly unknown[];
  readonly parts: readonly unknown[];
  readonly request?: Partial<ChatRequest>;
}

const rows: readonly Row[] = [
  { says: 'text', content: [{ text: 'Hi' }, { text: '' }], parts: [{ type: 'text', text: 'Hi' }] },
  {
    says: 'thinking, signed and not',
    content: [
      { reasoningContent: { reasoningText: { text: 'Hm', signature: 's' } } },
      { reasoningContent: { reasoningText: { text: 'Ah' } } },
      { reasoningContent: { reasoningText: { text: '' } } },
    ],
    parts: [
      { type: 'reasoning', text: 'Hm', signature: 's' },
      { type: 'reasoning', text: 'Ah' },
    ],
  },
  {
    says: 'hidden thinking, in both of its forms',
    content: [
      { reasoningContent: { redactedContent: 'cmVk' } },
      { reasoningContent: { redactedReasoning: { data: 'Ymx1ZQ==' } } },
    ],
    parts: [
      { type: 'reasoning', text: '', redacted: 'cmVk' },
      { type: 'reasoning', text: '', redacted: 'Ymx1ZQ==' },
    ],
  },
  {
    says: 'calls with their ids, without arguments, without an id',
    content: [
      toolUse('f', { a: [1, 'x'] }),
      { toolUse: { toolUseId: 't2', name: 'g' } },
      { toolUse: { name: 'h', input: {} } },
    ],
    parts: [
      { type: 'tool-call', id: 't1', name: 'f', kind: 'function', arguments: '{"a":[1,"x"]}' },
      { type: 'tool-call', id: 't2', name: 'g', kind: 'function', arguments: '{}' },
      { type: 'tool-call', id: 'call_1', name: 'h', kind: 'function', arguments: '{}' },
    ],
  },
  {
    says: 'a mark that slipped into the name of a tool',
    content: [toolUse('json<|channel|>commentary', {})],
    parts: [{ type: 'tool-call', id: 't1', name: 'json', kind: 'function', arguments: '{}' }],
  },
  {
    says: 'a custom tool',
    content: [toolUse('x', { input: 'free "text"' })],
    parts: [{ type: 'tool-call', id: 't1', name: 'x', kind: 'custom', arguments: 'free "text"' }],
    request: { tools: [{ type: 'custom', name: 'x' }] },
  },
  {
    says: 'a tool that the provider ran, and its result',
    content: [
      toolUse('nova_grounding', {}, { type: 'server_tool_use' }),
      { toolResult: { toolUseId: 't1', type: 'nova_grounding_result', content: [], status: 'success' } },
    ],
    parts: [
      {
        type: 'provider-tool',
        dialect: 'bedrock-converse',
        phase: 'call',
        id: 't1',
        name: 'nova_grounding',
        value: toolUse('nova_grounding', {}, { type: 'server_tool_use' }),
      },
      {
        type: 'provider-tool',
        dialect: 'bedrock-converse',
        phase: 'result',
        id: 't1',
        name: 'nova_grounding',
        value: {
          toolResult: { toolUseId: 't1', type: 'nova_grounding_result', content: [], status: 'success' },
        },
      },
    ],
  },
  {
    says: 'a text with its sources',
    content: [
      {
        citationsContent: {
          content: [{ text: 'The ' }, { text: 'Danube' }],
          citations: [
            {
              title: 'Rivers',
              sourceContent: [{ text: 'Dan' }, { text: 'ube' }],
              location: { documentPage: { documentIndex: 2, start: 1, end: 2 } },
            },
            { location: { web: { url: 'https://a.example', domain: 'a.example' } } },
            { source: 'https://b.example', location: { searchResultLocation: { searchResultIndex: 0 } } },
          ],
        },
      },
    ],
    parts: [
      {
        type: 'text',
        text: 'The Danube',
        citations: [
          {
            kind: 'document',
            title: 'Rivers',
            quote: 'Danube',
            document: 2,
            raw: {
              dialect: 'bedrock-converse',
              value: {
                title: 'Rivers',
                sourceContent: [{ text: 'Dan' }, { text: 'ube' }],
                location: { documentPage: { documentIndex: 2, start: 1, end: 2 } },
              },
            },
          },
          {
            kind: 'url',
            url: 'https://a.example',
            raw: {
              dialect: 'bedrock-converse',
              value: { location: { web: { url: 'https://a.example', domain: 'a.example' } } },
            },
          },
          {
            kind: 'url',
            url: 'https://b.example',
            raw: {
              dialect: 'bedrock-converse',
              value: {
                source: 'https://b.example',
                location: { searchResultLocation: { searchResultIndex: 0 } },
              },
            },
          },
        ],
      },
    ],
  },
  {
    says: 'a picture',
    content: [{ image: { format: 'jpeg', source: { bytes: 'AAAA' } } }],
    parts: [{ type: 'image', source: { kind: 'base64', mediaType: 'image/jpeg', data: 'AAAA' } }],
  },
  {
    says: 'a block of an unknown kind',
    content: [{ news: 1 }, 7],
    parts: [{ type: 'opaque', dialect: 'bedrock-converse', value: { news: 1 } }],
  },
  {
    says: 'an answer through the tool',
    content: [{ text: 'Here it is:' }, toolUse('json', { a: 1 })],
    parts: [{ type: 'text', text: '{"a":1}' }],
    request: schema,
  },
];

describe('blocks as parts', () => {
  for (const { says, content, parts, request } of rows) {
    it(says, () => assert.deepEqual(decoded(answerOf(content), request).choices[0]?.parts, parts));
  }
});

it('keeps integers beyond 2^53', () => {
  const body = `{"output":{"message":{"content":[{"toolUse":{"toolUseId":"t","name":"f","input":{"id":12345678901234567890}}}]}},"stopReason":"tool_use"}`;
  const [part] = decoded(body).choices[0]!.parts;
  assert.equal(part?.type === 'tool-call' && part.arguments, '{"id":12345678901234567890}');
});

describe('why an answer ended', () => {
  const reasons: readonly (readonly [raw: string, reason: string])[] = [
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['tool_use', 'stop'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['guardrail_intervened', 'content-filter'],
    ['content_filtered', 'content-filter'],
    ['malformed_model_output', 'error'],
    ['malformed_tool_use', 'error'],
    ['constructor', 'unknown'],
  ];
  for (const [raw, reason] of reasons) {
    it(raw, () =>
      assert.deepEqual(decoded(answerOf([{ text: 'a' }], raw)).choices[0]?.finish, { reason, raw }),
    );
  }

  it('is a call wherever the client must answer one', () => {
    const finish = (content: unknown[], raw: string, request?: Partial<ChatRequest>) =>
      decoded(answerOf(content, raw), request).choices[0]?.finish.reason;
    assert.equal(finish([toolUse('f', {})], 'tool_use'), 'tool-calls');
    assert.equal(finish([toolUse('f', {})], 'end_turn'), 'tool-calls');
    assert.equal(finish([toolUse('f', {})], 'max_tokens'), 'length');
    assert.equal(finish([toolUse('s', {}, { type: 'server_tool_use' })], 'tool_use'), 'stop');
    assert.equal(finish([toolUse('json', {})], 'tool_use', schema), 'stop');
    assert.equal(finish([toolUse('json', {}), toolUse('f', {})], 'tool_use', schema), 'tool-calls');
  });

  it('names the stop sequence that was met', () => {
    for (const fields of [{ stop_sequence: 'END' }, { delta: { stop_sequence: 'END' } }]) {
      const answer = answerOf([], 'stop_sequence', { additionalModelResponseFields: fields });
      assert.equal(decoded(answer).choices[0]?.finish.stopSequence, 'END');
    }
  });
});

describe('usage', () => {
  const usageOf = (usage: unknown) => decoded(answerOf([], 'end_turn', { usage })).usage;

  it('counts cached and cache-written tokens to the prompt', () => {
    assert.deepEqual(
      usageOf({
        inputTokens: 64,
        outputTokens: 300,
        totalTokens: 2348,
        cacheReadInputTokens: 1920,
        cacheWriteInputTokens: 64,
      }),
      {
        promptTokens: 2048,
        completionTokens: 300,
        totalTokens: 2348,
        cachedTokens: 1920,
        cacheWriteTokens: 64,
        reasoningTokens: 0,
        inputAudioTokens: 0,
        outputAudioTokens: 0,
      },
    );
  });

  it('reads the other names of the same', () => {
    const usage = usageOf({
      inputTokens: 1,
      outputTokens: 1,
      cacheReadInputTokenCount: 5,
      cacheWriteInputTokenCount: 3,
    });
    assert.deepEqual([usage?.promptTokens, usage?.cachedTokens, usage?.cacheWriteTokens], [9, 5, 3]);
  });

  it('is absent when nothing was counted', () => assert.equal(usageOf({}), undefined));
});

it('keeps what only this dialect tells', () => {
  const trace = { guardrail: { inputAssessment: {} } };
  const answer = decoded(
    answerOf([{ text: 'First.' }, toolUse('json', {})], 'tool_use', {
      trace,
      metrics: { latencyMs: 5 },
      serviceTier: { type: 'flex' },
      performanceConfig: { latency: 'optimized' },
      usage: { inputTokens: 1, outputTokens: 1, cacheDetails: [{ ttl: '1h' }], serverToolUsage: {} },
      additionalModelResponseFields: { x: 1 },
    }),
    {
      ...schema,
      model: 'asked',
      extras: { 'bedrock-converse': { additionalModelResponseFieldPaths: ['/x'] } },
    },
  );
  assert.equal(answer.model, 'asked');
  assert.equal(answer.serviceTier, 'flex');
  assert.deepEqual(answer.choices[0]?.extras, {
    'bedrock-converse': { additionalModelResponseFields: { x: 1 } },
  });
  assert.deepEqual(answer.extras, {
    'bedrock-converse': {
      preamble: 'First.',
      trace,
      performanceConfig: { latency: 'optimized' },
      serviceTier: { type: 'flex' },
      metrics: { latencyMs: 5 },
      cacheDetails: [{ ttl: '1h' }],
    },
  });
});

it('refuses what is no answer of this wire', () => {
  for (const body of ['', '<html>', '[]', '{"choices":[]}', '{"output":{}}']) {
    assert.throws(() => decoded(body), { code: 'upstream_invalid', message: /output\.message/ });
  }
});
