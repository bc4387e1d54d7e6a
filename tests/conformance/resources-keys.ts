import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { sha256 } from '../../core/base/bytes.ts';
import type { ApiKeyFilter, ApiKeyRecord, DirectoryKey, Resources } from '../../core/ports/resources.ts';
import type { Subject } from './resources.ts';
import { aKey, changeOf, newOrganisation } from './resources-records.ts';

/** What every implementation promises of service keys. */
export function keysAreStored(subject: Subject): void {
  test('a key is found as it was stored', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const full = aKey(id);
    const bare = aKey(id, {
      workspaceId: undefined,
      type: 'organisation-service',
      usageLimits: undefined,
      expiresAt: undefined,
      scopes: [],
      rateLimits: [],
      defaults: {},
      alertEmails: [],
      description: '',
    });
    const rotated = aKey(id, {
      secrets: [
        { hash: sha256(`new ${id}`, 'base64'), expiresAt: undefined },
        { hash: sha256(`old ${id}`, 'base64'), expiresAt: Date.parse('2031-01-01T00:00:00.007Z') },
      ],
    });
    const without = aKey(id, { secrets: [] });
    await insert(resources, id, [full, bare, rotated, without]);
    await resources.read(async ({ apiKeys }) => {
      for (const key of [full, bare, rotated, without]) assert.deepEqual(await apiKeys.find(id, key.id), key);
      assert.equal(await apiKeys.find(id, 'not-there'), undefined);
    });
  });

  test('any texts and numbers come back as they were', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const text = fc.string({ unit: 'grapheme', maxLength: 40 }).map((value) => value.replaceAll('\0', ''));
    const values = fc.record({
      scopes: fc.array(text, { maxLength: 5 }),
      metadata: fc.dictionary(text, text, { noNullPrototype: true, maxKeys: 5 }),
      creditLimit: fc.double({ noNaN: true, noDefaultInfinity: true, min: 0, max: 1e15 }),
      at: fc.date({ min: new Date(0), max: new Date('2999-01-01'), noInvalidDate: true }).map(Number),
    });
    await fc.assert(
      fc.asyncProperty(values, async ({ scopes, metadata, creditLimit, at }) => {
        const key = aKey(id, {
          scopes,
          alertEmails: scopes,
          defaults: { metadata },
          expiresAt: at,
          usageLimits: { type: 'cost', creditLimit: Object.is(creditLimit, -0) ? 0 : creditLimit },
        });
        await insert(resources, id, [key]);
        assert.deepEqual(await resources.read(({ apiKeys }) => apiKeys.find(id, key.id)), key);
      }),
      { numRuns: 25 },
    );
  });

  test('a name is taken in its workspace and for its type only', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const ofWorkspace = { name: 'Deploy', workspaceId: 'one' };
    const ofOrganisation = { name: 'Deploy', workspaceId: undefined, type: 'organisation-service' } as const;
    const stored = aKey(id, ofWorkspace);
    await insert(resources, id, [
      stored,
      aKey(id, { ...ofWorkspace, type: 'workspace-user', userId: 'somebody' }),
      aKey(id, { ...ofWorkspace, workspaceId: 'two' }),
      aKey(id, ofOrganisation),
    ]);
    const cases = [
      {
        given: ofWorkspace,
        says: /The workspace has a key of type workspace-service named "Deploy" already/,
      },
      {
        given: ofOrganisation,
        says: /The organisation has a key of type organisation-service named "Deploy" already/,
      },
      { given: { id: stored.id }, says: new RegExp(`id "${stored.id}" exists already`) },
      { given: { secrets: stored.secrets }, says: /secret of key .* is that of another key already/ },
    ];
    for (const { given, says } of cases) {
      await assert.rejects(insert(resources, id, [aKey(id, given)]), {
        code: 'already_exists',
        message: says,
      });
    }
    const other = aKey(id, { workspaceId: 'one' });
    await insert(resources, id, [other]);
    const renaming = replace(resources, { ...other, name: 'Deploy', version: 2 });
    await assert.rejects(renaming, { code: 'already_exists' });
  });

  test('a record replaces only the version before it, its secrets and what is empty now included', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const first = aKey(id);
    await insert(resources, id, [first]);
    const [present] = first.secrets;
    assert.ok(present !== undefined);
    const second: ApiKeyRecord = {
      ...first,
      version: 2,
      status: 'expired',
      usageLimits: undefined,
      expiresAt: undefined,
      name: 'Renamed',
      secrets: [
        { hash: sha256(`rotated ${first.id}`, 'base64'), expiresAt: undefined },
        { hash: present.hash, expiresAt: 1_900_000_000_000 },
      ],
    };
    assert.equal(await replace(resources, second), true);
    assert.equal(await replace(resources, { ...second, name: 'Too late' }), false);
    assert.equal(await replace(resources, { ...second, name: 'Too early', version: 4 }), false);
    assert.deepEqual(await resources.read(({ apiKeys }) => apiKeys.find(id, first.id)), second);
    const third = { ...second, version: 3, secrets: second.secrets.slice(0, 1) };
    assert.equal(await replace(resources, third), true);
    assert.deepEqual(await resources.read(({ apiKeys }) => apiKeys.find(id, first.id)), third);
  });

  test('a removed key is gone with its secrets', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const key = aKey(id);
    await insert(resources, id, [key]);
    assert.equal(await remove(resources, id, key.id), true);
    assert.equal(await remove(resources, id, key.id), false);
    assert.equal(await resources.read(({ apiKeys }) => apiKeys.find(id, key.id)), undefined);
    await insert(resources, id, [aKey(id, { secrets: key.secrets, name: key.name })]);
  });

  test('lists are filtered and oldest first', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const records = [3, 1, 2, 2].map((createdAt, index) =>
      aKey(id, { id: `${id}-${index}`, createdAt, workspaceId: index % 2 === 0 ? 'even' : 'odd' }),
    );
    await insert(resources, id, records);
    const cases: readonly { filter: ApiKeyFilter; found: readonly number[] }[] = [
      { filter: {}, found: [1, 2, 3, 0] },
      { filter: { workspaceId: 'even' }, found: [2, 0] },
      { filter: { workspaceId: 'neither' }, found: [] },
      { filter: { ids: [`${id}-0`, `${id}-1`, 'nobody'] }, found: [1, 0] },
      { filter: { ids: [`${id}-0`, `${id}-1`], workspaceId: 'odd' }, found: [1] },
      { filter: { ids: [] }, found: [] },
      { filter: { types: ['workspace-service', 'workspace-user'] }, found: [1, 2, 3, 0] },
      { filter: { types: ['organisation-service'] }, found: [] },
      { filter: { types: [] }, found: [] },
    ];
    for (const { filter, found } of cases) {
      const all = await resources.read(({ apiKeys }) => apiKeys.list(id, filter, { offset: 0, limit: 100 }));
      assert.deepEqual(
        all.data,
        found.map((index) => records[index]),
        JSON.stringify(filter),
      );
      assert.equal(all.total, found.length);
    }
    const second = await resources.read(({ apiKeys }) => apiKeys.list(id, {}, { offset: 3, limit: 3 }));
    assert.deepEqual(second, { total: 4, data: [records[0]] });
  });

  test('all keys are read in pages of 1,000, none twice and none left out', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const ids = Array.from({ length: 1003 }, (_, index) => `${id}-${String(index).padStart(5, '0')}`);
    await insert(
      resources,
      id,
      ids.toReversed().map((key) => aKey(id, { id: key })),
    );
    const [found, sizes] = await everything((after) => resources.read(({ apiKeys }) => apiKeys.all(after)));
    assert.equal(sizes[0], 1000);
    const mine = found.filter((key) => key.organisationId === id);
    assert.deepEqual(
      mine.map((key) => key.id),
      ids,
    );
    assert.equal(mine[7]?.secrets.length, 1);
    const [changed, pages] = await everything((after) =>
      resources.read(({ apiKeys }) => apiKeys.changedSince(id, 0, after)),
    );
    assert.deepEqual(pages.slice(0, 2), [1000, 3]);
    assert.deepEqual(changed, mine);
  });

  test('what changed after a change is told, as it is now', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const [one, two, three] = [aKey(id), aKey(id), aKey(id)];
    await insert(resources, id, [one, two, three]);
    const before = await changeOf(resources, id);
    const later = { ...two, version: 2, name: 'Renamed' };
    await replace(resources, later);
    await remove(resources, id, one.id);
    await remove(resources, id, three.id);
    await insert(resources, id, [three]);
    const now = await changeOf(resources, id);
    assert.equal(now, before + 4);
    await resources.read(async ({ apiKeys }) => {
      const expected = [later, three].sort((a, b) => (a.id < b.id ? -1 : 1)).map(directoryKey);
      assert.deepEqual(await apiKeys.changedSince(id, before, ''), expected);
      assert.deepEqual(await apiKeys.changedSince(id, before + 1, ''), [directoryKey(three)]);
      assert.deepEqual(await apiKeys.changedSince(id, now, ''), []);
      // The one that was stored again is there.
      assert.deepEqual(await apiKeys.removedSince(id, before), [one.id]);
      assert.deepEqual(await apiKeys.removedSince(id, before + 2), []);
    });
  });
}

/** What the directory sees of a key. */
function directoryKey(key: ApiKeyRecord): DirectoryKey {
  const { id, organisationId, workspaceId, userId, name, type } = key;
  const { status, scopes, rateLimits, usageLimits, secrets, defaults, expiresAt, updatedAt } = key;
  const { createdAt, alertEmails } = key;
  return {
    id,
    organisationId,
    workspaceId,
    userId,
    name,
    type,
    status,
    scopes,
    rateLimits,
    usageLimits,
    ...(usageLimits !== undefined && { createdAt, alertEmails }),
    secrets,
    defaults,
    expiresAt,
    updatedAt,
  };
}

async function everything(
  page: (afterId: string) => Promise<readonly DirectoryKey[]>,
): Promise<[readonly DirectoryKey[], readonly number[]]> {
  const found: DirectoryKey[] = [];
  const sizes: number[] = [];
  for (;;) {
    const keys = await page(found.at(-1)?.id ?? '');
    sizes.push(keys.length);
    if (keys.length === 0) return [found, sizes];
    found.push(...keys);
  }
}

async function insert(resources: Resources, id: string, records: readonly ApiKeyRecord[]): Promise<void> {
  await resources.write(id, async (writer) => {
    for (const record of records) await writer.apiKeys.insert(record);
  });
}

function replace(resources: Resources, record: ApiKeyRecord): Promise<boolean> {
  return resources.write(record.organisationId, (writer) => writer.apiKeys.replace(record));
}

function remove(resources: Resources, organisationId: string, id: string): Promise<boolean> {
  return resources.write(organisationId, (writer) => writer.apiKeys.remove(organisationId, id));
}
