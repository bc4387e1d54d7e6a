import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { ProviderRow } from '../providers/provider-row.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { ok } from '../../tests/kit/routing-kit.ts';

const aws = {
  'x-service-aws-region': 'us-east-1',
  'x-service-aws-access-key-id': 'AKIAEXAMPLE',
  'x-service-aws-secret-access-key': 'caller-secret',
};

/** The port stands where a workspace would, so that the address of the row leads to this host. */
async function cloud(t: TestContext) {
  const upstream = await startUpstream(t, ok);
  const port = new URL(upstream.url).port;
  const table = new Map<string, ProviderRow>([
    ['cloud', { base_url: 'http://127.0.0.1:{databricks_workspace}', credentials: 'sigv4' }],
    ['plain', { base_url: upstream.url, credentials: 'api-key' }],
  ]);
  const gateway = await startTestGateway(t, {
    plugins: [providerPlugin()],
    table,
    security: { trusted_hosts: [`127.0.0.1:${port}`] },
    providers: {
      held: {
        base_url: upstream.url,
        credentials: 'sigv4',
        aws_access_key_id: 'AKIAHELD',
        aws_secret_access_key: 'held-secret',
        aws_region: 'eu-west-1',
      },
      organised: { base_url: upstream.url, api_key: 'sk-held', openai_organization: 'org-1' },
      nowhere: { api_key: 'sk-held' },
      endpoint: { api_key: 'sk-held', huggingface_base_url: `${upstream.url}/own` },
      unfinished: { base_url: 'https://{azure_resource_name}.example', api_key: 'sk-held' },
    },
  });
  const ask = (headers: Record<string, string>, body = '{}', path = '/v1/x/a%3Ab') =>
    send(gateway.url, { path, headers, body });
  const authorization = () => upstream.requests.at(-1)?.headers['authorization'] ?? '';
  return { ask, port, upstream, authorization };
}

describe('credential and setting fields', () => {
  test('of the request’s headers sign the request and fill in the address of a built-in row', async (t) => {
    const { ask, port, upstream, authorization } = await cloud(t);
    const answer = await ask({
      ...aws,
      'x-service-provider': 'cloud',
      'x-service-databricks-workspace': port,
    });
    assert.equal(answer.status, 200, answer.text);
    assert.match(
      authorization(),
      new RegExp(`^AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/\\d{8}/us-east-1/bedrock/`),
    );
    const sent = JSON.stringify(upstream.requests.at(-1)?.rawHeaders);
    assert.ok(!sent.includes('caller-secret') && !sent.includes('x-service'));
  });

  test('a missing one is named, with the places where it can be given', async (t) => {
    const { ask, upstream } = await cloud(t);
    const answer = await ask({ ...aws, 'x-service-provider': 'cloud' });
    assert.equal(answer.status, 400);
    assert.match(answer.text, /needs databricks_workspace.*providers\.cloud.*x-service-databricks-workspace/);
    const own = await ask({ 'x-service-provider': '@unfinished' });
    assert.match(own.text, /needs azure_resource_name/);
    const nowhere = await ask({ 'x-service-provider': '@nowhere' });
    assert.match(nowhere.text, /no address of its own. Set base_url under providers\.nowhere/);
    assert.equal(upstream.requests.length, 0);
  });

  test('that are headers of the host’s wire go along when the request is translated; the client’s own do not', async (t) => {
    const { ask, upstream } = await cloud(t);
    const question = { model: 'm', max_tokens: 5, messages: [{ role: 'user', content: 'Hi' }] };
    await ask(
      { 'x-service-provider': '@organised', 'openai-project': 'callers', 'anthropic-beta': 'callers' },
      JSON.stringify(question),
      '/v1/messages',
    );
    const { url, headers } = upstream.requests.at(-1) ?? {};
    assert.deepEqual(
      [url, headers?.['openai-organization'], headers?.['openai-project'], headers?.['anthropic-beta']],
      ['/chat/completions', 'org-1', undefined, undefined],
    );
  });

  test('an address of the configuration is where its provider is', async (t) => {
    const { ask, upstream } = await cloud(t);
    const answer = await ask({ 'x-service-provider': '@endpoint' });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(upstream.requests.at(-1)?.url, '/own/x/a%3Ab');
  });

  test('one that would lead to another address is refused', async (t) => {
    const { ask, upstream } = await cloud(t);
    for (const workspace of ['evil.example/', '1@evil', 'a'.repeat(64), '%31']) {
      const answer = await ask({
        ...aws,
        'x-service-provider': 'cloud',
        'x-service-databricks-workspace': workspace,
      });
      assert.equal(answer.status, 400, workspace);
      assert.match(answer.text, /x-service-databricks-workspace may hold/);
    }
    assert.equal(upstream.requests.length, 0);
  });

  test('of a configured provider are its own: the request’s do not replace them', async (t) => {
    const { ask, authorization } = await cloud(t);
    const answer = await ask({ ...aws, 'x-service-provider': '@held' });
    assert.equal(answer.status, 200, answer.text);
    assert.match(authorization(), /Credential=AKIAHELD\/\d{8}\/eu-west-1\/bedrock\//);
  });

  test('held ones never sign for a host that the request names', async (t) => {
    const { ask, port, authorization } = await cloud(t);
    const host = { 'x-service-custom-host': `http://127.0.0.1:${port}` };
    const answer = await ask({ 'x-service-provider': '@held', ...host });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(authorization(), '');
    await ask({ 'x-service-provider': '@held', ...host, ...aws });
    assert.match(authorization(), /Credential=AKIAEXAMPLE\//);
  });

  test('a wrong credential is refused with the field’s name and without its value', async (t) => {
    const { ask, port } = await cloud(t);
    const answer = await ask({
      'x-service-provider': 'cloud',
      'x-service-databricks-workspace': port,
      'x-service-aws-region': 'us-east-1',
      'x-service-aws-access-key-id': 'AKIAEXAMPLE',
    });
    assert.equal(answer.status, 400);
    assert.match(answer.text, /aws_secret_access_key/);
    assert.ok(!answer.text.includes('AKIAEXAMPLE'));
  });
});
