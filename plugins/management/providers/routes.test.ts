import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import {
  expecting,
  openResourcesOfFile,
  startAdministration,
} from '../../../tests/kit/administration-kit.ts';

const resources = await openResourcesOfFile();

async function start(t: TestContext) {
  const { tenant, call } = await startAdministration(t, resources);
  const place = await tenant('prov');
  const service = place.key({ kind: 'workspace-service', name: 'service' });
  const { ok, refused } = expecting(call, service);
  return { ...place, service, tenant, call, ok, refused };
}

const integration = {
  path: '/integrations',
  body: {
    name: 'Base',
    slug: 'base',
    ai_provider_id: 'openai',
    key: 'sk-0123456789-abcdef',
    create_default_provider: false,
  },
};

describe('providers', () => {
  test('do not end before they begin: 400 with the place, as for keys', async (t) => {
    const { ok, call, service } = await start(t);
    await ok(integration);
    const past = { expires_at: '2001-01-01T00:00:00Z' };
    await ok({ path: '/providers', body: { name: 'T', integration_id: 'base', slug: 'team' } });
    const virtual = { name: 'V', provider: 'openai', key: 'sk-0123456789-abcdef', slug: 'v' };
    await ok({ path: '/virtual-keys', body: virtual });
    for (const one of [
      { path: '/providers', body: { name: 'U', integration_id: 'base', ...past } },
      { method: 'PUT', path: '/providers/team', body: past },
      { path: '/virtual-keys', body: { ...virtual, slug: 'w', ...past } },
      { method: 'PUT', path: '/virtual-keys/v', body: past },
    ]) {
      const answer = await call(service, one);
      assert.equal(answer.status, 400, `${one.path}: ${answer.text}`);
      assert.deepEqual(answer.json().errors, [{ path: '/expires_at', message: 'lies in the past' }]);
    }
  });

  test('are made, read, changed and deleted', async (t) => {
    const { ok, refused, workspaceId } = await start(t);
    const { id: integrationId } = await ok(integration);
    assert.equal((await ok({ path: '/providers' })).total, 0);
    const usage = { type: 'cost', credit_limit: 10, alert_threshold: 8 };
    const rate = { type: 'requests', unit: 'rpm', value: 3 };
    const made = await ok({
      path: '/providers',
      body: {
        name: 'Team',
        integration_id: 'base',
        slug: 'team',
        note: 'n',
        usage_limits: usage,
        rate_limits: rate,
        expires_at: '2099-01-01T00:00:00Z',
      },
    });
    assert.deepEqual([made.slug, made.object], ['team', 'provider']);
    const one = await ok({ path: '/providers/team' });
    assert.deepEqual(
      [one.integration_id, one.workspace_id, one.status, one.note, one.rate_limits],
      [integrationId, workspaceId, 'active', 'n', [rate]],
    );
    assert.equal(one.usage_limits.credit_limit, 10);
    const body = { expires_at: null, usage_limits: null, rate_limits: [rate], reset_usage: true };
    await ok({ method: 'PUT', path: '/providers/team', body });
    const again = await ok({ path: `/providers/${made.id}` });
    assert.deepEqual(
      [again.status, again.usage_limits, again.expires_at, again.note, again.name],
      ['active', null, null, 'n', 'Team'],
    );
    const twin = { name: 'Twin', integration_id: 'base', slug: 'team' };
    await refused({ path: '/providers', body: twin }, 409, /team/);
    await ok({ method: 'DELETE', path: '/providers/team' });
    await refused({ path: '/providers/team' }, 404, /No provider/);
  });

  test('without limits: null, where a Python client expects an object and refuses an empty list; null is taken back', async (t) => {
    const { ok, workspaceId } = await start(t);
    await ok(integration);
    await ok({ path: '/providers', body: { name: 'Bare', integration_id: 'base', slug: 'bare' } });
    const { data } = await ok({ path: '/providers' });
    const limits = { usage_limits: null, rate_limits: null };
    const limitsOf = (one: typeof limits) => ({
      usage_limits: one.usage_limits,
      rate_limits: one.rate_limits,
    });
    assert.deepEqual(data.map(limitsOf), [limits]);
    await ok({ method: 'PUT', path: '/providers/bare', body: limitsOf(data[0]) });
    assert.deepEqual(limitsOf(await ok({ path: '/providers/bare' })), limits);
    const { workspaces } = await ok({ path: '/integrations/base/workspaces' });
    assert.deepEqual(workspaces.map(limitsOf), [limits]);
    assert.equal(workspaces[0].id, workspaceId);
  });

  test('keys of the organisation say the workspace, or a slug that only one has', async (t) => {
    const { ok, refused, owner, organisationId, workspaceId } = await start(t);
    const second = `${workspaceId}-2`;
    await resources.write(organisationId, ({ workspaces }) =>
      workspaces.insert({
        id: second,
        organisationId,
        slug: 'ws-second',
        name: 'second',
        description: '',
        icon: '',
        status: 'active',
        isDefault: false,
        defaults: {},
        usageLimits: [],
        rateLimits: [],
        createdAt: 1,
        updatedAt: 1,
        version: 1,
      }),
    );
    const body = { ...integration.body, slug: 'same', create_default_provider: true };
    await ok({ path: '/integrations', body: { ...body, workspace_id: workspaceId } }, owner);
    assert.equal((await ok({ path: '/providers/same' }, owner)).workspace_id, workspaceId);
    await ok({ path: '/integrations', body: { ...body, workspace_id: 'ws-second' } }, owner);
    await refused({ path: '/providers/same' }, 400, /Say which with workspace_id/, owner);
    const named = await ok({ path: '/providers/same?workspace_id=ws-second' }, owner);
    assert.equal(named.workspace_id, second);
    assert.equal((await ok({ path: '/providers' }, owner)).total, 2);
    assert.equal((await ok({ path: '/providers' })).total, 1);
    const unplaced = { name: 'x', integration_id: 'same' };
    await refused({ path: '/providers', body: unplaced }, 400, /\/workspace_id is missing/, owner);
    await refused({ path: `/providers/${named.id}` }, 404, /No provider/);
  });

  test('what another organisation has is not there', async (t) => {
    const { ok, refused, tenant } = await start(t);
    await ok({ ...integration, body: { ...integration.body, create_default_provider: true } });
    const other = await tenant('other');
    await refused({ path: '/providers/base' }, 404, /No provider/, other.owner);
    await refused({ path: '/integrations/base' }, 404, /No integration/, other.owner);
  });

  const wrong: [string, object, RegExp][] = [
    [
      'two ways of beginning anew',
      { periodic_reset: 'weekly', periodic_reset_days: 3 },
      /periodic_reset_days/,
    ],
    ['a threshold that is never reached', { alert_threshold: 10 }, /alert_threshold/],
    ['what is not known', { credit: 1 }, /usage_limits/],
  ];
  for (const [name, limit, message] of wrong) {
    test(`a limit is strict: ${name}`, async (t) => {
      const { ok, refused } = await start(t);
      await ok(integration);
      const usage_limits = { credit_limit: 10, ...limit };
      const body = { name: 'x', integration_id: 'base', usage_limits };
      await refused({ path: '/providers', body }, 400, message);
    });
  }
});

describe('virtual keys', () => {
  test('make an integration and a provider of one slug, and take both along', async (t) => {
    const { ok, refused } = await start(t);
    const made = await ok({
      path: '/virtual-keys',
      body: { name: 'Old', slug: 'old', provider: 'open-ai', key: 'sk-0123456789-abcdef', note: 'n' },
    });
    assert.deepEqual([made.success, made.data.slug, made.slug], [true, 'old', 'old']);
    const one = await ok({ path: '/virtual-keys/old' });
    assert.deepEqual(
      [one.ai_provider_name, one.masked_api_key, one.note, one.status],
      ['openai', 'sk…ef', 'n', 'active'],
    );
    const whole = await ok({ path: '/integrations/old' });
    assert.equal(whole.id, one.integration_id);
    assert.equal((await ok({ path: '/providers/old' })).id, one.id);
    const body = { name: 'New', key: 'sk-abcdef-0123456789' };
    const changed = await ok({ method: 'PUT', path: '/virtual-keys/old', body });
    assert.deepEqual([changed.name, changed.masked_api_key, changed.note], ['New', 'sk…89', 'n']);
    assert.equal((await ok({ path: '/virtual-keys' })).total, 1);
    await ok({ method: 'DELETE', path: '/virtual-keys/old' });
    await refused({ path: '/integrations/old' }, 404, /No integration/);
    await refused({ path: '/providers/old' }, 404, /No provider/);
  });

  test('Azure in the spelling of older clients; what is not given stays', async (t) => {
    const { ok, refused } = await start(t);
    await ok({
      path: '/virtual-keys',
      body: {
        name: 'Azure',
        slug: 'az',
        provider: 'azure-openai',
        key: 'k',
        resource_name: 'res',
        deploymentConfig: [{ apiVersion: 'v1', deploymentName: 'd', alias: 'a', is_default: true }],
      },
    });
    const { model_config: settings } = await ok({ path: '/virtual-keys/az' });
    assert.equal(settings.azure_resource_name, 'res');
    assert.equal(settings.azure_deployment_config[0].azure_deployment_name, 'd');
    const deployments = [{ apiVersion: 'v1', deploymentName: 'e' }];
    const changed = await ok({
      method: 'PUT',
      path: '/virtual-keys/az',
      body: { deployment_config: deployments },
    });
    assert.equal(changed.model_config.azure_resource_name, 'res');
    assert.equal(changed.model_config.azure_deployment_config[0].azure_deployment_name, 'e');
    const twice = { apiVersion: 'v1', api_version: 'v2' };
    await refused({ method: 'PUT', path: '/virtual-keys/az', body: twice }, 400, /two spellings/);
    const unknown = { name: 'x', provider: 'azur-openai', key: 'k' };
    await refused({ path: '/virtual-keys', body: unknown }, 400, /\/provider .*azure-openai/);
  });

  test('the key of an integration that others use is not changed through one of its providers', async (t) => {
    const { ok, refused } = await start(t);
    await ok({ ...integration, body: { ...integration.body, create_default_provider: true } });
    const path = '/virtual-keys/base';
    assert.equal((await ok({ method: 'PUT', path, body: { note: 'n' } })).note, 'n');
    await refused({ method: 'PUT', path, body: { key: 'other' } }, 409, /provider of the integration/);
    await ok({ method: 'DELETE', path });
    assert.equal((await ok({ path: '/integrations/base' })).slug, 'base');
  });
});
