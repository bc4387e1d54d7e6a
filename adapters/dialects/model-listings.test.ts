import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DialectName } from '../../core/dialects/endpoint.ts';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import { modelListings } from './host-endpoints.ts';

const read = (dialect: DialectName, value: unknown) =>
  modelListings[dialect]?.read(Buffer.from(JSON.stringify(value)));

test('every wire’s list of models is read', () => {
  assert.deepEqual(read('openai-chat', { data: [{ id: 'a', created: 5, owned_by: 'me' }, { name: 'x' }] }), [
    { id: 'a', created: 5, ownedBy: 'me' },
  ]);
  // A bare list, as some compatible hosts answer.
  assert.deepEqual(read('openai-chat', [{ id: 'a' }]), [{ id: 'a' }]);
  assert.deepEqual(
    read('anthropic-messages', { data: [{ id: 'claude', created_at: '2025-02-19T00:00:00Z' }] }),
    [{ id: 'claude', created: 1_739_923_200 }],
  );
  assert.deepEqual(read('google-gemini', { models: [{ name: 'models/gemini-2.5-pro' }] }), [
    { id: 'gemini-2.5-pro' },
  ]);
  assert.deepEqual(read('cohere-v2', { models: [{ name: 'command-a' }] }), [{ id: 'command-a' }]);
  assert.deepEqual(read('workers-ai', { result: [{ name: '@cf/meta/llama' }] }), [{ id: '@cf/meta/llama' }]);
});

test('anything else is no list', () => {
  for (const value of [{}, { data: {} }, 'text', { models: [] }]) {
    assert.throws(
      () => read('openai-chat', value),
      (error: GatewayError) => error.code === 'upstream_invalid',
    );
  }
});
