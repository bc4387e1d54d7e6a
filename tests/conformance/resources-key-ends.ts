import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ApiKeyFilter, ApiKeyRecord, Resources } from '../../core/ports/resources.ts';
import type { Subject } from './resources.ts';
import { aKey, changeOf, newOrganisation } from './resources-records.ts';

const now = 1_900_000_000_000;

/** What every implementation promises of keys of people, and of keys that end. */
export function keysEnd(subject: Subject): void {
  const find = (id: string, key: string) => subject().read(({ apiKeys }) => apiKeys.find(id, key));
  const expire = (id: string) => subject().write(id, ({ apiKeys }) => apiKeys.expireDue(id, now));

  test('keys are found by their user, and by whether they still live', async () => {
    const id = await newOrganisation(subject());
    const mine = { type: 'workspace-user', userId: 'ada', createdAt: 1 } as const;
    const records = [
      aKey(id, { ...mine, expiresAt: undefined }),
      aKey(id, { ...mine, createdAt: 2, expiresAt: now, workspaceId: 'another' }),
      aKey(id, { ...mine, createdAt: 3, expiresAt: now + 1 }),
      aKey(id, { ...mine, createdAt: 4, expiresAt: now + 1, status: 'expired' }),
      aKey(id, { ...mine, createdAt: 5, expiresAt: undefined, status: 'exhausted' }),
      aKey(id, { ...mine, createdAt: 6, userId: 'ben', expiresAt: undefined }),
      aKey(id, { createdAt: 7, expiresAt: now - 1 }),
    ];
    await insert(subject(), records);
    const cases: readonly { filter: ApiKeyFilter; found: readonly number[] }[] = [
      { filter: { userId: 'ada' }, found: [0, 1, 2, 3, 4] },
      { filter: { userId: 'ada', workspaceId: 'another' }, found: [1] },
      { filter: { aliveAt: now }, found: [0, 2, 4, 5] },
      { filter: { aliveAt: now - 1, userId: 'ada' }, found: [0, 1, 2, 4] },
      { filter: { userId: 'nobody' }, found: [] },
    ];
    for (const { filter, found } of cases) {
      const listed = await subject().read(({ apiKeys }) =>
        apiKeys.list(id, filter, { offset: 0, limit: 100 }),
      );
      const expected = { total: found.length, data: found.map((index) => records[index]) };
      assert.deepEqual(listed, expected, JSON.stringify(filter));
    }
  });

  test('the keys of a user are removed together, and told as removed', async () => {
    const id = await newOrganisation(subject());
    const mine = { type: 'workspace-user', userId: 'ada' } as const;
    const [one, two, three] = [aKey(id, mine), aKey(id, mine), aKey(id, { ...mine, workspaceId: 'another' })];
    const service = aKey(id);
    const others = aKey(id, { ...mine, userId: 'ben' });
    await insert(subject(), [one, two, three, service, others]);
    const remove = (userId: string, workspaceId?: string) =>
      subject().write(id, ({ apiKeys }) => apiKeys.removeOfUser(id, userId, workspaceId));
    const before = await changeOf(subject(), id);
    assert.equal(await remove(''), 0);
    assert.equal(await remove('nobody'), 0);
    assert.equal(await remove('ada', 'nowhere'), 0);
    assert.equal(await changeOf(subject(), id), before);
    assert.equal(await remove('ada', 'the-workspace'), 2);
    const removed = () => subject().read(({ apiKeys }) => apiKeys.removedSince(id, before));
    assert.deepEqual(await removed(), [one.id, two.id].sort());
    assert.deepEqual(await find(id, three.id), three);
    assert.equal(await remove('ada'), 1);
    assert.deepEqual(await removed(), [one.id, two.id, three.id].sort());
    assert.equal(await changeOf(subject(), id), before + 2);
    assert.deepEqual([await find(id, service.id), await find(id, others.id)], [service, others]);
    await insert(subject(), [aKey(id, { secrets: one.secrets })]);
  });

  test('more keys than a statement takes are removed together', async () => {
    const id = await newOrganisation(subject());
    const mine = { type: 'workspace-user', userId: 'ada', secrets: [] } as const;
    await insert(
      subject(),
      Array.from({ length: 1001 }, () => aKey(id, mine)),
    );
    const removed = await subject().write(id, ({ apiKeys }) => apiKeys.removeOfUser(id, 'ada'));
    assert.equal(removed, 1001);
    const told = await subject().read(({ apiKeys }) => apiKeys.removedSince(id, 0));
    assert.equal(told.length, 1001);
  });

  test('keys that have ended are marked, once, and told to the directory', async () => {
    const [id, elsewhere] = [await newOrganisation(subject()), await newOrganisation(subject())];
    const due = [
      aKey(id, { expiresAt: now }),
      aKey(id, { expiresAt: now - 5, status: 'exhausted', version: 7 }),
      aKey(id, { expiresAt: now - 5, workspaceId: undefined, type: 'organisation-service' }),
    ];
    const rest = [
      aKey(id, { expiresAt: now + 1 }),
      aKey(id, { expiresAt: undefined }),
      aKey(id, { expiresAt: now - 9, status: 'expired' }),
    ];
    const foreign = aKey(elsewhere, { expiresAt: now });
    await insert(subject(), [...due, ...rest]);
    await insert(subject(), [foreign]);
    const before = await changeOf(subject(), id);
    const marked = await expire(id);
    assert.deepEqual([...marked].sort(), due.map((key) => key.id).sort());
    assert.equal(await changeOf(subject(), id), before + 1);
    assert.deepEqual(await expire(id), []);
    assert.equal(await changeOf(subject(), id), before + 1);
    for (const key of due)
      assert.deepEqual(await find(id, key.id), {
        ...key,
        status: 'expired',
        updatedAt: now,
        version: key.version + 1,
      });
    for (const key of rest) assert.deepEqual(await find(id, key.id), key);
    assert.deepEqual(await find(elsewhere, foreign.id), foreign);
    const told = await subject().read(({ apiKeys }) => apiKeys.changedSince(id, before, ''));
    assert.deepEqual(
      told.map((key) => [key.id, key.status]),
      [...marked].sort().map((key) => [key, 'expired']),
    );
  });

  test('a secret whose time of transition has ended is dropped, its key goes on', async () => {
    const id = await newOrganisation(subject());
    const secrets = (end: number, name: string) => [
      { hash: `present ${name} ${id}`, expiresAt: undefined },
      { hash: `before ${name} ${id}`, expiresAt: end },
    ];
    const over = aKey(id, { expiresAt: undefined, secrets: secrets(now, 'one') });
    const both = aKey(id, { expiresAt: now, secrets: secrets(now, 'two') });
    const later = aKey(id, { expiresAt: undefined, secrets: secrets(now + 1, 'three') });
    await insert(subject(), [over, both, later]);
    const before = await changeOf(subject(), id);
    assert.deepEqual([...(await expire(id))].sort(), [over.id, both.id].sort());
    const after = { updatedAt: now, version: 2 };
    assert.deepEqual(await find(id, over.id), { ...over, ...after, secrets: over.secrets.slice(0, 1) });
    assert.deepEqual(await find(id, both.id), {
      ...both,
      ...after,
      status: 'expired',
      secrets: both.secrets.slice(0, 1),
    });
    assert.deepEqual(await find(id, later.id), later);
    const told = await subject().read(({ apiKeys }) => apiKeys.changedSince(id, before, ''));
    assert.deepEqual(
      told.map((key) => [key.id, key.secrets.length]),
      [over.id, both.id].sort().map((key) => [key, 1]),
    );
    // Free again, like the secret of a key that is gone.
    await insert(subject(), [aKey(id, { secrets: [{ hash: `before one ${id}`, expiresAt: undefined }] })]);
  });

  test('1,000 keys are marked at the most', async () => {
    const id = await newOrganisation(subject());
    await insert(
      subject(),
      Array.from({ length: 1001 }, () => aKey(id, { expiresAt: now, secrets: [] })),
    );
    const sizes = [await expire(id), await expire(id), await expire(id)].map((ids) => ids.length);
    assert.deepEqual(sizes, [1000, 1, 0]);
  });
}

/** What every implementation promises of keys whose secrets are replaced by themselves. */
export function keysRotate(subject: Subject): void {
  const hour = 3_600_000;
  const rotation = (nextAt: number) => ({ period: 'weekly', transitionMs: 1_800_000, nextAt }) as const;

  test('keys whose rotation is due are told, the longest due first, and none that waits or has ended', async () => {
    const [id, elsewhere] = [await newOrganisation(subject()), await newOrganisation(subject())];
    const secrets = (end: number) => [
      { hash: `present ${end} ${id}`, expiresAt: undefined },
      { hash: `before ${end} ${id}`, expiresAt: end },
    ];
    const alive = { expiresAt: undefined };
    const due = [
      aKey(id, { ...alive, rotation: { days: 3, transitionMs: 1, nextAt: now - 9 } }),
      aKey(id, { ...alive, rotation: { transitionMs: 1, nextAt: now - 5 }, secrets: secrets(now) }),
      aKey(id, { expiresAt: now + 1, rotation: rotation(now) }),
    ];
    const rest = [
      aKey(id, { ...alive, rotation: undefined }),
      aKey(id, { ...alive, rotation: rotation(now + 1) }),
      aKey(id, { ...alive, rotation: rotation(now), secrets: secrets(now + 1) }),
      aKey(id, { expiresAt: now, rotation: rotation(now) }),
      aKey(id, { ...alive, status: 'expired', rotation: rotation(now) }),
    ];
    await insert(subject(), [...rest, ...due]);
    await insert(subject(), [aKey(elsewhere, { ...alive, rotation: rotation(now) })]);
    assert.deepEqual(await subject().read(({ apiKeys }) => apiKeys.rotationsDue(id, now)), due);
  });

  test('keys are told of which something comes, until that is noted', async () => {
    const id = await newOrganisation(subject());
    const until = now + 24 * hour;
    const never = { expiresAt: undefined, rotation: undefined };
    const ending = (end: number) => ({ ...never, secrets: [{ hash: `${end} ${id}`, expiresAt: end }] });
    const soon = [
      aKey(id, { ...never, rotation: rotation(until) }),
      aKey(id, { ...never, expiresAt: now + 1 }),
      aKey(id, ending(until + hour)),
    ];
    const rest = [
      aKey(id, never),
      aKey(id, { ...never, rotation: rotation(until + 1) }),
      aKey(id, { ...never, expiresAt: now }),
      aKey(id, { ...never, expiresAt: until + 1 }),
      aKey(id, ending(now)),
      aKey(id, { ...never, expiresAt: now + 1, status: 'expired' }),
    ];
    await insert(subject(), [...soon, ...rest]);
    const untold = async (from = now, by = until) => {
      const found = await subject().read(({ apiKeys }) => apiKeys.untold(id, from, by));
      return new Map(found.map(({ key, told }) => [key.id, { key, told }]));
    };
    const note = (key: ApiKeyRecord | undefined, told: object) =>
      subject().write(id, ({ apiKeys }) => apiKeys.noteTold(id, key?.id ?? '', told));
    assert.deepEqual(await untold(), new Map(soon.map((key) => [key.id, { key, told: {} }])));
    const [rotating, ended, secret] = soon;
    const before = await changeOf(subject(), id);
    await note(rotating, { rotation: until });
    await note(ended, { end: now + 1 });
    await note(secret, { rotated: until + hour });
    assert.equal(await changeOf(subject(), id), before, 'the directory does not hear of it');
    assert.deepEqual(await find(id, soon[0]?.id ?? ''), soon[0]);
    assert.deepEqual([...(await untold()).keys()], []);
    // A rotation that was put off is told anew, and a secret once more before it ends.
    await subject().write(id, ({ apiKeys }) =>
      apiKeys.replace({ ...(rotating ?? aKey(id)), rotation: rotation(until - 1), version: 2 }),
    );
    assert.deepEqual([...(await untold()).keys()], [rotating?.id]);
    const later = await untold(now + 2, until + hour);
    assert.deepEqual(later.get(secret?.id ?? ''), { key: secret, told: { rotated: until + hour } });
  });

  function find(id: string, key: string): Promise<ApiKeyRecord | undefined> {
    return subject().read(({ apiKeys }) => apiKeys.find(id, key));
  }
}

async function insert(resources: Resources, records: readonly ApiKeyRecord[]): Promise<void> {
  await resources.write(records[0]?.organisationId ?? '', async ({ apiKeys }) => {
    for (const record of records) await apiKeys.insert(record);
  });
}
