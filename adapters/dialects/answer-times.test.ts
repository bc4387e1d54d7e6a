import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerContext, host, readAll, sse } from './openai-chat/codec.test-support.ts';
import { modelListings } from './host-endpoints.ts';
import { googleGemini } from './google-gemini/index.ts';
import { openAiChatProvider } from './openai-chat/host.ts';
import { openAiResponsesHost } from './openai-responses/host.ts';

const context = answerContext();
const { chat: gemini } = googleGemini;
const plan = openAiResponsesHost.plan({
  ...{ endpoint: 'chat.completions', spoken: 'openai-chat', method: 'POST' },
  ...{ path: '/chat/completions', query: '', stream: true, host: host() },
});

for (const created of [1e14, 253_402_300_800, 1.5e300]) {
  test(`an answer of the second ${created}, which no calendar has, is given without its time`, () => {
    const chunk = { id: 'a', model: 'm', created, choices: [{ index: 0, delta: { content: 'Hi' } }] };
    const choices = [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }];
    const whole = Buffer.from(JSON.stringify({ id: 'a', model: 'm', created, choices }));
    const answer = openAiChatProvider.decodeAnswer(whole, context);
    assert.equal(answer.createdAt, undefined);
    assert.equal(JSON.parse(String(gemini?.encodeAnswer(answer, context))).createTime, undefined);
    const events = readAll(openAiChatProvider.eventReader('text/event-stream', context), [
      sse(chunk, '[DONE]'),
    ]);
    assert.ok(String(gemini?.eventWriter(context).write(events)).includes('"Hi"'));
  });
  test(`so is an answer of Responses of the second ${created}`, () => {
    assert.ok(plan.kind === 'chat');
    const response = { id: 'r', model: 'm', created_at: created, status: 'completed', output: [] };
    const answer = plan.codec.decodeAnswer(Buffer.from(JSON.stringify(response)), context);
    assert.equal(answer.createdAt, undefined);
    const begun = { type: 'response.created', response: { ...response, status: 'in_progress' } };
    const events = readAll(plan.codec.eventReader('text/event-stream', context), [sse(begun)]);
    assert.doesNotThrow(() => gemini?.eventWriter(context).write(events));
  });
  test(`a model of the second ${created} is listed without its date`, () => {
    const body = Buffer.from(JSON.stringify({ data: [{ id: 'a', created }] }));
    assert.deepEqual(modelListings['openai-chat']?.read(body), [{ id: 'a' }]);
  });
}

test('the time of an answer is a whole second', () => {
  assert.ok(plan.kind === 'chat');
  const response = { id: 'r', model: 'm', created_at: 1_730_000_000.75, status: 'completed', output: [] };
  const answer = plan.codec.decodeAnswer(Buffer.from(JSON.stringify(response)), context);
  assert.equal(answer.createdAt, 1_730_000_000);
});
