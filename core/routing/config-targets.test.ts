import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RouteConfigInput } from '../organisation/route-config.ts';
import { providerPlugin } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { credentialsOf, key, ok, routed } from '../../tests/kit/routing-kit.ts';
import auth from '../../plugins/auth/index.ts';

const none = { authorization: undefined, boxed: undefined, azure: undefined };
const path = '/v1/chat/completions';
const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
const asHeader = (config: RouteConfigInput) => ({ ...key, 'x-service-config': JSON.stringify(config) });

describe('the credential of a config’s target', () => {
  const rows: readonly [string, RouteConfigInput, object, object][] = [
    [
      'is the one that the config brings',
      { provider: 'plain', api_key: 'mine' },
      {},
      { authorization: 'Bearer mine' },
    ],
    ['goes where the host expects it', { provider: 'boxed', api_key: 'mine' }, {}, { boxed: 'mine' }],
    ['is the held one for a slug', { provider: '@held' }, {}, { authorization: 'Bearer held-secret' }],
    [
      'is the held one for a virtual key',
      { virtual_key: 'held' },
      {},
      { authorization: 'Bearer held-secret' },
    ],
    [
      'is the caller’s for a built-in name',
      { provider: 'plain' },
      { authorization: 'Bearer sk' },
      { authorization: 'Bearer sk' },
    ],
    [
      'is never the caller’s for a slug',
      { provider: '@held' },
      { authorization: 'Bearer sk' },
      { authorization: 'Bearer held-secret' },
    ],
    [
      'is the config’s also where the caller sends one',
      { provider: 'plain', api_key: 'mine' },
      { authorization: 'Bearer sk' },
      { authorization: 'Bearer mine' },
    ],
    [
      'is that of the provider header for a config without a provider',
      { retry: { attempts: 1 } },
      { 'x-service-provider': '@held' },
      { authorization: 'Bearer held-secret' },
    ],
    [
      'is that of the config when a header names another provider',
      { provider: '@held-boxed' },
      { 'x-service-provider': '@held' },
      { boxed: 'held-secret' },
    ],
  ];
  for (const [name, config, headers, expected] of rows) {
    test(name, async (t) => {
      const { gateway, upstream } = await routed(t);
      const answer = await send(gateway.url, { path, headers: { ...asHeader(config), ...headers }, body });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(credentialsOf(upstream), { ...none, ...expected });
    });
  }

  test('a model’s slug completes a config, for every attempt', async (t) => {
    const { gateway, upstream } = await routed(t, {
      answer: (_request, response) => void response.writeHead(503).end(),
    });
    const config: RouteConfigInput = {
      strategy: { mode: 'fallback' },
      targets: [{ override_params: { seed: 1 } }, { override_params: { seed: 2 } }],
    };
    await send(gateway.url, { path, headers: asHeader(config), body: { ...body, model: '@held/big' } });
    const sent = upstream.requests.map((request) => JSON.parse(request.body.toString()) as object);
    assert.deepEqual(sent, [
      { ...body, model: 'big', seed: 1 },
      { ...body, model: 'big', seed: 2 },
    ]);
  });

  test('nothing names a provider: 400 with the combinations', async (t) => {
    const { gateway } = await routed(t);
    const answer = await send(gateway.url, { path, headers: asHeader({ retry: { attempts: 1 } }), body });
    assert.deepEqual([answer.status, answer.json().error.code], [400, 'provider_missing']);
  });
});

describe('a config’s own address', () => {
  const started = async (t: Parameters<typeof routed>[0], configs: Record<string, RouteConfigInput> = {}) => {
    const foreign = await startUpstream(t, ok);
    const host = new URL(foreign.url).host;
    const all = await routed(t, {
      configs: Object.fromEntries(
        Object.entries(configs).map(([name, config]) => [name, { ...config, custom_host: foreign.url }]),
      ),
      security: { trusted_hosts: [] },
    });
    const trusting = () =>
      routed(t, { security: { trusted_hosts: [host] }, plugins: [auth, providerPlugin()] });
    return { ...all, foreign, trusting };
  };

  test('that a request brought is refused when it is private', async (t) => {
    const { gateway, foreign } = await started(t);
    const config = { provider: 'plain', api_key: 'mine', custom_host: foreign.url };
    const answer = await send(gateway.url, { path, headers: asHeader(config), body });
    assert.deepEqual([answer.status, answer.json().error.code], [400, 'custom_host_refused']);
  });

  test('that a request brought gets the key that it brought, and never a held one', async (t) => {
    const { foreign, trusting } = await started(t);
    const { gateway } = await trusting();
    const own = { provider: 'plain', api_key: 'mine', custom_host: foreign.url };
    await send(gateway.url, { path, headers: asHeader(own), body });
    assert.equal(credentialsOf(foreign).authorization, 'Bearer mine');
    for (const provider of ['@held', '@in-headers', '@held-boxed']) {
      const config = { provider, custom_host: foreign.url };
      await send(gateway.url, { path, headers: asHeader(config), body });
      assert.deepEqual(credentialsOf(foreign), none, provider);
    }
    assert.equal(foreign.requests.length, 4);
  });

  test('that the operator wrote is trusted, and still sees no credential of the provider', async (t) => {
    const { gateway, foreign } = await started(t, {
      own: { provider: 'plain', api_key: 'of-the-config' },
      slug: { provider: '@held' },
    });
    await send(gateway.url, { path, headers: { ...key, 'x-service-config': 'own' }, body });
    assert.equal(credentialsOf(foreign).authorization, 'Bearer of-the-config');
    await send(gateway.url, { path, headers: { ...key, 'x-service-config': 'slug' }, body });
    assert.deepEqual(credentialsOf(foreign), none);
    assert.equal(foreign.requests.length, 2);
  });

  test('gives way to the header, which never gets the credential of the operator’s config', async (t) => {
    const { foreign } = await started(t);
    const { gateway, upstream } = await routed(t, {
      configs: { own: { provider: 'plain', api_key: 'of-the-config' } },
      security: { trusted_hosts: [new URL(foreign.url).host] },
    });
    const headers = { ...key, 'x-service-config': 'own', 'x-service-custom-host': foreign.url };
    const answer = await send(gateway.url, { path, headers, body });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(credentialsOf(foreign), none);
    assert.equal(upstream.requests.length, 0);
  });
});

test('a credential of the operator’s config that a request’s config refers to stays the operator’s', async (t) => {
  const foreign = await startUpstream(t, ok);
  const { gateway, upstream } = await routed(t, {
    configs: { own: { provider: 'plain', api_key: 'of-the-config' } },
    security: { trusted_hosts: [new URL(foreign.url).host] },
  });
  const config = { strategy: { mode: 'single' as const }, targets: [{ config: 'own' }] };
  await send(gateway.url, { path, headers: asHeader(config), body });
  assert.equal(credentialsOf(upstream).authorization, 'Bearer of-the-config');
  const headers = { ...asHeader(config), 'x-service-custom-host': foreign.url };
  const answer = await send(gateway.url, { path, headers, body });
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(credentialsOf(foreign), none);
  assert.equal(foreign.requests.length, 1);
});

test('the gateway’s own headers cannot be forwarded by a config', async (t) => {
  const { gateway } = await routed(t);
  const config = { provider: 'plain', forward_headers: ['x-portkey-api-key'] };
  const answer = await send(gateway.url, { path, headers: asHeader(config), body });
  assert.deepEqual([answer.status, answer.json().error.code], [400, 'invalid_config']);
});

test('a condition on a body that is not modelled reads it; uploads are not read', async (t) => {
  const { gateway, upstream } = await routed(t);
  const config: RouteConfigInput = {
    strategy: {
      mode: 'conditional',
      conditions: [{ query: { 'params.kind': 'b' }, then: 'b' }],
      default: 'a',
    },
    targets: [
      { name: 'a', provider: '@held' },
      { name: 'b', provider: '@held-boxed' },
    ],
  };
  await send(gateway.url, { path: '/v1/threads', headers: asHeader(config), body: { kind: 'b' } });
  assert.deepEqual(credentialsOf(upstream), { ...none, boxed: 'held-secret' });
  const upload = { ...asHeader(config), 'content-type': 'application/octet-stream' };
  await send(gateway.url, { path: '/v1/threads', headers: upload, body: '{"kind":"b"}' });
  assert.deepEqual(credentialsOf(upstream), { ...none, authorization: 'Bearer held-secret' });
});

test('fields of a request’s config never steer a held credential; those of the operator’s do', async (t) => {
  const upstream = await startUpstream(t, ok);
  const providers = {
    regional: {
      base_url: `${upstream.url}/{aws_region}`,
      credentials: 'bearer' as const,
      api_key: 'held-secret',
      aws_region: 'eu-west-1',
    },
  };
  const configs = { there: { provider: '@regional', aws_region: 'us-east-1' } };
  const { gateway } = await routed(t, { providers, configs });
  const inline = await send(gateway.url, {
    path,
    headers: asHeader({ provider: '@regional', aws_region: 'attacker' }),
    body,
  });
  assert.deepEqual([inline.status, inline.json().error.code], [400, 'invalid_config']);
  assert.match(inline.json().error.message, /aws_region.*regional/);
  assert.equal(upstream.requests.length, 0);
  await send(gateway.url, { path, headers: { ...key, 'x-service-config': 'there' }, body });
  assert.equal(upstream.requests[0]?.url, '/us-east-1/chat/completions');
  assert.equal(credentialsOf(upstream).authorization, 'Bearer held-secret');
});

test('no header of a request chooses the host for a credential of the operator’s config', async (t) => {
  const foreign = await startUpstream(t, ok);
  const upstream = await startUpstream(t, ok);
  const { gateway } = await routed(t, {
    table: new Map([
      ['huggingface', { base_url: `${upstream.url}/v1` }],
      ['azure-openai', { base_url: `${upstream.url.replace(/\d+$/, '{azure_resource_name}')}/v1` }],
    ]),
    providers: {},
    configs: {
      hugging: { provider: 'huggingface', api_key: 'of-the-config' },
      azure: { provider: 'azure-openai', api_key: 'of-the-config', azure_api_version: 'v1' },
    },
    security: { trusted_hosts: [new URL(foreign.url).host] },
  });
  for (const [config, name, value] of [
    ['hugging', 'huggingface-base-url', foreign.url],
    ['azure', 'azure-resource-name', new URL(foreign.url).port],
  ] as const) {
    const headers = { ...key, 'x-service-config': config, [`x-service-${name}`]: value };
    const answer = await send(gateway.url, { path, headers, body });
    assert.deepEqual([answer.status, answer.json().error?.code], [400, 'invalid_header'], answer.text);
    assert.match(answer.json().error.message, new RegExp(`Leave ${name} out of the headers`));
  }
  assert.equal(foreign.requests.length, 0);
});
