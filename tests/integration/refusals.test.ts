import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import auth from '../../plugins/auth/index.ts';
import { definePlugin, defineRoute, Type } from '../../core/pipeline/plugin.ts';
import { providerPlugin, startTestGateway } from '../kit/gateway-kit.ts';
import { send, startUpstream } from '../kit/http-kit.ts';

const chat = JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content: 'Hi' }] });

function errorOf(body: Buffer): { code: string; message: string; param: string | null; type: string } {
  return (JSON.parse(body.toString()) as { error: ReturnType<typeof errorOf> }).error;
}

describe('a request that cannot be routed is refused with what to do', () => {
  const cases: readonly [string, string, number, Record<string, string>, RegExp][] = [
    ['no provider', 'provider_missing', 400, {}, /x-service-virtual-key.*x-service-provider/],
    [
      'an unknown provider',
      'provider_unknown',
      400,
      { 'x-service-provider': 'opnai' },
      /Did you mean "openai"/,
    ],
    ['an unknown slug', 'provider_unknown', 400, { 'x-service-provider': '@locl' }, /Did you mean "local"/],
    ['a built-in row as a slug', 'provider_unknown', 400, { 'x-service-provider': '@openai' }, /@?openai/],
    [
      'two providers',
      'provider_ambiguous',
      400,
      { 'x-service-provider': 'openai', 'x-service-virtual-key': 'local' },
      /two providers/,
    ],
    ['a config that is not there', 'config_unknown', 400, { 'x-service-config': 'pc-1' }, /"pc-1"/],
    [
      'an untrusted host',
      'custom_host_refused',
      400,
      { 'x-service-provider': 'openai', 'x-service-custom-host': 'http://169.254.169.254/v1' },
      /trusted_hosts/,
    ],
    [
      'a host with credentials',
      'custom_host_refused',
      400,
      { 'x-service-provider': 'openai', 'x-service-custom-host': 'http://u:p@127.0.0.1' },
      /credentials/,
    ],
    [
      'another scheme',
      'custom_host_refused',
      400,
      { 'x-service-provider': 'openai', 'x-service-custom-host': 'file:///etc/passwd' },
      /http/,
    ],
  ];
  for (const [name, code, status, headers, message] of cases) {
    it(name, async (t) => {
      const { url } = await startTestGateway(t, {
        plugins: [providerPlugin()],
        providers: { local: { base_url: 'http://127.0.0.1:9/v1', api_key: 'held' } },
      });
      const answer = await send(`${url}/v1/chat/completions`, { method: 'POST', headers, body: chat });
      assert.equal(answer.status, status);
      const error = errorOf(answer.body);
      assert.equal(error.code, code);
      assert.match(error.message, message);
    });
  }
});

describe('a body that cannot be sent is refused', () => {
  const cases: readonly [string, string, string][] = [
    ['no JSON', '{"model":', 'invalid_json'],
    ['an array', '[]', 'invalid_json'],
    ['nothing', '', 'invalid_json'],
    ['no messages', '{"model":"m"}', 'invalid_request'],
  ];
  for (const [name, body, code] of cases) {
    it(name, async (t) => {
      const { url } = await startTestGateway(t);
      const headers = { 'x-service-provider': 'mock', 'content-type': 'application/json' };
      const answer = await send(`${url}/v1/chat/completions`, { method: 'POST', headers, body });
      assert.deepEqual([answer.status, errorOf(answer.body).code], [400, code]);
    });
  }
});

it('an answer over max_answer_bytes is not held: upstream_too_large', async (t) => {
  const upstream = await startUpstream(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ text: 'x'.repeat(10_000) }));
  });
  const { url } = await startTestGateway(t, {
    plugins: [providerPlugin({ max_answer_bytes: 1024 })],
    providers: { local: { base_url: upstream.url, api_key: 'held' } },
  });
  const headers = { 'x-service-provider': '@local', 'content-type': 'application/json' };
  const answer = await send(`${url}/v1/chat/completions`, { method: 'POST', headers, body: chat });
  assert.deepEqual([answer.status, errorOf(answer.body).code], [502, 'upstream_too_large']);
});

describe('an administration route', () => {
  const routes = definePlugin({
    name: 'test-routes',
    capabilities: { needs: ['key'], routes: true },
    create: () => ({
      routes: [
        defineRoute({
          id: 'broken.get',
          method: 'GET',
          path: '/broken',
          summary: 'Breaks its own contract.',
          scope: 'logs.view',
          audit: null,
          reply: Type.Object({ count: Type.Integer() }),
          handle: () => ({ count: 'three' }) as never,
        }),
      ],
    }),
  });
  const secret = 'wk_0123456789abcdef';
  const start = (t: Parameters<typeof startTestGateway>[0], scopes: string[]) =>
    startTestGateway(t, {
      pipelines: [
        {
          name: 'admin',
          match: { routes: 'contributed' },
          plugins: [{ plugin: auth, options: { keys: [{ name: 'k', key: secret, scopes }] } }, routes],
        },
        { name: 'gateway', match: { path: '/**' }, plugins: [providerPlugin()] },
      ],
    });
  const outcome = async (url: string) => {
    const answer = await send(`${url}/v1/broken`, { headers: { 'x-service-api-key': secret } });
    const { success, data } = JSON.parse(answer.body.toString()) as {
      success: boolean;
      data: { errorCode: string };
    };
    return [answer.status, success, data.errorCode];
  };

  it('that answers outside of its schema holds the answer back: reply_invalid', async (t) => {
    const { url, lines } = await start(t, ['logs.view']);
    assert.deepEqual(await outcome(url), [500, false, 'AB04']);
    assert.ok(lines.some((line) => JSON.stringify(line).includes('broken.get')));
  });

  it('refuses a key without its scope: scope_missing', async (t) => {
    const { url } = await start(t, ['analytics.view']);
    assert.deepEqual(await outcome(url), [403, false, 'AB03']);
  });
});
