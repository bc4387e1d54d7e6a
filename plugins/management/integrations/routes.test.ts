import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import {
  expecting,
  openResourcesOfFile,
  startAdministration,
} from '../../../tests/kit/administration-kit.ts';

const resources = await openResourcesOfFile();

const planted = 'sk-planted-0123456789-canary';

async function start(t: TestContext) {
  const { tenant, call, gateway } = await startAdministration(t, resources);
  const place = await tenant('int');
  const { owner, workspaceId, key } = place;
  const { ok, refused } = expecting(call, owner);
  const ofWorkspace = (scopes: readonly string[] = ['*']) =>
    key({ kind: 'workspace-service', name: 'service', scopes, workspaceId });
  return { ...place, call, ok, refused, ofWorkspace, gateway };
}

describe('integrations', () => {
  test('are made for providers that the gateway lists, with the settings that each takes', async (t) => {
    const { ok, refused, ofWorkspace } = await start(t);
    const { data } = await ok({ path: '/provider-kinds' }, ofWorkspace(['workspace_integrations.list']));
    const kind = (wanted: string) => data.find(({ id }: { id: string }) => id === wanted);
    const needed = ({ fields }: { fields: { name: string; required: boolean }[] }) =>
      fields.filter(({ required }) => required).map(({ name }) => name);
    assert.deepEqual(
      [kind('anthropic').address, kind('anthropic').credentials, needed(kind('anthropic'))],
      ['https://api.anthropic.com/v1', 'x-api-key', []],
    );
    assert.deepEqual(needed(kind('azure-openai')), ['azure_resource_name']);
    assert.deepEqual([kind('ollama').address, needed(kind('ollama'))], [null, ['custom_host']]);
    const secret = kind('bedrock').fields.find(
      ({ name }: { name: string }) => name === 'aws_secret_access_key',
    );
    assert.equal(secret.secret, true);
    await refused({ path: '/provider-kinds' }, 403, /scope/, ofWorkspace(['logs.list']));
  });

  test('one of a workspace is made with its provider, read, changed and deleted', async (t) => {
    const { ok, refused, ofWorkspace, organisationId, workspaceId } = await start(t);
    const service = ofWorkspace();
    const made = await ok(
      {
        path: '/integrations',
        body: { name: 'Mine', slug: 'mine', ai_provider_id: 'openai', key: planted, description: 'd' },
      },
      service,
    );
    assert.deepEqual([made.slug, made.object], ['mine', 'integration']);
    const one = await ok({ path: '/integrations/mine' }, service);
    assert.deepEqual(
      [one.id, one.type, one.workspace_id, one.masked_key, one.description, one.workspace_count],
      [made.id, 'workspace', workspaceId, 'sk…ry', 'd', 1],
    );
    const providers = await ok({ path: '/providers' }, service);
    assert.deepEqual(
      providers.data.map((each: Record<string, unknown>) => [each['slug'], each['integration_id']]),
      [['mine', made.id]],
    );
    const changed = await ok(
      { method: 'PUT', path: '/integrations/mine', body: { name: 'Ours', key: 'sk…ry' } },
      service,
    );
    assert.deepEqual([changed.name, changed.masked_key, changed.description], ['Ours', 'sk…ry', 'd']);
    const stored = await resources.read(({ records }) =>
      records.find('integration', { organisationId, workspaceId }, 'mine'),
    );
    assert.ok(stored);
    assert.ok(!JSON.stringify(stored).includes(planted));
    await refused(
      { method: 'PUT', path: '/integrations/mine', body: { key: 'xx…zz' } },
      ...([400, /\/key is what answers show of another secret/, service] as const),
    );
    await ok({ method: 'DELETE', path: '/integrations/mine' }, service);
    assert.equal((await ok({ path: '/providers' }, service)).total, 0);
    await refused({ path: '/integrations/mine' }, 404, /No integration \\"mine\\" is visible/, service);
  });

  test('a planted secret is in no answer, log line and audit row', async (t) => {
    const { call, owner, gateway, workspaceId } = await start(t);
    const body = {
      name: 'Canary',
      slug: 'canary',
      ai_provider_id: 'bedrock',
      workspace_id: workspaceId,
      key: planted,
      configurations: {
        aws_region: 'us-east-1',
        aws_access_key_id: planted,
        aws_secret_access_key: planted,
        custom_headers: { 'x-tenant': planted },
      },
    };
    const texts: string[] = [];
    for (const asked of [
      { path: '/integrations', body },
      { path: '/integrations', body },
      { path: '/integrations/canary' },
      { method: 'PUT', path: '/integrations/canary', body: { key: planted } },
      { path: '/virtual-keys' },
      { path: '/virtual-keys/canary' },
      { path: '/audit-logs' },
    ])
      texts.push((await call(owner, asked)).text);
    assert.match(texts[2] ?? '', /"aws_secret_access_key":"sk…ry"/);
    assert.match(texts[2] ?? '', /"custom_headers":\{"x-tenant":"sk…ry"\}/);
    assert.equal([...texts, JSON.stringify(gateway.lines)].join('\n').includes(planted), false);
  });

  const wrong: [string, object, RegExp][] = [
    ['a provider that there is not', { ai_provider_id: 'opnai' }, /\/ai_provider_id .*did you mean .*openai/],
    ['a misspelled setting', { configurations: { openai_projekt: 'x' } }, /openai_project/],
    [
      'a setting of another provider',
      { configurations: { aws_region: 'x' } },
      /\/configurations\/aws_region is nothing that openai takes/,
    ],
    ['a host that is none', { configurations: { custom_host: 'ftp://x' } }, /\/configurations\/custom_host/],
    [
      'a resource that is missing',
      { ai_provider_id: 'azure-openai', configurations: {} },
      /\/configurations needs azure_resource_name/,
    ],
    [
      'half a credential',
      { ai_provider_id: 'bedrock', configurations: { aws_region: 'r', aws_access_key_id: 'a' } },
      /aws_access_key_id and aws_secret_access_key together/,
    ],
    [
      'a secret reference that there is not',
      { secret_mappings: [{ target_field: 'key', secret_reference_id: 'gone' }] },
      /\/secret_mappings\/0\/secret_reference_id/,
    ],
    ['a workspace that there is not', { workspace_id: 'gone' }, /\/workspace_id names no workspace/],
    ['a slug that cannot be one', { slug: 'a b' }, /slug/],
  ];
  for (const [name, body, message] of wrong) {
    test(`refuses ${name}`, async (t) => {
      const { refused } = await start(t);
      const whole = { name: 'x', ai_provider_id: 'openai', ...body };
      await refused({ path: '/integrations', body: whole }, 400, message);
    });
  }

  test('the identity of the machine is for integrations of the organisation alone', async (t) => {
    const { ok, refused, workspaceId } = await start(t);
    const body = { name: 'aws', ai_provider_id: 'bedrock', configurations: { aws_region: 'us-east-1' } };
    await ok({ path: '/integrations', body });
    const own = { ...body, workspace_id: workspaceId };
    await refused({ path: '/integrations', body: own }, 400, /identity of the gateway's machine/);
  });

  test('Azure deployments are answered as they were given', async (t) => {
    const { ok } = await start(t);
    const configurations = {
      azure_resource_name: 'res',
      azure_deployment_config: [
        ...[{ alias: 'a', azure_api_version: 'v1', azure_deployment_name: 'd', is_default: true }],
        { alias: 'b', azure_api_version: 'v1', azure_deployment_name: 'e', is_default: false },
      ],
    };
    const body = { name: 'Azure', slug: 'az', ai_provider_id: 'azure-openai', key: 'k', configurations };
    await ok({ path: '/integrations', body });
    assert.deepEqual((await ok({ path: '/integrations/az' })).configurations, configurations);
    // The answer of a read can be sent back.
    await ok({ method: 'PUT', path: '/integrations/az', body: { configurations } });
  });

  test('a secret reference must be meant for the workspace', async (t) => {
    const { ok, refused, organisationId, workspaceId } = await start(t);
    await resources.write(organisationId, async ({ records }) => {
      const base = {
        kind: 'secret_reference' as const,
        organisationId,
        workspaceId: undefined,
        status: 'active' as const,
        parentId: '',
        secrets: {},
        createdBy: 'k',
        updatedBy: 'k',
        createdAt: 1,
        updatedAt: 1,
        version: 1,
      };
      const data = {
        description: '',
        managerType: 'environment' as const,
        authConfig: {},
        secretPath: 'P',
        secretKey: '',
        allowAllWorkspaces: false,
      };
      const ids = ['0', '1'].map((digit) => `11111111-1111-4111-8111-11111111111${digit}`);
      const [id = '', other = ''] = ids;
      const own = { ...data, allowedWorkspaces: [workspaceId] };
      await records.insert({ ...base, id, slug: 'own', name: 'own', data: own });
      const away = { ...data, allowedWorkspaces: ['elsewhere'] };
      await records.insert({ ...base, id: other, slug: 'away', name: 'away', data: away });
    });
    const body = (reference: string) => ({
      name: reference,
      slug: reference,
      ai_provider_id: 'openai',
      workspace_id: workspaceId,
      secret_mappings: [{ target_field: 'key', secret_reference_id: reference }],
    });
    await ok({ path: '/integrations', body: body('own') });
    const shown = await ok({ path: `/integrations/own?workspace_id=${workspaceId}` });
    assert.equal(shown.secret_mappings[0].target_field, 'key');
    await refused({ path: '/integrations', body: body('away') }, 400, /secret_reference_id names no secret/);
  });

  test('who may do what: scopes of the organisation and of workspaces are told apart', async (t) => {
    const { ok, refused, ofWorkspace, key, workspaceId } = await start(t);
    const shared = { name: 'Shared', slug: 'shared', ai_provider_id: 'openai', key: 'k' };
    await ok({ path: '/integrations', body: shared });
    const service = ofWorkspace();
    await refused({ path: '/integrations/shared' }, 404, /No integration/, service);
    assert.equal((await ok({ path: '/integrations' }, service)).total, 0);
    await ok({
      method: 'PUT',
      path: '/integrations/shared/workspaces',
      body: { workspaces: [{ id: workspaceId, enabled: true }] },
    });
    await refused({ path: '/integrations/shared' }, 403, /organisation_integrations.read/, service);
    assert.equal((await ok({ path: '/integrations?type=organisation' }, service)).total, 1);
    assert.equal((await ok({ path: '/integrations?type=workspace' }, service)).total, 0);
    const scopes = ['organisation_integrations.create'];
    const organisation = key({ kind: 'organisation-service', name: 'org', scopes });
    const body = { ...shared, slug: 'x', workspace_id: workspaceId };
    await refused({ path: '/integrations', body }, 403, /workspace_integrations.create/, organisation);
  });

  test('one that a config names stays', async (t) => {
    const { ok, refused, ofWorkspace, organisationId, workspaceId } = await start(t);
    const service = ofWorkspace();
    const body = { name: 'Used', slug: 'used', ai_provider_id: 'openai', key: 'k' };
    await ok({ path: '/integrations', body }, service);
    await resources.write(organisationId, ({ records }) =>
      records.insert({
        kind: 'config',
        id: '22222222-2222-4222-8222-222222222222',
        organisationId,
        workspaceId,
        slug: 'pc-a',
        name: 'a',
        status: 'active',
        parentId: '',
        secrets: {},
        createdBy: 'k',
        updatedBy: 'k',
        createdAt: 1,
        updatedAt: 1,
        version: 1,
        data: { config: { targets: [{ provider: '@used' }] }, isDefault: false },
      }),
    );
    for (const path of ['/integrations/used', '/providers/used'])
      await refused({ method: 'DELETE', path }, 409, /the config \\"pc-a\\"/, service);
    assert.equal((await ok({ path: '/providers' }, service)).total, 1);
  });
});

describe('models of an integration', () => {
  test('and its factors have prices from dates on, as they were said', async (t) => {
    const { ok, refused, organisationId } = await start(t);
    const path = '/integrations/d/models';
    const prices = (request: number) => ({
      request_token: { price: request },
      response_token: { price: 0.001 },
    });
    const [first, second, third] = ['2026-12-01', '2027-01-01', '2027-02-01'].map(
      (day) => `${day}T00:00:00.000Z`,
    );
    const pricing_adjustments = {
      multiplier: { default: 1 },
      scheduled: [{ effective_from: second, multiplier: { default: 1.5 } }],
    };
    const body = { name: 'D', slug: 'd', ai_provider_id: 'openai', key: 'k', pricing_adjustments };
    await ok({ path: '/integrations', body });
    assert.deepEqual((await ok({ path: '/integrations/d' })).pricing_adjustments, pricing_adjustments);
    const later = { effective_from: third, pay_as_you_go: prices(3) };
    const sooner = { effective_from: second, pay_as_you_go: prices(2) };
    const pricing_config = { type: 'static', effective_from: first, pay_as_you_go: prices(1) };
    const models = [
      { slug: 'own', enabled: true, pricing_config: { ...pricing_config, scheduled: [later, sooner] } },
    ];
    await ok({ method: 'PUT', path, body: { models } });
    const [shown] = (await ok({ path })).models;
    assert.deepEqual(shown.pricing_config, { ...pricing_config, scheduled: [sooner, later] });
    // The answer of a read can be sent again.
    await ok({ method: 'PUT', path, body: { models: [shown] } });
    assert.deepEqual((await ok({ path })).models[0], shown);
    const stored = await resources.read(({ records }) =>
      records.find('integration', { organisationId }, 'd'),
    );
    assert.deepEqual(stored?.data.laterMultipliers, [{ from: Date.parse(String(second)), factor: 1.5 }]);
    await ok({ method: 'PUT', path: '/integrations/d', body: { pricing_adjustments: null } });
    assert.deepEqual((await ok({ path: '/integrations/d' })).pricing_adjustments, {
      multiplier: { default: 1 },
    });
    const odd = { ...pricing_config, effective_from: 'soon' };
    await refused(
      { method: 'PUT', path, body: { models: [{ slug: 'own', enabled: true, pricing_config: odd }] } },
      400,
      /effective_from/,
    );
  });

  test('are described, priced in cents, and forgotten', async (t) => {
    const { ok, refused, organisationId } = await start(t);
    const path = '/integrations/m/models';
    await ok({ path: '/integrations', body: { name: 'M', slug: 'm', ai_provider_id: 'openai', key: 'k' } });
    const pricing_config = {
      type: 'static',
      pay_as_you_go: { request_token: { price: 0.00025 }, response_token: { price: 0.001 } },
    };
    const own = {
      slug: 'own',
      enabled: true,
      is_custom: true,
      base_model_slug: 'gpt-4o',
      pricing_config,
      configurations: { custom_host: 'https://own.example.com/v1', custom_headers: { 'x-a': planted } },
    };
    const models = [own, { slug: 'gpt-4o', enabled: false }];
    await ok({ method: 'PUT', path, body: { models, allow_all_models: false, key: 'k' } });
    const listed = await ok({ path });
    assert.deepEqual([listed.total, listed.allow_all_models], [2, false]);
    assert.deepEqual(listed.models[0].pricing_config, pricing_config);
    assert.deepEqual(listed.models[0].configurations.custom_headers, { 'x-a': 'sk…ry' });
    const stored = await resources.read(({ records }) =>
      records.find('integration', { organisationId }, 'm'),
    );
    assert.deepEqual(stored?.data.models[0]?.pricing, { requestToken: 0.0000025, responseToken: 0.00001 });
    assert.ok(stored?.secrets['models.own.headers']);
    // Absent members stay; a change of the integration leaves its models alone.
    await ok({ method: 'PUT', path, body: { models: [{ slug: 'own', enabled: false }] } });
    await ok({ method: 'PUT', path: '/integrations/m', body: { name: 'N', key: 'other' } });
    const again = (await ok({ path })).models[0];
    assert.deepEqual(again, { ...listed.models[0], enabled: false });
    await refused({ method: 'DELETE', path: `${path}?slugs=gone` }, 404, /says nothing of a model/);
    await refused({ method: 'DELETE', path }, 400, /slugs/);
    await ok({ method: 'DELETE', path: `${path}?slugs=own,gpt-4o` });
    assert.equal((await ok({ path })).total, 0);
    await refused(
      { method: 'PUT', path, body: { models: [models[1], models[1]] } },
      ...([400, /\/models\/1\/slug is there twice/] as const),
    );
  });
});

describe('workspaces of an integration', () => {
  const path = '/integrations/shared/workspaces';
  const limits = {
    usage_limits: [{ type: 'cost', credit_limit: 10 }],
    rate_limits: [{ type: 'requests', unit: 'rpm', value: 5 }],
  };

  test('are named, bounded, overridden, and get a provider', async (t) => {
    const { ok, refused, workspaceId } = await start(t);
    await ok({
      path: '/integrations',
      body: { name: 'Shared', slug: 'shared', ai_provider_id: 'openai', key: 'k' },
    });
    assert.equal((await ok({ path: '/providers' })).total, 0);
    const workspaces = [{ id: workspaceId, enabled: true, ...limits, default_provider_slug: 'team' }];
    await ok({ method: 'PUT', path, body: { workspaces } });
    const listed = await ok({ path });
    assert.deepEqual(
      [listed.total, listed.workspaces[0].id, listed.workspaces[0].enabled, listed.workspaces[0].rate_limits],
      [1, workspaceId, true, limits.rate_limits],
    );
    assert.equal(listed.workspaces[0].usage_limits[0].credit_limit, 10);
    assert.equal((await ok({ path: '/providers/team' })).workspace_id, workspaceId);
    // Once is enough.
    await ok({ method: 'PUT', path, body: { workspaces: [{ id: workspaceId, enabled: true }] } });
    assert.equal((await ok({ path: '/providers' })).total, 1);
    assert.deepEqual((await ok({ path })).workspaces[0].rate_limits, limits.rate_limits);
    await ok({ method: 'PUT', path, body: { workspaces: [], override_existing_workspace_access: true } });
    assert.equal((await ok({ path })).total, 0);
    await refused(
      { method: 'PUT', path, body: { workspaces: [{ id: 'gone', enabled: true }] } },
      ...([400, /\/workspaces\/0\/id/] as const),
    );
    const two = [...limits.rate_limits, { type: 'tokens', unit: 'rpd', value: 5 }];
    await refused(
      { method: 'PUT', path, body: { workspaces: [{ id: workspaceId, enabled: true, rate_limits: two }] } },
      ...([400, /rate_limits/] as const),
    );
  });

  test('all of them at once; create_default_provider: false makes no provider', async (t) => {
    const { ok, refused, workspaceId } = await start(t);
    await ok({
      path: '/integrations',
      body: { name: 'Shared', slug: 'shared', ai_provider_id: 'openai', key: 'k' },
    });
    const global_workspace_access = { enabled: true };
    await ok({ method: 'PUT', path, body: { global_workspace_access, create_default_provider: false } });
    assert.equal((await ok({ path: '/providers' })).total, 0);
    const one = { workspaces: [{ id: workspaceId, enabled: false }] };
    await ok({ method: 'PUT', path, body: one });
    const provider = { name: 'p', integration_id: 'shared', workspace_id: workspaceId };
    await refused({ path: '/providers', body: provider }, 400, /\/integration_id names no integration/);
    const all = { global_workspace_access, workspaces: [], override_existing_workspace_access: true };
    await ok({ method: 'PUT', path, body: all });
    assert.equal((await ok({ path: '/providers/shared' })).workspace_id, workspaceId);
  });
});
