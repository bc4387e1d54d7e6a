import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { UpstreamCallFacts } from '../../../core/dialects/upstream-plan.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { openAiResponsesClient } from './index.ts';
import { openAiResponsesHost, openAiResponsesProvider } from './host.ts';
import { answerContext, decodeContext, emptyRequest, hostFacts } from './responses.test-support.ts';

const decode = (body: unknown): ReturnType<typeof openAiResponsesProvider.decodeAnswer> =>
  openAiResponsesProvider.decodeAnswer(Buffer.from(JSON.stringify(body)), decodeContext());

test('what is no response, and a response that failed, is the provider failing', () => {
  for (const body of [
    null,
    [],
    {},
    { error: { message: 'Oh.' } },
    { output: [], status: 'failed', error: { message: 'Oh.' } },
  ]) {
    assert.throws(
      () => decode(body),
      (error) => GatewayError.is(error) && error.code === 'upstream_invalid' && error.source === 'provider',
    );
  }
  assert.throws(() => decode({ output: [], status: 'failed', error: { message: 'Oh.' } }), /Oh\./);
});

test('log probabilities, the tier that served and unknown members are kept', () => {
  const token = {
    token: 'A',
    logprob: -0.5,
    bytes: [65],
    top_logprobs: [{ token: 'B', logprob: -1, bytes: [66] }],
  };
  const answer = decode({
    id: 'resp_1',
    model: 'm',
    status: 'completed',
    service_tier: 'flex',
    billing: { payer: 'me' },
    output: [{ type: 'message', content: [{ type: 'output_text', text: 'A', logprobs: [token] }] }],
  });
  assert.deepEqual(answer.choices[0]?.logprobs, [
    { token: 'A', logprob: -0.5, bytes: [65], top: [{ token: 'B', logprob: -1, bytes: [66] }] },
  ]);
  assert.equal(answer.serviceTier, 'flex');
  assert.deepEqual(answer.extras, { 'openai-responses': { billing: { payer: 'me' } } });
  const again = JSON.parse(String(openAiResponsesClient.encodeAnswer(answer, answerContext()))) as {
    billing: unknown;
    output: [{ content: [{ logprobs: unknown }] }];
  };
  assert.deepEqual(again.billing, { payer: 'me' });
  assert.deepEqual(again.output[0].content[0].logprobs, [token]);
});

test('a response repeats the settings of its request', () => {
  const request = {
    ...emptyRequest,
    messages: [{ role: 'system' as const, parts: [{ type: 'text' as const, text: 'S' }] }],
    tools: [{ type: 'function' as const, name: 'f', strict: true }],
    toolChoice: { type: 'required' as const },
    temperature: 0.5,
    store: true,
    metadata: { a: 'b' },
    responseFormat: { type: 'json' as const },
  };
  const answer = { id: '', model: '', choices: [] };
  const response = JSON.parse(
    String(openAiResponsesClient.encodeAnswer(answer, answerContext(request))),
  ) as Record<string, unknown>;
  assert.match(String(response.id), /^resp_/);
  assert.deepEqual(
    [
      response.object,
      response.model,
      response.instructions,
      response.tool_choice,
      response.temperature,
      response.store,
    ],
    ['response', 'river-1', 'S', 'required', 0.5, false],
  );
  assert.deepEqual(response.tools, [{ type: 'function', name: 'f', parameters: null, strict: true }]);
  assert.deepEqual([response.metadata, response.text], [{ a: 'b' }, { format: { type: 'json_object' } }]);
  assert.equal(response.created_at, 1_763_700_000);
});

test('a web search of another provider is shown, other tools of its own are not', () => {
  const tool = (name: string) => ({
    type: 'provider-tool' as const,
    dialect: 'anthropic-messages' as const,
    phase: 'call' as const,
    id: 'x',
    name,
    value: { input: { query: 'q' } },
  });
  const choices = [
    {
      index: 0,
      parts: [tool('web_search'), tool('bash')],
      finish: { reason: 'pause' as const, raw: 'pause_turn' },
    },
  ];
  const response = JSON.parse(
    String(openAiResponsesClient.encodeAnswer({ id: '', model: 'm', choices }, answerContext())),
  ) as Record<string, unknown>;
  assert.deepEqual(response.output, [
    { type: 'web_search_call', id: 'ws_2', status: 'completed', action: { type: 'search', query: 'q' } },
  ]);
  assert.deepEqual([response.status, response.incomplete_details], ['incomplete', { reason: 'pause_turn' }]);
});

test("a provider's error is written in the caller's shape and marked", () => {
  const error = { status: 429, message: 'Slow.', code: 'rate_limit_exceeded' };
  assert.deepEqual(JSON.parse(String(openAiResponsesClient.encodeProviderError(error, answerContext()))), {
    error: { message: 'Slow.', type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' },
    provider: 'sea',
  });
});

test('the host takes its own wire as it is, translates other chat and passes the rest', () => {
  const plan = (endpoint: UpstreamCallFacts['endpoint'], path: string): unknown => {
    const call = {
      endpoint,
      spoken: 'openai-chat' as const,
      method: 'POST',
      path,
      query: '?a=1',
      stream: false,
      host: hostFacts(),
    };
    const { kind, ...rest } = openAiResponsesHost.plan(call);
    return kind === 'pass' ? rest : kind;
  };
  assert.deepEqual(plan('responses', '/responses'), { path: '/responses?a=1' });
  assert.deepEqual(plan('embeddings', '/embeddings'), { path: '/embeddings?a=1' });
  assert.deepEqual(plan('proxy', '/responses/resp_1'), { path: '/responses/resp_1?a=1' });
  for (const endpoint of ['chat.completions', 'completions', 'messages', 'generate-content'] as const)
    assert.equal(plan(endpoint, '/x'), 'chat');
  assert.equal(plan('messages.count_tokens', '/messages/count_tokens'), 'operation');
});
