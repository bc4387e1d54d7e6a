import assert from 'node:assert/strict';
import { test } from 'node:test';
import type {
  MemberFilter,
  MemberRecord,
  UserFilter,
  UserRecord,
  UsersReader,
} from '../../core/ports/people.ts';
import type { Resources } from '../../core/ports/resources.ts';
import type { Subject } from './resources.ts';
import { aMember, aUser, changeOf, newOrganisation } from './resources-records.ts';

const page = { offset: 0, limit: 100 };

/** What every implementation promises of users and of members of workspaces. */
export function peopleAreStored(subject: Subject): void {
  usersAreStored(subject);
  membersAreStored(subject);
}

function usersAreStored(subject: Subject): void {
  test('a user is found by id, and by e-mail address in any case', async () => {
    const id = await newOrganisation(subject());
    const user = aUser(id, { email: 'ada.löwe+x@example.com', role: 'admin' });
    const bare = aUser(id, { firstName: '', lastName: '' });
    await insert(subject(), [user, bare]);
    await subject().read(async ({ users }) => {
      assert.deepEqual(await users.find(id, user.id), user);
      assert.deepEqual(await users.find(id, bare.id), bare);
      assert.equal(await users.find(id, user.email), undefined);
      assert.deepEqual(await users.byEmail(id, 'Ada.LÖWE+x@Example.com'), user);
      assert.equal(await users.byEmail(id, 'ada.l_we+x@example.com'), undefined);
    });
  });

  test('an e-mail address is stored lower-case, and taken in its organisation in any case', async () => {
    const [id, elsewhere] = [await newOrganisation(subject()), await newOrganisation(subject())];
    const user = aUser(id, { email: 'Ada@Example.com' });
    await insert(subject(), [user]);
    const stored = { ...user, email: 'ada@example.com' };
    assert.deepEqual(await read(subject(), (users) => users.find(id, user.id)), stored);
    const cases = [
      { given: { email: 'ada@example.com' }, says: /e-mail address "ada@example.com" already/ },
      { given: { email: 'ADA@example.COM' }, says: /e-mail address/ },
      { given: { id: user.id }, says: new RegExp(`id "${user.id}" exists already`) },
    ];
    for (const { given, says } of cases)
      await assert.rejects(insert(subject(), [aUser(id, given)]), { code: 'already_exists', message: says });
    await insert(subject(), [aUser(elsewhere, { email: 'ada@example.com' })]);
    const other = aUser(id);
    await insert(subject(), [other]);
    const moving = replace(subject(), { ...other, email: 'ADA@example.com', version: 2 });
    await assert.rejects(moving, { code: 'already_exists', message: /e-mail address/ });
  });

  test('a record of a user replaces only the version before it', async () => {
    const id = await newOrganisation(subject());
    const first = aUser(id);
    await insert(subject(), [first]);
    const second = { ...aUser(id, { id: first.id, email: 'new@example.com', role: 'owner' }), version: 2 };
    assert.equal(await replace(subject(), second), true);
    assert.equal(await replace(subject(), { ...second, firstName: 'Too late' }), false);
    assert.equal(await replace(subject(), { ...second, firstName: 'Too early', version: 4 }), false);
    assert.equal(await replace(subject(), aUser(id, { version: 2 })), false);
    assert.deepEqual(await read(subject(), (users) => users.find(id, first.id)), second);
  });

  test('lists of users are filtered', async () => {
    const id = await newOrganisation(subject());
    const roles = ['owner', 'member', 'admin', 'member'] as const;
    const records = roles.map((role, index) =>
      aUser(id, { role, email: `user-${index}@example.com`, createdAt: 1000 + index }),
    );
    await insert(subject(), records);
    const cases: readonly { filter: UserFilter; found: readonly number[] }[] = [
      { filter: {}, found: [0, 1, 2, 3] },
      { filter: { role: 'member' }, found: [1, 3] },
      { filter: { role: 'admin', email: 'USER-2@example.com' }, found: [2] },
      { filter: { role: 'owner', email: 'user-2@example.com' }, found: [] },
      { filter: { email: 'user-_@example.com' }, found: [] },
    ];
    for (const { filter, found } of cases) {
      const listed = await read(subject(), (users) => users.list(id, filter, page));
      const expected = { total: found.length, data: found.map((index) => records[index]) };
      assert.deepEqual(listed, expected, JSON.stringify(filter));
    }
  });

  test('a removed user is gone, with the memberships and nobody else’s', async () => {
    const id = await newOrganisation(subject());
    const [gone, stays] = [aUser(id), aUser(id)];
    await insert(
      subject(),
      [gone, stays],
      [aMember(gone), aMember(gone, { workspaceId: 'b' }), aMember(stays)],
    );
    assert.equal(await remove(subject(), gone), true);
    assert.equal(await remove(subject(), gone), false);
    await subject().read(async ({ users, members }) => {
      assert.equal(await users.find(id, gone.id), undefined);
      assert.equal(await members.find(id, 'the-workspace', gone.id), undefined);
      const listed = await members.list(id, 'the-workspace', {}, page);
      assert.deepEqual(
        listed.data.map(({ user }) => user.id),
        [stays.id],
      );
      assert.equal((await members.list(id, 'b', {}, page)).total, 0);
    });
    await insert(subject(), [gone]);
    assert.equal(
      (await read(subject(), (users) => users.workspaceIds(id, [gone.id]))).get(gone.id)?.length,
      0,
    );
  });

  test('all users are read in pages of 1,000, none twice and none left out', async () => {
    const id = await newOrganisation(subject());
    const ids = Array.from({ length: 1003 }, (_, index) => `${id}-${String(index).padStart(5, '0')}`);
    const records = ids.toReversed().map((user) => aUser(id, { id: user }));
    await insert(subject(), records);
    const first = await read(subject(), (users) => users.all(id, ''));
    assert.equal(first.length, 1000);
    assert.deepEqual(first[0], records.at(-1));
    const rest = await read(subject(), (users) => users.all(id, first.at(-1)?.id ?? ''));
    assert.deepEqual(
      [...first, ...rest].map((user) => user.id),
      ids,
    );
  });
}

function membersAreStored(subject: Subject): void {
  test('a member is found with the user, as they were stored', async () => {
    const id = await newOrganisation(subject());
    const user = aUser(id);
    const member = aMember(user, { role: 'manager' });
    await insert(subject(), [user], [member]);
    await subject().read(async ({ members }) => {
      assert.deepEqual(await members.find(id, 'the-workspace', user.id), { member, user });
      assert.equal(await members.find(id, 'another', user.id), undefined);
      assert.equal(await members.find(id, 'the-workspace', 'nobody'), undefined);
    });
    const again = insert(subject(), [], [aMember(user)]);
    await assert.rejects(again, { code: 'already_exists', message: /is a member of workspace/ });
  });

  test('nobody is a member who is no user of the organisation', async () => {
    const [id, elsewhere] = [await newOrganisation(subject()), await newOrganisation(subject())];
    const foreigner = aUser(elsewhere);
    await insert(subject(), [foreigner]);
    await assert.rejects(insert(subject(), [], [aMember(aUser(id))]));
    await assert.rejects(insert(subject(), [], [aMember({ ...foreigner, organisationId: id })]));
  });

  test('a record of a member replaces only the version before it; removing tells whether there was one', async () => {
    const id = await newOrganisation(subject());
    const user = aUser(id);
    const first = aMember(user);
    const apart = aMember(user, { workspaceId: 'another' });
    await insert(subject(), [user], [first, apart]);
    const store = (record: MemberRecord) => subject().write(id, ({ members }) => members.replace(record));
    const second = { ...first, role: 'manager', updatedAt: 99, version: 2 } as const;
    assert.equal(await store(second), true);
    assert.equal(await store({ ...second, role: 'member' }), false);
    assert.equal(await store({ ...second, workspaceId: 'nowhere' }), false);
    const found = await subject().read(({ members }) => members.find(id, 'the-workspace', user.id));
    assert.deepEqual(found, { member: second, user });
    const leave = () => subject().write(id, ({ members }) => members.remove(id, 'the-workspace', user.id));
    assert.deepEqual([await leave(), await leave()], [true, false]);
    const kept = await subject().read(({ members }) => members.find(id, 'another', user.id));
    assert.deepEqual(kept, { member: apart, user });
  });

  test('lists of members are those of the workspace, filtered, longest members first', async () => {
    const id = await newOrganisation(subject());
    const people = [3, 1, 2, 2].map((createdAt, index) => {
      const user = aUser(id, { id: `${id}-${index}`, email: `user-${index}@example.com` });
      const role = index % 2 === 0 ? 'manager' : 'member';
      return { user, member: aMember(user, { role, createdAt }) };
    });
    await insert(
      subject(),
      people.map(({ user }) => user),
      [
        ...people.map(({ member }) => member),
        aMember(people[0]!.user, { workspaceId: 'another', role: 'member' }),
      ],
    );
    const cases: readonly { filter: MemberFilter; found: readonly number[] }[] = [
      { filter: {}, found: [1, 2, 3, 0] },
      { filter: { role: 'manager' }, found: [2, 0] },
      { filter: { email: 'USER-3@Example.com' }, found: [3] },
      { filter: { email: 'user-3@example.com', role: 'manager' }, found: [] },
      { filter: { email: 'user' }, found: [] },
    ];
    for (const { filter, found } of cases) {
      const listed = await subject().read(({ members }) => members.list(id, 'the-workspace', filter, page));
      const expected = { total: found.length, data: found.map((index) => people[index]) };
      assert.deepEqual(listed, expected, JSON.stringify(filter));
    }
  });

  test('the workspaces of several users are told together, sorted', async () => {
    const id = await newOrganisation(subject());
    const [one, two, none] = [aUser(id), aUser(id), aUser(id)];
    const memberships = ['ws-c', 'WS-b', 'ws_d', 'ws-a'].map((workspaceId) => aMember(one, { workspaceId }));
    await insert(subject(), [one, two, none], [...memberships, aMember(two)]);
    const found = await read(subject(), (users) =>
      users.workspaceIds(id, [one.id, two.id, none.id, 'nobody']),
    );
    assert.deepEqual(found.get(one.id), ['WS-b', 'ws-a', 'ws-c', 'ws_d']);
    assert.deepEqual(found.get(two.id), ['the-workspace']);
    assert.deepEqual(found.get(none.id), []);
    assert.equal((await read(subject(), (users) => users.workspaceIds(id, []))).size, 0);
  });

  test('all members are read in pages of 1,000 by workspace and user', async () => {
    const id = await newOrganisation(subject());
    const people = Array.from({ length: 502 }, (_, index) =>
      aUser(id, { id: `${id}-${String(index).padStart(5, '0')}` }),
    );
    const memberships = ['ws-b', 'ws-a'].flatMap((workspaceId) =>
      people.map((user) => aMember(user, { workspaceId })),
    );
    await insert(subject(), people, memberships);
    const start = { workspaceId: '', userId: '' };
    const first = await subject().read(({ members }) => members.all(id, start));
    assert.equal(first.length, 1000);
    const rest = await subject().read(({ members }) => members.all(id, first.at(-1) ?? start));
    assert.deepEqual(
      [...first, ...rest].map(({ workspaceId, userId }) => `${workspaceId} ${userId}`),
      ['ws-a', 'ws-b'].flatMap((workspaceId) => people.map((user) => `${workspaceId} ${user.id}`)),
    );
    assert.deepEqual(first[0], aMember(people[0]!, { workspaceId: 'ws-a' }));
  });

  test('what changes nobody is no change', async () => {
    const id = await newOrganisation(subject());
    const before = await changeOf(subject(), id);
    await subject().write(id, async ({ users, members }) => {
      assert.equal(await users.remove(id, 'nobody'), false);
      assert.equal(await users.replace(aUser(id, { version: 2 })), false);
      assert.equal(await members.remove(id, 'the-workspace', 'nobody'), false);
      assert.equal(await members.replace(aMember(aUser(id), { version: 2 })), false);
    });
    assert.equal(await changeOf(subject(), id), before);
  });
}

async function insert(
  resources: Resources,
  people: readonly UserRecord[],
  memberships: readonly MemberRecord[] = [],
): Promise<void> {
  const id = people[0]?.organisationId ?? memberships[0]?.organisationId ?? '';
  await resources.write(id, async ({ users, members }) => {
    for (const user of people) await users.insert(user);
    for (const member of memberships) await members.insert(member);
  });
}

function read<T>(resources: Resources, work: (users: UsersReader) => Promise<T>): Promise<T> {
  return resources.read(({ users }) => work(users));
}

function replace(resources: Resources, record: UserRecord): Promise<boolean> {
  return resources.write(record.organisationId, ({ users }) => users.replace(record));
}

function remove(resources: Resources, { organisationId, id }: UserRecord): Promise<boolean> {
  return resources.write(organisationId, ({ users }) => users.remove(organisationId, id));
}
