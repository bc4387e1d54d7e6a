import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { headerValue } from '../../../core/ports/header-list.ts';
import { messageOf } from '../../kit/messages-stream-kit.ts';
import { startPlanGateway } from '../../kit/plan-kit.ts';
import * as up from '../../kit/upstream-scenes.ts';

const option = 'x-service-last-used-option-index';
const a = { provider: '@a' };
const b = { provider: '@b' };
const c = { provider: '@c' };
const fallback = (targets: readonly object[], codes?: readonly number[]) => ({
  strategy: { mode: 'fallback', ...(codes === undefined ? {} : { on_status_codes: codes }) },
  targets,
});
const said = (answer: { json(): any }): string => answer.json().choices[0].message.content;

describe('fallback', () => {
  for (const status of [400, 401, 404, 408, 413, 418, 429, 500, 503, 529]) {
    test(`without codes, ${status} goes on to the next target`, async (t) => {
      const kit = await startPlanGateway(t, { a: [up.fails(status)], b: [up.chat('from b')] });
      const answer = await kit.answer(fallback([a, b]));
      assert.deepEqual([answer.status, said(answer), kit.called()], [200, 'from b', ['a', 'b']]);
      assert.equal(answer.headers[option], 'config.targets[1]');
      assert.deepEqual(kit.times(), [0, 0], 'at once');
    });
  }

  const listed: readonly [string, up.UpstreamScene, readonly number[], boolean][] = [
    ['a listed status', up.fails(429), [429, 503], true],
    ['another status', up.fails(500), [429, 503], false],
    ['no connection, where 502 is listed', up.refuses(), [502], true],
    ['no connection, where it is not', up.refuses(), [429], false],
    ['a listed status that is a good one', up.answers(246, '{"error":{}}'), [246], true],
  ];
  for (const [name, scene, codes, goesOn] of listed) {
    test(`with codes: ${name} ${goesOn ? 'goes on' : 'stays'}`, async (t) => {
      const kit = await startPlanGateway(t, { a: [scene], b: [up.chat('from b')] });
      const answer = await kit.answer(fallback([a, b], codes));
      assert.deepEqual(kit.called(), goesOn ? ['a', 'b'] : ['a']);
      assert.equal(answer.headers[option], `config.targets[${goesOn ? 1 : 0}]`);
      assert.equal(answer.status === 200, goesOn);
    });
  }

  test('a good answer needs no other', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.chat('from a')], b: [up.chat('from b')] });
    const answer = await kit.answer(fallback([a, b]));
    assert.deepEqual(
      [said(answer), kit.called(), answer.headers[option]],
      ['from a', ['a'], 'config.targets[0]'],
    );
  });

  test('when all fail, the last answer reaches the client', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(500)], b: [up.fails(418, ['x-from', 'b'])] });
    const answer = await kit.answer(fallback([a, b]));
    assert.deepEqual([answer.status, answer.headers['x-from']], [418, 'b']);
    assert.equal(answer.json().error.message, 'failed with 418');
    assert.equal(answer.headers[option], 'config.targets[1]');
  });

  test('when the last brings no answer, its error reaches the client', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(500)], b: [up.refuses()] });
    const answer = await kit.answer(fallback([a, b]));
    assert.deepEqual([answer.status, answer.json().error.code], [502, 'upstream_unreachable']);
    assert.match(answer.json().error.message, /b\.test/);
    assert.equal(answer.headers[option], 'config.targets[1]');
  });

  test('each target has retries of its own', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(503)], b: [up.fails(500), up.chat('from b')] });
    const retry = { attempts: 2 };
    const answer = await kit.answer(
      fallback([
        { ...a, retry },
        { ...b, retry },
      ]),
    );
    assert.deepEqual([said(answer), kit.called()], ['from b', ['a', 'a', 'a', 'b', 'b']]);
    assert.equal(answer.headers['x-service-retry-attempt-count'], '1');
    assert.equal((await answer.settled()).facts.attempts, 5);
  });

  test('a config without targets is its own target', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.chat('from a')] });
    assert.equal((await kit.answer(a)).headers[option], 'config');
  });

  test('a request that no target would take is refused once', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.chat('from a')], b: [up.chat('from b')] });
    const raw = { type: 'application/json', bytes: Buffer.from('{"model":') };
    const answer = await kit.answer(fallback([a, b]), { raw });
    assert.deepEqual([answer.status, answer.json().error.code, kit.called()], [400, 'invalid_json', []]);
  });
});

describe('fallbacks in fallbacks', () => {
  const nested = fallback([fallback([a, b]), c]);
  const cases: readonly [string, object, Record<string, up.UpstreamScene[]>, string[], string][] = [
    ['the first', nested, { a: [up.chat('x')] }, ['a'], 'config.targets[0].targets[0]'],
    [
      'the second',
      nested,
      { a: [up.fails(500)], b: [up.chat('x')] },
      ['a', 'b'],
      'config.targets[0].targets[1]',
    ],
    [
      'the outer one, when the inner ones are used up',
      nested,
      { a: [up.fails(500)], b: [up.refuses()], c: [up.chat('x')] },
      ['a', 'b', 'c'],
      'config.targets[1]',
    ],
    [
      'the outer one, when the inner codes stop the inner ones',
      fallback([fallback([a, b], [429]), c]),
      { a: [up.fails(500)], c: [up.chat('x')] },
      ['a', 'c'],
      'config.targets[1]',
    ],
    [
      'none, when the outer codes do not list it',
      fallback([fallback([a, b]), c], [429]),
      { a: [up.fails(429)], b: [up.fails(500)] },
      ['a', 'b'],
      'config.targets[0].targets[1]',
    ],
  ];
  for (const [name, config, scenes, called, leaf] of cases) {
    test(`end at ${name}`, async (t) => {
      const kit = await startPlanGateway(t, scenes);
      const answer = await kit.answer(config);
      assert.deepEqual([kit.called(), answer.headers[option]], [called, leaf]);
    });
  }
});

describe('what reaches each target', () => {
  test('its own parameters and its own credential', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(500)], b: [up.fails(500)], c: [up.chat('x')] });
    const body = { temperature: 0.5, user: 'u', seed: 7 };
    const answer = await kit.answer(
      fallback([
        { ...a, override_params: { model: 'm-a', temperature: 1 } },
        { ...b, default_params: { temperature: 2, top_p: 0.25 }, drop_params: ['user'] },
        c,
      ]),
      { body },
    );
    assert.equal(answer.status, 200);
    const sent = kit.transport.calls.map((call) => JSON.parse(String(call.body)) as Record<string, unknown>);
    const { messages } = sent[2]!;
    assert.deepEqual(sent, [
      { model: 'm-a', stream: false, messages, temperature: 1, user: 'u', seed: 7 },
      { model: 'm', stream: false, messages, temperature: 0.5, seed: 7, top_p: 0.25 },
      { model: 'm', stream: false, messages, temperature: 0.5, user: 'u', seed: 7 },
    ]);
    assert.deepEqual(
      kit.transport.calls.map(({ request }) => headerValue(request.headers, 'authorization')),
      ['Bearer secret-a', 'Bearer secret-b', 'Bearer secret-c'],
    );
  });

  test('the same holds for each retry', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(500), up.fails(500), up.chat('x')] });
    await kit.answer({ ...a, retry: { attempts: 2 }, override_params: { seed: 1 } });
    const bodies = kit.transport.calls.map((call) => String(call.body));
    assert.equal(new Set(bodies).size, 1);
    assert.equal(JSON.parse(bodies[2]!).seed, 1);
  });

  test('the model that it wants, also where the client names it in the path', async (t) => {
    const gemini = (name: string) => ({
      dialect: 'google-gemini' as const,
      base_url: `http://${name}.test`,
      api_key: 'secret',
    });
    const kit = await startPlanGateway(
      t,
      { a: [up.fails(500)], b: [up.answers(200, { candidates: [] })] },
      { providers: { ga: gemini('a'), gb: gemini('b') } },
    );
    const targets = [{ provider: '@ga', override_params: { model: 'm-a' } }, { provider: '@gb' }];
    const bytes = Buffer.from(JSON.stringify({ contents: [{ role: 'user', parts: [{ text: 'x' }] }] }));
    const raw = { type: 'application/json', bytes };
    await kit.answer(fallback(targets), { path: '/v1beta/models/m:generateContent', raw });
    assert.deepEqual(
      kit.transport.calls.map(({ request }) => request.path),
      ['/v1beta/models/m-a:generateContent', '/v1beta/models/m:generateContent'],
    );
    assert.deepEqual(
      kit.transport.calls.map(({ body }) => String(body)),
      [String(bytes), String(bytes)],
    );
  });

  test('the request in its own words, and its answer in the client’s', async (t) => {
    const kit = await startPlanGateway(t, {
      a: [up.fails(503)],
      claude: [up.fails(529), up.answers(200, messageOf('from claude'))],
      b: [up.chat('from b')],
    });
    const claude = { provider: '@claude', override_params: { model: 'claude-1', max_tokens: 9 } };
    const answer = await kit.answer(fallback([a, { ...claude, retry: { attempts: 1 } }, b]));
    assert.deepEqual([said(answer), kit.called()], ['from claude', ['a', 'claude', 'claude']]);
    const { request, body } = kit.transport.calls[2]!;
    assert.deepEqual(
      [request.path, headerValue(request.headers, 'x-api-key')],
      ['/v1/messages', 'secret-claude'],
    );
    const { model, max_tokens: most } = JSON.parse(String(body));
    assert.deepEqual([model, most], ['claude-1', 9]);
    assert.equal(answer.json().object, 'chat.completion');
    assert.equal((await answer.settled()).facts.usage?.totalTokens, 7);
  });

  test('after a target of another wire, the request in the client’s own words again', async (t) => {
    const kit = await startPlanGateway(t, { claude: [up.fails(529)], b: [up.chat('from b')] });
    const claude = { provider: '@claude', override_params: { max_tokens: 9 } };
    const answer = await kit.answer(fallback([claude, b]), { body: { seed: 7 } });
    assert.deepEqual([said(answer), kit.called()], ['from b', ['claude', 'b']]);
    const { request, body } = kit.transport.calls[1]!;
    assert.equal(request.path, '/v1/chat/completions');
    assert.equal(JSON.parse(String(body)).seed, 7);
    assert.equal(answer.headers['x-service-dropped'], undefined, 'the second was told all of it');
    assert.deepEqual((await answer.settled()).facts.dropped, []);
  });
});
