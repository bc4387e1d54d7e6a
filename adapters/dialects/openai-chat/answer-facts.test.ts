import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { scanAnswer } from './index.ts';

function scan(endpoint: EndpointId, body: unknown): ReturnType<typeof scanAnswer> {
  return scanAnswer(endpoint, Buffer.from(JSON.stringify(body)));
}

const vectors = Array.from({ length: 3 }, (_, index) => ({
  object: 'embedding',
  index,
  embedding: Array.from({ length: 512 }, (_none, i) => i / 7),
}));

test('embeddings, small and large, with the usage before or behind the vectors', () => {
  const usage = { prompt_tokens: 8, total_tokens: 8, prompt_tokens_details: { cached_tokens: 2 } };
  const bodies = [
    {
      object: 'list',
      data: vectors.slice(0, 1).map((item) => ({ ...item, embedding: [1] })),
      model: 'e-1',
      usage,
    },
    { object: 'list', data: vectors, model: 'e-1', usage },
    { object: 'list', model: 'e-1', usage, data: vectors },
  ];
  for (const body of bodies) {
    const facts = scan('embeddings', body);
    assert.equal(facts.model, 'e-1');
    assert.deepEqual(
      [facts.usage?.promptTokens, facts.usage?.completionTokens, facts.usage?.cachedTokens],
      [8, 0, 2],
    );
  }
});

test('a large embeddings answer without usage is read whole', () => {
  assert.deepEqual(scan('embeddings', { data: vectors, model: 'e-1' }), { model: 'e-1' });
});

test('usage is found where compatible hosts put it', () => {
  const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
  for (const body of [{ usage }, { x_groq: { usage } }, { choices: [{ usage }] }]) {
    assert.equal(scan('chat.completions', body).usage?.totalTokens, 7);
  }
});

test('an error inside a good answer is reported', () => {
  assert.equal(scan('chat.completions', { error: { message: 'm', code: 1 } }).errorMessage, 'm');
  assert.equal(scan('chat.completions', { error: 'text' }).errorMessage, 'text');
  assert.equal(scan('chat.completions', { object: 'error', message: 'm' }).errorMessage, 'm');
  assert.equal(scan('chat.completions', { error: null }).errorMessage, undefined);
  assert.equal(scan('proxy', { error: {} }).errorMessage, undefined);
});
