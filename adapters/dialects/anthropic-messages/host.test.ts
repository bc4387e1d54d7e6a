import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DialectName, EndpointId } from '../../../core/dialects/endpoint.ts';
import type { UpstreamPlan } from '../../../core/dialects/upstream-plan.ts';
import { hostOf } from './chat-setting.test-support.ts';
import { anthropicHost } from './host.ts';

function plan(endpoint: EndpointId, spoken: DialectName, path = '/x'): UpstreamPlan {
  const host = hostOf('claude-sonnet-4-5');
  return anthropicHost.plan({ endpoint, spoken, method: 'POST', path, query: '?a=1', stream: false, host });
}

test('its own wire passes as it is', () => {
  for (const endpoint of ['messages', 'messages.count_tokens', 'proxy'] as const) {
    assert.deepEqual(plan(endpoint, 'anthropic-messages'), { kind: 'pass', path: '/x?a=1' });
  }
});

test('other chat is translated, what is not modelled passes', () => {
  assert.equal(plan('chat.completions', 'openai-chat').kind, 'chat');
  assert.equal(plan('completions', 'openai-completions').kind, 'chat');
  assert.equal(plan('responses', 'openai-responses').kind, 'chat');
  assert.equal(plan('generate-content', 'google-gemini').kind, 'chat');
  assert.equal(plan('models', 'openai-chat').kind, 'pass');
  assert.equal(plan('files', 'openai-chat').kind, 'pass');
});

test('what Anthropic does not have is refused', () => {
  for (const endpoint of [
    'embeddings',
    'rerank',
    'images.generations',
    'audio.speech',
    'moderations',
  ] as const) {
    const refusal = plan(endpoint, 'openai-chat');
    assert.ok(refusal.kind === 'refuse');
    assert.match(refusal.message, /"anthropic" has no /);
  }
});
