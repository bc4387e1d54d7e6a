import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { FileRecords } from '../../core/directory/file-records.ts';
import { withFileRecords } from '../../core/directory/file-records-resources.ts';
import type { Resources } from '../../core/ports/resources.ts';
import {
  openTestResources,
  startAdministration,
  type TestTenant,
} from '../../tests/kit/administration-kit.ts';

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
        ...{ key: 'wk_0123456789abcdef', scopes: ['logs.view'] },
      },
    ],
  };

  test('is listed first, shown as such, and refused for every change', async (t) => {
    const none = new FileRecords({}, { defaultOrganisationId: '', defaultWorkspaceId: '' }, 0);
    const serving = { records: none };
    const merged = withFileRecords(store, () => serving.records);
    const { tenant, call } = await startAdministration(t, merged);
    const own: TestTenant = await tenant('file');
    const other: TestTenant = await tenant('other');
    const { organisationId, workspaceId } = own;
    const place = { defaultOrganisationId: organisationId, defaultWorkspaceId: workspaceId };
    const records = new FileRecords(block, place, 1000);
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
    // Nobody else's.
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

  test('names the organisation and owns its defaults; the rest of its settings is stored', async (t) => {
    void t;
    const organisationId = 'org-of-settings';
    const place = { defaultOrganisationId: organisationId, defaultWorkspaceId: 'w' };
    const merged = withFileRecords(store, () => new FileRecords(block, place, 1));
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
