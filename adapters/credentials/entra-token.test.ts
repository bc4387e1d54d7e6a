import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import type { CredentialFields } from '../../core/ports/credentials.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { createEntraCredentials } from './index.ts';
import { request, tokenServer, type Answer } from './token-server.test-support.ts';

const secret = 'Abc8Q~very.secret+value';
const client = {
  azure_entra_tenant_id: '11111111-2222-3333-4444-555555555555',
  azure_entra_client_id: 'client-1',
  azure_entra_client_secret: secret,
};

function make(fields: CredentialFields, environment: Record<string, string> = {}, machineIdentity = true) {
  return createEntraCredentials(fields, {
    clock: new ManualClock(),
    fetch: () => Promise.reject(new Error('no fetch')),
    environment,
    machineIdentity,
  });
}

interface Starting {
  readonly fields: CredentialFields;
  readonly environment?: Record<string, string>;
  readonly answer?: Answer;
}

const issue: Answer = (_call, count) => ({ body: { access_token: `eyJ.${count}`, expires_in: 3600 } });

async function start(t: TestContext, { fields, environment = {}, answer = issue }: Starting) {
  const clock = new ManualClock();
  const server = await tokenServer(t, clock, answer);
  const credentials = createEntraCredentials(fields, {
    clock,
    fetch: server.fetch,
    environment: {
      AZURE_AUTHORITY_HOST: `${server.origin}/`,
      AZURE_POD_IDENTITY_AUTHORITY_HOST: server.origin,
      ...environment,
    },
    machineIdentity: true,
  });
  return { clock, ...server, credentials };
}

const formOf = (body: string): Record<string, string> => Object.fromEntries(new URLSearchParams(body));

describe('client credentials', () => {
  test('are exchanged for a token, once for everybody, and renewed in time', async (t) => {
    const { clock, calls, credentials } = await start(t, { fields: client });
    const all = await Promise.all([credentials.authorize(request), credentials.authorize(request)]);
    assert.deepEqual(all, Array(2).fill(['authorization', 'Bearer eyJ.1']));
    assert.deepEqual(credentials.authorize(request), ['authorization', 'Bearer eyJ.1']);
    assert.equal(calls.length, 1);
    const { method, url, body } = calls[0]!;
    assert.deepEqual([method, url], ['POST', `/${client.azure_entra_tenant_id}/oauth2/v2.0/token`]);
    assert.deepEqual(formOf(body), {
      grant_type: 'client_credentials',
      client_id: 'client-1',
      client_secret: secret,
      scope: 'https://cognitiveservices.azure.com/.default',
    });
    clock.advance(3_540_000);
    assert.deepEqual(await credentials.authorize(request), ['authorization', 'Bearer eyJ.2']);
  });

  test('another scope', async (t) => {
    const fields = {
      ...client,
      azure_auth_mode: 'entra',
      azure_entra_scope: 'https://ai.azure.com/.default',
    };
    const { calls, credentials } = await start(t, { fields });
    await credentials.authorize(request);
    assert.equal(formOf(calls[0]!.body).scope, 'https://ai.azure.com/.default');
  });

  test('a refusal is credentials_failed, says what Entra says and not the secret', async (t) => {
    const { credentials } = await start(t, {
      fields: client,
      answer: ({ body }) => ({
        status: 401,
        body: { error: 'invalid_client', error_description: `AADSTS7000215: ${secret}\r\nTrace: ${body}` },
      }),
    });
    await assert.rejects(
      async () => credentials.authorize(request),
      (error: Error & { code: string }) => {
        assert.equal(error.code, 'credentials_failed');
        assert.match(
          error.message,
          /client-1: 127\.0\.0\.1:\d+ answered 401 invalid_client: AADSTS7000215: \[secret\] Trace/,
        );
        assert.ok(!error.message.includes(secret) && !error.message.includes(encodeURIComponent(secret)));
        return true;
      },
    );
  });
});

describe('identities of the machine', () => {
  test('managed: asks the metadata service; its numbers are text', async (t) => {
    const answer: Answer = () => ({
      body: { access_token: 'eyJ.m', expires_in: '86399', expires_on: '1586984735', resource: 'r' },
    });
    const fields = { azure_auth_mode: 'managed', azure_managed_client_id: 'id 1' };
    const { clock, calls, credentials } = await start(t, { fields, answer });
    assert.deepEqual(await credentials.authorize(request), ['authorization', 'Bearer eyJ.m']);
    const { method, url, headers } = calls[0]!;
    assert.deepEqual(
      [method, url, headers.metadata],
      [
        'GET',
        '/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fcognitiveservices.azure.com&client_id=id+1',
        'true',
      ],
    );
    clock.advance(86_000_000);
    assert.deepEqual(credentials.authorize(request), ['authorization', 'Bearer eyJ.m']);
  });

  test('managed: the end of the token as a time, when its length is not told', async (t) => {
    const answer: Answer = () => ({
      body: { access_token: 'eyJ.m', expires_on: String(new ManualClock().now() / 1_000 + 600) },
    });
    const { clock, calls, credentials } = await start(t, { fields: { azure_auth_mode: 'managed' }, answer });
    await credentials.authorize(request);
    clock.advance(300_000 - 1);
    assert.ok(Array.isArray(credentials.authorize(request)));
    assert.equal(calls.length, 1);
    clock.advance(300_001);
    await credentials.authorize(request);
    assert.equal(calls.length, 2);
  });

  test('workload and federated: the token of the file, read anew for each token', async (t) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'weir-entra-'));
    t.after(() => rm(folder, { recursive: true }));
    const file = path.join(folder, 'token');
    const cases: readonly [CredentialFields, string, string][] = [
      [{ azure_auth_mode: 'workload' }, 'env-client', 'env-tenant'],
      [{ azure_auth_mode: 'workload', azure_workload_client_id: 'own' }, 'own', 'env-tenant'],
      [
        {
          azure_auth_mode: 'entraFederated',
          azure_entra_client_id: 'own',
          azure_entra_tenant_id: 'other.example',
        },
        'own',
        'other.example',
      ],
    ];
    for (const [fields, clientId, tenant] of cases) {
      const environment = {
        AZURE_TENANT_ID: 'env-tenant',
        AZURE_CLIENT_ID: 'env-client',
        AZURE_FEDERATED_TOKEN_FILE: file,
      };
      await writeFile(file, 'federated.token.1\n');
      const { clock, calls, credentials } = await start(t, { fields, environment });
      await credentials.authorize(request);
      assert.equal(calls[0]!.url, `/${tenant}/oauth2/v2.0/token`);
      assert.deepEqual(formOf(calls[0]!.body), {
        grant_type: 'client_credentials',
        client_id: clientId,
        client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
        client_assertion: 'federated.token.1',
        scope: 'https://cognitiveservices.azure.com/.default',
      });
      await writeFile(file, 'federated.token.2');
      clock.advance(3_600_000);
      await credentials.authorize(request);
      assert.equal(formOf(calls[1]!.body).client_assertion, 'federated.token.2');
    }
  });

  test('workload: a file that is missing or empty, and a refusal that quotes the token', async (t) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'weir-entra-'));
    t.after(() => rm(folder, { recursive: true }));
    const file = path.join(folder, 'token');
    const environment = { AZURE_TENANT_ID: 't', AZURE_CLIENT_ID: 'c', AZURE_FEDERATED_TOKEN_FILE: file };
    const { clock, credentials } = await start(t, {
      fields: { azure_auth_mode: 'workload' },
      environment,
      answer: ({ body }) => ({
        status: 400,
        body: { error: 'invalid_request', error_description: `got ${body}` },
      }),
    });
    const failsWith = async (message: RegExp): Promise<void> => {
      clock.advance(1_000);
      await assert.rejects(async () => credentials.authorize(request), {
        code: 'credentials_failed',
        message,
      });
    };
    await failsWith(/cannot be read/);
    await writeFile(file, ' \n');
    await failsWith(/holds no token/);
    await writeFile(file, 'federated.token');
    await failsWith(/client_assertion=\[secret\]/);
  });

  test('are refused to fields that a request brings', () => {
    const environment = {
      AZURE_TENANT_ID: 't',
      AZURE_CLIENT_ID: 'c',
      AZURE_FEDERATED_TOKEN_FILE: '/nowhere',
    };
    for (const mode of ['managed', 'workload', 'entraFederated']) {
      assert.throws(() => make({ azure_auth_mode: mode }, environment, false), {
        code: 'invalid_request',
        param: 'azure_auth_mode',
        message: /only a provider of the configuration/,
      });
    }
    assert.ok(make(client, environment, false));
  });
});

test('a client outweighs a key, unless the mode says otherwise', () => {
  assert.ok(
    make({ ...client, api_key: 'k', azure_auth_mode: 'default' }).authorize(request) instanceof Array,
  );
  assert.throws(() => make({ azure_entra_client_id: 'c', api_key: 'k' }), { param: 'azure_entra_tenant_id' });
});

test('a ready token and a key are sent as they are', () => {
  const cases: readonly [CredentialFields, string[]][] = [
    [{ azure_ad_token: 't' }, ['authorization', 'Bearer t']],
    [{ azure_auth_mode: 'default', azure_ad_token: 't', api_key: 'k' }, ['authorization', 'Bearer t']],
    [{ azure_auth_mode: 'default', api_key: 'k' }, ['api-key', 'k']],
    [{ api_key: 'k' }, ['api-key', 'k']],
  ];
  for (const [fields, headers] of cases) assert.deepEqual(make(fields).authorize(request), headers);
});

describe('fields that are missing or wrong are named', () => {
  const cases: readonly [string, CredentialFields][] = [
    ['azure_entra_tenant_id', {}],
    ['azure_entra_tenant_id', { ...client, azure_entra_tenant_id: '../evil' }],
    ['azure_entra_client_id', { azure_entra_tenant_id: 't', azure_entra_client_secret: secret }],
    ['azure_entra_client_secret', { azure_entra_tenant_id: 't', azure_entra_client_id: 'c' }],
    ['azure_auth_mode', { ...client, azure_auth_mode: 'magic' }],
    ['api_key', { azure_auth_mode: 'default' }],
    ['azure_entra_tenant_id', { azure_auth_mode: 'workload' }],
    ['azure_workload_client_id', { azure_auth_mode: 'workload', azure_entra_tenant_id: 't' }],
    ['azure_entra_client_id', { azure_auth_mode: 'entraFederated', azure_entra_tenant_id: 't' }],
    ['AZURE_FEDERATED_TOKEN_FILE', { azure_auth_mode: 'entraFederated', ...client }],
  ];
  for (const [param, fields] of cases) {
    test(`${param} of ${Object.keys(fields).join(', ')}`, () => {
      assert.throws(
        () => make(fields),
        (error: Error & { code: string; param: string }) => {
          assert.deepEqual([error.code, error.param], ['invalid_request', param]);
          assert.ok(!error.message.includes(secret));
          return true;
        },
      );
    });
  }
});
