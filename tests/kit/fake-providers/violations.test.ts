// What the vendors refuse, the fakes refuse.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonObject } from '../../../adapters/dialects/json-reading.ts';
import { fakeWires } from './fake-providers.ts';
import type { SeenRequest } from './fake-wire.ts';

const credentials = {
  authorization: 'Bearer sk',
  'x-api-key': 'sk',
  'x-goog-api-key': 'sk',
  'anthropic-version': '2023-06-01',
};
const signed =
  'AWS4-HMAC-SHA256 Credential=AKIAGRID/20261121/eu-central-1/bedrock/aws4_request, ' +
  `SignedHeaders=host;x-amz-date, Signature=${'0'.repeat(64)}`;
const user = { role: 'user', content: 'Hi' };
const call = (id: string, text: string) => ({
  id,
  type: 'function',
  function: { name: 'f', arguments: text },
});
const bedrockUser = { role: 'user', content: [{ text: 'Hi' }] };
const geminiUser = { role: 'user', parts: [{ text: 'Hi' }] };

const refused: readonly (readonly [dialect: string, why: RegExp, body: JsonObject])[] = [
  ['openai-chat', /unknown member "top_k"/, { messages: [user], top_k: 3 }],
  ['openai-chat', /stream_options/, { messages: [user], stream_options: {} }],
  ['openai-chat', /no call "a"/, { messages: [{ role: 'tool', tool_call_id: 'a', content: '' }] }],
  [
    'openai-chat',
    /no JSON object.*without a result: a/,
    { messages: [user, { role: 'assistant', tool_calls: [call('a', '')] }] },
  ],
  ['openai-chat', /content part "image"/, { messages: [{ role: 'user', content: [{ type: 'image' }] }] }],
  ['openai-responses', /unknown member "messages"/, { messages: [user] }],
  [
    'openai-responses',
    /"input_text" in a assistant/,
    { input: [{ role: 'assistant', content: [{ type: 'input_text', text: '' }] }] },
  ],
  [
    'openai-responses',
    /without a result: a/,
    { input: [{ type: 'function_call', call_id: 'a', arguments: '{}' }] },
  ],
  ['openai-responses', /top level/, { tools: [{ type: 'function', function: { name: 'f' } }] }],
  ['anthropic-messages', /max_tokens/, { messages: [user] }],
  [
    'anthropic-messages',
    /first is the user/,
    { max_tokens: 1, messages: [{ role: 'assistant', content: 'x' }] },
  ],
  [
    'anthropic-messages',
    /unsigned/,
    {
      max_tokens: 1,
      messages: [user, { role: 'assistant', content: [{ type: 'thinking', thinking: 'x', signature: '' }] }],
    },
  ],
  [
    'anthropic-messages',
    /tool_use without tool_result: a/,
    {
      max_tokens: 1,
      messages: [user, { role: 'assistant', content: [{ type: 'tool_use', id: 'a', input: {} }] }, user],
    },
  ],
  [
    'anthropic-messages',
    /budget_tokens/,
    { max_tokens: 1024, messages: [user], thinking: { type: 'enabled', budget_tokens: 1024 } },
  ],
  ['google-gemini', /unknown member "messages"/, { messages: [user], contents: [geminiUser] }],
  [
    'google-gemini',
    /additionalProperties in f/,
    {
      contents: [geminiUser],
      tools: [{ functionDeclarations: [{ name: 'f', parameters: { additionalProperties: false } }] }],
    },
  ],
  [
    'google-gemini',
    /without a response: f/,
    { contents: [geminiUser, { role: 'model', parts: [{ functionCall: { name: 'f' } }] }] },
  ],
  ['bedrock-converse', /roles alternate/, { messages: [bedrockUser, bedrockUser] }],
  [
    'bedrock-converse',
    /toolConfig: required/,
    {
      messages: [
        bedrockUser,
        { role: 'assistant', content: [{ toolUse: { toolUseId: 'a', input: {} } }] },
        { role: 'user', content: [{ toolResult: { toolUseId: 'a', content: [] } }] },
      ],
    },
  ],
  [
    'bedrock-converse',
    /document name/,
    {
      messages: [
        {
          role: 'user',
          content: [{ document: { format: 'pdf', name: 'a.pdf', source: { bytes: 'AAAA' } } }],
        },
      ],
    },
  ],
  ['cohere-v2', /REQUIRED or NONE/, { messages: [user], tool_choice: 'auto' }],
  ['cohere-v2', /role "developer"/, { messages: [{ role: 'developer', content: 'x' }] }],
  ['cohere-v2', /no call "a"/, { messages: [{ role: 'tool', tool_call_id: 'a', content: 'x' }] }],
];

function seen(body: JsonObject, headers: SeenRequest['headers']): SeenRequest {
  return { method: 'POST', url: '/', headers, bytes: Buffer.alloc(0), body };
}

function wireOf(dialect: string) {
  return fakeWires.find((wire) => wire.dialect === dialect) ?? assert.fail(dialect);
}

for (const [dialect, why, body] of refused) {
  test(`${dialect}: ${why.source}`, () => {
    const headers =
      dialect === 'bedrock-converse'
        ? { authorization: signed, 'x-amz-date': '20261121T120000Z' }
        : credentials;
    assert.match(wireOf(dialect).violations(seen(body, headers)).join('; '), why);
  });
}

test('nobody is served without the credential of his wire', () => {
  for (const wire of fakeWires) {
    assert.match(wire.violations(seen({}, {})).join('; '), /credential|key|signature/, wire.dialect);
  }
  const otherRegion = signed.replace('eu-central-1', 'us-east-1');
  const found = wireOf('bedrock-converse').violations(seen({}, { authorization: otherRegion }));
  assert.ok(found.includes('no AWS4-HMAC-SHA256 signature of the right scope'));
});
