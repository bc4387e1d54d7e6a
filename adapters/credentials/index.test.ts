import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CredentialFields, CredentialKind } from '../../core/ports/credentials.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { createCredentialFactory, type CredentialFactoryOptions } from './index.ts';
import { request, tokenServer, type Answer } from './token-server.test-support.ts';

const aws = { aws_access_key_id: 'AK', aws_secret_access_key: 's', aws_region: 'us-east-1' };
const entra = {
  azure_entra_tenant_id: 't',
  azure_entra_client_id: 'c',
  azure_entra_client_secret: 'topsecret',
};

async function started(
  t: Parameters<typeof tokenServer>[0],
  answer: Answer,
  more: Partial<CredentialFactoryOptions> = {},
) {
  const clock = new ManualClock();
  const server = await tokenServer(t, clock, answer);
  const environment = { AZURE_AUTHORITY_HOST: server.origin };
  const factory = createCredentialFactory({ clock, transport: server.transport, environment, ...more });
  return { ...server, clock, factory };
}

const issue: Answer = (_call, count) => ({ body: { access_token: `token-${count}`, expires_in: 3600 } });

test('each kind makes its own', async (t) => {
  const { factory } = await started(t, issue);
  const kinds: readonly [CredentialKind, CredentialFields, RegExp][] = [
    ['sigv4', aws, /^AWS4-HMAC-SHA256 /],
    ['google', { api_key: 'g' }, /^Bearer g$/],
    ['entra', entra, /^Bearer token-1$/],
  ];
  for (const [kind, fields, expected] of kinds) {
    const headers = await factory.create(kind, fields).authorize(request);
    assert.match(headers[headers.indexOf('authorization') + 1] ?? '', expected);
  }
});

test('the same fields, in whatever order, share one token; others and other trust do not', async (t) => {
  const { factory, calls } = await started(t, issue);
  const first = factory.create('entra', entra);
  await first.authorize(request);
  const reversed = Object.fromEntries(Object.entries(entra).reverse());
  assert.equal(factory.create('entra', reversed), first);
  assert.deepEqual(factory.create('entra', reversed).authorize(request), ['authorization', 'Bearer token-1']);
  assert.equal(calls.length, 1);
  for (const other of [
    factory.create('entra', { ...entra, azure_entra_client_secret: 'other' }),
    factory.create('entra', entra, { machineIdentity: true }),
  ]) {
    assert.notEqual(other, first);
  }
});

test('the identity of the machine is not for fields that nobody vouches for', async (t) => {
  const { factory } = await started(t, issue);
  const fields = { azure_auth_mode: 'managed' };
  assert.throws(() => factory.create('entra', fields), { code: 'invalid_request', param: 'azure_auth_mode' });
  assert.ok(factory.create('entra', fields, { machineIdentity: true }));
});

test('remembers so many, and forgets the least recently used', async (t) => {
  const { factory } = await started(t, issue, { maxRemembered: 2 });
  const create = (key: string) => factory.create('google', { api_key: key });
  const [a, b] = [create('a'), create('b')];
  assert.equal(create('a'), a);
  create('c');
  assert.equal(create('a'), a);
  assert.notEqual(create('b'), b);
});

test('a token that cannot be had is credentials_failed, of the kind that others can tell', async (t) => {
  const { factory } = await started(t, () => ({ status: 401, body: { error: 'invalid_client: topsecret' } }));
  await assert.rejects(async () => factory.create('entra', entra).authorize(request), {
    code: 'credentials_failed',
    status: 502,
    type: 'upstream_error',
    message:
      /^No access token of Microsoft Entra for the client c: .* 401 invalid_client: \[secret\]\. Check azure_entra_tenant_id/,
  });
});
