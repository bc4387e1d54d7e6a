import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  expecting,
  openResourcesOfFile,
  startAdministration,
} from '../../../tests/kit/administration-kit.ts';

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

  test("what LiteLLM's clients send empty is taken, and a month is one of the calendar", async (t) => {
    const { tenant, call } = await startAdministration(t, resources, { management: { litellm: true } });
    const { owner, workspaceId } = await tenant('litellm-clients');
    const { ok, refused } = expecting(call, owner);
    const empty = { models: [], aliases: {}, config: {}, spend: 0, permissions: {}, guardrails: null };
    const made = await ok({
      path: '/key/generate',
      body: { ...empty, team_id: workspaceId, key_type: 'default', duration: '1mo', blocked: false },
    });
    const [now, end] = [new Date(), new Date(made.expires)];
    const months = (end.getUTCFullYear() - now.getUTCFullYear()) * 12 + end.getUTCMonth() - now.getUTCMonth();
    assert.equal(months, 1, made.expires);
    assert.deepEqual([made.models, made.team_id, 'aliases' in made], [[], workspaceId, false]);
    const { token } = made;
    const same = await ok({ path: '/key/update', body: { key: token, team_id: workspaceId, aliases: {} } });
    assert.equal(same.team_id, workspaceId);
    await refused({ path: '/key/update', body: { key: token, team_id: 'elsewhere' } }, 400, /stays in its/);
    const listed = await ok({
      path: `/key/list?key_hash=${token}&include_team_keys=true&return_full_object=true`,
    });
    assert.deepEqual(
      listed.keys.map((one: { token: string }) => one.token),
      [token],
    );
    await refused({ path: '/key/delete', body: { keys: [token], key_aliases: ['a'] } }, 400, /key_aliases/);
    await ok({ path: '/key/delete', body: { keys: [token], key_aliases: null } });
  });

  test('a team is read, listed and changed: it is a workspace', async (t) => {
    const { tenant, call } = await startAdministration(t, resources, { management: { litellm: true } });
    const { owner, workspaceId } = await tenant('litellm-teams');
    const { ok, refused } = expecting(call, owner);
    const body = { team_alias: 'Springs', models: [], members_with_roles: [], max_budget: 5, rpm_limit: 9 };
    const { team_id: id } = await ok({ path: '/team/new', body: { ...body, budget_duration: '1mo' } });
    const { team_info: read } = await ok({ path: `/team/info?team_id=${id}` });
    assert.deepEqual(
      [read.team_alias, read.max_budget, read.budget_duration, read.rpm_limit],
      ['Springs', 5, '30d', 9],
    );
    const changed = await ok({
      path: '/team/update',
      body: { team_id: id, team_alias: 'Wells', max_budget: null },
    });
    assert.deepEqual([changed.data.team_alias, changed.data.max_budget], ['Wells', null]);
    const teams: { team_id: string }[] = await ok({ path: '/team/list' });
    assert.deepEqual(teams.map((one) => one.team_id).toSorted(), [id, workspaceId].toSorted());
    const paged = await ok({ path: '/v2/team/list?page=1&page_size=1&sort_order=asc' });
    assert.deepEqual([paged.teams.length, paged.total, paged.total_pages], [1, 2, 2]);
    await refused(
      { path: '/team/new', body: { team_alias: 'X', team_id: 'own' } },
      400,
      /made by the gateway/,
    );
    await refused({ path: '/team/info?team_id=none' }, 404, /none/);
  });

  test('models and what a client does not name stay as they are, on keys and teams', async (t) => {
    const { tenant, call } = await startAdministration(t, resources, { management: { litellm: true } });
    const { owner } = await tenant('litellm-models');
    const { ok } = expecting(call, owner);
    const team = await ok({ path: '/team/new', body: { team_alias: 'Deltas', models: ['gpt-*'] } });
    assert.deepEqual(team.models, ['gpt-*']);
    const key = await ok({
      path: '/key/generate',
      body: { team_id: team.team_id, user_id: 'ann', models: ['gpt-4o'], metadata: { a: '1' } },
    });
    assert.deepEqual(key.models, ['gpt-4o']);
    const path = `/api-keys/${key.token}`;
    await ok({
      ...{ path, method: 'PUT' },
      body: { defaults: { ...(await ok({ path })).defaults, allow_config_override: false } },
    });
    const renewed = await ok({ path: '/key/update', body: { key: key.token, metadata: { b: '2' } } });
    assert.deepEqual([renewed.models, renewed.metadata], [['gpt-4o'], { b: '2', user_id: 'ann' }]);
    const open = await ok({ path: '/key/update', body: { key: key.token, models: ['all-team-models'] } });
    assert.deepEqual(open.models, []);
    const { defaults } = await ok({ path });
    assert.deepEqual(
      [defaults.allowed_models, defaults.allow_config_override, defaults.metadata],
      [null, false, { b: '2', user_id: 'ann' }],
    );
    const rotated = await ok({ path: '/key/regenerate', body: { key: key.token } });
    assert.match(rotated.key, /^wk_/);
    assert.notEqual(rotated.key, key.key);
    const changed = await ok({ path: '/team/update', body: { team_id: team.team_id, models: [] } });
    assert.deepEqual(changed.data.models, []);
    await ok({ path: '/team/delete', body: { team_ids: [team.team_id] } });
    assert.deepEqual(
      (await ok({ path: '/team/list' }))
        .map((one: { team_alias: string }) => one.team_alias)
        .includes('Deltas'),
      false,
    );
  });

  test('a budget is a policy that counts for each key made with its id', async (t) => {
    const { tenant, call } = await startAdministration(t, resources, { management: { litellm: true } });
    const { owner, workspaceId } = await tenant('litellm-budgets');
    const { ok, refused } = expecting(call, owner);
    const body = { budget_id: 'free', max_budget: 5, soft_budget: 4, budget_duration: '30d' };
    const made = await ok({ path: '/budget/new', body });
    assert.deepEqual(
      [made.budget_id, made.max_budget, made.soft_budget, made.budget_duration],
      ['free', 5, 4, '30d'],
    );
    const { data } = await ok({ path: '/policies/usage-limits' });
    assert.deepEqual(
      [data[0].conditions, data[0].group_by, data[0].type, data[0].periodic_reset],
      [[{ key: 'metadata.budget_id', value: 'free' }], [{ key: 'api_key' }], 'cost', 'monthly'],
    );
    await refused({ path: '/budget/new', body }, 409, /already/);
    await refused({ path: '/budget/new', body: { ...body, budget_id: 'fr*' } }, 400, /budget_id/);
    await refused({ path: '/budget/new', body: { max_budget: 1, rpm_limit: 5 } }, 400, /rate limit policy/);
    const key = await ok({ path: '/key/generate', body: { team_id: workspaceId, budget_id: 'free' } });
    const { defaults } = await ok({ path: `/api-keys/${key.token}` });
    assert.deepEqual(defaults.metadata, { budget_id: 'free' });
    assert.equal((await ok({ path: `/key/info?key=${key.token}` })).info.budget_id, 'free');
    const changed = await ok({ path: '/budget/update', body: { budget_id: 'free', max_budget: 7 } });
    assert.deepEqual([changed.max_budget, changed.budget_duration], [7, '30d']);
    const found = await ok({ path: '/budget/info', body: { budgets: ['free', 'none'] } });
    assert.deepEqual(
      found.map((one: { budget_id: string }) => one.budget_id),
      ['free'],
    );
    assert.equal((await ok({ path: '/budget/list' })).length, 1);
    await ok({ path: '/budget/delete', body: { id: 'free' } });
    assert.deepEqual(await ok({ path: '/budget/list' }), []);
    await refused({ path: '/budget/delete', body: { id: 'free' } }, 404, /no budget .*free/);
  });

  test('what has no counterpart is refused, and the sentence names what to call', async (t) => {
    const { tenant, call } = await startAdministration(t, resources, { management: { litellm: true } });
    const { owner, workspaceId } = await tenant('litellm-refused');
    const { refused } = expecting(call, owner);
    const generate = (body: object) => ({ path: '/key/generate', body: { team_id: workspaceId, ...body } });
    await refused(generate({ models: ['no-default-models'] }), 400, /leave completions\.write out/);
    const { status, text } = await call(owner, { path: '/key/info?key=wk_a-secret-of-no-key' });
    assert.deepEqual([status, text.includes('wk_a-secret')], [404, false], text);
    await refused(generate({ budget_id: 'none' }), 404, /no budget .*none/);
    await refused(generate({ max_parallel_requests: 3 }), 400, /max_parallel_requests.*not how many run/);
    await refused(generate({ key: 'sk-chosen' }), 400, /cannot be chosen/);
    await refused(generate({ modles: [] }), 400, /modles/);
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
