import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GroupMappingFilter, InviteFilter, InviteRecord } from '../../core/ports/people.ts';
import type { Resources } from '../../core/ports/resources.ts';
import type { Subject } from './resources.ts';
import { aGroupMapping, anInvite, changeOf, newOrganisation } from './resources-records.ts';

const page = { offset: 0, limit: 100 };

/** What every implementation promises of invites. */
export function invitesAreStored(subject: Subject): void {
  test('an invite is found by id and, in any organisation, by its token’s hash', async () => {
    const id = await newOrganisation(subject());
    const full = anInvite(id, { acceptedAt: 1_800_000_000_007, status: 'accepted', role: 'admin' });
    const bare = anInvite(id, { workspaces: [], keyScopes: [] });
    await insert(subject(), [full, bare]);
    await subject().read(async ({ invites }) => {
      for (const invite of [full, bare]) {
        assert.deepEqual(await invites.find(id, invite.id), invite);
        assert.deepEqual(await invites.byTokenHash(invite.tokenHash), invite);
      }
      assert.equal(await invites.find(id, 'not-there'), undefined);
      assert.equal(await invites.byTokenHash('not-there'), undefined);
    });
  });

  test('an e-mail address is taken in any case by a pending invite only', async () => {
    const [id, elsewhere] = [await newOrganisation(subject()), await newOrganisation(subject())];
    const pending = anInvite(id, { email: 'Ada@Example.com' });
    await insert(subject(), [pending]);
    const again = { email: 'ada@example.COM' };
    await assert.rejects(insert(subject(), [anInvite(id, again)]), {
      code: 'already_exists',
      message: /"ada@example.COM" is pending already/,
    });
    await insert(subject(), [anInvite(elsewhere, again)]);
    for (const status of ['cancelled', 'accepted', 'expired'] as const)
      await insert(subject(), [anInvite(id, { ...again, status })]);
    assert.equal(await replace(subject(), { ...pending, status: 'cancelled', version: 2 }), true);
    await insert(subject(), [anInvite(id, again)]);
    const back = replace(subject(), { ...pending, status: 'pending', version: 3 });
    await assert.rejects(back, { code: 'already_exists' });
    const sameToken = anInvite(id, { tokenHash: pending.tokenHash });
    await assert.rejects(insert(subject(), [sameToken]), { code: 'already_exists', message: /token/ });
  });

  test('a pending invite that has ended takes no address, marked or not', async () => {
    const id = await newOrganisation(subject());
    const ended = anInvite(id, { email: 'ada@example.com', createdAt: 1000, expiresAt: 5000 });
    const other = anInvite(id, { email: 'other@example.com', createdAt: 1000, expiresAt: 5000 });
    await insert(subject(), [ended, other]);
    const early = anInvite(id, { email: 'ada@example.com', createdAt: 4999, expiresAt: 9000 });
    await assert.rejects(insert(subject(), [early]), { code: 'already_exists' });
    await insert(subject(), [{ ...early, createdAt: 5000 }]);
    await subject().read(async ({ invites }) => {
      const marked = { ...ended, status: 'expired', updatedAt: 5000, version: 2 };
      assert.deepEqual(await invites.find(id, ended.id), marked);
      assert.deepEqual(await invites.find(id, other.id), other);
    });
  });

  test('a record of an invite replaces only the version before it, what is empty now included', async () => {
    const id = await newOrganisation(subject());
    const first = anInvite(id, { acceptedAt: 7 });
    await insert(subject(), [first]);
    const second: InviteRecord = {
      ...anInvite(id, { id: first.id, email: 'new@example.com', tokenHash: `second of ${first.id}` }),
      workspaces: [],
      keyScopes: [],
      acceptedAt: undefined,
      version: 2,
    };
    assert.equal(await replace(subject(), second), true);
    assert.equal(await replace(subject(), { ...second, role: 'admin' }), false);
    assert.equal(await replace(subject(), { ...second, role: 'admin', version: 4 }), false);
    assert.deepEqual(await subject().read(({ invites }) => invites.find(id, first.id)), second);
    assert.equal(await subject().read(({ invites }) => invites.byTokenHash(first.tokenHash)), undefined);
  });

  test('lists of invites are filtered', async () => {
    const id = await newOrganisation(subject());
    const statuses = ['pending', 'accepted', 'cancelled', 'pending', 'expired'] as const;
    const records = statuses.map((status, index) =>
      anInvite(id, {
        status,
        email: `user-${index}@example.com`,
        createdAt: 1000 + index,
        role: index < 2 ? 'admin' : 'member',
      }),
    );
    await insert(subject(), records);
    const cases: readonly { filter: InviteFilter; found: readonly number[] }[] = [
      { filter: {}, found: [0, 1, 2, 3, 4] },
      { filter: { status: 'pending' }, found: [0, 3] },
      { filter: { role: 'admin' }, found: [0, 1] },
      { filter: { email: 'USER-2@example.com' }, found: [2] },
      { filter: { role: 'admin', status: 'expired' }, found: [] },
    ];
    for (const { filter, found } of cases) {
      const listed = await subject().read(({ invites }) => invites.list(id, filter, page));
      const expected = { total: found.length, data: found.map((index) => records[index]) };
      assert.deepEqual(listed, expected, JSON.stringify(filter));
    }
  });

  test('pending invites that have ended are marked, once', async () => {
    const [id, elsewhere] = [await newOrganisation(subject()), await newOrganisation(subject())];
    const ended = anInvite(id, { expiresAt: 5000 });
    const rest = [
      anInvite(id, { expiresAt: 5001 }),
      anInvite(id, { expiresAt: 5000, status: 'accepted' }),
      anInvite(id, { expiresAt: 5000, status: 'cancelled' }),
    ];
    await insert(subject(), [ended, ...rest]);
    const foreign = anInvite(elsewhere, { expiresAt: 5000 });
    await insert(subject(), [foreign]);
    const expire = () => subject().write(id, ({ invites }) => invites.expireDue(id, 5000));
    assert.equal(await expire(), 1);
    const change = await changeOf(subject(), id);
    assert.equal(await expire(), 0);
    assert.equal(await changeOf(subject(), id), change);
    await subject().read(async ({ invites }) => {
      const marked = { ...ended, status: 'expired', updatedAt: 5000, version: 2 };
      assert.deepEqual(await invites.find(id, ended.id), marked);
      for (const invite of rest) assert.deepEqual(await invites.find(id, invite.id), invite);
      assert.deepEqual(await invites.find(elsewhere, foreign.id), foreign);
    });
  });

  test('1,000 invites are marked at the most', async () => {
    const id = await newOrganisation(subject());
    const records = Array.from({ length: 1001 }, () => anInvite(id, { expiresAt: 5000, createdAt: 1 }));
    await insert(subject(), records);
    const expire = () => subject().write(id, ({ invites }) => invites.expireDue(id, 6000));
    assert.deepEqual([await expire(), await expire(), await expire()], [1000, 1, 0]);
  });
}

/** What every implementation promises of group mappings. */
export function groupMappingsAreStored(subject: Subject): void {
  test('a group mapping is found as it was stored, until it is removed', async () => {
    const id = await newOrganisation(subject());
    const byId = aGroupMapping(id, { role: 'manager' });
    const byName = aGroupMapping(id, { groupId: '', groupName: 'Engineers 🛠' });
    const find = (of: string) => subject().read(({ groupMappings }) => groupMappings.find(id, of));
    const remove = (of: string) => subject().write(id, ({ groupMappings }) => groupMappings.remove(id, of));
    await subject().write(id, async ({ groupMappings }) => {
      await groupMappings.insert(byId);
      await groupMappings.insert(byName);
    });
    assert.deepEqual([await find(byId.id), await find(byName.id)], [byId, byName]);
    assert.deepEqual([await remove(byId.id), await remove(byId.id)], [true, false]);
    assert.deepEqual([await find(byId.id), await find(byName.id)], [undefined, byName]);
  });

  test('a group is mapped to a workspace once, whatever its role', async () => {
    const [id, elsewhere] = [await newOrganisation(subject()), await newOrganisation(subject())];
    const insertOne = (of: string, given: Parameters<typeof aGroupMapping>[1]) =>
      subject().write(of, ({ groupMappings }) => groupMappings.insert(aGroupMapping(of, given)));
    const named = { groupId: '', groupName: 'g' };
    await insertOne(id, { groupId: 'g' });
    await insertOne(id, named);
    for (const given of [{ groupId: 'g', role: 'manager' as const }, named])
      await assert.rejects(insertOne(id, given), {
        code: 'already_exists',
        message: /group "g" is mapped to workspace "the-workspace" already/,
      });
    await insertOne(id, { groupId: 'g', workspaceId: 'another' });
    await insertOne(elsewhere, { groupId: 'g' });
  });

  test('lists of group mappings are filtered', async () => {
    const id = await newOrganisation(subject());
    const records = ['g', 'h', 'g', 'i'].map((groupId, index) =>
      aGroupMapping(id, {
        groupId,
        createdAt: 1000 + index,
        workspaceId: `ws-${index % 3}`,
        role: index === 1 ? 'manager' : 'member',
      }),
    );
    await subject().write(id, async ({ groupMappings }) => {
      for (const record of records) await groupMappings.insert(record);
    });
    const cases: readonly { filter: GroupMappingFilter; found: readonly number[] }[] = [
      { filter: {}, found: [0, 1, 2, 3] },
      { filter: { workspaceId: 'ws-0' }, found: [0, 3] },
      { filter: { groupId: 'g' }, found: [0, 2] },
      { filter: { role: 'manager' }, found: [1] },
      { filter: { groupId: 'g', workspaceId: 'ws-1' }, found: [] },
    ];
    for (const { filter, found } of cases) {
      const listed = await subject().read(({ groupMappings }) => groupMappings.list(id, filter, page));
      const expected = { total: found.length, data: found.map((index) => records[index]) };
      assert.deepEqual(listed, expected, JSON.stringify(filter));
    }
  });
}

async function insert(resources: Resources, records: readonly InviteRecord[]): Promise<void> {
  await resources.write(records[0]?.organisationId ?? '', async ({ invites }) => {
    for (const record of records) await invites.insert(record);
  });
}

function replace(resources: Resources, record: InviteRecord): Promise<boolean> {
  return resources.write(record.organisationId, ({ invites }) => invites.replace(record));
}
