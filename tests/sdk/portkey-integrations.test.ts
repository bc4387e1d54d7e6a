// Integrations, providers and virtual keys as users of the `portkey-ai` client manage them: with only the base URL changed.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Portkey } from 'portkey-ai';
import { openResourcesOfFile, startAdministration } from '../kit/administration-kit.ts';
import { failureOf } from './sdk-setting.ts';

const resources = await openResourcesOfFile();

/** A client with the key of an organisation, and one with a key of its workspace. */
async function clientsOf(t: TestContext) {
  const { gateway, tenant, call } = await startAdministration(t, resources);
  const { owner, key, workspaceId } = await tenant('sdk');
  const service = key({ kind: 'workspace-service', name: 'service' });
  // The keys are known to the gateway from their first call on.
  for (const one of [owner, service]) await call(one, { path: '/providers' });
  const client = (id: string): Portkey => new Portkey({ apiKey: `wk_${id}`, baseURL: `${gateway.url}/v1` });
  return { organisation: client(owner.id), portkey: client(service.id), workspaceId };
}

test('integrations, their workspaces and their models', async (t) => {
  const { organisation, portkey, workspaceId } = await clientsOf(t);
  const { integrations } = organisation;
  const slug = 'openai-prod';
  const made = await integrations.create({
    name: 'OpenAI',
    slug,
    ai_provider_id: 'openai',
    key: 'sk-0123456789-abcdef',
    description: 'd',
    configurations: { openai_project: 'proj-1' },
  });
  assert.equal(made.slug, slug);
  const { total, data } = await integrations.list({ type: 'organisation', page_size: 10, current_page: 0 });
  assert.deepEqual([total, data[0].id], [1, made.id]);
  await integrations.update({ slug, name: 'Renamed' });
  const one = await integrations.retrieve({ slug });
  assert.deepEqual(
    [one.name, one.configurations, one.masked_key],
    ['Renamed', { openai_project: 'proj-1' }, 'sk…ef'],
  );

  await integrations.workspaces.update({
    slug,
    global_workspace_access: { enabled: false },
    override_existing_workspaces_access: true,
    workspaces: [{ id: workspaceId, enabled: true, usage_limits: [{ type: 'cost', credit_limit: 5 }] }],
  });
  const access = await integrations.workspaces.list({ slug });
  assert.deepEqual([access.total, access.workspaces[0].id], [1, workspaceId]);
  assert.equal((await portkey.providers.list()).data?.[0]?.slug, slug);

  await integrations.models.update({
    slug,
    allow_all_models: false,
    models: [{ slug: 'own', enabled: true, is_custom: true, base_model_slug: 'gpt-4o' }],
  });
  assert.equal((await integrations.models.list({ slug })).models[0].slug, 'own');
  await integrations.models.delete({ slug, slugs: 'own' });
  assert.equal((await integrations.models.list({ slug })).total, 0);
  await integrations.delete({ slug });
  assert.equal(Reflect.get(await failureOf(integrations.retrieve({ slug })), 'status'), 404);
});

test('providers', async (t) => {
  const { organisation, portkey, workspaceId } = await clientsOf(t);
  await portkey.integrations.create({ name: 'Base', slug: 'base', ai_provider_id: 'openai', key: 'sk' });
  const { providers } = organisation;
  const made = await providers.create({
    name: 'Team',
    slug: 'team',
    integration_id: 'base',
    workspace_id: workspaceId,
    note: 'n',
    usage_limits: { credit_limit: 10, periodic_reset: 'monthly' },
    rate_limits: { type: 'requests', unit: 'rpm', value: 10 },
    expires_at: '2099-01-01T00:00:00Z',
  });
  assert.equal(made.slug, 'team');
  const place = { slug: 'team', workspace_id: workspaceId };
  await providers.update({ ...place, name: 'Renamed', reset_usage: true });
  const one = await providers.retrieve(place);
  assert.deepEqual([one.name, one.note, one.usage_limits?.['credit_limit']], ['Renamed', 'n', 10]);
  const { total, data } = await providers.list({ workspace_id: workspaceId, page_size: 10, current_page: 0 });
  assert.equal(total, 2);
  // A list wherever limits are shown, and null for none: so are the contract and this client. The one for Python takes
  // null and this list in `retrieve`, and in `list` null or an object, which no list can be (docs/providers.md).
  const limits = [{ type: 'requests', unit: 'rpm', value: 10 }];
  assert.deepEqual(one.rate_limits, limits);
  const listed = new Map(data?.map(({ slug, rate_limits }) => [slug, rate_limits]));
  assert.deepEqual([listed.get('team'), listed.get('base')], [limits, null]);
  await providers.delete(place);
  assert.equal((await providers.list({ workspace_id: workspaceId })).total, 1);
});

test('virtual keys', async (t) => {
  const { virtualKeys } = (await clientsOf(t)).portkey;
  const made = await virtualKeys.create({
    name: 'Azure',
    provider: 'azure-openai',
    key: 'sk-0123456789-abcdef',
    note: 'n',
    apiVersion: '2024-10-21',
    resourceName: 'res',
    deploymentName: 'dep',
    usage_limits: { credit_limit: 10, alert_threshold: 9 },
  });
  const slug = made.slug ?? '';
  const one = await virtualKeys.retrieve({ slug });
  assert.deepEqual([one.ai_provider_name, one.masked_api_key, one.note], ['azure-openai', 'sk…ef', 'n']);
  assert.deepEqual(one.model_config, {
    azure_api_version: '2024-10-21',
    azure_resource_name: 'res',
    azure_deployment_id: 'dep',
  });
  await virtualKeys.update({
    slug,
    name: 'Renamed',
    rate_limits: [{ type: 'requests', unit: 'rpm', value: 1 }],
  });
  const { total, data } = await virtualKeys.list();
  assert.deepEqual([total, data?.[0]?.name], [1, 'Renamed']);
  await virtualKeys.delete({ slug });
  assert.equal((await virtualKeys.list()).total, 0);
});
