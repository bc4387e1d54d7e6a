import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileSchema } from '../../../core/config/ajv.ts';
import { hasScope } from '../../../core/access/scopes.ts';
import type { Scope } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { defaultSecurity } from '../../../core/ports/organisation-settings.ts';
import type { BodyRow, RequestRow } from '../../../core/ports/request-row.ts';
import { compileRedaction, type Redaction } from '../../../core/redaction/redaction.ts';
import { providerTable } from '../../../adapters/providers.ts';
import { testKey, testRouteInput, testScope } from '../../../tests/kit/plugin-kit.ts';
import { insertLogsRoute } from './reported.ts';

const key = testKey({ userId: 'ann' });
const url = 'https://api.openai.com/v1/chat/completions';
const usage = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };
const answer = { model: 'gpt-5-2026', choices: [{ finish_reason: 'stop' }], usage };
const whole = {
  request: { url, method: 'post', headers: { authorization: 'Bearer secret' }, body: { model: 'gpt-5' } },
  response: { status: 200, headers: { 'x-request-id': '1' }, body: answer, response_time: 120 },
  metadata: { trace_id: 't', span_id: 's', parent_span_id: 'p', span_name: 'n', _user: 'bob', team: 'a' },
};

function setting(overrides: Partial<Scope> = {}, redaction?: Redaction) {
  const priced: unknown[] = [];
  const { scope, journal } = testScope(overrides);
  const whole: Scope = {
    ...scope,
    router: { ...scope.router, providers: providerTable },
    prices: {
      ...scope.prices,
      price(...asked) {
        priced.push(asked.slice(1, 3));
        return { cost: '0.500000000000', status: 'priced', version: 'v' };
      },
    },
  };
  const route = insertLogsRoute(whole, redaction);
  return {
    route,
    journal,
    priced,
    async post(body: unknown, by: KeyRecord = key) {
      assert.ok(route.body);
      assert.deepEqual(compileSchema(route.body)(body), []);
      const reply = (await route.handle(testRouteInput({ body, key: by }))) as {
        status: string;
        ids: string[];
      };
      assert.deepEqual(compileSchema(route.reply)(reply), []);
      return {
        reply,
        rows: journal.rows<RequestRow>('requests'),
        bodies: journal.rows<BodyRow>('bodies'),
      };
    },
  };
}

test('a reported request becomes a row and its bodies', async () => {
  const { post, priced } = setting();
  const { reply, rows, bodies } = await post(whole);
  const [id] = reply.ids;
  assert.deepEqual([reply.status, reply.ids.length], ['success', 1]);
  assert.deepEqual(rows, [
    {
      id,
      created_at: '2026-11-21 09:00:00.000',
      organisation_id: 'org-1',
      workspace_id: 'ws-1',
      api_key_id: 'key-1',
      user_id: 'ann',
      source: 'api',
      method: 'POST',
      path: '/v1/chat/completions',
      endpoint: 'chat.completions',
      status: 200,
      outcome: 'completed',
      is_success: true,
      ai_service: 'openai',
      provider: 'openai',
      model_requested: 'gpt-5',
      model: 'gpt-5-2026',
      upstream_host: 'api.openai.com',
      latency_ms: 120,
      upstream_ms: 120,
      attempts: 1,
      request_bytes: 17,
      response_bytes: JSON.stringify(answer).length,
      prompt_tokens: 7,
      completion_tokens: 3,
      total_tokens: 10,
      finish_reason: 'stop',
      cost: '0.500000000000',
      pricing: 'priced',
      price_version: 'v',
      metadata: { _user: 'bob', team: 'a' },
      trace_id: 't',
      span_id: 's',
      parent_span_id: 'p',
      span_name: 'n',
    },
  ]);
  assert.deepEqual(bodies, [
    {
      id,
      created_at: '2026-11-21 09:00:00.000',
      organisation_id: 'org-1',
      workspace_id: 'ws-1',
      request: '{"model":"gpt-5"}',
      request_truncated: false,
      response: JSON.stringify(answer),
      response_truncated: false,
      log_format: 'json',
    },
  ]);
  assert.deepEqual(priced, [['openai', 'gpt-5-2026']]);
  assert.doesNotMatch(JSON.stringify([rows, bodies]), /secret/);
});

test('a list, and what is taken for granted', async () => {
  const { rows, reply } = await setting().post([
    { request: { url: '/v1/unknown?key=x', body: 'text' }, response: { body: {} } },
    whole,
  ]);
  assert.deepEqual(
    rows.map(({ id }) => id),
    reply.ids,
  );
  const [first] = rows;
  assert.deepEqual(
    [first?.method, first?.path, first?.endpoint, first?.status, first?.upstream_host, first?.trace_id],
    ['POST', '/v1/unknown', 'proxy', 200, undefined, first?.id],
  );
});

describe('how answers are read', () => {
  const reading: [string, string, unknown, Partial<RequestRow>][] = [
    [
      'Anthropic',
      'https://api.anthropic.com/v1/messages',
      {
        type: 'message',
        model: 'claude',
        usage: { input_tokens: 5, output_tokens: 6 },
        stop_reason: 'end_turn',
      },
      {
        endpoint: 'messages',
        ai_service: 'anthropic',
        prompt_tokens: 5,
        completion_tokens: 6,
        model: 'claude',
      },
    ],
    [
      'Gemini',
      'https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:generateContent',
      {
        usageMetadata: { promptTokenCount: 4, candidatesTokenCount: 2, totalTokenCount: 6 },
        modelVersion: 'gemini',
      },
      { endpoint: 'generate-content', prompt_tokens: 4, completion_tokens: 2, model: 'gemini' },
    ],
    [
      'a deployment below a path of its host',
      'https://x.openai.azure.com/openai/deployments/mine/chat/completions?api-version=1',
      answer,
      { endpoint: 'chat.completions', total_tokens: 10, path: '/openai/deployments/mine/chat/completions' },
    ],
    [
      'a stream',
      url,
      `data: ${JSON.stringify({ model: 'm', choices: [{ delta: { content: 'a' } }] })}\n\ndata: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`,
      { total_tokens: 10, model: 'm' },
    ],
    ['what is no answer of its wire', url, 'not json', { model: 'gpt-5' }],
  ];
  for (const [name, address, body, expected] of reading) {
    test(name, async () => {
      const { rows } = await setting().post({
        ...whole,
        request: { ...whole.request, url: address },
        response: { body },
      });
      for (const [column, value] of Object.entries(expected))
        assert.equal(rows[0]?.[column as keyof RequestRow], value, column);
    });
  }

  test('an error of the provider', async () => {
    const { rows } = await setting().post({
      ...whole,
      response: { status: 429, body: { error: { message: 'slow' } } },
    });
    const [row] = rows;
    assert.deepEqual([row?.status, row?.is_success, row?.error_source], [429, undefined, 'provider']);
  });

  test('a provider by name', async () => {
    const { rows } = await setting().post({ ...whole, request: { ...whole.request, provider: 'my-own' } });
    assert.deepEqual([rows[0]?.ai_service, rows[0]?.provider], ['my-own', 'my-own']);
  });
});

test('bodies are cut at what is kept of any request, between characters', async () => {
  const long = 'é'.repeat(140_000);
  const { bodies } = await setting().post({
    request: { url, body: `x${long}` },
    response: { body: 'short' },
  });
  const [body] = bodies;
  assert.deepEqual(
    [body?.request_truncated, body?.response_truncated, body?.log_format],
    [true, false, 'text'],
  );
  assert.equal(Buffer.byteLength(body?.request ?? ''), 262_143);
  assert.ok(body?.request.endsWith('é'));
});

test('whole numbers beyond 2^53 keep their digits', async () => {
  const { post } = setting();
  const request = { url, body: { model: 'gpt-5', seed: 9_007_199_254_740_993n } };
  const { bodies } = await post({ request, response: { body: [18_446_744_073_709_551_615n] } });
  assert.deepEqual(
    [bodies[0]?.request, bodies[0]?.response],
    ['{"model":"gpt-5","seed":9007199254740993}', '[18446744073709551615]'],
  );
});

test('no bodies where the workspace or the key keeps none', async () => {
  const { scope } = testScope();
  const directory = {
    ...scope.directory,
    settingsIn: () => ({ ...defaultSecurity, logging: { mode: 'metadata' as const } }),
  };
  const ofWorkspace = await setting({ directory }).post(whole);
  assert.deepEqual([ofWorkspace.rows.length, ofWorkspace.bodies.length], [1, 0]);
  const silent = testKey({ defaults: { logBodies: false } });
  assert.equal((await setting().post(whole, silent)).bodies.length, 0);
});

test('says so when the journal has no room', async () => {
  const { post, journal } = setting();
  let shed = 0;
  journal.append = () => void (shed += 1);
  journal.state = () => ({ accepted: shed, stored: 0, pending: 0, shed });
  await assert.rejects(post(whole), { code: 'store_unavailable' });
});

test('an address that is none is refused with its place', async () => {
  const bad = { ...whole, request: { ...whole.request, url: 'http://[' } };
  await assert.rejects(setting().post([whole, bad]), { code: 'invalid_request', param: '/1/request/url' });
  await assert.rejects(setting().post(bad), { code: 'invalid_request', param: '/request/url' });
});

test('nothing that the rules of redaction name is written anywhere', async () => {
  const rules = [{ path: 'messages[*].content' }, { pattern: 'email' as const, replacement: '<mail>' }];
  const { post, journal } = setting({}, compileRedaction(rules, 'wk_'));
  const said = 'ann@example.com';
  const chat = {
    request: {
      url: `https://api.openai.com/${said}/v1/chat/completions`,
      body: { model: 'gpt-5', messages: [{ role: 'user', content: said }] },
    },
    response: { status: 400, body: { error: { message: `no ${said}` } } },
    metadata: { _user: said, team: 'a' },
  };
  const stream = {
    request: { url, body: { model: 'gpt-5', stream: true } },
    response: {
      body: `data: {"choices":[{"delta":{"content":"ann@exa"}}]}\n\ndata: {"choices":[{"delta":{"content":"mple.com"}}]}\n\n`,
    },
  };
  const long = { request: { url, body: 'x'.repeat(262_140) + ' ann@example.com' }, response: { body: '' } };
  const { rows, bodies } = await post([chat, stream, long]);
  assert.deepEqual(
    [rows[0]?.path, rows[0]?.error_message, rows[0]?.metadata],
    ['/<mail>/v1/chat/completions', 'no <mail>', { _user: '<mail>', team: 'a' }],
  );
  assert.deepEqual(
    bodies.slice(0, 2).map(({ request, response }) => [request, response]),
    [
      [
        '{"model":"gpt-5","messages":[{"role":"user","content":"[redacted]"}]}',
        '{"error":{"message":"no <mail>"}}',
      ],
      [
        '{"model":"gpt-5","stream":true}',
        'data: {"choices":[{"delta":{"content":"<mail>"}}]}\n\ndata: {"choices":[{"delta":{"content":""}}]}\n\n',
      ],
    ],
  );
  // Cut at its bound, it ends in a half of the address, which is found only whole.
  assert.equal(bodies[2]?.request.trimEnd(), 'x'.repeat(262_140));
  const written = JSON.stringify([journal.rows('requests'), journal.rows('bodies')]);
  assert.ok(!written.includes('ann@'), 'the address stands somewhere');
});

test('what the body may not be', () => {
  const { body: schema } = setting().route;
  assert.ok(schema);
  const { request, response } = whole;
  const bad = [
    {},
    [],
    { request },
    { request: { body: {} }, response },
    { request: { url }, response },
    { request, response: { status: 99, body: {} } },
    { request, response, metadata: { number: 1 } },
    { request, response, created_at: '2020-01-01T00:00:00Z' },
    Array.from({ length: 101 }, () => whole),
  ];
  for (const one of bad)
    assert.notDeepEqual(compileSchema(schema)(one), [], JSON.stringify(one).slice(0, 80));
});

test('is for keys of workspaces that may write the log', () => {
  const scope = String(setting().route.scope);
  const may = (kind: KeyRecord['kind']): boolean => hasScope(testKey({ kind, scopes: ['*'] }), scope);
  assert.deepEqual(
    [may('organisation-service'), may('workspace-service'), may('workspace-user')],
    [false, true, true],
  );
});
