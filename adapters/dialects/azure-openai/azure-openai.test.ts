import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { UpstreamPlan } from '../../../core/dialects/upstream-plan.ts';
import { azureOpenAiHost } from './index.ts';

const host = (settings: Record<string, string>, model = 'gpt-4o'): HostFacts => ({
  provider: 'blue',
  model,
  quirks: {},
  usageInStream: 'on_request',
  settings,
});

function plan(endpoint: EndpointId, path: string, facts: HostFacts, query = ''): UpstreamPlan {
  return azureOpenAiHost.plan({
    endpoint,
    spoken: 'openai-chat',
    method: 'POST',
    path,
    query,
    stream: false,
    host: facts,
  });
}

const dated = { azure_api_version: '2024-10-21' };
const named = { ...dated, azure_deployment_id: 'my dep' };

describe('paths', () => {
  const cases: readonly (readonly [EndpointId, string, Record<string, string>, string, string])[] = [
    [
      'chat.completions',
      '/chat/completions',
      named,
      '',
      '/deployments/my%20dep/chat/completions?api-version=2024-10-21',
    ],
    [
      'chat.completions',
      '/chat/completions',
      dated,
      '',
      '/deployments/gpt-4o/chat/completions?api-version=2024-10-21',
    ],
    [
      'completions',
      '/completions',
      named,
      '?x=1',
      '/deployments/my%20dep/completions?x=1&api-version=2024-10-21',
    ],
    ['embeddings', '/embeddings', named, '?api-version=9', '/deployments/my%20dep/embeddings?api-version=9'],
    [
      'images.generations',
      '/images/generations',
      named,
      '',
      '/deployments/my%20dep/images/generations?api-version=2024-10-21',
    ],
    ['images', '/images/edits', named, '', '/deployments/my%20dep/images/edits?api-version=2024-10-21'],
    [
      'audio',
      '/audio/transcriptions',
      named,
      '',
      '/deployments/my%20dep/audio/transcriptions?api-version=2024-10-21',
    ],
    ['responses', '/responses', named, '', '/responses?api-version=2024-10-21'],
    ['files', '/files/f1/content', named, '', '/files/f1/content?api-version=2024-10-21'],
    ['batches', '/batches', named, '', '/batches?api-version=2024-10-21'],
    ['proxy', '/realtime', named, '', '/realtime?api-version=2024-10-21&deployment=my%20dep'],
    ['chat.completions', '/chat/completions', {}, '', '/v1/chat/completions'],
    [
      'chat.completions',
      '/chat/completions',
      { azure_api_version: 'v1' },
      '?a=b',
      '/v1/chat/completions?a=b',
    ],
    ['responses', '/responses', { azure_api_version: 'preview' }, '', '/v1/responses?api-version=preview'],
    ['files', '/files', {}, '', '/v1/files'],
  ];
  for (const [endpoint, path, settings, query, expected] of cases) {
    test(`${path}${query} with ${JSON.stringify(settings)}`, () => {
      const found = plan(endpoint, path, host(settings), query);
      assert.equal(found.kind === 'pass' ? found.path : found.kind, expected);
    });
  }
});

test('the body names the deployment only where the path does not', () => {
  const model = (endpoint: EndpointId, path: string, settings: Record<string, string>): unknown => {
    const found = plan(endpoint, path, host(settings));
    let written: unknown;
    if (found.kind === 'pass')
      found.edit?.({
        json: { model: 'gpt-4o' },
        set: (_path, value) => (written = value),
        remove: () => undefined,
      });
    return written;
  };
  assert.equal(model('chat.completions', '/chat/completions', { azure_deployment_id: 'dep' }), 'dep');
  assert.equal(model('responses', '/responses', { ...dated, azure_deployment_id: 'dep' }), 'dep');
  assert.equal(model('embeddings', '/embeddings', { ...dated, azure_deployment_id: 'dep' }), undefined);
  assert.equal(model('embeddings', '/embeddings', {}), undefined);
});

test('chat of another dialect is translated and sent to the deployment', () => {
  const send = (settings: Record<string, string>): { path: string; body: Record<string, unknown> } => {
    const found = plan('messages', '/messages', host(settings, 'asked'));
    assert.ok(found.kind === 'chat');
    const request = {
      model: 'asked',
      stream: false,
      tools: [],
      messages: [{ role: 'user' as const, parts: [{ type: 'text' as const, text: 'a' }] }],
      maxOutputTokens: 5,
    };
    const { path, body } = found.codec.encodeRequest(request, host(settings, 'asked'), new EncodeReport());
    return { path, body: JSON.parse(String(body)) as Record<string, unknown> };
  };
  assert.equal(send(named).path, '/deployments/my%20dep/chat/completions?api-version=2024-10-21');
  const undated = send({ azure_deployment_id: 'dep', azure_model_name: 'gpt-5' });
  assert.deepEqual([undated.path, undated.body.model], ['/v1/chat/completions', 'dep']);
  assert.deepEqual([undated.body.max_completion_tokens, undated.body.max_tokens], [5, undefined]);
  assert.equal(send(dated).body.max_tokens, 5);
});

test('what Azure does not have is refused, and so is a call without any deployment', () => {
  for (const endpoint of ['messages.count_tokens', 'moderations', 'rerank'] as const)
    assert.equal(plan(endpoint, '/x', host(named)).kind, 'refuse');
  const found = plan('audio', '/audio/transcriptions', host(dated, ''));
  assert.match(found.kind === 'refuse' ? found.message : '', /azure_deployment_id/);
});
