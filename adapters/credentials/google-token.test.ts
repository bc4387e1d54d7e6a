import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { createGoogleCredentials } from './index.ts';
import { request, tokenServer, type Answer } from './token-server.test-support.ts';

const { privateKey, publicKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});
const elliptic = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});
const account = {
  type: 'service_account',
  project_id: 'p',
  private_key_id: 'key-1',
  private_key: privateKey,
  client_email: 'weir@p.iam.gserviceaccount.com',
  token_uri: 'https://oauth2.googleapis.com/token',
};

function make(fields: Record<string, string>, machineIdentity = false) {
  return createGoogleCredentials(fields, {
    clock: new ManualClock(),
    fetch: () => Promise.reject(new Error('no fetch')),
    environment: {},
    machineIdentity,
  });
}

const json = (change: Record<string, unknown>): { vertex_service_account_json: string } => ({
  vertex_service_account_json: JSON.stringify({ ...account, ...change }),
});

async function start(t: TestContext, answer: Answer, change: Record<string, unknown> = {}) {
  const clock = new ManualClock();
  const server = await tokenServer(t, clock, answer);
  const tokenUri = `${server.origin}/token`;
  const credentials = createGoogleCredentials(json({ token_uri: tokenUri, ...change }), {
    clock,
    fetch: server.fetch,
    environment: {},
    machineIdentity: true,
  });
  return { clock, ...server, tokenUri, credentials };
}

const part = (token: string, index: number): unknown =>
  JSON.parse(Buffer.from(token.split('.')[index] ?? '', 'base64url').toString());

test('a JWT signed with the account is exchanged for a token, once for everybody, and renewed in time', async (t) => {
  const { clock, calls, credentials, tokenUri } = await start(t, (_call, count) => ({
    body: { access_token: `ya29.${count}`, expires_in: 3599, token_type: 'Bearer' },
  }));
  const all = await Promise.all([credentials.authorize(request), credentials.authorize(request)]);
  assert.deepEqual(all, Array(2).fill(['authorization', 'Bearer ya29.1']));
  assert.deepEqual(credentials.authorize(request), ['authorization', 'Bearer ya29.1']);
  assert.equal(calls.length, 1);
  const { method, url, headers, body } = calls[0]!;
  assert.deepEqual(
    [method, url, headers['content-type']],
    ['POST', '/token', 'application/x-www-form-urlencoded'],
  );
  const form = new URLSearchParams(body);
  assert.equal(form.get('grant_type'), 'urn:ietf:params:oauth:grant-type:jwt-bearer');
  const assertion = form.get('assertion') ?? '';
  const issued = clock.now() / 1_000;
  assert.deepEqual(part(assertion, 0), { alg: 'RS256', typ: 'JWT', kid: 'key-1' });
  assert.deepEqual(part(assertion, 1), {
    iss: account.client_email,
    scope: 'https://www.googleapis.com/auth/cloud-platform',
    aud: tokenUri,
    iat: issued,
    exp: issued + 3600,
  });
  const [head, claims, signature = ''] = assertion.split('.');
  const signed = Buffer.from(`${head}.${claims}`);
  assert.ok(verify('RSA-SHA256', signed, createPublicKey(publicKey), Buffer.from(signature, 'base64url')));

  clock.advance((3599 - 60) * 1_000);
  assert.deepEqual(await credentials.authorize(request), ['authorization', 'Bearer ya29.2']);
});

test('a key whose line ends were escaped twice serves, and so does an account without token_uri', () => {
  const escaped = privateKey.replaceAll('\n', '\\n');
  assert.ok(make(json({ private_key: escaped, token_uri: undefined })));
});

test('a ready access token is sent as it is', () => {
  assert.deepEqual(make({ api_key: 'ya29.x' }).authorize(request), ['authorization', 'Bearer ya29.x']);
});

describe('an account that cannot serve is refused, by what is wrong and without its content', () => {
  const cases: readonly [string, Record<string, string>, RegExp][] = [
    ['none', {}, /is missing/],
    ['no JSON', { vertex_service_account_json: 'topsecret{' }, /no JSON object/],
    ['an array', { vertex_service_account_json: '["topsecret"]' }, /no JSON object/],
    ['no email', json({ client_email: undefined }), /lacks "client_email"/],
    ['no key', json({ private_key: '' }), /lacks "private_key"/],
    ['a key that is none', json({ private_key: 'topsecret' }), /"private_key" that is no RSA key/],
    ['a key of another kind', json({ private_key: elliptic.privateKey }), /no RSA key/],
    ['a public key', json({ private_key: publicKey }), /no RSA key/],
    ['another type', json({ type: 'authorized_user' }), /type "authorized_user"/],
    ...[
      'http://oauth2.googleapis.com/token',
      'https://googleapis.com.evil.example/',
      'https://evilgoogleapis.com/',
      'https://user@oauth2.googleapis.com/',
      'http://127.0.0.1/token',
      'https://169.254.169.254/',
      'not a url',
    ].map((uri): [string, Record<string, string>, RegExp] => [
      `the token endpoint ${uri}`,
      json({ token_uri: uri }),
      /"token_uri" that is not Google's/,
    ]),
  ];
  for (const [name, fields, message] of cases) {
    test(name, () => {
      assert.throws(
        () => make(fields),
        (error: Error & { code: string; param: string; cause?: unknown }) => {
          assert.deepEqual([error.code, error.param], ['invalid_request', 'vertex_service_account_json']);
          assert.match(error.message, message);
          assert.doesNotMatch(error.message, /topsecret|PRIVATE KEY/);
          assert.equal(error.cause, undefined);
          return true;
        },
      );
    });
  }

  test('an operator may name another token endpoint', () => {
    assert.ok(make(json({ token_uri: 'http://127.0.0.1:1/token' }), true));
    assert.ok(make(json({ token_uri: 'https://tokens.corp.example/' }), true));
    for (const uri of ['ftp://a.example/', 'https://user@a.example/', 'not a url'])
      assert.throws(() => make(json({ token_uri: uri }), true), /not Google's/);
  });
});

describe('what Google refuses is credentials_failed', () => {
  const cases: readonly [string, ReturnType<Answer>, RegExp][] = [
    [
      'an OAuth error',
      { status: 400, body: { error: 'invalid_grant', error_description: 'Invalid JWT Signature.' } },
      /400 invalid_grant: Invalid JWT Signature\. Check vertex_service_account_json/,
    ],
    ['a page', { status: 503, body: '<html>' }, /503 without JSON/],
    ['an answer without a token', { body: { id_token: 'x' } }, /200 without access_token/],
    ['a token that is no header', { body: { access_token: 'a\r\nx-evil: 1' } }, /a token that is none/],
  ];
  for (const [name, answer, message] of cases) {
    test(name, async (t) => {
      const { credentials } = await start(t, () => answer);
      await assert.rejects(async () => credentials.authorize(request), {
        code: 'credentials_failed',
        status: 502,
        message,
      });
    });
  }

  test('is asked again after a second, not before; the assertion is not quoted', async (t) => {
    const { credentials, calls, clock } = await start(t, ({ body }, count) =>
      count === 1
        ? {
            status: 400,
            body: { error: body, error_description: new URLSearchParams(body).get('assertion') },
          }
        : { body: { access_token: 'ya29.2', expires_in: 3600 } },
    );
    const failed = await Promise.resolve(credentials.authorize(request)).catch((error: Error) => error);
    assert.ok(failed instanceof Error);
    const assertion = new URLSearchParams(calls[0]!.body).get('assertion') ?? '';
    assert.ok(assertion.length > 100 && !failed.message.includes(assertion));
    await assert.rejects(async () => credentials.authorize(request));
    assert.equal(calls.length, 1);
    clock.advance(1_000);
    assert.deepEqual(await credentials.authorize(request), ['authorization', 'Bearer ya29.2']);
  });
});
