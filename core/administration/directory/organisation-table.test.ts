import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  defaultSecurity,
  defaultSettings,
  type OrganisationDefaults,
  type OrganisationSettings,
  type WorkspaceSettings,
} from '../../ports/organisation-settings.ts';
import type { WorkspaceRecord } from '../../ports/resources.ts';
import { OrganisationTable } from './organisation-table.ts';
import { storedMember, storedUser, storedWorkspace } from './stored-records.test-support.ts';

const configs = { ...defaultSecurity.configs, membersWriteConfigs: true };
const user_api_keys = { maxPerWorkspace: 3, defaultDays: 7, maxDays: 30 };

const settings = (overrides: Partial<OrganisationSettings> = {}): OrganisationSettings => ({
  ...defaultSettings('org-1'),
  ...overrides,
});
const overriding = (overrides: WorkspaceSettings['overrides'], workspaceId = 'ws-1'): WorkspaceSettings => ({
  workspaceId,
  organisationId: 'org-1',
  overrides,
  updatedAt: 1,
  version: 1,
});

describe('workspaces of the directory', () => {
  test('by id or slug, archived ones too, in their own organisation alone', () => {
    const table = new OrganisationTable();
    table.putWorkspaces('org-1', [
      storedWorkspace({ id: 'ws-1', slug: 'ws-lab' }),
      storedWorkspace({ id: 'ws-2', slug: 'ws-old', status: 'archived' }),
    ]);
    table.putWorkspaces('org-2', [storedWorkspace({ id: 'ws-3', slug: 'ws-lab' })]);
    const found = (organisationId: string, name: string) => table.workspaceId(organisationId, name);
    assert.deepEqual(
      [found('org-1', 'ws-lab'), found('org-1', 'ws-1'), found('org-1', 'ws-old'), found('org-2', 'ws-lab')],
      ['ws-1', 'ws-1', 'ws-2', 'ws-3'],
    );
    assert.deepEqual(
      [found('org-1', 'ws-3'), found('org-2', 'ws-1'), found('org-3', 'ws-1')],
      [undefined, undefined, undefined],
    );
    assert.deepEqual([table.isArchived('ws-1'), table.isArchived('ws-2')], [false, true]);
  });

  test('one that another organisation archives stays archived', () => {
    const table = new OrganisationTable();
    table.putWorkspaces('org-1', [storedWorkspace({ status: 'archived' })]);
    table.putWorkspaces('org-2', [storedWorkspace({ id: 'ws-2', status: 'archived' })]);
    table.putWorkspaces('org-2', []);
    assert.deepEqual([table.isArchived('ws-1'), table.isArchived('ws-2')], [true, false]);
  });

  test('the limits of one, as they are now, in its own organisation', () => {
    const table = new OrganisationTable();
    const rateLimits = [{ type: 'requests', unit: 'rpm', value: 5 }] as const;
    table.putWorkspaces('org-1', [storedWorkspace({ rateLimits }), storedWorkspace({ id: 'ws-2' })]);
    assert.equal(table.rateLimitsOf('org-1', 'ws-1'), rateLimits);
    assert.deepEqual(
      [table.rateLimitsOf('org-1', 'ws-2'), table.rateLimitsOf('org-2', 'ws-1')],
      [undefined, undefined],
    );
    table.putWorkspaces('org-1', [storedWorkspace()]);
    assert.equal(table.rateLimitsOf('org-1', 'ws-1'), undefined);
  });

  test('renamed, the old slug leads nowhere', () => {
    const table = new OrganisationTable();
    table.putWorkspaces('org-1', [storedWorkspace({ slug: 'ws-old' })]);
    table.putWorkspaces('org-1', [storedWorkspace({ slug: 'ws-new' })]);
    assert.equal(table.workspaceId('org-1', 'ws-old'), undefined);
    assert.equal(table.workspaceId('org-1', 'ws-new'), 'ws-1');
  });
});

describe('defaults of the directory', () => {
  const cases: readonly [string, OrganisationDefaults, WorkspaceRecord['defaults'], OrganisationDefaults][] =
    [
      ['none', {}, {}, {}],
      [
        'the organisation’s',
        { configId: 'o', metadata: { a: 'o' } },
        {},
        { configId: 'o', metadata: { a: 'o' } },
      ],
      [
        'the workspace’s',
        {},
        { configId: 'w', metadata: { a: 'w' } },
        { configId: 'w', metadata: { a: 'w' } },
      ],
      [
        'both: the workspace’s first, metadata name by name',
        { configId: 'o', metadata: { a: 'o', b: 'o' } },
        { metadata: { a: 'w', c: 'w' } },
        { configId: 'o', metadata: { a: 'w', b: 'o', c: 'w' } },
      ],
      ['the workspace’s config', { configId: 'o' }, { configId: 'w' }, { configId: 'w' }],
      ['empty metadata is none', { metadata: {} }, { metadata: {} }, {}],
    ];
  for (const [name, ofOrganisation, ofWorkspace, expected] of cases) {
    for (const order of ['settings first', 'workspaces first']) {
      test(`${name}, ${order}`, () => {
        const table = new OrganisationTable();
        const put = [
          () => table.view('org-1').putSettings(settings({ defaults: ofOrganisation }), []),
          () => table.putWorkspaces('org-1', [storedWorkspace({ defaults: ofWorkspace })]),
        ];
        for (const run of order === 'settings first' ? put : put.reverse()) run();
        assert.deepEqual(table.defaultsOf('org-1', 'ws-1'), {
          ...expected,
          ...(Object.values({ ...ofWorkspace.metadata, ...ofWorkspace }).some((said) => said === 'w') && {
            own: ofWorkspace,
          }),
        });
        assert.deepEqual(
          table.defaultsOf('org-1', ''),
          ofOrganisation.metadata && Object.keys(ofOrganisation.metadata).length === 0 ? {} : ofOrganisation,
        );
        assert.deepEqual(table.defaultsOf('org-2', 'ws-1'), {});
      });
    }
  }

  test('are the same object until something changes, also where there are none', () => {
    const table = new OrganisationTable();
    assert.equal(table.defaultsOf('org-1', 'ws-1'), table.defaultsOf('org-2', 'ws-2'));
    table.putWorkspaces('org-1', [storedWorkspace({ defaults: { configId: 'w' } })]);
    table.view('org-1').putSettings(settings({ defaults: { configId: 'o' } }), []);
    assert.equal(table.defaultsOf('org-1', 'ws-1'), table.defaultsOf('org-1', 'ws-1'));
    assert.equal(table.defaultsOf('org-1', 'ws-2'), table.defaultsOf('org-1', ''));
  });
});

describe('settings of the directory', () => {
  test('what the organisation says, and instead of it what a workspace may override and does', () => {
    const table = new OrganisationTable();
    const security = { ...defaultSecurity, user_api_keys };
    table
      .view('org-1')
      .putSettings(settings({ security, overridable: ['configs'] }), [
        overriding({ configs, user_api_keys: defaultSecurity.user_api_keys }),
        overriding({ user_api_keys: defaultSecurity.user_api_keys }, 'ws-2'),
      ]);
    assert.deepEqual(table.settingsIn('org-1', 'ws-1'), { ...security, configs });
    assert.equal(table.settingsIn('org-1', 'ws-1'), table.settingsIn('org-1', 'ws-1'));
    for (const workspaceId of ['', 'ws-2', 'ws-3'])
      assert.equal(table.settingsIn('org-1', workspaceId), security);
    assert.equal(table.settingsIn('org-2', 'ws-1'), defaultSecurity);
  });

  test('what is not overridable any more has no effect', () => {
    const table = new OrganisationTable();
    const overrides = [overriding({ configs })];
    table.view('org-1').putSettings(settings({ overridable: ['configs'] }), overrides);
    assert.deepEqual(table.settingsIn('org-1', 'ws-1').configs, configs);
    table.view('org-1').putSettings(settings({ overridable: ['prompts'] }), overrides);
    assert.equal(table.settingsIn('org-1', 'ws-1'), defaultSecurity);
  });
});

describe('people of the directory', () => {
  test('by id, or by e-mail address in any case, in their own organisation alone', () => {
    const table = new OrganisationTable();
    table.putPeople('org-1', [storedUser({ role: 'admin', email: 'kim@example.com' })], []);
    const kim = { id: 'user-1', role: 'admin' };
    assert.deepEqual(table.user('org-1', 'user-1'), kim);
    assert.deepEqual(table.user('org-1', 'kim@example.com'), kim);
    assert.deepEqual(table.user('org-1', 'KIM@Example.com'), kim);
    for (const [organisationId, name] of [
      ['org-2', 'user-1'],
      ['org-2', 'kim@example.com'],
      ['org-1', 'USER-1'],
    ] as const)
      assert.equal(table.user(organisationId, name), undefined);
  });

  test('what they are in a workspace; removed, they are nothing', () => {
    const table = new OrganisationTable();
    const people = [storedUser(), storedUser({ id: 'user-2' })];
    table.putPeople('org-1', people, [
      storedMember({ role: 'manager' }),
      storedMember({ userId: 'user-2' }),
      storedMember({ workspaceId: 'ws-2' }),
    ]);
    table.putPeople('org-2', [], [storedMember({ workspaceId: 'ws-9', userId: 'user-9' })]);
    const roles = () =>
      [
        ['ws-1', 'user-1'],
        ['ws-1', 'user-2'],
        ['ws-2', 'user-1'],
        ['ws-2', 'user-2'],
        ['ws-9', 'user-9'],
      ].map(([workspaceId = '', userId = '']) => table.memberRole(workspaceId, userId));
    assert.deepEqual(roles(), ['manager', 'member', 'member', undefined, 'member']);
    table.putPeople('org-1', people.slice(1), [storedMember({ userId: 'user-2', role: 'manager' })]);
    assert.deepEqual(roles(), [undefined, 'manager', undefined, undefined, 'member']);
    assert.equal(table.user('org-1', 'user-1'), undefined);
    assert.equal(table.user('org-1', 'user-1@example.com'), undefined);
  });
});
