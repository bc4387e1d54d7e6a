// Saved configs as users of the `portkey-ai` client manage them: with only the base URL changed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Portkey } from 'portkey-ai';
import { openTestResources, startAdministration } from '../kit/administration-kit.ts';
import { openTestDirectory } from '../kit/live-directory-kit.ts';

test('configs are created, listed, retrieved, updated and deleted', async (t) => {
  const { resources, directory } = await openTestDirectory(t, await openTestResources(t));
  const { gateway, tenant, call } = await startAdministration(t, resources, { directory });
  const { key } = await tenant('sdk-configs');
  const service = key({ kind: 'workspace-service', scopes: ['*'] });
  // The key is known to the gateway from its first call on.
  await call(service, { path: '/configs' });
  const { configs } = new Portkey({ apiKey: `wk_${service.id}`, baseURL: `${gateway.url}/v1` });

  const config = {
    strategy: { mode: 'fallback' },
    targets: [{ provider: 'openai' }, { provider: 'anthropic' }],
  };
  const made = dataOf(await configs.create({ name: 'Main', config, isDefault: 1 }));
  const slug = String(made['slug']);
  assert.match(slug, /^pc-main-/);
  const list = await configs.list({});
  assert.deepEqual([list.total, list.data?.[0]?.['slug'], list.data?.[0]?.['is_default']], [1, slug, 1]);
  assert.deepEqual(dataOf(await configs.retrieve({ slug }))['config'], config);
  const changed = dataOf(await configs.update({ slug, name: 'Other', config: { retry: { attempts: 3 } } }));
  assert.notEqual(changed['version_id'], made['version_id']);
  const now = dataOf(await configs.retrieve({ slug }));
  assert.deepEqual([now['name'], now['config']], ['Other', { retry: { attempts: 3 } }]);
  await configs.delete({ slug });
  assert.equal((await configs.list({})).total, 0);
});

function dataOf(answer: object): Record<string, unknown> {
  const { data, success } = answer as { data?: Record<string, unknown>; success?: boolean };
  assert.equal(success, true);
  assert.ok(data);
  return data;
}
