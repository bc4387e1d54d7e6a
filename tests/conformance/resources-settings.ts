import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  defaultSecurity,
  defaultSettings,
  type OrganisationSettings,
  type WorkspaceSettings,
} from '../../core/ports/organisation-settings.ts';
import type { ChangeMarks, ResourcesWriter } from '../../core/ports/resources.ts';
import type { Subject } from './resources.ts';
import {
  aGroupMapping,
  aKey,
  aMember,
  anEntry,
  anInvite,
  aRecord,
  aUser,
  aVersion,
  aWorkspace,
  changeOf,
  newOrganisation,
} from './resources-records.ts';

/** What every implementation promises of settings. */
export function settingsAreStored(subject: Subject): void {
  const ofOrganisation = (id: string) => subject().read(({ settings }) => settings.ofOrganisation(id));
  const ofWorkspace = (id: string, workspaceId: string) =>
    subject().read(({ settings }) => settings.ofWorkspace(id, workspaceId));
  const replace = (record: OrganisationSettings) =>
    subject().write(record.organisationId, ({ settings }) => settings.replaceOrganisation(record));
  const override = (record: WorkspaceSettings) =>
    subject().write(record.organisationId, ({ settings }) => settings.replaceWorkspace(record));

  test('the defaults hold while nobody has changed any', async () => {
    const id = await newOrganisation(subject());
    assert.deepEqual(await ofOrganisation(id), defaultSettings(id));
    const none = { organisationId: id, workspaceId: 'ws-1', overrides: {}, updatedAt: 0, version: 0 };
    assert.deepEqual(await ofWorkspace(id, 'ws-1'), none);
    assert.deepEqual(await subject().read(({ settings }) => settings.ofWorkspaces(id)), []);
  });

  test('settings of an organisation replace only the version before them', async () => {
    const id = await newOrganisation(subject());
    const first: OrganisationSettings = {
      organisationId: id,
      security: {
        data_visibility: { ...defaultSecurity.data_visibility, membersViewAllData: false },
        prompts: { ...defaultSecurity.prompts, membersWritePrompts: true },
        configs: { ...defaultSecurity.configs, managersWriteConfigs: false },
        user_api_keys: { maxPerWorkspace: 3, defaultDays: undefined, maxDays: 90 },
        logging: { mode: 'metadata' },
      },
      overridable: ['configs', 'user_api_keys'],
      defaults: { metadata: { team: 'blue', 'odd "key"': 'a\\b' }, configId: 'pc-1' },
      updatedAt: 1_800_000_000_123,
      version: 1,
    };
    assert.equal(await replace({ ...first, version: 2 }), false);
    assert.equal(await replace(first), true);
    assert.equal(await replace(first), false);
    assert.deepEqual(await ofOrganisation(id), first);
    const second = { ...defaultSettings(id), updatedAt: 9, version: 2 };
    assert.equal(await replace(second), true);
    assert.equal(await replace({ ...second, defaults: { configId: 'late' } }), false);
    assert.equal(await replace({ ...second, version: 4 }), false);
    assert.deepEqual(await ofOrganisation(id), second);
  });

  test('overrides of workspaces replace only the version before them; those that say something are listed', async () => {
    const id = await newOrganisation(subject());
    const first: WorkspaceSettings = {
      organisationId: id,
      workspaceId: 'ws-b',
      updatedAt: 5,
      version: 1,
      overrides: {
        configs: { ...defaultSecurity.configs, membersWriteConfigs: true },
        user_api_keys: { maxPerWorkspace: undefined, defaultDays: 7, maxDays: undefined },
      },
    };
    const other = { ...first, workspaceId: 'ws-a', overrides: { prompts: defaultSecurity.prompts } };
    const all = { ...first, workspaceId: 'ws-c', overrides: defaultSecurity };
    for (const record of [first, other, all]) assert.equal(await override(record), true);
    assert.equal(await override(first), false);
    assert.equal(await override({ ...first, version: 3 }), false);
    assert.deepEqual(await ofWorkspace(id, 'ws-b'), first);
    const listed = () => subject().read(({ settings }) => settings.ofWorkspaces(id));
    const byWorkspace = (records: readonly WorkspaceSettings[]) =>
      new Map(records.map((record) => [record.workspaceId, record]));
    assert.deepEqual(byWorkspace(await listed()), byWorkspace([other, first, all]));
    const nothing = { ...first, overrides: {}, version: 2 };
    assert.equal(await override(nothing), true);
    assert.deepEqual(await ofWorkspace(id, 'ws-b'), nothing);
    assert.deepEqual(byWorkspace(await listed()), byWorkspace([other, all]));
  });
}

/** What every implementation tells the directory about what it has to read again. */
export function changesAreMarked(subject: Subject): void {
  const marks = (id: string) => subject().read((reader) => reader.marks(id));
  const workspaceSettings = { workspaceId: 'ws-1', overrides: {}, updatedAt: 1, version: 1 };

  test('nothing is marked where nothing was written', async () => {
    const none = { workspaces: 0, people: 0, settings: 0, records: 0 };
    assert.deepEqual(await marks('nobody'), none);
    assert.deepEqual(await marks(await newOrganisation(subject())), none);
  });

  test('each change marks what it touches, and nothing else', async () => {
    const id = await newOrganisation(subject());
    const user = aUser(id);
    const workspace = aWorkspace(id);
    const record = aRecord(id);
    const version = aVersion(record);
    const [member, invite, group, key] = [aMember(user), anInvite(id), aGroupMapping(id), aKey(id)];
    type Step = readonly [keyof ChangeMarks | undefined, (writer: ResourcesWriter) => Promise<unknown>];
    const steps: readonly Step[] = [
      ['workspaces', ({ workspaces }) => workspaces.insert(workspace)],
      ['workspaces', ({ workspaces }) => workspaces.replace({ ...workspace, version: 2 })],
      ['people', ({ users }) => users.insert(user)],
      ['people', ({ users }) => users.replace({ ...user, version: 2 })],
      ['people', ({ members }) => members.insert(member)],
      ['people', ({ members }) => members.replace({ ...member, version: 2 })],
      ['people', ({ members }) => members.remove(id, member.workspaceId, member.userId)],
      ['people', ({ users }) => users.remove(id, user.id)],
      ['settings', ({ settings }) => settings.replaceOrganisation({ ...defaultSettings(id), version: 1 })],
      ['settings', ({ settings }) => settings.replaceOrganisation({ ...defaultSettings(id), version: 2 })],
      ['settings', ({ settings }) => settings.replaceWorkspace({ ...workspaceSettings, organisationId: id })],
      ['records', ({ records }) => records.insert(record)],
      ['records', ({ records }) => records.replace({ ...record, version: 2 })],
      ['records', ({ records }) => records.addVersion('config', id, version)],
      ['records', ({ records }) => records.label('config', id, version.id, 'a-label')],
      ['records', ({ records }) => records.remove('config', id, record.id)],
      [undefined, ({ apiKeys }) => apiKeys.insert(key)],
      [undefined, ({ apiKeys }) => apiKeys.remove(id, key.id)],
      [undefined, ({ invites }) => invites.insert(invite)],
      [undefined, ({ groupMappings }) => groupMappings.insert(group)],
      [undefined, ({ audit }) => audit.append(anEntry(id))],
    ];
    for (const [index, [touched, step]] of steps.entries()) {
      const before = await marks(id);
      await subject().write(id, step);
      const change = await changeOf(subject(), id);
      assert.equal(change, index + 2);
      const expected = touched === undefined ? before : { ...before, [touched]: change };
      assert.deepEqual(await marks(id), expected, `step ${index}`);
    }
  });

  test('what stores nothing marks nothing; a change may mark several', async () => {
    const id = await newOrganisation(subject());
    await subject().write(id, async ({ workspaces, users, settings, records }) => {
      await workspaces.replace(aWorkspace(id, { version: 2 }));
      await records.replace(aRecord(id, { version: 2 }));
      await records.remove('config', id, 'nothing');
      await records.label('config', id, 'nothing', 'any');
      await users.remove(id, 'nobody');
      await settings.replaceOrganisation({ ...defaultSettings(id), version: 5 });
    });
    assert.deepEqual(await marks(id), { workspaces: 0, people: 0, settings: 0, records: 0 });
    await subject().write(id, async ({ workspaces, users }) => {
      await workspaces.insert(aWorkspace(id));
      await users.insert(aUser(id));
    });
    assert.deepEqual(await marks(id), { workspaces: 2, people: 2, settings: 0, records: 0 });
  });
}
