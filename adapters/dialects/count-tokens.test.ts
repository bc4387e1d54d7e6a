import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EncodeReport } from '../../core/dialects/canonical/chat-codec.ts';
import type { DialectName } from '../../core/dialects/endpoint.ts';
import type { OperationCodec } from '../../core/dialects/upstream-plan.ts';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import { providerDialects } from './index.ts';

const question = {
  model: 'm',
  system: 'Be brief.',
  messages: [{ role: 'user', content: 'Name a river.' }],
  tools: [{ name: 'tide', input_schema: { type: 'object' } }],
};
const facts = (model: string) => ({
  provider: 'p',
  model,
  quirks: {},
  settings: {},
  usageInStream: 'always' as const,
});

function counting(dialect: DialectName, model: string): OperationCodec {
  const plan = providerDialects.get(dialect)?.plan({
    endpoint: 'messages.count_tokens',
    spoken: 'anthropic-messages',
    method: 'POST',
    path: '/messages/count_tokens',
    query: '',
    stream: false,
    host: facts(model),
  });
  assert.ok(plan?.kind === 'operation');
  return plan.codec;
}

describe('tokens of a Messages request are counted by hosts of other wires', () => {
  const cases: readonly (readonly [DialectName, string, string, string, RegExp])[] = [
    [
      'google-gemini',
      'gemini-2.5-pro',
      '/v1beta/models/gemini-2.5-pro:countTokens',
      'totalTokens',
      /"generateContentRequest":\{"model":"models\/gemini-2.5-pro"/,
    ],
    ['openai-responses', 'gpt-5.1', '/responses/input_tokens', 'input_tokens', /"instructions":"Be brief\."/],
    [
      'bedrock-converse',
      'eu.anthropic.claude-sonnet-4-5-20250929-v1:0',
      '/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens',
      'inputTokens',
      /"converse":\{/,
    ],
  ];
  for (const [dialect, model, path, member, sent] of cases) {
    test(dialect, () => {
      const codec = counting(dialect, model);
      const encoded = codec.encodeRequest(question, facts(model), new EncodeReport());
      const body = encoded.body.toString();
      assert.equal(encoded.path, path);
      assert.match(body, sent);
      for (const text of ['Be brief.', 'Name a river.', 'tide']) assert.ok(body.includes(text), text);
      assert.doesNotMatch(body, /"stream"|"store"|"max/);
      const answer = Buffer.from(JSON.stringify({ [member]: 31, other: 1 }));
      assert.deepEqual(codec.decodeAnswer(answer, 'application/json', question).body, { input_tokens: 31 });
      assert.throws(
        () => codec.decodeAnswer(Buffer.from('{}'), 'application/json', question),
        (error: GatewayError) => error.code === 'upstream_invalid' && error.message.includes(member),
      );
    });
  }
});
