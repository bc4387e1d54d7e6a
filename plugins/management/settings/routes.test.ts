import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { openResourcesOfFile, startAdministration } from '../../../tests/kit/administration-kit.ts';

const resources = await openResourcesOfFile();

const settings = '/admin/organisation/settings';
const defaults = '/admin/organisation/defaults';
const security = {
  membersViewAllData: true,
  managersViewAllData: true,
  membersViewAnalytics: true,
  managersViewAnalytics: true,
  membersViewPrompts: true,
  membersWritePrompts: false,
  managersViewPrompts: true,
  managersWritePrompts: true,
  membersViewConfigs: true,
  membersWriteConfigs: false,
  managersViewConfigs: true,
  managersWriteConfigs: true,
};
const noRules = { max_per_workspace: null, default_days: null, max_days: null, rotation_days: null };

async function start(t: TestContext, name: string) {
  const { tenant, call } = await startAdministration(t, resources);
  const made = await tenant(name);
  return {
    ...made,
    call,
    get: (path: string, key: KeyRecord | undefined = made.owner) => call(key, { path }),
    put: (path: string, body: unknown, { key = made.owner, headers = {} } = {}) =>
      call(key, { method: 'PUT', path, body, headers }),
    audited: () =>
      resources.read(({ audit }) => audit.list(made.organisationId, {}, { offset: 0, limit: 100 })),
  };
}

/** The status, and what is wrong where. */
function refusal(answer: { status: number; json(): any }): unknown {
  const { errors = [], data } = answer.json();
  return [answer.status, data.errorCode, ...errors.map(({ path }: { path: string }) => path)];
}

describe('the settings of an organisation', () => {
  test('are the defaults, and change by parts, each change with its version and audit entry', async (t) => {
    const { get, put, audited, organisationId } = await start(t, 'settings');
    const first = await get(settings);
    assert.equal(first.headers['etag'], '"0"');
    assert.deepEqual(first.json(), {
      object: 'organisation-settings',
      security,
      user_api_keys: noRules,
      allow_workspace_overrides: [],
      logging: { mode: 'full' },
      retention: { logs_days: 90, metrics_days: 365 },
      last_updated_at: null,
    });
    const changed = await put(settings, {
      security: { membersViewAllData: false, membersWriteConfigs: true },
      allow_workspace_overrides: ['prompts'],
    });
    assert.deepEqual([changed.status, changed.headers['etag']], [200, '"1"'], changed.text);
    const second = await put(settings, { user_api_keys: { max_days: 30 }, logging: { mode: 'metadata' } });
    assert.equal(second.headers['etag'], '"2"');
    const { last_updated_at: at, ...now } = second.json();
    assert.ok(Math.abs(Date.parse(at) - Date.now()) < 60_000);
    assert.deepEqual(now, {
      object: 'organisation-settings',
      security: { ...security, membersViewAllData: false, membersWriteConfigs: true },
      user_api_keys: { ...noRules, max_days: 30 },
      logging: { mode: 'metadata' },
      allow_workspace_overrides: ['prompts'],
      retention: { logs_days: 90, metrics_days: 365 },
    });
    assert.deepEqual((await get(settings)).json(), second.json());
    const stale = await put(settings, {}, { headers: { 'if-match': '"1"' } });
    assert.deepEqual([stale.status, (await get(settings)).headers['etag']], [412, '"2"']);
    const { data } = await audited();
    assert.deepEqual(
      data
        .filter(({ status }) => status === 200)
        .map((one) => [one.action, one.resourceType, one.resourceId]),
      [1, 2].map(() => ['update', 'organisation_settings', organisationId]),
    );
  });

  test('of one organisation are not those of another', async (t) => {
    const one = await start(t, 'one');
    await one.put(settings, { security: { membersViewPrompts: false } });
    const other = await start(t, 'other');
    assert.deepEqual((await other.get(settings)).json().security, security);
  });

  const bad: [name: string, body: unknown, ...places: string[]][] = [
    [
      'a setting that is not known',
      { security: { memberViewAllData: false } },
      '/security/memberViewAllData',
    ],
    [
      'a setting that is no switch',
      { security: { membersViewAllData: 'no' } },
      '/security/membersViewAllData',
    ],
    ['an unknown category', { allow_workspace_overrides: ['logs'] }, '/allow_workspace_overrides/0'],
    ['no days at all', { user_api_keys: { max_days: 0 } }, '/user_api_keys/max_days'],
    ['a field that is only shown', { retention: { logs_days: 1 } }, '/retention'],
    [
      'a default beyond the maximum',
      { user_api_keys: { default_days: 31, max_days: 30 } },
      '/user_api_keys/default_days',
    ],
    ['a maximum below the default', { user_api_keys: { max_days: 4 } }, '/user_api_keys/max_days'],
  ];
  for (const [name, body, ...places] of bad) {
    test(`cannot be ${name}: nothing is changed`, async (t) => {
      const { get, put } = await start(t, 'bad');
      await put(settings, { user_api_keys: { default_days: 5 } });
      assert.deepEqual(refusal(await put(settings, body)), [400, 'AB01', ...places]);
      assert.equal((await get(settings)).headers['etag'], '"1"');
    });
  }

  test('null takes a bound away, and a default may be as long as the maximum', async (t) => {
    const { put } = await start(t, 'bounds');
    const rules = async (given: object): Promise<unknown> =>
      (await put(settings, { user_api_keys: given })).json().user_api_keys;
    assert.deepEqual(await rules({ max_per_workspace: 0, default_days: 7, max_days: 7 }), {
      max_per_workspace: 0,
      default_days: 7,
      max_days: 7,
      rotation_days: null,
    });
    assert.deepEqual(await rules({ max_days: null }), {
      max_per_workspace: 0,
      default_days: 7,
      max_days: null,
      rotation_days: null,
    });
    assert.deepEqual(await rules({ max_per_workspace: null, default_days: null }), noRules);
  });
});

describe('the defaults of an organisation', () => {
  test('are empty, change by parts, and share their version with the settings', async (t) => {
    const { get, put } = await start(t, 'defaults');
    const shown = {
      object: 'organisation-defaults',
      metadata: {},
      config_id: null,
      input_guardrails: [],
      output_guardrails: [],
      last_updated_at: null,
    };
    assert.deepEqual((await get(defaults)).json(), shown);
    const one = await put(defaults, { metadata: { team: 'a' }, config_id: 'main' });
    assert.deepEqual([one.status, one.headers['etag']], [200, '"1"'], one.text);
    const pick = ({ metadata, config_id: configId }: any): unknown => [metadata, configId];
    assert.deepEqual(pick(one.json()), [{ team: 'a' }, 'main']);
    assert.deepEqual(pick((await put(defaults, { metadata: { unit: 'b' } })).json()), [
      { unit: 'b' },
      'main',
    ]);
    assert.deepEqual(pick((await put(defaults, { config_id: null })).json()), [{ unit: 'b' }, null]);
    assert.deepEqual(pick((await put(defaults, { metadata: null })).json()), [{}, null]);
    assert.equal((await put(settings, {}, { headers: { 'if-match': '"4"' } })).headers['etag'], '"5"');
    assert.deepEqual(pick((await get(defaults)).json()), [{}, null]);
  });

  test('name a config that there is', async (t) => {
    const { get, put } = await start(t, 'config');
    assert.deepEqual(refusal(await put(defaults, { config_id: 'nowhere' })), [400, 'AB01', '/config_id']);
    assert.deepEqual(refusal(await put(defaults, { metadata: { n: 1 } })), [400, 'AB01', '/metadata/n']);
    assert.equal((await get(defaults)).headers['etag'], '"0"');
  });
});

describe('the settings of a workspace', () => {
  const effective = (overrides: object): object => ({
    data_visibility: {
      membersViewAllData: true,
      managersViewAllData: true,
      membersViewAnalytics: true,
      managersViewAnalytics: true,
    },
    prompts: {
      membersViewPrompts: true,
      membersWritePrompts: false,
      managersViewPrompts: true,
      managersWritePrompts: true,
    },
    configs: {
      membersViewConfigs: true,
      membersWriteConfigs: false,
      managersViewConfigs: true,
      managersWriteConfigs: true,
    },
    user_api_keys: noRules,
    logging: { mode: 'full' },
    ...overrides,
  });
  const none = { data_visibility: null, prompts: null, configs: null, user_api_keys: null, logging: null };

  for (const base of ['/admin/workspaces', '/workspaces']) {
    test(`${base}: nothing of its own, then what the organisation lets it say`, async (t) => {
      const { get, put, audited, workspaceId } = await start(t, 'ws');
      const path = `${base}/ws-ws-default/settings`;
      const first = await get(path);
      assert.deepEqual([first.status, first.headers['etag']], [200, '"0"'], first.text);
      assert.deepEqual(first.json(), {
        object: 'workspace-settings',
        workspace_id: workspaceId,
        overrides: none,
        effective: effective({}),
        allow_workspace_overrides: [],
        last_updated_at: null,
      });
      const body = { overrides: { prompts: { membersWritePrompts: true }, user_api_keys: { max_days: 9 } } };
      const refused = await put(path, body);
      assert.deepEqual(refusal(refused), [409, 'AB07']);
      assert.match(
        refused.json().data.message,
        /override "prompts", "user_api_keys"\. Put it into allow_workspace_over/,
      );
      await put(settings, {
        security: { membersViewPrompts: false },
        allow_workspace_overrides: ['prompts', 'user_api_keys'],
      });
      const changed = await put(path, body);
      assert.deepEqual([changed.status, changed.headers['etag']], [200, '"1"'], changed.text);
      const prompts = {
        membersViewPrompts: false,
        membersWritePrompts: true,
        managersViewPrompts: true,
        managersWritePrompts: true,
      };
      const rules = { ...noRules, max_days: 9 };
      assert.deepEqual(changed.json().overrides, { ...none, prompts, user_api_keys: rules });
      assert.deepEqual(changed.json().effective, effective({ prompts, user_api_keys: rules }));

      // It is on its own from now on, until the organisation says that nobody is.
      await put(settings, { security: { membersViewPrompts: true, managersWritePrompts: false } });
      assert.deepEqual((await get(path)).json().effective.prompts, prompts);
      await put(settings, { allow_workspace_overrides: ['user_api_keys'] });
      const after = (await get(path)).json();
      assert.deepEqual(
        [after.overrides.prompts, after.effective.prompts.managersWritePrompts],
        [prompts, false],
      );

      const removed = await put(path, { overrides: { prompts: null } }, { headers: { 'if-match': '"1"' } });
      assert.deepEqual(removed.json().overrides, { ...none, user_api_keys: rules });
      assert.equal((await put(path, body, { headers: { 'if-match': '"1"' } })).status, 412);
      const { data } = await audited();
      const own = data.filter(
        ({ resourceType, status }) => resourceType === 'workspace_settings' && status === 200,
      );
      assert.deepEqual(
        own.map((one) => [one.action, one.resourceId, one.workspaceId]),
        [1, 2].map(() => ['update', workspaceId, workspaceId]),
      );
    });
  }

  test('are refused where they cannot be', async (t) => {
    const { get, put, call, owner, workspaceId } = await start(t, 'wrong');
    await put(settings, { allow_workspace_overrides: ['data_visibility', 'user_api_keys'] });
    const path = `/workspaces/${workspaceId}/settings`;
    const rules = { user_api_keys: { default_days: 3, max_days: 2 } };
    const cases: [body: unknown, ...places: string[]][] = [
      [{ overrides: rules }, '/overrides/user_api_keys/default_days'],
      [
        { overrides: { data_visibility: { membersViewPrompts: true } } },
        '/overrides/data_visibility/membersViewPrompts',
      ],
      [{ overrides: { logs: null } }, '/overrides/logs'],
      [{}, '/overrides'],
    ];
    for (const [body, ...places] of cases)
      assert.deepEqual(refusal(await put(path, body)), [400, 'AB01', ...places]);
    assert.equal((await get('/workspaces/nowhere/settings')).status, 404);
    assert.equal((await put('/workspaces/nowhere/settings', { overrides: {} })).status, 404);
    const { id } = (await call(owner, { path: '/workspaces', body: { name: 'Old' } })).json();
    await call(owner, { method: 'DELETE', path: `/workspaces/${id}` });
    assert.equal((await get(`/workspaces/${id}/settings`)).status, 200);
    assert.deepEqual(refusal(await put(`/workspaces/${id}/settings`, { overrides: {} })), [409, 'AB07']);
  });
});

test('settings and defaults are for owner and organisation keys with the scope', async (t) => {
  const { get, put, key, workspaceId } = await start(t, 'who');
  const reads = key({ kind: 'organisation-service', scopes: ['organisation_settings.read'] });
  const writes = key({ kind: 'organisation-service', scopes: ['organisation_settings.update'] });
  const workspace = key({ kind: 'workspace-service', scopes: ['*'] });
  for (const path of [settings, defaults, `/admin/workspaces/${workspaceId}/settings`]) {
    const body = path.includes('/workspaces/') ? { overrides: {} } : {};
    assert.deepEqual(
      [
        (await get(path, reads)).status,
        (await get(path, writes)).status,
        (await get(path, workspace)).status,
      ],
      [200, 403, 403],
    );
    const change = async (caller: KeyRecord): Promise<number> =>
      (await put(path, body, { key: caller })).status;
    assert.deepEqual([await change(writes), await change(reads), await change(workspace)], [200, 403, 403]);
  }
});
