import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultSettings, type SettingsReader } from '../../core/ports/organisation-settings.ts';
import type { ResourcesReader, ResourcesWriter } from '../../core/ports/resources.ts';
import type { Subject } from './resources.ts';
import {
  aGroupMapping,
  aKey,
  aMember,
  anEntry,
  anInvite,
  aUser,
  changeOf,
  newOrganisation,
} from './resources-records.ts';

const page = { offset: 0, limit: 100 };
const email = 'ada@example.com';
const start = { workspaceId: '', userId: '' };

/** What an organisation of this suite holds: named alike in each of them. */
interface Holdings {
  readonly id: string;
  readonly user: ReturnType<typeof aUser>;
  readonly member: ReturnType<typeof aMember>;
  readonly invite: ReturnType<typeof anInvite>;
  readonly group: ReturnType<typeof aGroupMapping>;
  readonly key: ReturnType<typeof aKey>;
}

/** What every implementation promises of people, invites and settings of organisations that share a store. */
export function peopleAreApart(subject: Subject): void {
  async function organisation(): Promise<Holdings> {
    const id = await newOrganisation(subject());
    const user = aUser(id, { email });
    const mine = { type: 'workspace-user', userId: user.id, expiresAt: 5000 } as const;
    const holdings: Holdings = {
      id,
      user,
      member: aMember(user),
      invite: anInvite(id, { email, expiresAt: 5000, createdAt: 1 }),
      group: aGroupMapping(id, { groupId: 'engineers' }),
      key: aKey(id, mine),
    };
    await subject().write(id, async (writer) => {
      await writer.users.insert(user);
      await writer.members.insert(holdings.member);
      await writer.invites.insert(holdings.invite);
      await writer.groupMappings.insert(holdings.group);
      await writer.apiKeys.insert(holdings.key);
      await writer.settings.replaceOrganisation({ ...defaultSettings(id), updatedAt: 7, version: 1 });
      await writer.settings.replaceWorkspace(overrides(id, 1));
      await writer.audit.append(anEntry(id));
    });
    return holdings;
  }

  test('what is asked of one organisation is answered with its own alone', async () => {
    const [{ id, user, member, invite, group, key }, foreign] = [await organisation(), await organisation()];
    await subject().read(async (reader) => {
      const own: readonly [unknown, unknown][] = [
        [await reader.users.byEmail(id, email), user],
        [await reader.users.list(id, {}, page), { total: 1, data: [user] }],
        [await reader.users.list(id, { email }, page), { total: 1, data: [user] }],
        [await reader.users.all(id, ''), [user]],
        [
          await reader.users.workspaceIds(id, [user.id, foreign.user.id]),
          new Map([
            [user.id, ['the-workspace']],
            [foreign.user.id, []],
          ]),
        ],
        [await reader.members.list(id, 'the-workspace', {}, page), { total: 1, data: [{ member, user }] }],
        [
          await reader.members.list(id, 'the-workspace', { email }, page),
          { total: 1, data: [{ member, user }] },
        ],
        [await reader.members.all(id, start), [member]],
        [await reader.invites.list(id, { email }, page), { total: 1, data: [invite] }],
        [await reader.groupMappings.list(id, { groupId: 'engineers' }, page), { total: 1, data: [group] }],
        [await reader.apiKeys.list(id, { userId: user.id }, page), { total: 1, data: [key] }],
        [(await reader.settings.ofOrganisation(id)).organisationId, id],
        [await reader.settings.ofWorkspaces(id), [overrides(id, 1)]],
      ];
      for (const [index, [answer, expected]] of own.entries())
        assert.deepEqual(answer, expected, `answer ${index}`);
      for (const [index, answer] of (await asked(reader, id, foreign)).entries())
        assert.equal(answer, undefined, `question ${index}`);
    });
  });

  test('nothing of another organisation is changed or removed', async () => {
    const [{ id }, foreign] = [await organisation(), await organisation()];
    const before = await everythingOf(subject(), foreign);
    const change = await changeOf(subject(), id);
    await subject().write(id, async (writer) => {
      for (const [index, answer] of (await tried(writer, id, foreign)).entries())
        assert.ok(answer === false || answer === 0, `attempt ${index} answered ${String(answer)}`);
    });
    assert.equal(await changeOf(subject(), id), change);
    await subject().write(id, async ({ apiKeys, invites }) => {
      assert.equal((await apiKeys.expireDue(id, 6000)).length, 1);
      assert.equal(await invites.expireDue(id, 6000), 1);
    });
    assert.deepEqual(await everythingOf(subject(), foreign), before);
  });
}

function overrides(organisationId: string, version: number) {
  const prompts = defaultSettings(organisationId).security.prompts;
  return { organisationId, workspaceId: 'the-workspace', overrides: { prompts }, updatedAt: 8, version };
}

/** Answers to what organisation `id` asks with the ids of another one. */
async function asked(
  { users, members, invites, groupMappings, apiKeys }: ResourcesReader,
  id: string,
  foreign: Holdings,
): Promise<readonly unknown[]> {
  return [
    await users.find(id, foreign.user.id),
    await members.find(id, 'the-workspace', foreign.user.id),
    await invites.find(id, foreign.invite.id),
    await groupMappings.find(id, foreign.group.id),
    await apiKeys.find(id, foreign.key.id),
  ];
}

/** Answers to what the writer of organisation `id` does with the ids of another one. */
async function tried(
  { users, members, invites, groupMappings, apiKeys }: ResourcesWriter,
  id: string,
  { user, member, invite, group, key }: Holdings,
): Promise<readonly unknown[]> {
  const mine = { organisationId: id, version: 2 };
  return [
    await users.replace({ ...user, ...mine, email: 'new@example.com' }),
    await users.remove(id, user.id),
    await members.replace({ ...member, ...mine, role: 'manager' }),
    await members.remove(id, 'the-workspace', user.id),
    await invites.replace({ ...invite, ...mine, email: 'new@example.com' }),
    await groupMappings.remove(id, group.id),
    await apiKeys.replace({ ...key, ...mine, name: 'new' }),
    await apiKeys.remove(id, key.id),
    await apiKeys.removeOfUser(id, user.id),
    await apiKeys.removeOfUser(id, user.id, 'the-workspace'),
  ];
}

function everythingOf(resources: ReturnType<Subject>, { id, invite }: Holdings): Promise<unknown> {
  return resources.read(async (reader) => [
    await reader.users.list(id, {}, page),
    await reader.members.list(id, 'the-workspace', {}, page),
    await reader.invites.list(id, {}, page),
    await reader.invites.byTokenHash(invite.tokenHash),
    await reader.groupMappings.list(id, {}, page),
    await reader.apiKeys.list(id, {}, page),
    await settingsOf(reader.settings, id),
    await reader.audit.head(id),
    await reader.marks(id),
  ]);
}

async function settingsOf(settings: SettingsReader, id: string): Promise<unknown> {
  return [await settings.ofOrganisation(id), await settings.ofWorkspace(id, 'the-workspace')];
}
