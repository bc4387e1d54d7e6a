import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import type { IntegrationData } from '../../../core/ports/record-kinds.ts';
import { secretContext } from '../../../core/ports/secret-managers.ts';
import { openResourcesOfFile, startAdministration } from '../../../tests/kit/administration-kit.ts';
import { testSecrets } from '../../../tests/kit/test-secrets.ts';

const resources = await openResourcesOfFile();

const path = '/secret-references';
const token = 'hvs.planted-token-0123456789';
const vault = { vault_auth_type: 'token', vault_addr: 'https://vault.example.com', vault_token: token };
const body = {
  name: 'OpenAI Key',
  manager_type: 'hashicorp_vault',
  auth_config: vault,
  secret_path: 'secret/team/openai',
  secret_key: 'api_key',
  tags: { team: 'a' },
};
const aws = { aws_access_key_id: 'AKIDEXAMPLE', aws_secret_access_key: 'planted-aws-secret' };

function anIntegration(mapped: string): IntegrationData {
  const access = { enabled: true, usageLimits: [], rateLimits: [] };
  return {
    aiProviderId: 'openai',
    description: '',
    configurations: {},
    allowAllModels: true,
    models: [],
    secretMappings: [{ targetField: 'key', secretReferenceId: mapped, secretKey: '', valueFormat: 'string' }],
    globalAccess: access,
    workspaces: {},
    priceMultiplier: 1,
  };
}

describe('a secret reference', () => {
  test('is created, read, listed, changed and deleted, its secret sealed and never shown', async (t) => {
    const { tenant, call, gateway } = await startAdministration(t, resources);
    const { owner, organisationId } = await tenant('life');
    const made = await call(owner, { path, body: { ...body, organisation_id: organisationId } });
    assert.equal(made.status, 200, made.text);
    const { id, slug, object } = made.json();
    assert.match(slug, /^openai-key-[a-z]{6}$/);
    assert.deepEqual([object, made.headers['etag']], ['secret-reference', '"1"']);

    const read = await call(owner, { path: `${path}/${slug}` });
    const { created_at: at, last_updated_at: changedAt, created_by: by, ...shown } = read.json();
    assert.ok(at === changedAt && by !== '');
    assert.deepEqual(shown, {
      id,
      slug,
      object,
      organisation_id: organisationId,
      name: 'OpenAI Key',
      description: '',
      manager_type: 'hashicorp_vault',
      status: 'active',
      secret_path: 'secret/team/openai',
      auth_config: { ...vault, vault_token: 'hv…89' },
      secret_key: 'api_key',
      allow_all_workspaces: false,
      allowed_workspaces: [],
      allowed_hosts: [],
      tags: { team: 'a' },
    });
    assert.deepEqual((await call(owner, { path: `${path}/${id}` })).json(), read.json());

    const stored = await resources.read(({ records }) =>
      records.find('secret_reference', { organisationId }, id),
    );
    assert.ok(stored && !JSON.stringify(stored).includes(token));
    const sealed = stored.secrets['vault_token'] ?? '';
    assert.equal(testSecrets.open(sealed, secretContext(id, 'vault_token')), token);

    // A read answer that is sent back, changed in one place, keeps the secret.
    const change = { name: 'Renamed', auth_config: shown.auth_config, secret_key: null, tags: null };
    const changed = await call(owner, { method: 'PUT', path: `${path}/${id}`, body: change });
    assert.deepEqual([changed.status, changed.headers['etag']], [200, '"2"'], changed.text);
    const { name, secret_key: secretKey, tags, auth_config: auth } = changed.json();
    assert.deepEqual([name, secretKey, tags, auth], ['Renamed', null, null, shown.auth_config]);

    const listed = (await call(owner, { path })).json();
    assert.deepEqual([listed.object, listed.total], ['list', 1]);
    assert.deepEqual(listed.data[0], {
      id,
      slug,
      object,
      name,
      manager_type: 'hashicorp_vault',
      status: 'active',
      created_at: at,
      last_updated_at: changed.json().last_updated_at,
    });
    const gone = await call(owner, { method: 'DELETE', path: `${path}/${slug}` });
    assert.deepEqual([gone.status, gone.json()], [200, {}]);
    assert.equal((await call(owner, { path: `${path}/${id}` })).status, 404);

    const audit = await resources.read(({ audit }) =>
      audit.list(organisationId, {}, { offset: 0, limit: 100 }),
    );
    assert.equal(audit.total, 3);
    const everything = JSON.stringify([audit, gateway.lines, read.text, changed.text, listed]);
    assert.ok(!everything.includes(token), 'the secret is in no answer, log line or audit row');
  });

  test('keeps a masked secret only while everything around it stays', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner } = await tenant('mask');
    const { id } = (await call(owner, { path, body })).json();
    const put = (auth: object) =>
      call(owner, { method: 'PUT', path: `${path}/${id}`, body: { auth_config: auth } });
    const masked = { ...vault, vault_token: 'hv…89' };
    for (const auth of [
      { ...masked, vault_addr: 'https://elsewhere.example.net' },
      { ...masked, vault_namespace: 'other' },
      { ...vault, vault_token: 'hv…00' },
    ]) {
      const answer = await put(auth);
      assert.deepEqual([answer.status, answer.json().errors[0].path], [400, '/auth_config/vault_token']);
    }
    assert.equal((await put({ ...vault, vault_addr: 'https://elsewhere.example.net' })).status, 200);
  });

  test('is for all workspaces or for those that are named', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, workspaceId } = await tenant('spaces');
    const other = (await call(owner, { path: '/workspaces', body: { name: 'Other' } })).json();
    const given = { ...body, allowed_workspaces: [workspaceId, other.slug, other.id] };
    const { id } = (await call(owner, { path, body: given })).json();
    const shown = async () => {
      const one = (await call(owner, { path: `${path}/${id}` })).json();
      return [one.allow_all_workspaces, one.allowed_workspaces];
    };
    assert.deepEqual(await shown(), [false, [workspaceId, other.id]]);
    const put = (change: object) => call(owner, { method: 'PUT', path: `${path}/${id}`, body: change });
    assert.equal((await put({ allow_all_workspaces: false })).status, 200);
    assert.deepEqual(await shown(), [false, [workspaceId, other.id]]);
    assert.equal((await put({ allow_all_workspaces: true })).status, 200);
    assert.deepEqual(await shown(), [true, []]);
    assert.equal((await put({ allow_all_workspaces: false })).status, 200);
    assert.deepEqual(await shown(), [false, []]);
    assert.equal((await put({ allowed_workspaces: [other.id] })).status, 200);
    assert.deepEqual(await shown(), [false, [other.id]]);
  });

  const wrong: readonly [name: string, change: object, place: string][] = [
    ['no manager of this kind', { manager_type: 'gcp_sm' }, '/manager_type'],
    ['the auth_config of another manager', { manager_type: 'aws_sm' }, '/auth_config'],
    ['an auth_config where none is wanted', { manager_type: 'file' }, '/auth_config'],
    [
      'an address without TLS',
      { auth_config: { ...vault, vault_addr: 'http://vault.example.com' } },
      '/auth_config/vault_addr',
    ],
    ['a path that leads out of the vault', { secret_path: 'secret/../sys/raw' }, '/secret_path'],
    [
      'a region that is none',
      { manager_type: 'aws_sm', auth_config: { aws_auth_type: 'accessKey', ...aws, aws_region: 'evil#' } },
      '/auth_config/aws_region',
    ],
    [
      'the identity of the machine, which the operator has not allowed',
      { manager_type: 'aws_sm', auth_config: { aws_auth_type: 'serviceRole', aws_region: 'us-east-1' } },
      '/auth_config/aws_auth_type',
    ],
    [
      'variables, which the operator has not allowed',
      { manager_type: 'environment', auth_config: {} },
      '/manager_type',
    ],
    ['files, which the operator has not allowed', { manager_type: 'file', auth_config: {} }, '/manager_type'],
    [
      'all workspaces and some',
      { allow_all_workspaces: true, allowed_workspaces: ['x'] },
      '/allowed_workspaces',
    ],
    ['a host that is an address', { allowed_hosts: ['https://host/v1'] }, '/allowed_hosts/0'],
    ['a workspace that is not there', { allowed_workspaces: ['nowhere'] }, '/allowed_workspaces/0'],
    ['another organisation', { organisation_id: 'other' }, '/organisation_id'],
    ['a field that there is not', { secret_pth: 'x' }, '/secret_pth'],
  ];
  for (const [name, change, place] of wrong) {
    test(`is not created with ${name}`, async (t) => {
      const { tenant, call } = await startAdministration(t, resources);
      const { owner } = await tenant('wrong');
      const answer = await call(owner, { path, body: { ...body, ...change } });
      assert.equal(answer.status, 400, answer.text);
      const places = answer.json().errors.map((one: { path: string }) => one.path);
      assert.ok(
        places.some((one: string) => one.startsWith(place)),
        answer.text,
      );
      assert.ok(!answer.text.includes('planted'), 'no secret is repeated');
      assert.doesNotMatch(answer.text, /credential field|\.\./, 'its place names the field');
      assert.equal((await call(owner, { path })).json().total, 0);
    });
  }

  test('is not deleted while integrations use it: 409 resource_conflict with their names', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, organisationId } = await tenant('used');
    const { id } = (await call(owner, { path, body })).json();
    await resources.write(organisationId, async ({ records }) => {
      for (let number = 0; number < 12; number++) {
        await records.insert<'integration'>({
          kind: 'integration',
          id: randomUUID(),
          organisationId,
          workspaceId: undefined,
          slug: `user-${number}`,
          name: 'User',
          status: 'active',
          parentId: '',
          data: anIntegration(id),
          secrets: {},
          createdBy: 'k',
          updatedBy: 'k',
          createdAt: number,
          updatedAt: 1,
          version: 1,
        });
      }
    });
    const refused = await call(owner, { method: 'DELETE', path: `${path}/${id}` });
    assert.deepEqual([refused.status, refused.json().data.errorCode], [409, 'AB07']);
    assert.match(refused.json().data.message, /the integrations "user-0", .*"user-9" and 2 more\. Change/);
    assert.equal((await call(owner, { path: `${path}/${id}` })).status, 200);
  });

  test('has a slug of its own, and a version', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner } = await tenant('slug');
    assert.equal((await call(owner, { path, body: { ...body, slug: 'one' } })).status, 200);
    assert.equal((await call(owner, { path, body: { ...body, slug: 'one' } })).status, 409);
    const stale = { method: 'PUT', path: `${path}/one`, headers: { 'if-match': '"9"' } };
    assert.equal((await call(owner, { ...stale, body: { name: 'x' } })).status, 412);
  });

  test('is found by manager and by a part of its name, page by page', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner } = await tenant('list');
    for (const name of ['Alpha', 'Beta', 'Gamma']) await call(owner, { path, body: { ...body, name } });
    const auth = { aws_auth_type: 'accessKey', ...aws, aws_region: 'us-east-1' };
    const made = await call(owner, {
      path,
      body: { ...body, name: 'Alphabet', manager_type: 'aws_sm', auth_config: auth },
    });
    assert.equal(made.status, 200, made.text);
    const names = async (query: string): Promise<unknown> => {
      const { total, data } = (await call(owner, { path: `${path}${query}` })).json();
      return [total, ...data.map(({ name }: { name: string }) => name)];
    };
    assert.deepEqual(await names('?search=ALPHA'), [2, 'Alpha', 'Alphabet']);
    assert.deepEqual(await names('?manager_type=aws_sm'), [1, 'Alphabet']);
    assert.deepEqual(await names('?manager_type=hashicorp_vault&page_size=2&current_page=1'), [3, 'Gamma']);
    assert.deepEqual(await names('?page_size=1&current_page=2'), [4, 'Gamma']);
  });
});

test('keys of workspaces do not reach secret references, nor do those of other organisations', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const [one, two] = [await tenant('one'), await tenant('two')];
  const { id } = (await call(one.owner, { path, body })).json();
  for (const kind of ['workspace-service', 'workspace-user'] as const)
    assert.equal((await call(one.key({ kind, scopes: ['*'] }), { path })).status, 403);
  const foreign = await call(two.owner, { path: `${path}/${id}` });
  const unknown = await call(two.owner, { path: `${path}/nowhere` });
  assert.equal(foreign.status, 404);
  assert.equal(foreign.text.replace(id, 'nowhere'), unknown.text);
  const reader = one.key({ kind: 'organisation-service', scopes: ['secret_references.read'] });
  assert.equal((await call(reader, { path: `${path}/${id}` })).status, 200);
  assert.equal((await call(reader, { method: 'DELETE', path: `${path}/${id}` })).status, 403);
});
