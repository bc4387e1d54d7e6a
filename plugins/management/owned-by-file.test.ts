import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { FileRecords } from '../../core/administration/directory/file-records.ts';
import { withFileRecords } from '../../core/administration/directory/file-records-resources.ts';
import type { Resources } from '../../core/ports/resources.ts';
import {
  openTestResources,
  startAdministration,
  type TestTenant,
} from '../../tests/kit/administration-kit.ts';
import { testSecrets } from '../../tests/kit/test-secrets.ts';

const secrets = testSecrets;
const closings: (() => Promise<void>)[] = [];
let store: Resources;

before(async () => {
  store = await openTestResources({ after: (close) => void closings.push(close) });
});
after(async () => {
  for (const close of closings) await close();
});

describe('what the configuration owns', () => {
  const block = {
    name: 'Acme by file',
    defaults: { metadata: { team: 'file' } },
    workspaces: [{ slug: 'ws-lab', name: 'Laboratory' }],
    keys: [
      {
        ...({ name: 'batch', type: 'workspace-service', workspace: 'ws-lab' } as const),
        key: 'wk_0123456789abcdef',
        scopes: ['logs.view'],
      },
    ],
  };

  test('is listed first, shown as such, and refused for every change', async (t) => {
    const none = new FileRecords(
      { config: {} },
      { defaultOrganisationId: '', defaultWorkspaceId: '', secrets },
      0,
    );
    const serving = { records: none };
    const merged = withFileRecords(store, () => serving.records);
    const { tenant, call } = await startAdministration(t, merged);
    const own: TestTenant = await tenant('file');
    const other: TestTenant = await tenant('other');
    const { organisationId, workspaceId } = own;
    const place = { defaultOrganisationId: organisationId, defaultWorkspaceId: workspaceId, secrets };
    const records = new FileRecords({ config: { organisation: block } }, place, 1000);
    serving.records = records;
    const [lab, batch] = [records.workspaces[0]?.id ?? '', records.apiKeys[0]?.id ?? ''];

    const listed = (await call(own.owner, { path: '/workspaces' })).json();
    assert.equal(listed.total, 2);
    assert.deepEqual(
      listed.data.map((one: { name: string; managed_by: string }) => [one.name, one.managed_by]),
      [
        ['Laboratory', 'file'],
        ['file default', 'api'],
      ],
    );
    const key = (await call(own.owner, { path: `/api-keys/${batch}` })).json();
    assert.deepEqual([key.name, key.managed_by, key.workspace_id, key.key], ['batch', 'file', lab, '***']);
    const ofLab = (await call(own.owner, { path: '/api-keys?workspace_id=ws-lab' })).json();
    assert.deepEqual([ofLab.total, ofLab.data[0]?.id], [1, batch]);
    // Records of no other file.
    assert.equal((await call(other.owner, { path: `/api-keys/${batch}` })).status, 404);
    assert.equal((await call(other.owner, { path: '/workspaces/ws-lab' })).status, 404);

    const scopes = { scopes: ['logs.view'] };
    const refusals: readonly (readonly [string, string, unknown, RegExp])[] = [
      [
        'PUT',
        `/workspaces/ws-lab`,
        { name: 'x' },
        /The workspace "Laboratory" is owned by .*\(organisation\.workspaces\[0\]\); change/,
      ],
      ['DELETE', `/workspaces/${lab}`, undefined, /organisation\.workspaces\[0\]/],
      [
        'PUT',
        `/api-keys/${batch}`,
        scopes,
        /The key "batch" is owned by gateway\.config\.yaml \(organisation\.keys\[0\]\)/,
      ],
      ['DELETE', `/api-keys/${batch}`, undefined, /The key "batch" .*organisation\.keys\[0\]/],
      ['POST', `/api-keys/${batch}/rotate`, {}, /organisation\.keys\[0\]/],
      ['POST', '/workspaces', { name: 'Laboratory' }, /A workspace named "Laboratory" is owned by/],
      [
        ...(['POST', '/api-keys/workspace/service'] as const),
        { ...scopes, name: 'batch', workspace_id: 'ws-lab' },
        /A key of type workspace-service named "batch" is owned by/,
      ],
    ];
    for (const [method, path, body, expected] of refusals) {
      const answer = await call(own.owner, { method, path, ...(body !== undefined && { body }) });
      assert.equal(answer.status, 409, `${method} ${path}: ${answer.text}`);
      assert.match(answer.json().data?.message ?? answer.json().error?.message, expected);
    }

    // A key of the store may belong to a workspace of the file, and other organisations take the names.
    const made = await call(own.owner, {
      path: '/api-keys/workspace/service',
      body: { ...scopes, name: 'another', workspace_id: 'ws-lab' },
    });
    assert.equal(made.status, 200, made.text);
    const twin = await call(other.owner, { path: '/workspaces', body: { name: 'Laboratory' } });
    assert.equal(twin.status, 200, twin.text);
    const stored = await store.read(({ workspaces }) =>
      workspaces.list(organisationId, {}, { offset: 0, limit: 10 }),
    );
    assert.deepEqual(
      stored.data.map(({ id }) => id),
      [workspaceId],
      'nothing of the file is stored',
    );
  });

  test('what requests are configured with is listed first, read, and refused for every change', async (t) => {
    const serving = {
      records: new FileRecords(
        { config: {} },
        { defaultOrganisationId: '', defaultWorkspaceId: '', secrets },
        0,
      ),
    };
    const merged = withFileRecords(store, () => serving.records);
    const { tenant, call } = await startAdministration(t, merged);
    const { owner, organisationId, workspaceId, key } = await tenant('owned');
    const other = await tenant('another');
    const limit = { conditions: [{ key: 'model', value: '*' }], group_by: [{ key: 'api_key' }] };
    const organisation = {
      integrations: [
        {
          slug: 'shared',
          name: 'Shared',
          ai_provider_id: 'openai',
          key: 'sk-planted-0123456789',
          workspaces: [{ id: 'ws-default', enabled: true }],
          models: [{ slug: 'm', enabled: true }],
        },
      ],
      configs: [{ slug: 'pc-own', name: 'Own', workspace: 'ws-default', config: { virtual_key: 'shared' } }],
      guardrails: [
        {
          slug: 'checked',
          name: 'Checked',
          checks: [
            { id: 'lasso.classify', parameters: { credentials: { apiKey: 'lasso-planted-0123456789' } } },
          ],
          actions: {},
        },
      ],
      rate_limit_policies: [
        { slug: 'few', ...limit, type: 'requests' as const, unit: 'rpm' as const, value: 5 },
      ],
      usage_limit_policies: [{ slug: 'cheap', ...limit, type: 'cost' as const, credit_limit: 5 }],
    };
    const source = { fileOf: () => '/etc/weir/production.yaml', origin: () => undefined };
    const config = { organisation, configs: { main: { provider: 'openai', api_key: 'sk-planted' } } };
    const place = { defaultOrganisationId: organisationId, defaultWorkspaceId: workspaceId, secrets };
    serving.records = new FileRecords(
      { config: { ...config, providers: { direct: { api_key: 'sk-planted' } } }, source },
      place,
      1000,
    );
    const service = key({ kind: 'workspace-service', name: 'service', scopes: ['*'], workspaceId });
    const made = await call(service, {
      path: '/integrations',
      body: { name: 'Stored', slug: 'stored', ai_provider_id: 'openai', key: 'sk-stored' },
    });
    assert.equal(made.status, 200, made.text);

    const lists: readonly (readonly [path: string, slugs: readonly string[]])[] = [
      ['/integrations', ['shared', 'stored']],
      ['/providers', ['direct', 'shared', 'stored']],
      ['/virtual-keys', ['shared', 'stored']],
      ['/virtual-keys?page_size=1&current_page=1', ['stored']],
      ['/configs', ['main', 'pc-own']],
      ['/configs?search=OWN', ['pc-own']],
      ['/configs?status=archived', []],
    ];
    for (const [path, slugs] of lists) {
      for (const by of [owner, service]) {
        const answer = await call(by, { path });
        assert.equal(answer.status, 200, `${path}: ${answer.text}`);
        const found = answer.json().data.map((one: { slug: string }) => one.slug);
        assert.deepEqual(found, slugs, path);
        assert.ok(!answer.text.includes('planted'), answer.text);
      }
      if (!path.includes('?'))
        assert.ok(!(await call(other.owner, { path })).text.includes('shared'), 'nobody else sees them');
    }
    const policy = (await call(owner, { path: '/policies/rate-limits' })).json().data[0];
    const usage = (await call(owner, { path: '/policies/usage-limits' })).json().data[0];
    const guardrail = (await call(owner, { path: '/guardrails' })).json().data[0];
    assert.deepEqual([policy.managed_by, usage.managed_by, guardrail.managed_by], ['file', 'file', 'file']);

    const checked = (await call(owner, { path: '/guardrails/checked' })).json();
    assert.deepEqual(checked.checks[0].parameters, { credentials: { apiKey: '…' } });

    const integration = (await call(owner, { path: '/integrations/shared' })).json();
    assert.deepEqual([integration.masked_key, integration.managed_by], ['…', 'file']);
    const main = (await call(service, { path: '/configs/main' })).json().data;
    assert.deepEqual([main.config.api_key, main.workspace_id, main.managed_by], ['***', null, 'file']);
    assert.equal(
      (await call(service, { path: `/configs/${main.id}` })).json().data.version_id,
      main.version_id,
    );
    assert.equal((await call(owner, { path: '/configs/pc-own/versions' })).json().total, 1);

    const refusals: readonly (readonly [string, string, unknown, string])[] = [
      ['PUT', '/integrations/shared', { name: 'x' }, 'organisation.integrations[0]'],
      ['PUT', '/integrations/shared/models', { allow_all_models: false }, 'organisation.integrations[0]'],
      ['PUT', '/integrations/shared/workspaces', { workspaces: [] }, 'organisation.integrations[0]'],
      ['DELETE', '/providers/direct', undefined, 'providers.direct'],
      ['PUT', '/providers/shared', { note: 'x' }, 'organisation.integrations[0]'],
      ['PUT', '/configs/main', { name: 'x' }, 'configs.main'],
      ['DELETE', '/configs/pc-own', undefined, 'organisation.configs[0]'],
      ['PUT', `/guardrails/checked`, { name: 'x' }, 'organisation.guardrails[0]'],
      ['DELETE', `/guardrails/${guardrail.id}`, undefined, 'organisation.guardrails[0]'],
      ['PUT', `/policies/rate-limits/${policy.id}`, { value: 6 }, 'organisation.rate_limit_policies[0]'],
      ['DELETE', `/policies/usage-limits/cheap`, undefined, 'organisation.usage_limit_policies[0]'],
    ];
    for (const [method, path, body, at] of refusals) {
      const answer = await call(owner, { method, path, ...(body !== undefined && { body }) });
      assert.equal(answer.status, 409, `${method} ${path}: ${answer.text}`);
      assert.ok(answer.text.includes(`is owned by production.yaml (${at}); change it there.`), answer.text);
    }
    const twin = { name: 'Twin', slug: 'shared', ai_provider_id: 'openai', key: 'k' };
    for (const [path, body] of [
      ['/integrations', twin],
      ['/providers', { name: 'Twin', slug: 'direct', integration_id: 'stored' }],
    ] as const) {
      const answer = await call(service, { path, body });
      assert.equal(answer.status, 409, answer.text);
      assert.match(answer.text, /with the slug \\?"\w+\\?" is owned by production\.yaml/);
    }
  });

  test('names the organisation and owns its defaults; the rest of its settings is stored', async (t) => {
    void t;
    const organisationId = 'org-of-settings';
    const place = { defaultOrganisationId: organisationId, defaultWorkspaceId: 'w', secrets };
    const merged = withFileRecords(
      store,
      () => new FileRecords({ config: { organisation: block } }, place, 1),
    );
    await merged.write(organisationId, ({ organisations }) =>
      organisations.ensure({ id: organisationId, name: 'Stored name', createdAt: 1 }),
    );
    const names = (from: Resources) => from.read(({ organisations }) => organisations.byId(organisationId));
    assert.deepEqual(
      [(await names(merged))?.name, (await names(store))?.name],
      ['Acme by file', 'Stored name'],
    );
    const settings = await merged.read((reader) => reader.settings.ofOrganisation(organisationId));
    assert.deepEqual(settings.defaults, { metadata: { team: 'file' } });
    const next = { ...settings, overridable: ['prompts'] as const, version: 1 };
    await merged.write(organisationId, (writer) => writer.settings.replaceOrganisation(next));
    const stored = await store.read((reader) => reader.settings.ofOrganisation(organisationId));
    assert.deepEqual([stored.overridable, stored.defaults], [['prompts'], {}]);
    await assert.rejects(
      merged.write(organisationId, (writer) =>
        writer.settings.replaceOrganisation({ ...next, defaults: {}, version: 2 }),
      ),
      /owned by gateway\.config\.yaml \(organisation\.defaults\); change it there/,
    );
  });
});
