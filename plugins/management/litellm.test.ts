import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { expecting, openResourcesOfFile, startAdministration } from '../../tests/kit/administration-kit.ts';

const resources = await openResourcesOfFile();

describe("LiteLLM's paths for keys and teams", () => {
  test('a key is made, shown, changed, listed and deleted: it is a record of /api-keys', async (t) => {
    const { tenant, call } = await startAdministration(t, resources, { management: { litellm: true } });
    const { owner, workspaceId } = await tenant('litellm');
    const { ok, refused } = expecting(call, owner);
    const team = await ok({
      path: '/team/new',
      body: { team_alias: 'Rivers', max_budget: 500, budget_duration: '30d' },
    });
    const made = await ok({
      path: '/key/generate',
      body: {
        ...{ key_alias: 'ci', team_id: team.team_id, duration: '30d', max_budget: 10, budget_duration: '7d' },
        ...{ rpm_limit: 60, tpm_limit: 1000, user_id: 'ann', metadata: { stage: 'test', weight: 2 } },
      },
    });
    assert.match(made.key, /^wk_/);
    const record = await ok({ path: `/api-keys/${made.token}` });
    assert.equal(record.workspace_id, team.team_id);
    assert.deepEqual(record.scopes, ['completions.write', 'mcp.invoke']);
    assert.deepEqual([record.usage_limits.credit_limit, record.usage_limits.periodic_reset], [10, 'weekly']);
    assert.deepEqual(record.rate_limits, [
      { type: 'requests', unit: 'rpm', value: 60 },
      { type: 'tokens', unit: 'rpm', value: 1000 },
    ]);
    assert.deepEqual(record.defaults.metadata, { stage: 'test', weight: '2', user_id: 'ann' });

    const { info } = await ok({ path: `/key/info?key=${made.token}` });
    assert.deepEqual(
      [info.key_alias, info.max_budget, info.budget_duration, info.rpm_limit],
      ['ci', 10, '7d', 60],
    );
    const changed = await ok({
      path: '/key/update',
      body: { key: made.token, max_budget: 20, key_alias: 'ci-2' },
    });
    assert.deepEqual([changed.key_alias, changed.max_budget, changed.rpm_limit], ['ci-2', 20, 60]);
    const listed = await ok({ path: `/key/list?team_id=${team.team_id}` });
    assert.deepEqual(listed, { keys: [made.token], total_count: 1, current_page: 1, total_pages: 1 });
    assert.deepEqual(await ok({ path: '/key/delete', body: { keys: [made.token] } }), {
      deleted_keys: [made.token],
    });
    await refused({ path: `/key/info?key=${made.token}` }, 404, /No key/);

    const plain = await ok({ path: '/key/generate', body: { team_id: workspaceId } });
    assert.match(plain.key_alias, /^key-/);
  });

  test('what has no counterpart is refused, and the sentence names what to call', async (t) => {
    const { tenant, call } = await startAdministration(t, resources, { management: { litellm: true } });
    const { owner, workspaceId } = await tenant('litellm-refused');
    const { refused } = expecting(call, owner);
    const generate = (body: object) => ({ path: '/key/generate', body: { team_id: workspaceId, ...body } });
    await refused(generate({ models: ['gpt-4o'] }), 400, /models/);
    await refused(generate({ max_parallel_requests: 3 }), 400, /max_parallel_requests/);
    await refused(generate({ max_budget: 5, budget_duration: '30m' }), 400, /whole days/);
    await refused(generate({ metadata: { tags: ['a'] } }), 400, /must be a text/);
    await refused({ path: '/user/new', body: {} }, 400, /Call POST \/admin\/users\/invites/);
    await refused({ path: '/spend/logs' }, 400, /Call GET \/logs/);
  });

  test('nothing of it is there unless the option is on', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner } = await tenant('litellm-off');
    assert.equal((await call(owner, { path: '/key/list' })).status, 404);
  });
});
