import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ChatClientCodec, EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { hostOf, models, requestOf } from './converse.test-support.ts';
import { bedrockConverseProvider, createBedrockConverseHost } from './index.ts';

/** Reads no wire: the host only hands the body on. */
const anthropicClient: ChatClientCodec = {
  decodeRequest: ({ body, model, stream }) =>
    requestOf({
      model,
      stream,
      maxOutputTokens: 5,
      tools: [{ type: 'function', name: 'f' }],
      messages: [
        { role: 'system', parts: [{ type: 'text', text: 'Be brief.' }] },
        { role: 'user', parts: [{ type: 'text', text: String(body.text) }] },
      ],
    }),
  encodeAnswer: () => Buffer.alloc(0),
  eventWriter: () => ({ contentType: 'text/event-stream', write: () => undefined }),
  encodeProviderError: () => Buffer.alloc(0),
};

const host = createBedrockConverseHost({ anthropicClient });

function plan(endpoint: EndpointId, path = '/x') {
  return host.plan({
    endpoint,
    spoken: 'openai-chat',
    method: 'POST',
    path,
    query: '?a=1',
    stream: false,
    host: hostOf(models.claude),
  });
}

describe('the plan of a host', () => {
  for (const endpoint of [
    'chat.completions',
    'completions',
    'responses',
    'messages',
    'generate-content',
  ] as const) {
    it(`translates ${endpoint}`, () =>
      assert.deepEqual(plan(endpoint), { kind: 'chat', codec: bedrockConverseProvider }));
  }
  for (const endpoint of ['messages.count_tokens', 'embeddings', 'images.generations', 'rerank'] as const) {
    it(`has the operation ${endpoint}`, () => assert.equal(plan(endpoint).kind, 'operation'));
  }
  for (const endpoint of ['moderations', 'audio.speech', 'audio', 'images', 'files', 'batches'] as const) {
    it(`refuses ${endpoint}`, () => {
      const refusal = plan(endpoint);
      assert.ok(refusal.kind === 'refuse' && refusal.message.includes('"bedrock" has no'));
    });
  }
  it('passes what the gateway does not model', () => {
    const path = '/model/amazon.nova-lite-v1%3A0/invoke';
    assert.deepEqual(plan('proxy', path), { kind: 'pass', path: `${path}?a=1` });
  });
});

describe('counting tokens', () => {
  const counting = plan('messages.count_tokens');
  assert.ok(counting.kind === 'operation');
  const { codec } = counting;

  it('sends what counts of a Converse request, to the model itself', () => {
    const out = codec.encodeRequest({ text: 'Hi' }, hostOf(models.claude), new EncodeReport());
    assert.equal(out.path, '/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens');
    assert.deepEqual(JSON.parse(String(out.body)), {
      input: {
        converse: {
          system: [{ text: 'Be brief.' }],
          messages: [{ role: 'user', content: [{ text: 'Hi' }] }],
          toolConfig: {
            tools: [{ toolSpec: { name: 'f', inputSchema: { json: { type: 'object', properties: {} } } } }],
          },
        },
      },
    });
  });

  it('keeps an id that does not tell its model', () => {
    const out = codec.encodeRequest({ text: 'Hi' }, hostOf(models.profile), new EncodeReport());
    assert.equal(out.path, `/model/${encodeURIComponent(models.profile)}/count-tokens`);
  });

  it("answers in Anthropic's shape", () => {
    assert.deepEqual(codec.decodeAnswer(Buffer.from('{"inputTokens":12}'), 'application/json', {}), {
      body: { input_tokens: 12 },
    });
    assert.throws(() => codec.decodeAnswer(Buffer.from('{}'), 'application/json', {}), {
      code: 'upstream_invalid',
    });
  });
});
