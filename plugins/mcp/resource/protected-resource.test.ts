import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { sign, signingKey } from '../../../adapters/tokens/issuer.test-support.ts';
import { send, type Sending } from '../../../tests/kit/http-kit.ts';
import { testKey } from '../../../tests/kit/plugin-kit.ts';
import { startGuarded } from './guarded-servers.test-support.ts';

const publicUrl = 'https://gateway.example.com';
const key = await signingKey('RS256', 'main');
const issuer = 'https://id.example.com';

/** A gateway at a public address whose tokens the test signs. */
async function start(
  t: TestContext,
  authorization: Record<string, unknown> | false = {},
  public_url = publicUrl,
) {
  const gateway = await startGuarded(t, {
    authorization,
    jwt: { jwks: { keys: [key.publicKey] }, jwks_url: undefined },
    keys: {
      wk_tools: testKey({ scopes: ['mcp.invoke'] }),
      wk_models: testKey({ scopes: ['completions.write'] }),
    },
    server: { public_url },
  });
  const ask = (path: string, sending: Sending = {}) => send(gateway.url, { method: 'GET', path, ...sending });
  const list = (path: string, headers: Record<string, string>) =>
    ask(path, { method: 'POST', headers, body: { jsonrpc: '2.0', id: 1, method: 'tools/list' } });
  const token = (claims: Record<string, unknown> = {}) =>
    sign(key, {
      iss: issuer,
      sub: 'ada',
      exp: Math.floor(Date.now() / 1000) + 600,
      scope: 'openid mcp.invoke',
      aud: `${publicUrl}/tickets/mcp`,
      ...claims,
    });
  const withToken = async (path: string, claims: Record<string, unknown> = {}) =>
    list(path, { authorization: `Bearer ${await token(claims)}` });
  return { gateway, ask, list, withToken };
}

const metadata = '/.well-known/oauth-protected-resource';

describe('the metadata of the protected resource', () => {
  test('names the identity provider for each address that clients may know a server by', async (t) => {
    const { ask } = await start(t, { resource_name: 'Tools of Example', scopes: ['tools', 'mcp.invoke'] });
    const cases = [
      ['', ''],
      ['/mcp', '/mcp'],
      ['/tickets/mcp', '/tickets/mcp'],
      ['/tickets/sse', '/tickets/sse'],
      ['/v1/tickets/mcp', '/v1/tickets/mcp'],
      ['/tickets/mcp/', '/tickets/mcp'],
    ];
    for (const [asked, path] of cases) {
      const answer = await ask(`${metadata}${asked}`);
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(answer.json(), {
        resource: `${publicUrl}${path}`,
        authorization_servers: [issuer],
        scopes_supported: ['tools', 'mcp.invoke'],
        bearer_methods_supported: ['header'],
        resource_name: 'Tools of Example',
      });
      assert.equal(answer.headers['access-control-allow-origin'], '*');
      assert.equal(answer.headers['content-type'], 'application/json');
    }
    assert.equal(
      (await ask(`/v1${metadata}/mcp`)).json().resource,
      `${publicUrl}/mcp`,
      'below the base path, too',
    );
  });

  test('can be read by pages, which ask first', async (t) => {
    const { ask } = await start(t);
    const headers = {
      origin: 'https://inspector.example.com',
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'mcp-protocol-version',
    };
    const answer = await ask(`${metadata}/tickets/mcp`, { method: 'OPTIONS', headers });
    assert.equal(answer.status, 204);
    assert.equal(answer.headers['access-control-allow-origin'], '*');
    assert.match(answer.headers['access-control-allow-headers'] ?? '', /mcp-protocol-version/);
  });

  test('is for paths of MCP servers, and says nothing about which of them there are', async (t) => {
    const { ask } = await start(t);
    assert.equal((await ask(`${metadata}/no-such-server/mcp`)).status, 200);
    for (const path of ['/v1/chat/completions', '/tickets', `/${'a/'.repeat(20)}mcp`, '/x%22/mcp']) {
      const answer = await ask(metadata + path);
      assert.ok([401, 404].includes(answer.status), `${path}: ${answer.status} ${answer.text}`);
      assert.ok(!answer.text.includes('authorization_servers'));
    }
    assert.equal((await ask(metadata, { method: 'POST', body: {} })).status, 404);
    for (const name of ['oauth-authorization-server', 'openid-configuration'])
      assert.equal((await ask(`/.well-known/${name}`)).status, 404, 'the provider has its own');
  });

  test('is not there without the option, and a client is told so', async (t) => {
    const { ask, list } = await start(t, false);
    const answer = await ask(metadata);
    assert.equal(answer.status, 404);
    assert.match(answer.json().error.message, /mcp\.authorization is not set/);
    const refused = await list('/tickets/mcp', {});
    assert.deepEqual([refused.status, refused.headers['www-authenticate']], [401, 'Bearer']);
  });

  test('has the address that a client on this machine uses, where there is no public one, and no other', async (t) => {
    const { ask, list, gateway } = await start(t, {}, '');
    const { host } = new URL(gateway.url);
    assert.equal((await ask(`${metadata}/mcp`)).json().resource, `http://${host}/mcp`);
    const strange = { host: 'evil.example.com' };
    const answer = await ask(metadata, { headers: strange });
    assert.equal(answer.status, 404);
    assert.match(answer.json().error.message, /set server\.public_url/);
    assert.equal((await list('/mcp', strange)).headers['www-authenticate'], 'Bearer');
    assert.ok(
      gateway.lines.some(({ level, message }) => level === 'warn' && /server\.public_url/.test(message)),
    );
  });
});

describe('a refused caller of an MCP server', () => {
  const challenge = (reason: string, path = '/tickets/mcp') =>
    `Bearer ${reason}scope="mcp.invoke", resource_metadata="${publicUrl}${metadata}${path}"`;

  test('is told where to get a token', async (t) => {
    const { list } = await start(t);
    const answer = await list('/tickets/mcp', {});
    assert.equal(answer.status, 401);
    assert.equal(answer.headers['www-authenticate'], challenge(''));
    assert.equal(answer.json().error.data.code, 'key_missing');
    assert.equal((await list('/v1/mcp', {})).headers['www-authenticate'], challenge('', '/v1/mcp'));
  });

  test('is told that the token is no good', async (t) => {
    const { list, withToken } = await start(t);
    const invalid = challenge('error="invalid_token", ');
    const expired = await withToken('/tickets/mcp', { exp: 1000 });
    assert.deepEqual([expired.status, expired.json().error.data.code], [401, 'token_invalid']);
    const others: Record<string, string>[] = [
      { authorization: 'Bearer opaque' },
      { 'x-service-api-key': 'wk_unknown' },
    ];
    for (const headers of others)
      assert.equal((await list('/tickets/mcp', headers)).headers['www-authenticate'], invalid);
    const sent = expired.rawHeaders.filter((_, at) => at % 2 === 0 && /www-authenticate/i.test(_));
    assert.deepEqual([sent.length, expired.headers['www-authenticate']], [1, invalid], 'one header');
  });

  test('is told which scope the token lacks', async (t) => {
    const { list, withToken } = await start(t);
    const lacking = challenge('error="insufficient_scope", ');
    const answer = await withToken('/tickets/mcp', { scope: 'openid' });
    assert.deepEqual([answer.status, answer.headers['www-authenticate']], [403, lacking]);
    const key = await list('/tickets/mcp', { 'x-service-api-key': 'wk_models' });
    assert.deepEqual([key.status, key.headers['www-authenticate']], [403, lacking]);
  });

  test('gets no part of a strange address in the answer', async (t) => {
    const { list } = await start(t);
    for (const path of [
      '//tickets//mcp',
      '/tickets/%6dcp',
      '/%22tickets/../mcp',
      '/TICKETS/mcp", error="x',
    ]) {
      const answer = await list(encodeURI(path).replaceAll('%25', '%'), {});
      const told = answer.headers['www-authenticate'];
      assert.ok(told === undefined || told === 'Bearer' || told === challenge('', ''), `${path}: ${told}`);
    }
  });

  test('of another endpoint is not told about tokens', async (t) => {
    const { ask } = await start(t);
    const answer = await ask('/v1/chat/completions', { method: 'POST', body: { model: 'm', messages: [] } });
    assert.deepEqual([answer.status, answer.headers['www-authenticate']], [401, 'Bearer']);
  });
});

describe('a token', () => {
  test('is for the server that it was made for, or for all of the gateway', async (t) => {
    const { withToken, list } = await start(t);
    for (const [path, aud] of [
      ['/tickets/mcp', `${publicUrl}/tickets/mcp`],
      ['/v1/tickets/mcp', `${publicUrl}/v1/tickets/mcp`],
      ['/v1/tickets/mcp', `${publicUrl}/tickets/mcp`],
      ['/tickets/mcp', publicUrl],
      ['/crm/mcp', [`${publicUrl}/`, 'other']],
    ] as const)
      assert.equal((await withToken(path, { aud })).status, 200, `${path} ${String(aud)}`);
    const keyed = await list('/tickets/mcp', { 'x-service-api-key': 'wk_tools' });
    assert.equal(keyed.status, 200, 'service keys have no audience');
  });

  test('that was made for another resource is refused', async (t) => {
    const { withToken } = await start(t);
    for (const aud of [
      `${publicUrl}/crm/mcp`,
      `${publicUrl}/mcp`,
      `${publicUrl}/tickets`,
      `${publicUrl}/tickets/mcp/more`,
      `${publicUrl}.evil.example/tickets/mcp`,
      'https://other.example.com/tickets/mcp',
      'api://weir',
      undefined,
      [],
    ]) {
      const answer = await withToken('/tickets/mcp', { aud });
      assert.deepEqual([answer.status, answer.json().error.data.code], [401, 'token_invalid'], String(aud));
      assert.match(answer.json().error.message, /resource "https:\/\/gateway\.example\.com\/tickets\/mcp"/);
      assert.match(answer.headers['www-authenticate'] ?? '', /error="invalid_token"/);
    }
  });

  test('of a provider that names audiences itself is accepted by that name', async (t) => {
    const { withToken } = await start(t, { audience: ['api://weir', 'api://tools'] });
    assert.equal((await withToken('/tickets/mcp', { aud: 'api://tools' })).status, 200);
    assert.equal((await withToken('/tickets/mcp', { aud: 'api://else' })).status, 401);
  });
});
