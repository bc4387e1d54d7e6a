import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openResourcesOfFile, startAdministration } from '../../tests/kit/administration-kit.ts';

const resources = await openResourcesOfFile();

const limit = { type: 'cost', credit_limit: 20 };
const noLimit = /usage limits are stored and not enforced/i;
const noGuardrail = /guardrails are stored and not enforced/i;

/** Says that it does not act, where people and programs look. */
function assertMarked(value: unknown, warning = noLimit): void {
  assert.ok(typeof value === 'object' && value !== null, 'there is no such object');
  const said = value as { readonly status?: unknown; readonly warning?: unknown };
  assert.equal(said.status, 'not enforced');
  assert.match(String(said.warning), warning);
}

describe('what is stored and does not act says so', () => {
  test('usage limits of keys, also to the body that is read and sent back', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner, workspaceId } = await tenant('budget-key');
    const body = { name: 'k', scopes: ['completions.write'], workspace_id: workspaceId };
    const path = '/api-keys/workspace/service';
    const made = (await call(owner, { path, body: { ...body, usage_limits: limit } })).json();
    assert.match(made.warning, noLimit);
    const read = (await call(owner, { path: `/api-keys/${made.id}` })).json();
    assertMarked(read.usage_limits);
    const { usage_limits } = read;
    const again = await call(owner, { method: 'PUT', path: `/api-keys/${made.id}`, body: { usage_limits } });
    assert.equal(again.status, 200, again.text);
    assertMarked(again.json().usage_limits);
    assertMarked((await call(owner, { path: '/api-keys' })).json().data[0].usage_limits);
    const without = (await call(owner, { path, body: { ...body, name: 'l' } })).json();
    assert.equal(without.warning, undefined);
  });

  test('usage limits of workspaces', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner } = await tenant('budget-workspace');
    const body = { name: 'W', usage_limits: [limit] };
    const made = (await call(owner, { path: '/admin/workspaces', body })).json();
    assertMarked(made.usage_limits[0]);
    const { usage_limits } = made;
    const path = `/admin/workspaces/${made.id}`;
    const again = await call(owner, { method: 'PUT', path, body: { usage_limits } });
    assert.equal(again.status, 200, again.text);
    assertMarked(again.json().usage_limits[0]);
  });

  test('usage limits of integrations, providers and virtual keys', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner, workspaceId: workspace_id } = await tenant('budget-provider');
    const integration = { name: 'I', ai_provider_id: 'openai', key: 'sk-1', slug: 'int' };
    assert.equal((await call(owner, { path: '/integrations', body: integration })).status, 200);
    const workspaces = [{ id: workspace_id, enabled: true, usage_limits: [limit] }];
    const access = { method: 'PUT', path: '/integrations/int/workspaces' };
    const put = (await call(owner, { ...access, body: { workspaces } })).json();
    assert.match(put.warning, noLimit);
    const listed = (await call(owner, { path: access.path })).json();
    assertMarked(listed.workspaces[0].usage_limits[0]);
    const [first] = listed.workspaces;
    const echoed = await call(owner, { ...access, body: { workspaces: [first] } });
    assert.equal(echoed.status, 200, echoed.text);

    const provider = { name: 'P', slug: 'pro', integration_id: 'int', workspace_id, usage_limits: limit };
    const made = (await call(owner, { path: '/providers', body: provider })).json();
    assert.match(made.warning, noLimit);
    const one = `/providers/pro?workspace_id=${workspace_id}`;
    const { usage_limits } = (await call(owner, { path: one })).json();
    assertMarked(usage_limits);
    const changed = await call(owner, { method: 'PUT', path: one, body: { usage_limits } });
    assert.match(changed.json().warning, noLimit);

    const virtual = { name: 'V', slug: 'vir', provider: 'openai', key: 'sk-2', workspace_id };
    const body = { ...virtual, usage_limits: limit };
    assert.match((await call(owner, { path: '/virtual-keys', body })).json().warning, noLimit);
    const seen = await call(owner, { path: `/virtual-keys/vir?workspace_id=${workspace_id}` });
    assertMarked(seen.json().usage_limits);
  });

  test('usage-limit policies', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner, workspaceId } = await tenant('budget-policy');
    const path = '/policies/usage-limits';
    const body = {
      conditions: [{ key: 'workspace_id', value: '*' }],
      group_by: [{ key: 'api_key' }],
      type: 'tokens',
      credit_limit: 20,
      workspace_id: workspaceId,
    };
    const made = (await call(owner, { path, body })).json();
    assertMarked(made);
    assertMarked((await call(owner, { path: `${path}/${made.id}` })).json());
    assertMarked((await call(owner, { path: `${path}?status=active` })).json().data[0]);
    await call(owner, { method: 'DELETE', path: `${path}/${made.id}` });
    const archived = (await call(owner, { path: `${path}/${made.id}?status=archived` })).json();
    assert.deepEqual([archived.status, archived.warning], ['archived', undefined]);
  });

  test('guardrails', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner, workspaceId: workspace_id } = await tenant('guarded');
    const checks = [{ id: 'add-prefix', parameters: { prefix: 'Be brief.' } }];
    const body = { name: 'G', workspace_id, checks, actions: { deny: true } };
    const made = (await call(owner, { path: '/guardrails', body })).json();
    assertMarked(made, noGuardrail);
    const path = `/guardrails/${made.id}`;
    assertMarked((await call(owner, { path })).json(), noGuardrail);
    const query = `?workspace_id=${workspace_id}`;
    assertMarked((await call(owner, { path: `/guardrails${query}` })).json().data[0], noGuardrail);
    assertMarked((await call(owner, { method: 'PUT', path, body: { name: 'H' } })).json(), noGuardrail);
  });
});
