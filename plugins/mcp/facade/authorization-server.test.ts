import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Browser } from '../../../tests/kit/browser.ts';
import { known, startFacade, waiting } from './facade.test-support.ts';
import { MemoryProvider, signIn as signInWithSdk, toolsAt } from '../resource/oauth-client.test-support.ts';

describe('in front of a provider that registers no clients', () => {
  test("the SDK's client registers with the gateway, signs its user in, lists tools, and renews its token", async (t) => {
    const { gateway, provider } = await startFacade(t);
    const url = `${gateway.url}/tickets/mcp`;
    const client = new MemoryProvider();
    const told = await signInWithSdk(url, client);
    assert.equal(told.searchParams.get('iss'), gateway.url);
    assert.deepEqual(await toolsAt(url, client), ['echo']);
    const first = client.saved;
    assert.ok(first?.refresh_token);
    client.saved = { ...first, access_token: `${first.access_token.slice(0, -8)}AAAAAAAA` };
    assert.deepEqual(await toolsAt(url, client), ['echo'], 'a refused token is renewed');
    assert.notEqual(client.saved.access_token, first.access_token);
    assert.equal(provider.requests.filter((one) => one === 'POST /token').length, 2);
    assert.ok(!provider.requests.some((one) => one.startsWith('POST /reg')));
  });

  test('clients find the gateway as their authorization server', async (t) => {
    const { gateway } = await startFacade(t, { client: { document_hosts: ['*'] } });
    const document = async (path: string) =>
      (await fetch(`${gateway.url}/.well-known/${path}`)).json() as any;
    assert.deepEqual((await document('oauth-protected-resource/tickets/mcp')).authorization_servers, [
      gateway.url,
    ]);
    assert.deepEqual(await document('oauth-authorization-server'), {
      issuer: gateway.url,
      authorization_endpoint: `${gateway.url}/mcp/oauth/authorize`,
      token_endpoint: `${gateway.url}/mcp/oauth/token`,
      registration_endpoint: `${gateway.url}/mcp/oauth/register`,
      scopes_supported: ['mcp.invoke'],
      response_types_supported: ['code'],
      response_modes_supported: ['query'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
      token_endpoint_auth_methods_supported: ['none'],
      code_challenge_methods_supported: ['S256'],
      authorization_response_iss_parameter_supported: true,
      client_id_metadata_document_supported: true,
    });
    for (const name of ['oauth-authorization-server/tickets/mcp', 'openid-configuration'])
      assert.equal((await fetch(`${gateway.url}/.well-known/${name}`)).status, 404, name);
  });

  test('pages of other origins register and ask for tokens, and cannot make the browser sign in', async (t) => {
    const { at, post } = await startFacade(t);
    for (const path of ['register', 'token']) {
      const asked = await fetch(at(path), {
        method: 'OPTIONS',
        headers: { origin: 'https://inspector.example.com' },
      });
      assert.deepEqual([asked.status, asked.headers.get('access-control-allow-origin')], [204, '*']);
      const { headers } = await post(path, path === 'token' ? new URLSearchParams() : {});
      assert.equal(headers.get('access-control-allow-origin'), '*');
    }
    const page = await fetch(at('authorize'));
    assert.equal(page.headers.get('access-control-allow-origin'), null);
  });

  test('the user is asked first, with the place that the sign-in goes to, and nothing can be slipped into the page', async (t) => {
    const { register, authorizeUrl } = await startFacade(t, {
      authorization: { resource_name: 'Tools & <Toys>' },
    });
    const clientId = await register({
      client_name: 'Claude</p><script>alert(1)</script>\u202e\n"\'',
      redirect_uris: ['https://app.example.com/cb', waiting, 'cursor://anysphere.cursor-mcp/oauth/callback'],
    });
    const pageFor = async (redirect_uri: string) => {
      const end = await new Browser().open(authorizeUrl(clientId, 'v', { redirect_uri }));
      assert.ok('page' in end);
      return end.page;
    };
    const page = await pageFor('https://app.example.com/cb');
    assert.equal(page.status, 200, page.html);
    assert.match(page.html, /<dd>app\.example\.com<\/dd>/);
    assert.match(page.html, /Tools &#38; &#60;Toys&#62;/);
    assert.ok(!page.html.includes('<script') && !page.html.includes('\u202e'), page.html);
    assert.match(page.html, /Claude&#60;\/p&#62;/);
    assert.match(
      page.headers.get('content-security-policy') ?? '',
      /default-src 'none'.*frame-ancestors 'none'/,
    );
    assert.equal(page.headers.get('x-frame-options'), 'DENY');
    assert.equal(page.headers.get('cache-control'), 'no-store');
    assert.match(
      page.headers.get('set-cookie') ?? '',
      /^weir-mcp-sign-in=\S+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax$/,
    );
    assert.match((await pageFor(waiting)).html, /an application on this computer \(127\.0\.0\.1:34567\)/);
    assert.match((await pageFor('cursor://anysphere.cursor-mcp/oauth/callback')).html, /links with cursor:/);
  });

  test('behind TLS the cookie is of this very host', async (t) => {
    const { at, gateway } = await startFacade(t, { server: { public_url: 'https://gateway.example.com' } });
    const metadata = (await (
      await fetch(`${gateway.url}/.well-known/oauth-authorization-server`)
    ).json()) as any;
    assert.equal(metadata.token_endpoint, 'https://gateway.example.com/mcp/oauth/token');
    const { client_id } = (await (
      await fetch(at('register'), { method: 'POST', body: JSON.stringify({ redirect_uris: [waiting] }) })
    ).json()) as any;
    const asked = new URLSearchParams({
      ...{ response_type: 'code', client_id, redirect_uri: waiting },
      ...{ code_challenge: 'c'.repeat(43), code_challenge_method: 'S256' },
    });
    const page = await fetch(`${at('authorize')}?${asked.toString()}`);
    assert.match(page.headers.get('set-cookie') ?? '', /^__Host-weir-mcp-sign-in=\S+; Path=\/; .*; Secure$/);
  });

  test('a user who says no sends the application back without a code', async (t) => {
    const { register, authorizeUrl, provider } = await startFacade(t);
    const browser = new Browser(waiting);
    const asked = await browser.open(authorizeUrl(await register(), 'v'));
    assert.ok('page' in asked);
    const end = await browser.submit(asked.page, { decision: 'deny' });
    assert.ok('left' in end);
    const { error, state, code } = Object.fromEntries(end.left.searchParams);
    assert.deepEqual([error, state, code], ['access_denied', 'state of the application', undefined]);
    assert.deepEqual(provider.requests, [], 'the provider is not asked');
  });

  test('a user whom the provider refuses sends the application back, too', async (t) => {
    const { register, authorizeUrl } = await startFacade(t);
    const browser = new Browser(waiting);
    const asked = await browser.open(authorizeUrl(await register(), 'v'));
    assert.ok('page' in asked);
    const login = await browser.submit(asked.page, { decision: 'allow' });
    assert.ok('page' in login);
    const end = await browser.open(`${login.page.url}/abort`);
    assert.ok('left' in end);
    assert.equal(end.left.searchParams.get('error'), 'access_denied');
    assert.equal(end.left.searchParams.get('state'), 'state of the application');
  });

  test('an application may wait at another port than it registered, and in two windows at once', async (t) => {
    const { register, authorizeUrl, token, list } = await startFacade(t);
    const clientId = await register();
    const other = waiting.replace('34567', '34568');
    const browser = new Browser('http://127.0.0.1:3456');
    const verifier = 'v'.repeat(43);
    const pages = [];
    for (const redirect_uri of [waiting, other])
      pages.push(await browser.open(authorizeUrl(clientId, verifier, { redirect_uri })));
    for (const [index, redirect_uri] of [waiting, other].entries()) {
      const first = pages[index];
      assert.ok(first && 'page' in first);
      let end = await browser.submit(first.page, { decision: 'allow' });
      while ('page' in end) end = await browser.submit(end.page, { login: 'ada', password: 'any' });
      assert.ok(end.left.href.startsWith(redirect_uri), end.left.href);
      const code = end.left.searchParams.get('code') ?? '';
      const form = {
        grant_type: 'authorization_code',
        client_id: clientId,
        code,
        code_verifier: verifier,
        redirect_uri,
      };
      const { status, json } = await token(form);
      assert.equal(status, 200, JSON.stringify(json));
      assert.deepEqual(await list(json.access_token), [200, undefined]);
    }
  });

  test('refresh tokens go on when they are used, and are of no use at the provider', async (t) => {
    const { signIn, exchange, token, list, provider } = await startFacade(t);
    const signedIn = await signIn();
    const { json: first } = await exchange(signedIn);
    const renew = (refresh_token = '') =>
      token({ grant_type: 'refresh_token', client_id: signedIn.clientId, refresh_token });
    const second = await renew(first.refresh_token);
    assert.equal(second.status, 200, JSON.stringify(second.json));
    assert.deepEqual(await list(second.json.access_token), [200, undefined]);
    const direct = await fetch(`${provider.issuer}/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${known.client_id}:${known.client_secret}`)}` },
      body: new URLSearchParams({
        grant_type: 'refresh_token',
        refresh_token: second.json.refresh_token ?? '',
      }),
    });
    assert.equal(direct.status, 400);
  });
});

describe('a provider of another kind', () => {
  test('names audiences itself, and refuses the parameter resource', async (t) => {
    const { signIn, exchange, list, provider } = await startFacade(t, {
      provider: { audience: 'api://weir' },
      authorization: { audience: 'api://weir' },
      client: { resource_parameter: false, parameters: { audience: 'api://weir' } },
    });
    const { json } = await exchange(await signIn());
    assert.deepEqual(await list(json.access_token), [200, undefined]);
    const asked = provider.requests.find((one) => one.startsWith('GET /auth?')) ?? '';
    assert.match(asked, /audience=api%3A%2F%2Fweir/);
    assert.ok(!asked.includes('resource='), asked);
  });

  test('takes the secret in the form, and knows more scopes', async (t) => {
    const { signIn, exchange, list, provider } = await startFacade(t, {
      provider: {
        clients: [{ ...known, token_endpoint_auth_method: 'client_secret_post' }],
        scopes: ['tools', 'mcp.invoke'],
      },
      authorization: { scopes: ['tools', 'mcp.invoke'] },
      jwt: { scope_map: { tools: ['mcp.invoke'] } },
      client: { token_endpoint_auth_method: 'client_secret_post', scopes: ['offline_access'] },
    });
    const { json } = await exchange(await signIn({ scope: 'tools unknown' }));
    assert.equal(json.scope, 'tools');
    assert.deepEqual(await list(json.access_token), [200, undefined]);
    const asked = provider.requests.find((one) => one.startsWith('GET /auth?')) ?? '';
    assert.equal(new URLSearchParams(asked.split('?')[1]).get('scope'), 'tools offline_access');
  });

  test('knows the gateway as a client without a secret', async (t) => {
    const publicClient = { ...known, client_secret: undefined };
    const { signIn, exchange, list } = await startFacade(t, {
      provider: { clients: [{ ...publicClient, token_endpoint_auth_method: 'none' }] },
      client: { client_secret: undefined },
    });
    const { json } = await exchange(await signIn());
    assert.deepEqual(await list(json.access_token), [200, undefined]);
  });

  test('does not answer: the user is told, and the application may try again', async (t) => {
    const state = { isDown: false };
    const { signIn, exchange, register, authorizeUrl, gateway, time } = await startFacade(t, {
      provider: {
        intercept(_request, response) {
          if (state.isDown) response.writeHead(500).end('internal words');
          return state.isDown;
        },
      },
    });
    const clientId = await register();
    state.isDown = true;
    const browser = new Browser(waiting);
    const asked = await browser.open(authorizeUrl(clientId, 'v'));
    assert.ok('page' in asked);
    const end = await browser.submit(asked.page, { decision: 'allow' });
    assert.ok('page' in end);
    assert.equal(end.page.status, 503);
    assert.match(end.page.html, /cannot be asked now/);
    assert.ok(gateway.lines.some(({ message }) => /does not describe itself/.test(message)));
    assert.ok(!JSON.stringify(gateway.lines).includes('internal words'));
    state.isDown = false;
    time.passed += 6000;
    const signedIn = await signIn({}, { clientId });
    state.isDown = true;
    const refused = await exchange(signedIn);
    assert.deepEqual([refused.status, refused.json.error], [502, 'server_error']);
  });
});
