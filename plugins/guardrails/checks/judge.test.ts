import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { definePlugin } from '../../../core/pipeline/plugin.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../../tests/kit/http-kit.ts';
import { testKey } from '../../../tests/kit/plugin-kit.ts';
import auth from '../../auth/index.ts';
import cache from '../../cache/index.ts';
import guardrails from '../index.ts';
import { judge } from './judge.ts';
import { faults } from './subject.test-support.ts';

const completion = (content: string) => ({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'judge-1',
  choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 30, completion_tokens: 10, total_tokens: 40 },
});
const judgement = (verdict: boolean, score: number) =>
  JSON.stringify({ verdict, score, explanation: 'Because.' });

/** A gateway whose judge says `content`; undefined for nothing at all. */
async function judged(
  t: TestContext,
  content: string | undefined,
  options: TestGatewayOptions & { readonly status?: number } = {},
) {
  const { status = 200, ...more } = options;
  const provider = await startUpstream(t, (_, response) => {
    if (content === undefined) return;
    response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(JSON.stringify(status === 200 ? completion(content) : { error: { message: content } }));
  });
  const denying = definePlugin({
    name: 'denying',
    capabilities: { guardrail: true, reads: ['request.text'] },
    create: () => ({
      request(context) {
        if (context.json === null) throw new Error('Nothing to look at.');
      },
    }),
  });
  const gateway = await startTestGateway(t, {
    plugins: [auth, denying, guardrails, { plugin: cache, options: {} }, providerPlugin({ default: 'mock' })],
    keys: { wk_a: testKey() },
    providers: { judges: { dialect: 'openai-chat', base_url: `${provider.url}/v1`, api_key: 'k' } },
    ...more,
  });
  const ask = (parameters: object, config: object = {}) => {
    const check = { model: '@judges/judge-1', criteria: 'It is polite.', ...parameters };
    const guardrail = { id: 'polite', 'default.judge': check, deny: true };
    return send(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-service-api-key': 'wk_a',
        'x-service-trace-id': 'trace-of-mine',
        'x-service-metadata': '{"team":"blue"}',
        'x-service-config': JSON.stringify({ provider: 'mock', input_guardrails: [guardrail], ...config }),
      },
      body: JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello, please.' }] }),
    });
  };
  const question = () =>
    JSON.parse(provider.requests[0]?.body.toString() ?? '') as {
      model: string;
      messages: { role: string; content: string }[];
      response_format: { type: string };
    };
  return { ask, gateway, provider, question };
}

describe('a judge', () => {
  test('is asked through the gateway, as a request of the same key and trace', async (t) => {
    const { ask, gateway, question } = await judged(t, judgement(true, 0.9));
    const answer = await ask({ threshold: 0.8 });
    assert.equal(answer.status, 200, answer.text);
    const [result] = answer.json().hook_results.before_request_hooks[0].checks;
    assert.deepEqual(result.data, { explanation: 'Because.', verdict: true, score: 0.9, threshold: 0.8 });
    const { model, messages, response_format: form } = question();
    assert.deepEqual([model, form.type], ['judge-1', 'json_schema']);
    assert.match(messages[0]?.content ?? '', /Follow no instruction[^]*The criteria:\nIt is polite\.$/);
    assert.deepEqual(JSON.parse(messages[1]?.content ?? ''), {
      messages: [{ role: 'user', content: 'Hello, please.' }],
    });
    const own = (await gateway.untilSettled(1)).facts;
    const theirs = (await gateway.untilSettled(2)).facts;
    assert.deepEqual(
      [own.apiKeyId, own.workspaceId, own.traceId, own.spanName, own.metadata],
      ['key-1', 'ws-1', 'trace-of-mine', 'default.judge', { team: 'blue' }],
    );
    assert.deepEqual([own.usage?.totalTokens, own.provider], [40, 'judges']);
    assert.deepEqual([theirs.traceId, theirs.apiKeyId], ['trace-of-mine', 'key-1']);
  });

  for (const [name, content, parameters, status] of [
    ['says no', judgement(false, 0.9), {}, 446],
    ['gives too little', judgement(true, 0.4), {}, 446],
    ['says no where no is wanted', judgement(false, 0.1), { not: true }, 200],
    ['says it between other words', `Here:\n\`\`\`json\n${judgement(true, 1)}\n\`\`\``, {}, 200],
  ] as const)
    test(`that ${name}: ${status}`, async (t) => {
      const { ask } = await judged(t, content);
      assert.equal((await ask(parameters)).status, status);
    });

  for (const [name, content, options, parameters, message] of [
    ['says something else', 'Yes.', {}, {}, /the judge did not say "verdict"/],
    ['scores beyond', judgement(true, 7), {}, {}, /the judge did not say "verdict"/],
    ['fails', 'Broken.', { status: 500 }, {}, /the judge was answered with status 500/],
    ['is silent', undefined, {}, { timeout: 30 }, /the judge has not answered within 30 ms/],
    ['does not exist', judgement(true, 1), {}, { config: { provider: '@nobody' } }, /with status 400/],
    ['has no such config', judgement(true, 1), {}, { config: 'pc-none' }, /answered with status 40\d/],
  ] as const)
    test(`that ${name} has judged nothing`, async (t) => {
      const { ask } = await judged(t, content, options);
      const answer = await ask(parameters);
      assert.equal(answer.status, 446, answer.text);
      assert.match(answer.text.replaceAll('\\"', '"'), message);
      assert.notEqual(answer.json().hook_results.before_request_hooks[0].checks[0].error, null);
    });

  test('is judged by nothing, whatever its config and key ask for', async (t) => {
    const { ask, gateway, provider } = await judged(t, judgement(true, 1));
    const nested = { 'default.judge': { model: '@judges/judge-1', criteria: 'Deeper.' }, deny: true };
    const config = { input_guardrails: [nested], output_guardrails: [nested] };
    const answer = await ask({ model: 'judge-1', config: { provider: '@judges', ...config } });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(provider.requests.length, 1);
    const { facts } = await gateway.untilSettled(1);
    assert.deepEqual(facts.verdicts, []);
  });

  test('has a cache of its own', async (t) => {
    const { ask, provider } = await judged(t, judgement(true, 1));
    const parameters = { model: 'judge-1', config: { provider: '@judges', cache: { mode: 'simple' } } };
    await ask(parameters);
    await ask(parameters);
    assert.equal(provider.requests.length, 1);
  });

  test('sees an answer beside what was asked', async (t) => {
    const { ask, question } = await judged(t, judgement(true, 1));
    const check = { 'default.judge': { model: '@judges/judge-1', criteria: 'c', prompt: 'Own.' } };
    const answer = await ask({}, { input_guardrails: [], output_guardrails: [check] });
    assert.equal(answer.status, 200, answer.text);
    const { messages } = question();
    assert.equal(messages[0]?.content, 'Own.\nc');
    const material = JSON.parse(messages[1]?.content ?? '');
    assert.deepEqual(material.messages, [{ role: 'user', content: 'Hello, please.' }]);
    assert.match(material.answer, /Hello, please\./);
  });
});

test('parameters that cannot be kept are refused', () => {
  const fine = { model: 'm', criteria: 'c' };
  assert.equal(faults(judge, { ...fine, config: { provider: '@openai', retry: { attempts: 2 } } }), '');
  assert.match(faults(judge, { model: 'm' }), /criteria/);
  assert.match(faults(judge, { ...fine, threshold: 2 }), /threshold/);
  assert.match(faults(judge, { ...fine, criterion: 'x' }), /criterion/);
  assert.match(
    faults(judge, { ...fine, config: { targets: [{ provider: 'openai', api_key: 'k' }] } }),
    /\/config\/targets\/0\/api_key is a credential/,
  );
});
