import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { noMetrics, silentLog } from '../../adapters/transport/transport.test-support.ts';
import { createUndiciTransport } from '../../adapters/transport/undici-transport.ts';
import { systemClock } from '../ports/clock.ts';
import auth from '../../plugins/auth/index.ts';
import { providerPlugin } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { credentialsOf, key, ok, ours, routed, unprefixed } from '../../tests/kit/routing-kit.ts';

const none = { authorization: undefined, boxed: undefined, azure: undefined };
const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });

describe('whose credential is used', () => {
  type Sent = ReturnType<typeof credentialsOf>;
  const cases: readonly [name: string, headers: Record<string, string>, sent: Partial<Sent>][] = [
    ['built-in name: the caller’s', { 'x-service-provider': 'plain', ...bearer('sk') }, bearer('sk')],
    ['built-in name, nothing given: nothing', { 'x-service-provider': 'plain' }, {}],
    [
      'built-in name that wants x-api-key: the caller’s bearer, moved',
      { 'x-service-provider': 'boxed', ...bearer('sk') },
      { boxed: 'sk' },
    ],
    [
      'built-in name that wants x-api-key, given so',
      { 'x-service-provider': 'boxed', 'x-api-key': 'sk' },
      { boxed: 'sk' },
    ],
    ['built-in name that wants api-key', { 'x-service-provider': 'azure', ...bearer('sk') }, { azure: 'sk' }],
    [
      'a host without credentials never sees one',
      { 'x-service-provider': 'open', ...bearer('sk'), 'x-api-key': 'sk', 'api-key': 'sk' },
      {},
    ],
    [
      'YAML provider with a key: the held one, whatever the caller sends',
      { 'x-service-provider': 'held', ...bearer('sk'), 'x-api-key': 'sk', 'api-key': 'sk' },
      bearer('held-secret'),
    ],
    [
      'YAML provider that wants x-api-key: the held one',
      { 'x-service-provider': 'held-boxed', 'x-api-key': 'sk' },
      { boxed: 'held-secret' },
    ],
    [
      'YAML provider whose credential stands in its headers',
      { 'x-service-provider': 'in-headers', 'x-api-key': 'sk', ...bearer('sk') },
      { boxed: 'row-secret' },
    ],
    ['YAML provider without a key: not the caller’s', { 'x-service-provider': 'bare', ...bearer('sk') }, {}],
    [
      'YAML that overrides a built-in name without a key: the caller’s',
      { 'x-service-provider': 'overridden', ...bearer('sk') },
      bearer('sk'),
    ],
    ['the same as a slug: not the caller’s', { 'x-service-provider': '@overridden', ...bearer('sk') }, {}],
    ['the same as a virtual key', { 'x-service-virtual-key': 'overridden', ...bearer('sk') }, {}],
    ['a slug: the held one', { 'x-service-provider': '@held', ...bearer('sk') }, bearer('held-secret')],
    ['a virtual key: the held one', { 'x-service-virtual-key': 'held' }, bearer('held-secret')],
    ['a virtual key under the alias', { 'x-portkey-virtual-key': '@held' }, bearer('held-secret')],
    [
      'a virtual key and the provider of the same name',
      { 'x-service-virtual-key': 'held', 'x-service-provider': '@held' },
      bearer('held-secret'),
    ],
  ];
  for (const [name, headers, sent] of cases) {
    test(name, async (t) => {
      const { gateway, upstream } = await routed(t);
      const answer = await send(gateway.url, { path: '/v1/x', headers: { ...key, ...headers } });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(credentialsOf(upstream), { ...none, ...sent });
    });
  }
});

describe('a service key never leaves', () => {
  const cases: readonly [string, string, Record<string, string> | string[]][] = [
    ['as bearer, to a host that gets the caller’s', 'plain', bearer(ours)],
    ['as bearer, to a host that wants x-api-key', 'boxed', bearer(ours)],
    ['without its prefix, as bearer', 'plain', bearer(unprefixed)],
    ['without its prefix, as bearer, to a host that wants x-api-key', 'boxed', bearer(unprefixed)],
    ['in both headers', 'plain', { ...key, ...bearer(ours) }],
    ['as x-api-key, where SDKs put their key', 'boxed', { ...key, 'x-api-key': ours }],
    ['as api-key', 'azure', { ...key, 'api-key': ours }],
    [
      'in a second authorization header',
      'plain',
      ['x-service-api-key', ours, 'authorization', '', 'Authorization', `Bearer ${ours}`],
    ],
    ['under an alias', 'plain', { 'x-portkey-api-key': ours }],
  ];
  for (const [name, provider, headers] of cases) {
    test(name, async (t) => {
      const { gateway, upstream } = await routed(t);
      const list = Array.isArray(headers) ? headers : Object.entries(headers).flat();
      const answer = await send(gateway.url, {
        path: '/v1/x',
        headers: [...list, 'x-service-provider', provider],
      });
      assert.equal(answer.status, 200, answer.text);
      const sent = JSON.stringify(upstream.requests[0]?.rawHeaders);
      assert.ok(!sent.includes(ours) && !sent.includes(unprefixed), sent);
    });
  }

  test('also without the auth plugin', async (t) => {
    const { gateway, upstream } = await routed(t, { plugins: [providerPlugin()] });
    for (const provider of ['plain', 'boxed']) {
      await send(gateway.url, {
        path: '/v1/x',
        headers: { 'x-service-provider': provider, ...bearer(ours) },
      });
      assert.deepEqual(credentialsOf(upstream), none);
    }
  });

  test('and neither do our headers, under any prefix', async (t) => {
    const { gateway, upstream } = await routed(t, { server: { header_aliases: ['x-portkey', 'x-old'] } });
    const headers = {
      ...key,
      'X-Service-Provider': 'plain',
      'x-portkey-metadata': '{}',
      'X-Old-Trace-Id': 'x',
      'x-other': '1',
    };
    await send(gateway.url, { path: '/v1/x', headers });
    const names = (upstream.requests[0]?.rawHeaders ?? []).filter((_, i) => i % 2 === 0);
    assert.deepEqual(
      names.filter((name) => /^x-/i.test(name)),
      ['x-other'],
    );
  });
});

describe('a custom host', () => {
  const custom = (host: string, more: Record<string, string> = { 'x-service-provider': 'plain' }) => ({
    ...key,
    'x-service-custom-host': host,
    ...more,
  });
  const trusting = async (t: TestContext) => {
    const target = await startUpstream(t, ok);
    const parts = await routed(t, { security: { trusted_hosts: [target.host] } });
    return { ...parts, target };
  };

  test('that is trusted gets the request, with the caller’s credential', async (t) => {
    const { gateway, target, upstream } = await trusting(t);
    const headers = { ...custom(`${target.url}/base/`), ...bearer('sk') };
    assert.equal((await send(gateway.url, { path: '/v1/x?q=1', headers })).status, 200);
    assert.equal(target.requests[0]?.url, '/base/x?q=1');
    assert.deepEqual(credentialsOf(target), { ...none, ...bearer('sk') });
    assert.equal(upstream.requests.length, 0);
    const { facts } = await gateway.untilSettled();
    assert.deepEqual([facts.provider, facts.upstreamHost], ['plain', target.host]);
  });

  const never: readonly [string, Record<string, string>][] = [
    ['a YAML provider', { 'x-service-provider': 'held' }],
    ['a slug', { 'x-service-provider': '@held' }],
    ['a virtual key', { 'x-service-virtual-key': 'held' }],
    ['a YAML provider that wants x-api-key', { 'x-service-provider': 'held-boxed' }],
    ['a YAML provider whose credential stands in its headers', { 'x-service-provider': 'in-headers' }],
  ];
  for (const [name, more] of never) {
    test(`never gets the held credential of ${name}`, async (t) => {
      const { gateway, target } = await trusting(t);
      assert.equal(
        (await send(gateway.url, { path: '/v1/x', headers: custom(target.url, more) })).status,
        200,
      );
      assert.deepEqual(credentialsOf(target), none);
      assert.doesNotMatch(JSON.stringify(target.requests[0]?.rawHeaders), /secret/);
    });
  }

  test('gets the caller’s credential as its provider expects it, and the row’s headers', async (t) => {
    const { gateway, target } = await trusting(t);
    const headers = { ...custom(target.url, { 'x-service-provider': 'boxed' }), ...bearer('sk') };
    await send(gateway.url, { path: '/v1/x', headers });
    assert.deepEqual(credentialsOf(target), { ...none, boxed: 'sk' });
    assert.equal(target.requests[0]?.headers['x-version'], '7');
  });

  test('never gets the service key', async (t) => {
    const { gateway, target } = await trusting(t);
    for (const provider of ['plain', 'boxed']) {
      const headers = {
        'x-service-custom-host': target.url,
        'x-service-provider': provider,
        ...bearer(ours),
      };
      assert.equal((await send(gateway.url, { path: '/v1/x', headers })).status, 200);
      assert.deepEqual(credentialsOf(target), none);
    }
  });

  test('is trusted by its name alone, in any case, or with the port of its scheme', async (t) => {
    const { gateway, upstream } = await routed(t, {
      security: { trusted_hosts: ['LOCALHOST', '127.0.0.1:80'] },
    });
    const port = new URL(upstream.url).port;
    const byName = await send(gateway.url, { path: '/v1/x', headers: custom(`http://LocalHost:${port}`) });
    assert.notEqual(byName.json().error?.code, 'custom_host_refused');
    const byPort = await send(gateway.url, { path: '/v1/x', headers: custom('http://127.0.0.1/') });
    assert.equal(byPort.json().error.code, 'upstream_unreachable');
  });

  test('that is public needs no entry: it is called at public addresses only', async (t) => {
    // Public by the rules, and handed out to nobody: a connection can only fail.
    const names: Readonly<Record<string, string>> = {
      'api.example.com': '2d00::1',
      'inside.example.com': '127.0.0.1',
    };
    const asked: string[] = [];
    const transport = createUndiciTransport({
      log: silentLog,
      metrics: noMetrics,
      clock: systemClock,
      resolve(name) {
        asked.push(name);
        const address = names[name] ?? '';
        return Promise.resolve([{ address, family: address.includes(':') ? 6 : 4 }]);
      },
    });
    const { gateway, upstream } = await routed(t, {
      transport,
      plugins: [auth, providerPlugin({ connect_timeout_ms: 500 })],
    });
    const { port } = new URL(upstream.url);
    const call = async (host: string) =>
      (await send(gateway.url, { path: '/v1/x', headers: custom(host) })).json().error;
    assert.equal((await call('https://api.example.com/v1')).code, 'upstream_unreachable');
    const inside = await call(`http://inside.example.com:${port}`);
    assert.equal(inside.code, 'address_refused');
    assert.match(inside.message, /"inside\.example\.com".*security\.trusted_hosts/);
    assert.doesNotMatch(inside.message, /127/);
    assert.deepEqual(asked, ['api.example.com', 'inside.example.com']);
    assert.equal(upstream.connections, 0);
    await transport.close();
  });

  const refused: readonly [string, string, RegExp][] = [
    [
      'not listed',
      'https://evil.example',
      /private network.*"evil\.example" is not listed in security\.trusted_hosts/,
    ],
    ['a private address', 'http://10.0.0.1', /private.*"10\.0\.0\.1" is not listed/],
    ['metadata', 'http://169.254.169.254/v1', /not listed/],
    ['another spelling of loopback', 'http://0x7f.1:8080', /"127\.0\.0\.1:8080" is not listed/],
    ['loopback of IPv6', 'http://[::ffff:127.0.0.1]', /not listed/],
    ['a name of this machine', 'http://localhost:8787', /not listed/],
    ['too long', `https://example.com/${'a'.repeat(2048)}`, /longer than 2048/],
    ['another port', 'http://127.0.0.1:1', /not listed/],
    ['a name that only begins so', 'http://trusted.example.evil.example', /not listed/],
    ['no URL', 'nonsense', /no URL/],
    ['another scheme', 'ftp://trusted.example', /only http and https/],
    ['a file', 'file:///etc/passwd', /only http and https/],
    ['credentials', 'https://user:pass@trusted.example', /carries credentials/],
    ['a user only', 'https://user@trusted.example', /carries credentials/],
    ['a query', 'https://trusted.example/?x=1', /query or a fragment/],
    ['a fragment', 'https://trusted.example/#x', /query or a fragment/],
  ];
  for (const [name, host, message] of refused) {
    test(`is refused: ${name}`, async (t) => {
      const { gateway } = await routed(t, {
        security: { trusted_hosts: ['trusted.example', '127.0.0.1:80'] },
      });
      const answer = await send(gateway.url, { path: '/v1/x', headers: custom(host) });
      assert.equal(answer.status, 400);
      const { code, param, message: said } = answer.json().error;
      assert.deepEqual([code, param], ['custom_host_refused', 'x-service-custom-host']);
      assert.match(said, message);
      assert.doesNotMatch(said, /pass/);
    });
  }

  test('needs a provider', async (t) => {
    const { gateway } = await routed(t, { security: { trusted_hosts: ['trusted.example'] } });
    const headers = { ...key, 'x-service-custom-host': 'https://trusted.example' };
    assert.equal((await send(gateway.url, { path: '/v1/x', headers })).json().error.code, 'provider_missing');
  });
});
