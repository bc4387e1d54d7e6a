import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { testFetch } from '../../../adapters/guarded-fetch/guarded-fetch.test-support.ts';
import { createOauthClients } from '../../../adapters/oauth/create-oauth-clients.ts';
import { systemClock } from '../../../core/ports/clock.ts';
import { secretContext } from '../../../core/ports/secret-managers.ts';
import { openResourcesOfFile } from '../../../tests/kit/administration-kit.ts';
import { startAuthorizationServer } from '../../../tests/kit/authorization-server.ts';
import { body, path, planted, startMcp } from '../../../tests/kit/mcp-kit.ts';
import { testSecrets } from '../../../tests/kit/test-secrets.ts';

const resources = await openResourcesOfFile();
const start = (t: TestContext) => startMcp(t, resources);
const field = 'configurations.oauth.client_secret';
const auth_type = 'oauth_client_credentials';
const withoutSecret = {
  client_id: 'gateway',
  issuer: 'https://login.example.com/tenant',
  scope: 'tickets:read',
};
const oauth = { ...withoutSecret, client_secret: planted };

describe('OAuth settings of an MCP integration', () => {
  test('are created, shown with masked secrets, sealed, and changed with what was shown', async (t) => {
    const { call, ok, owner, stored, gateway } = await start(t);
    const made = await call(owner, { path, body: { ...body, auth_type, configurations: { oauth } } });
    assert.equal(made.status, 200, made.text);
    const { id } = made.json();
    const shown = await ok({ path: `${path}/${id}` });
    assert.equal(shown.auth_type, auth_type);
    assert.deepEqual(shown.configurations, { oauth: { ...oauth, client_secret: 'tk…ry' } });
    const record = await stored(id);
    assert.deepEqual(record.data.oauth, withoutSecret);
    assert.equal(testSecrets.open(record.secrets[field] ?? '', secretContext(id, field)), planted);

    const configurations = { oauth: { ...shown.configurations.oauth, scope: 'tickets:write' } };
    const changed = await call(owner, { method: 'PUT', path: `${path}/${id}`, body: { configurations } });
    assert.equal(changed.status, 200, changed.text);
    const after = await stored(id);
    assert.equal(testSecrets.open(after.secrets[field] ?? '', secretContext(id, field)), planted);
    assert.equal(after.data.oauth?.scope, 'tickets:write');
    // Configurations are replaced as a whole.
    await ok({ method: 'PUT', path: `${path}/${id}`, body: { auth_type: 'none', configurations: {} } });
    const bare = await stored(id);
    assert.deepEqual([bare.data.oauth, bare.secrets], [undefined, {}]);
    assert.ok(!JSON.stringify([record, gateway.lines, shown, changed.text]).includes(planted));
  });

  const wrong: readonly [what: string, auth_type: string, oauth: object, RegExp][] = [
    ['without a use', 'headers', oauth, /oauth has no use with auth_type headers/],
    [
      'without a client',
      auth_type,
      { issuer: oauth.issuer },
      /client_id is missing.*client_secret is missing/,
    ],
    ['without a secret', auth_type, withoutSecret, /client_secret is missing; give it, or a private_key/],
    ['with two secrets', auth_type, { ...oauth, private_key: 'k' }, /keep one of them/],
    [
      'with another secret than the method needs',
      auth_type,
      { ...oauth, token_endpoint_auth_method: 'private_key_jwt' },
      /private_key is missing: private_key_jwt proves/,
    ],
    ['with a masked secret', auth_type, { ...oauth, client_secret: 'ab…cd' }, /give the secret itself/],
    [
      'with credentials in an address',
      auth_type,
      { ...oauth, token_endpoint: 'https://me:pw@login.example.com/token' },
      /token_endpoint carries credentials/,
    ],
    [
      'with half of the endpoints',
      'oauth_auto',
      { authorization_endpoint: 'https://a.example.com/' },
      /token_end/,
    ],
    [
      'with a resource that is none',
      'oauth_auto',
      { resource: 'tickets' },
      /resource must be an absolute URI/,
    ],
    ['with an exchange by nobody', 'oauth_auto', { token_exchange: 'required' }, /client_id is missing/],
    ['with an unknown member', auth_type, { ...oauth, clientId: 'x' }, /\/configurations\/oauth/],
  ];
  test('are refused, each with its place', async (t) => {
    const { refused } = await start(t);
    for (const [what, type, given, message] of wrong) {
      t.diagnostic(what);
      const asked = { path, body: { ...body, auth_type: type, configurations: { oauth: given } } };
      await refused(asked, 400, message);
    }
    const bad = (identity_headers: object) => ({
      path,
      body: { ...body, configurations: { identity_headers } },
    });
    await refused(bad({ Authorization: 'email' }), 400, /identity_headers\/Authorization holds the token/);
    await refused(bad({ 'x-user': 'sub', 'X-User': 'email' }), 400, /X-User is there twice/);
    await refused(bad({ 'mcp-session-id': 'sub' }), 400, /is set by the gateway itself/);
  });

  test('claims are named for headers, and their change leaves what is known of the server', async (t) => {
    const { ok, stored } = await start(t);
    const { id } = await ok({ path, body });
    await ok({ path: `${path}/${id}/metadata` });
    const configurations = { identity_headers: { 'x-user-email': 'email', 'x-user-groups': 'groups' } };
    const shown = await ok({ method: 'PUT', path: `${path}/${id}`, body: { configurations } });
    assert.deepEqual(shown.configurations, configurations);
    const { data } = await stored(id);
    assert.deepEqual(data.identityHeaders, configurations.identity_headers);
    assert.notEqual(data.server, undefined);
  });

  test('a secret is never sent to another place than the one that it was given for', async (t) => {
    const { call, owner, stored } = await start(t);
    const hosts = ['https://a.example.com', 'https://b.example.com', 'https://a.example.com:8443'];
    const place = fc
      .constantFrom(...hosts)
      .chain((host) => fc.constantFrom('', '/x', '/y').map((p) => host + p));
    const maybe = fc.option(place, { nil: undefined });
    const settings = fc.record({ url: place, issuer: maybe, token_endpoint: maybe });
    type Settings = typeof settings extends fc.Arbitrary<infer T> ? T : never;
    const originOf = ({ url, issuer, token_endpoint }: Settings) =>
      new URL(token_endpoint ?? issuer ?? url).origin;
    const bodyOf = ({ url, issuer, token_endpoint }: Settings, client_secret: string) => ({
      ...{ ...body, url, auth_type },
      configurations: {
        oauth: {
          ...{ client_id: 'gateway', client_secret },
          ...(issuer !== undefined && { issuer }),
          ...(token_endpoint !== undefined && { token_endpoint }),
        },
      },
    });
    await fc.assert(
      fc.asyncProperty(settings, settings, fc.boolean(), async (before, after, isUrlAlone) => {
        const made = await call(owner, { path, body: bodyOf(before, planted) });
        assert.equal(made.status, 200, made.text);
        const { id } = made.json();
        const next = isUrlAlone ? { ...before, url: after.url } : after;
        const { url, configurations } = bodyOf(next, 'tk…ry');
        const changed = await call(owner, {
          method: 'PUT',
          path: `${path}/${id}`,
          body: isUrlAlone ? { url } : { url, configurations },
        });
        const isMoved = originOf(before) !== originOf(next);
        assert.equal(
          changed.status,
          isMoved ? 400 : 200,
          `${JSON.stringify([before, next])} ${changed.text}`,
        );
        const { data, secrets } = await stored(id);
        assert.equal(testSecrets.open(secrets[field] ?? '', secretContext(id, field)), planted);
        assert.equal(data.url, isMoved ? before.url : next.url);
      }),
      { numRuns: 60 },
    );
  });
});

describe('the handshake with a server that wants a token', () => {
  test('is made with one of the gateway itself, and says why it has none', async (t) => {
    const client = { grant_types: ['client_credentials'], redirect_uris: [], response_types: [] };
    const authority = await startAuthorizationServer({
      clients: [{ client_id: 'gateway', client_secret: planted, ...client }],
    });
    t.after(() => authority.close());
    const trusting = testFetch({ trustedHosts: [authority.host] });
    const clients = createOauthClients({ fetch: trusting, clock: systemClock });
    const { ok, mcp, reference } = await startMcp(t, resources, clients);
    const rest = { ...withoutSecret, issuer: authority.issuer, resource: 'https://tickets.example.com/mcp' };
    const given = { ...rest, client_secret: planted };
    const { id } = await ok({ path, body: { ...body, auth_type, configurations: { oauth: given } } });
    const metadata = `${path}/${id}/metadata`;
    assert.equal((await ok({ path: metadata })).sync_status, 'synced');
    const [name, value = ''] = mcp.addresses.at(-1)?.headers ?? [];
    assert.equal(name, 'authorization');
    assert.deepEqual(await authority.token(value.replace('Bearer ', '')), {
      subject: undefined,
      clientId: 'gateway',
      scope: 'tickets:read',
      audience: given.resource,
    });

    const put = (change: object) => ok({ method: 'PUT', path: `${path}/${id}`, body: change });
    await put({ configurations: { oauth: { ...given, client_secret: 'another secret' } } });
    const failed = await ok({ path: `${metadata}?refresh=true` });
    assert.match(failed.sync_error, /refuses to give a token: invalid_client \(HTTP 401\)/);
    assert.ok(!JSON.stringify(failed).includes('another secret'));

    await reference('elsewhere');
    const target_field = `model_config.oauth.client_secret`;
    await put({
      configurations: { oauth: rest },
      secret_mappings: [{ target_field, secret_reference_id: 'elsewhere', secret_key: 'k' }],
    });
    await ok({ path: `${metadata}?refresh=true` });
    const sent = authority.requests.filter((one) => one === 'POST /token').length;
    assert.equal(sent, 3, 'the secret of the reference was tried');
  });
});
