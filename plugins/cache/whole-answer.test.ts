import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { cachedGateway, completion } from '../../tests/kit/cache-kit.ts';

describe('an answer that is not kept', () => {
  const json = { 'content-type': 'application/json' };
  const good = completion('answer 1') as { choices: object[] };
  const cases: readonly (readonly [string, number, Record<string, string>, string])[] = [
    ['a refusal', 429, json, JSON.stringify({ error: { message: 'slow down' } })],
    ['a failure', 500, json, JSON.stringify(good)],
    ['another success', 201, json, JSON.stringify(good)],
    ['an error in a 200', 200, json, JSON.stringify({ ...good, error: { message: 'no' } })],
    ['no JSON', 200, { 'content-type': 'text/html' }, '<p>Hello</p>'],
    ['half of the JSON', 200, json, JSON.stringify(good).slice(0, -5)],
    [
      'an answer that does not say how it ended',
      200,
      json,
      JSON.stringify({ ...good, choices: [{ index: 0 }] }),
    ],
    [
      'an answer that ended in an error',
      200,
      json,
      JSON.stringify({ ...good, choices: [{ ...good.choices[0], finish_reason: 'error' }] }),
    ],
    ['a compressed one', 200, { ...json, 'content-encoding': 'zstd' }, 'bytes'],
    ['one that is too long', 200, json, JSON.stringify(completion('x'.repeat(3000)))],
  ];
  for (const [name, status, headers, body] of cases) {
    test(name, async (t) => {
      const { ask, upstream } = await cachedGateway(t, {
        cache: { max_value_bytes: 2048 },
        answer: (_request, response) => response.writeHead(status, headers).end(body),
      });
      for (let i = 0; i < 2; i++) {
        const { headers: told, text } = await ask();
        assert.equal(told['x-service-cache-status'], 'MISS');
        assert.equal(text, body);
      }
      assert.equal(upstream.requests.length, 2);
    });
  }

  test('none at all', async (t) => {
    const { ask, upstream } = await cachedGateway(t, {
      answer: (_request, response) => void response.destroy(),
    });
    assert.equal((await ask()).status, 502);
    assert.equal((await ask()).status, 502);
    assert.ok(upstream.requests.length >= 2);
  });
});

describe('other endpoints', () => {
  const cases: readonly (readonly [string, object, object])[] = [
    [
      'embeddings',
      { input: 'x' },
      { object: 'list', data: [{ embedding: [1] }], usage: { total_tokens: 1 } },
    ],
    ['moderations', { input: 'x', model: 'text-moderation-latest' }, { id: 'm', results: [] }],
    ['rerank', { query: 'x', documents: ['y'] }, { results: [] }],
    ['responses', { input: 'x' }, { id: 'r', status: 'completed', output: [] }],
    ['messages', {}, { type: 'message', stop_reason: 'end_turn', content: [] }],
    ['completions', { prompt: 'x' }, { choices: [{ index: 0, text: 'y', finish_reason: 'length' }] }],
  ];
  for (const [path, body, answer] of cases) {
    test(`${path} are cached`, async (t) => {
      const { ask, upstream } = await cachedGateway(t, {
        answer: (_request, response) =>
          response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer)),
      });
      const asked = { path: `/v1/${path}`, body: { messages: undefined, ...body } };
      await ask(asked);
      const again = await ask(asked);
      assert.equal(again.headers['x-service-cache-status'], 'HIT', again.text);
      assert.deepEqual(again.json(), answer);
      assert.equal(upstream.requests.length, 1);
    });
  }

  test('a response that is not finished is not kept', async (t) => {
    const { ask, upstream } = await cachedGateway(t, {
      answer: (_request, response) =>
        response.writeHead(200, { 'content-type': 'application/json' }).end('{"id":"r","status":"queued"}'),
    });
    for (let i = 0; i < 2; i++) await ask({ path: '/v1/responses', body: { input: 'x' } });
    assert.equal(upstream.requests.length, 2);
  });
});
