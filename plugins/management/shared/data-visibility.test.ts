import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { roleOf } from '../../../core/access/scopes.ts';
import type { GroupQuery, Visibility } from '../../../core/ports/analytics.ts';
import type { Directory, KeyRecord } from '../../../core/ports/directory.ts';
import type { OrganisationRole, WorkspaceRole } from '../../../core/ports/people.ts';
import { defaultSecurity, type SecuritySettings } from '../../../core/ports/organisation-settings.ts';
import { testAnalytics, testKey, testRouteInput, testScope } from '../../../tests/kit/plugin-kit.ts';
import { getLogRoute } from '../logs/routes.ts';
import { visibilityIn, type NamedWorkspace } from './data-visibility.ts';
import { groupRoutes } from '../analytics/groups.ts';

/** What the directory knows: settings of one workspace, and one user with their roles. */
function directoryOf(
  settings: Partial<SecuritySettings['data_visibility']>,
  user: { role: OrganisationRole; member?: WorkspaceRole } | undefined,
): Partial<Directory> {
  const inWorkspace = {
    ...defaultSecurity,
    data_visibility: { ...defaultSecurity.data_visibility, ...settings },
  };
  return {
    settingsIn: (organisationId, workspaceId) =>
      organisationId === 'org-1' && workspaceId === 'ws-1' ? inWorkspace : defaultSecurity,
    user: (_, id) => (user !== undefined && id === 'ann' ? { id, role: user.role } : undefined),
    memberRole: (workspaceId, id) => (workspaceId === 'ws-1' && id === 'ann' ? user?.member : undefined),
  };
}

/** The rows that are seen, once it is clear that they say who asks. */
function seenOf({ asker, ...seen }: Visibility, key: KeyRecord): Visibility {
  assert.equal(asker, key.id);
  return seen;
}

/** Calls the three routes; what each asked the store to show, or the error that it threw. */
async function see(key: KeyRecord, known: Partial<Directory>) {
  const asked: Visibility[] = [];
  const analytics = testAnalytics({
    requestById: (_id, _window, visibility) => {
      asked.push(seenOf(visibility, key));
      return Promise.resolve(undefined);
    },
    groups(query: GroupQuery) {
      asked.push(seenOf(query.visibility, key));
      return Promise.resolve({ total: 0, rows: [] });
    },
  });
  const { scope: plain } = testScope({ analytics });
  const scope = { ...plain, directory: { ...plain.directory, ...known } };
  const role = roleOf(key, scope.directory);
  const params = { id: '0d1b2c3d-aaaa-4bbb-8ccc-0123456789ab', groupBy: 'model' };
  const answers = [];
  for (const route of [getLogRoute(scope), ...groupRoutes(scope)]) {
    asked.length = 0;
    const error = await Promise.resolve()
      .then(() => route.handle(testRouteInput({ params, key, role })))
      .then(
        () => undefined,
        (thrown: Error & { code: string }) => thrown,
      );
    answers.push(asked[0] ?? error);
  }
  return answers as [Visibility, Visibility | Error, Visibility | Error];
}

const service = testKey({ kind: 'workspace-service', id: 'key-7' });
const person = testKey({ kind: 'workspace-user', id: 'key-8', userId: 'ann' });
const nobody = testKey({ kind: 'workspace-user', id: 'key-9', userId: '' });
const noData = { membersViewAllData: false, managersViewAllData: false };
const noAnalytics = { membersViewAnalytics: false, managersViewAnalytics: false };
const all = { organisationId: 'org-1', workspaceId: 'ws-1' };

describe('whose rows a key may read', () => {
  const member = { role: 'member', member: 'member' } as const;
  const manager = { role: 'member', member: 'manager' } as const;
  const cases: [
    name: string,
    key: KeyRecord,
    settings: Partial<SecuritySettings['data_visibility']>,
    user: Parameters<typeof directoryOf>[1],
    seen: Visibility,
  ][] = [
    ['by default a member sees the workspace', person, {}, member, all],
    [
      'a member, without membersViewAllData',
      person,
      { membersViewAllData: false },
      member,
      { ...all, userId: 'ann' },
    ],
    ['a member, without managersViewAllData', person, { managersViewAllData: false }, member, all],
    [
      'a manager, without managersViewAllData',
      person,
      { managersViewAllData: false },
      manager,
      { ...all, userId: 'ann' },
    ],
    ['a manager, without membersViewAllData', person, { membersViewAllData: false }, manager, all],
    [
      'a service key is a manager, of its own rows',
      service,
      noData,
      undefined,
      { ...all, apiKeyId: 'key-7' },
    ],
    ['a service key, without membersViewAllData', service, { membersViewAllData: false }, undefined, all],
    ['a key of nobody sees its own rows', nobody, noData, undefined, { ...all, apiKeyId: 'key-9' }],
    ['somebody who was removed is a member', person, noData, undefined, { ...all, userId: 'ann' }],
    ['the key of an admin sees its workspace', person, { ...noData, ...noAnalytics }, { role: 'admin' }, all],
    ['the key of an owner sees its workspace', person, { ...noData, ...noAnalytics }, { role: 'owner' }, all],
    [
      'an owner key sees the organisation',
      testKey({ kind: 'owner' }),
      { ...noData, ...noAnalytics },
      undefined,
      { organisationId: 'org-1' },
    ],
    [
      'an organisation key sees the organisation',
      testKey({ kind: 'organisation-service' }),
      { ...noData, ...noAnalytics },
      undefined,
      { organisationId: 'org-1' },
    ],
    [
      'settings of another workspace do not matter',
      testKey({ ...person, workspaceId: 'ws-2' }),
      noData,
      member,
      { organisationId: 'org-1', workspaceId: 'ws-2' },
    ],
  ];
  for (const [name, key, settings, user, seen] of cases) {
    test(name, async () => {
      assert.deepEqual(await see(key, directoryOf(settings, user)), [seen, seen, seen]);
    });
  }
});

describe('analytics that a role may not view', () => {
  const cases: [
    name: string,
    key: KeyRecord,
    member: WorkspaceRole | undefined,
    setting: keyof SecuritySettings['data_visibility'],
  ][] = [
    ['a member', person, 'member', 'membersViewAnalytics'],
    ['a manager', person, 'manager', 'managersViewAnalytics'],
    ['a service key', service, undefined, 'managersViewAnalytics'],
  ];
  for (const [name, key, member, setting] of cases) {
    test(`${name}: refused with the name of the setting; single requests are still shown`, async () => {
      const user = member === undefined ? undefined : ({ role: 'member', member } as const);
      const [log, ...groups] = await see(key, directoryOf({ [setting]: false }, user));
      assert.deepEqual(log, all);
      for (const refused of groups) {
        assert.equal((refused as Error & { code: string }).code, 'scope_missing');
        assert.match((refused as Error).message, new RegExp(`the setting ${setting} is off`));
      }
      const other = setting === 'membersViewAnalytics' ? 'managersViewAnalytics' : 'membersViewAnalytics';
      assert.deepEqual(await see(key, directoryOf({ [other]: false }, user)), [all, all, all]);
    });
  }
});

describe('a workspace that the query names', () => {
  const noData = { membersViewAllData: false };
  const directory = {
    ...testScope().scope.directory,
    ...directoryOf(noData, { role: 'member', member: 'member' }),
    workspaceId: (organisationId: string, named: string) =>
      organisationId === 'org-1' ? { first: 'ws-1', 'ws-1': 'ws-1', second: 'ws-2' }[named] : undefined,
  };
  const seenBy = (key: KeyRecord, named: NamedWorkspace) =>
    seenOf(visibilityIn({ key, role: roleOf(key, directory) }, directory, named), key);
  const owner = testKey({ kind: 'owner' });

  test('narrows what a key of the organisation sees, by slug or id', () => {
    assert.deepEqual(seenBy(owner, {}), { organisationId: 'org-1' });
    assert.deepEqual(seenBy(owner, { workspace_slug: 'first' }), all);
    assert.deepEqual(seenBy(owner, { workspace_id: 'ws-1' }), all);
    assert.deepEqual(seenBy(owner, { workspace_id: 'ws-1', workspace_slug: 'first' }), all);
  });

  test('is its own for a key of a workspace, and widens nothing', () => {
    for (const workspace_slug of ['ws-1', 'first'])
      assert.deepEqual(seenBy(person, { workspace_slug }), { ...all, userId: 'ann' });
    const alone = testKey({ workspaceId: 'default' });
    assert.deepEqual(seenBy(alone, { workspace_id: 'default' }), {
      organisationId: 'org-1',
      workspaceId: 'default',
    });
  });

  const refused: [name: string, key: KeyRecord, named: NamedWorkspace, message: RegExp][] = [
    ['of another key', person, { workspace_slug: 'second' }, /^No workspace "second" is visible to this key/],
    ['that is not there', owner, { workspace_slug: 'third' }, /^No workspace "third" is visible/],
    [
      'of another organisation',
      testKey({ kind: 'owner', organisationId: 'org-2' }),
      { workspace_id: 'ws-1' },
      /^No/,
    ],
    ['beside another one', owner, { workspace_slug: 'first', workspace_id: 'second' }, /name two workspaces/],
  ];
  for (const [name, key, named, message] of refused)
    test(`one ${name} is refused`, () => assert.throws(() => seenBy(key, named), { message }));
});
