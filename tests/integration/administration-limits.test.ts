// Rate limits that the administration API stores, as the next requests meet them.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { openResourcesOfFile, startAdministration, type Administration } from '../kit/administration-kit.ts';
import { send } from '../kit/http-kit.ts';
import { openTestDirectory } from '../kit/live-directory-kit.ts';

const resources = await openResourcesOfFile();
const requests = (value: number) => [{ type: 'requests', unit: 'rpm', value }];

/** A workspace with a key of the API, and how its requests are answered. */
async function begin(t: TestContext, limits: object = {}) {
  const opened = await openTestDirectory(t, resources);
  const administration = await startAdministration(t, opened.resources, {
    directory: opened.directory,
    providers: { plain: { base_url: 'mock:', credentials: 'none' } },
  });
  const tenant = await administration.tenant('limits');
  const { owner, workspaceId } = tenant;
  const operate = async (method: string, path: string, body: object) => {
    const answer = await administration.call(owner, { method, path, body });
    assert.ok(answer.status < 300, answer.text);
    return answer.json();
  };
  const made = await operate('POST', '/api-keys/workspace/service', {
    name: 'served',
    scopes: ['completions.write'],
    workspace_id: workspaceId,
    ...limits,
  });
  return { administration, operate, made, workspaceId, ask: asking(administration, made.key) };
}

function asking({ gateway }: Administration, secret: string) {
  return async (headers: Record<string, string> = { 'x-service-provider': '@plain' }): Promise<string> => {
    const answer = await send(gateway.url, {
      path: '/v1/chat/completions',
      headers: { 'x-service-api-key': secret, ...headers },
      body: { model: 'mock', messages: [{ role: 'user', content: 'hi' }] },
    });
    return answer.status === 200 ? 'served' : `${answer.status} ${answer.json().error.message}`;
  };
}

test('a key keeps to its limits, as they are after the latest change', async (t) => {
  const { ask, operate, made } = await begin(t, { rate_limits: requests(2) });
  assert.deepEqual([await ask(), await ask()], ['served', 'served']);
  assert.match(await ask(), /^429 The rate limit of the key "served" \(2 requests per minute\)/);
  await operate('PUT', `/api-keys/${made.id}`, { rate_limits: requests(3) });
  assert.equal(await ask(), 'served');
  assert.match(await ask(), /^429 .*3 requests per minute/);
  await operate('PUT', `/api-keys/${made.id}`, { rate_limits: null });
  assert.equal(await ask(), 'served');
});

test('the keys of a workspace keep to its limits together', async (t) => {
  const { ask, operate, administration, workspaceId } = await begin(t);
  const second = await operate('POST', '/api-keys/workspace/service', {
    name: 'second',
    scopes: ['completions.write'],
    workspace_id: workspaceId,
  });
  const askSecond = asking(administration, second.key);
  assert.equal(await ask(), 'served');
  await operate('PUT', `/admin/workspaces/${workspaceId}`, { rate_limits: requests(2) });
  assert.deepEqual([await ask(), await askSecond()], ['served', 'served']);
  assert.match(await ask(), /^429 The rate limit of the workspace/);
  assert.match(await askSecond(), /^429 The rate limit of the workspace/);
});

test('a provider and the integration behind it are passed over when they are used up', async (t) => {
  const { ask, operate, workspaceId } = await begin(t);
  await operate('POST', '/integrations', {
    name: 'Narrow',
    slug: 'narrow',
    ai_provider_id: 'mock',
    create_default_provider: false,
  });
  await operate('PUT', '/integrations/narrow/workspaces', {
    workspaces: [{ id: workspaceId, enabled: true, rate_limits: requests(2) }],
  });
  const provider = { integration_id: 'narrow', workspace_id: workspaceId };
  await operate('POST', '/providers', {
    name: 'Narrow',
    slug: 'narrow-one',
    ...provider,
    rate_limits: requests(1)[0],
  });
  const config = (targets: readonly object[]) => ({
    'x-service-config': JSON.stringify({ strategy: { mode: 'fallback' }, targets }),
  });
  const alone = { 'x-service-provider': '@narrow-one' };
  assert.equal(await ask(alone), 'served');
  assert.match(
    await ask(alone),
    /^429 The rate limit of the provider "@narrow-one" \(1 request per minute\)/,
  );
  assert.equal(await ask(config([{ provider: '@narrow-one' }, { provider: '@plain' }])), 'served');
  await operate('PUT', `/providers/narrow-one?workspace_id=${workspaceId}`, { rate_limits: null });
  assert.equal(await ask(alone), 'served');
  assert.match(await ask(alone), /^429 The rate limit of the integration "narrow" in this workspace/);
});
