import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ChatMessage, ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import { encoded, hostOf, models, requestOf } from './converse.test-support.ts';
import { bedrockConverseProvider } from './index.ts';

const text = (role: ChatMessage['role'], value: string): ChatMessage => ({
  role,
  parts: [{ type: 'text', text: value }],
});

it('asks by the path for an answer or a stream of one', () => {
  assert.equal(encoded(models.nova).path, '/model/amazon.nova-lite-v1%3A0/converse');
  assert.equal(encoded(models.nova, { stream: true }).path, '/model/amazon.nova-lite-v1%3A0/converse-stream');
});

describe('the conversation', () => {
  it('has its instructions apart and its neighbours joined', () => {
    const { body, emulated } = encoded(models.claude, {
      messages: [
        { role: 'system', parts: [{ type: 'text', text: 'Be brief.', cache: {} }] },
        text('user', 'A'),
        text('user', 'B'),
        text('assistant', 'C'),
        text('developer', 'Late.'),
        { role: 'tool', parts: [{ type: 'tool-result', callId: 'c', kind: 'function', content: [] }] },
        text('user', 'D'),
      ],
    });
    assert.deepEqual(body.system, [
      { text: 'Be brief.' },
      { cachePoint: { type: 'default' } },
      { text: 'Late.' },
    ]);
    assert.deepEqual(body.messages, [
      { role: 'user', content: [{ text: 'A' }, { text: 'B' }] },
      { role: 'assistant', content: [{ text: 'C' }] },
      { role: 'user', content: [{ toolResult: { toolUseId: 'c', content: [] } }, { text: 'D' }] },
    ]);
    assert.ok(emulated.includes('messages[4]'));
  });

  it('reports what a turn cannot hold', () => {
    const { body, dropped } = encoded(models.claude, {
      messages: [
        {
          role: 'system',
          parts: [{ type: 'image', source: { kind: 'base64', mediaType: 'image/png', data: '' } }],
        },
        {
          role: 'user',
          name: 'Ann',
          parts: [{ type: 'text', text: 'A' }],
          extras: { 'cohere-v2': { x: 1 } },
        },
      ],
    });
    assert.equal('system' in body, false);
    assert.deepEqual(dropped, ['messages[0].content[0]', 'messages[1].name', 'messages[1].x']);
  });

  it('trims the white space at the end of a begun answer', () => {
    const { body } = encoded(models.claude, { messages: [text('user', 'A'), text('assistant', 'B: \n')] });
    assert.deepEqual(body.messages[1]!.content, [{ text: 'B:' }]);
  });
});

it('leaves out what the host does not take', () => {
  const report = new EncodeReport();
  const host = { ...hostOf(models.nova), quirks: { drop: ['serviceTier'] } };
  const { body } = bedrockConverseProvider.encodeRequest(requestOf({ serviceTier: 'flex' }), host, report);
  assert.equal(String(body).includes('serviceTier'), false);
  assert.deepEqual(report.dropped, ['serviceTier']);
});

interface Row {
  readonly says: string;
  readonly model?: string;
  readonly given: Partial<ChatRequest>;
  /** Members of the body beside `messages`. */
  readonly body: Record<string, unknown>;
  readonly dropped?: readonly string[];
  readonly emulated?: readonly string[];
}

const rows: readonly Row[] = [
  {
    says: 'sampling and limits',
    given: { maxOutputTokens: 100, temperature: 0.5, stop: ['END'] },
    model: models.nova,
    body: { inferenceConfig: { maxTokens: 100, temperature: 0.5, stopSequences: ['END'] } },
  },
  {
    says: 'temperatures beyond the range',
    given: { temperature: 1.7, topP: 0.9 },
    model: models.nova,
    body: { inferenceConfig: { temperature: 1, topP: 0.9 } },
    emulated: ['temperature'],
  },
  {
    says: 'one setting of the sampling for models that take one',
    given: { temperature: 0.5, topP: 0.9 },
    body: { inferenceConfig: { temperature: 0.5 } },
    dropped: ['top_p'],
  },
  {
    says: 'asks Claude for the stop sequence that was met',
    given: { stop: ['END'] },
    body: {
      inferenceConfig: { stopSequences: ['END'] },
      additionalModelResponseFieldPaths: ['/stop_sequence', '/delta/stop_sequence'],
    },
  },
  { says: 'top_k of Claude', given: { topK: 5 }, body: { additionalModelRequestFields: { top_k: 5 } } },
  {
    says: 'top_k of Nova',
    model: models.nova,
    given: { topK: 5 },
    body: { additionalModelRequestFields: { inferenceConfig: { topK: 5 } } },
  },
  {
    says: 'top_k of Cohere',
    model: 'cohere.command-r-v1:0',
    given: { topK: 5 },
    body: { additionalModelRequestFields: { k: 5 } },
  },
  { says: 'top_k of Llama', model: models.llama, given: { topK: 5 }, body: {}, dropped: ['top_k'] },
  {
    says: 'what the API has no words for',
    given: {
      frequencyPenalty: 1,
      presencePenalty: 1,
      seed: 12345678901234567890n,
      n: 2,
      logprobs: true,
      topLogprobs: 3,
      logitBias: { 1: 2 },
      verbosity: 'low',
      user: 'u',
      safetyIdentifier: 's',
      promptCacheKey: 'k',
      store: true,
      modalities: ['text', 'audio'],
      audio: { voice: 'a' },
      responseFormat: { type: 'json' },
      extras: { 'openai-chat': { prediction: {} }, 'anthropic-messages': { container: 'c' } },
    },
    body: {},
    dropped: [
      'frequency_penalty',
      'presence_penalty',
      'seed',
      'n',
      'logprobs',
      'top_logprobs',
      'logit_bias',
      'verbosity',
      'user',
      'safety_identifier',
      'prompt_cache_key',
      'store',
      'modalities',
      'audio',
      'response_format',
      'prediction',
      'container',
    ],
  },
  {
    says: 'what needs no words',
    given: {
      n: 1,
      logprobs: false,
      store: false,
      modalities: ['text'],
      serviceTier: 'auto',
      includeUsage: true,
    },
    body: {},
  },
  { says: 'a service tier', given: { serviceTier: 'flex' }, body: { serviceTier: { type: 'flex' } } },
  {
    says: "Anthropic's service tier",
    given: { serviceTier: 'standard_only' },
    body: { serviceTier: { type: 'default' } },
    emulated: ['service_tier'],
  },
  { says: 'an unknown tier', given: { serviceTier: 'scale' }, body: {}, dropped: ['service_tier'] },
  {
    says: 'metadata',
    given: { metadata: { team: 'a b', count: 3, 'bad<key': 'x', long: 'x'.repeat(257) } },
    body: { requestMetadata: { team: 'a b' } },
    dropped: ['metadata.count', 'metadata.bad<key', 'metadata.long'],
  },
  {
    says: "the caller's own words win",
    given: {
      maxOutputTokens: 10,
      topK: 3,
      extras: {
        'bedrock-converse': {
          guardrailConfig: { guardrailIdentifier: 'g', guardrailVersion: '1' },
          performanceConfig: { latency: 'optimized' },
          inferenceConfig: { maxTokens: 20 },
          additionalModelRequestFields: { x: 1 },
        },
      },
    },
    body: {
      guardrailConfig: { guardrailIdentifier: 'g', guardrailVersion: '1' },
      performanceConfig: { latency: 'optimized' },
      inferenceConfig: { maxTokens: 20 },
      additionalModelRequestFields: { top_k: 3, x: 1 },
    },
  },
  {
    says: "Claude's betas",
    model: models.oldClaude,
    given: { extras: { 'anthropic-messages': { anthropic_beta: ['b'], context_management: { edits: [] } } } },
    body: { additionalModelRequestFields: { anthropic_beta: ['b'], context_management: { edits: [] } } },
  },
  {
    says: 'an effort as a budget, with room for it',
    model: models.oldClaude,
    given: { reasoning: { effort: 'low' } },
    body: {
      inferenceConfig: { maxTokens: 5120 },
      additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 1024 } },
    },
    emulated: ['reasoning_effort'],
  },
  {
    says: 'a budget, and what may not stand beside it',
    model: models.oldClaude,
    given: {
      reasoning: { enabled: true, budgetTokens: 2000 },
      maxOutputTokens: 4000,
      temperature: 0.3,
      topP: 0.5,
      topK: 2,
    },
    body: {
      inferenceConfig: { maxTokens: 4000 },
      additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 2000 } },
    },
    dropped: ['temperature', 'top_p', 'top_k'],
  },
  {
    says: 'adaptive thinking',
    model: models.adaptiveClaude,
    given: { reasoning: { effort: 'high' } },
    body: {
      additionalModelRequestFields: { thinking: { type: 'adaptive' }, output_config: { effort: 'high' } },
    },
  },
  {
    says: 'the beta that efforts of one model need',
    model: 'anthropic.claude-opus-4-5-20251101-v1:0',
    given: {
      reasoning: { effort: 'medium' },
      extras: { 'anthropic-messages': { anthropic_beta: ['b'] } },
    },
    body: {
      additionalModelRequestFields: {
        output_config: { effort: 'medium' },
        anthropic_beta: ['effort-2025-11-24', 'b'],
      },
    },
  },
  {
    says: 'the reasoning of Nova',
    model: models.nova2,
    given: { reasoning: { effort: 'low' }, maxOutputTokens: 10 },
    body: {
      inferenceConfig: { maxTokens: 10 },
      additionalModelRequestFields: { reasoningConfig: { type: 'enabled', maxReasoningEffort: 'low' } },
    },
  },
  {
    says: 'Nova at its hardest takes no limit and no sampling',
    model: models.nova2,
    given: { reasoning: { effort: 'xhigh' }, maxOutputTokens: 10, temperature: 0, topP: 1, topK: 1 },
    body: {
      additionalModelRequestFields: { reasoningConfig: { type: 'enabled', maxReasoningEffort: 'high' } },
    },
    dropped: ['max_tokens', 'temperature', 'top_p', 'top_k'],
    emulated: ['reasoning_effort'],
  },
  {
    says: 'Nova without reasoning',
    model: models.nova2,
    given: { reasoning: { effort: 'none' } },
    body: { additionalModelRequestFields: { reasoningConfig: { type: 'disabled' } } },
  },
  {
    says: 'the effort of models of OpenAI',
    model: models.gptOss,
    given: { reasoning: { effort: 'medium' } },
    body: { additionalModelRequestFields: { reasoning_effort: 'medium' } },
  },
  {
    says: 'reasoning of a model without it',
    model: models.nova,
    given: { reasoning: { effort: 'low' } },
    body: {},
    dropped: ['reasoning_effort'],
  },
  {
    says: 'no reasoning of a model without it',
    model: models.nova,
    given: { reasoning: { enabled: false } },
    body: {},
  },
  {
    says: 'a schema where the model has structured output',
    given: {
      responseFormat: {
        type: 'json-schema',
        name: 'n',
        description: 'd',
        schema: { const: 9007199254740993n },
      },
    },
    body: {
      outputConfig: {
        textFormat: {
          type: 'json_schema',
          structure: { jsonSchema: { schema: '{"const":9007199254740993}', name: 'n', description: 'd' } },
        },
      },
    },
  },
];

describe('settings', () => {
  for (const { says, model = models.claude, given, body, dropped = [], emulated = [] } of rows) {
    it(says, () => {
      const out = encoded(model, given);
      const { messages, ...rest } = out.body;
      assert.equal(messages.length, 1);
      assert.deepEqual(rest, body);
      assert.deepEqual([...out.dropped].sort(), [...dropped].sort());
      assert.deepEqual(out.emulated, emulated);
    });
  }
});
