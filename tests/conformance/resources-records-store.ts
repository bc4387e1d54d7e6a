import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { RecordFilter, RecordPlace, StoredRecord } from '../../core/ports/records.ts';
import type { Resources } from '../../core/ports/resources.ts';
import type { Subject } from './resources.ts';
import { aRecord, newOrganisation } from './resources-records.ts';

const mostBytes = 1024 * 1024;

/** What every implementation promises of records of any kind. */
export function recordsAreStored(subject: Subject): void {
  test('a record is found by id and by slug, as it was stored', async () => {
    const id = await newOrganisation(subject());
    const full = aRecord(id);
    const bare = aRecord(id, { workspaceId: undefined, parentId: '', secrets: {}, name: '' });
    const archived = aRecord(id, { status: 'archived' });
    await insert(subject(), [full, bare, archived]);
    await subject().read(async ({ records }) => {
      for (const record of [full, bare, archived]) {
        const place = { organisationId: id, workspaceId: record.workspaceId };
        assert.deepEqual(await records.find('config', place, record.id), record);
        assert.deepEqual(await records.find('config', place, record.slug), record);
        assert.equal(await records.find('prompt', place, record.id), undefined, 'of another kind');
      }
    });
  });

  test('any texts and numbers come back as they were, and members in their order', async () => {
    const id = await newOrganisation(subject());
    const text = fc.string({ unit: 'grapheme', maxLength: 20 }).map((value) => value.replaceAll('\0', ''));
    const value = fc.oneof(
      text,
      fc.maxSafeInteger(),
      fc.double({ noNaN: true, noDefaultInfinity: true }).filter((number) => !Object.is(number, -0)),
      fc.constantFrom(null, true, false, 9_007_199_254_740_991, [], {}, ''),
    );
    const object = fc.dictionary(text, fc.oneof(value, fc.array(value, { maxLength: 3 })), {
      noNullPrototype: true,
      maxKeys: 6,
    });
    await fc.assert(
      fc.asyncProperty(object, async (config) => {
        const record = aRecord(id, { data: { config, isDefault: false } });
        await insert(subject(), [record]);
        await subject().read(async ({ records }) => {
          const found = await records.find('config', { organisationId: id }, record.id);
          assert.deepEqual(found, record);
          assert.equal(JSON.stringify(found?.data), JSON.stringify(record.data));
        });
      }),
      { numRuns: 25 },
    );
  });

  test('the workspace comes before its organisation, and an id before a slug', async () => {
    const id = await newOrganisation(subject());
    const [here, there, shared] = ['one', 'two', undefined].map((workspaceId) =>
      aRecord(id, { workspaceId, slug: 'pc-same' }),
    ) as [StoredRecord<'config'>, StoredRecord<'config'>, StoredRecord<'config'>];
    const alike = aRecord(id, { workspaceId: 'one', slug: shared.id });
    await insert(subject(), [here, there, shared, alike]);
    const cases: readonly [RecordPlace['workspaceId'], string, StoredRecord | undefined][] = [
      ['one', 'pc-same', here],
      ['two', 'pc-same', there],
      ['three', 'pc-same', shared],
      [undefined, 'pc-same', shared],
      ['one', shared.id, shared],
      ['one', here.id, here],
      ['one', there.id, undefined],
      ['three', here.id, undefined],
      [undefined, here.id, here],
      [undefined, there.id, there],
      [undefined, alike.slug, shared],
      ['one', 'pc-other', undefined],
    ];
    await subject().read(async ({ records }) => {
      for (const [workspaceId, named, expected] of cases) {
        const found = await records.find('config', { organisationId: id, workspaceId }, named);
        assert.deepEqual(found, expected, `${named} in ${workspaceId}`);
      }
    });
  });

  test('a slug is taken among the records of its kind and place only', async () => {
    const id = await newOrganisation(subject());
    const stored = aRecord(id, { slug: 'pc-a', workspaceId: 'one' });
    const shared = aRecord(id, { slug: 'pc-a', workspaceId: undefined });
    const policy = { type: 'requests', unit: 'rpm', value: 1, conditions: [], groupBy: [] } as const;
    await insert(subject(), [
      ...[stored, shared, aRecord(id, { slug: 'pc-a', workspaceId: 'two' })],
      { ...aRecord(id, { slug: 'pc-a', workspaceId: 'one' }), kind: 'rate_limit_policy', data: policy },
      aRecord(await newOrganisation(subject()), { slug: 'pc-a', workspaceId: 'one' }),
    ]);
    const cases = [
      [{ slug: 'pc-a', workspaceId: 'one' }, /The workspace has a config with the slug "pc-a" already/],
      [
        { slug: 'pc-a', workspaceId: undefined },
        /The organisation has a config with the slug "pc-a" already/,
      ],
      [{ id: stored.id }, new RegExp(`id "${stored.id}" exists already`)],
    ] as const;
    for (const [given, message] of cases)
      await assert.rejects(insert(subject(), [aRecord(id, given)]), { code: 'already_exists', message });
    const integration = { kind: 'integration', data: {} as StoredRecord<'integration'>['data'] } as const;
    const named = { slug: 'int-a', workspaceId: 'one' };
    await insert(subject(), [{ ...aRecord(id, named), ...integration }]);
    await assert.rejects(insert(subject(), [{ ...aRecord(id, named), ...integration }]), {
      message: /The workspace has an integration with the slug "int-a" already/,
    });
    const other = aRecord(id, { workspaceId: 'one' });
    await insert(subject(), [other]);
    await assert.rejects(replace(subject(), { ...other, slug: 'pc-a', version: 2 }), {
      code: 'already_exists',
    });
    // Archived, it keeps its slug.
    assert.equal(await replace(subject(), { ...stored, status: 'archived', version: 2 }), true);
    await assert.rejects(insert(subject(), [aRecord(id, cases[0][0])]), { code: 'already_exists' });
  });

  test('a record replaces only the version before it, what is empty now included', async () => {
    const id = await newOrganisation(subject());
    const first = aRecord(id);
    await insert(subject(), [first]);
    const second: StoredRecord<'config'> = {
      ...first,
      version: 2,
      workspaceId: undefined,
      parentId: '',
      secrets: {},
      status: 'archived',
      data: { config: {}, isDefault: true },
      updatedAt: first.updatedAt + 5,
      updatedBy: 'somebody else',
    };
    assert.equal(await replace(subject(), second), true);
    assert.equal(await replace(subject(), { ...second, name: 'Too late' }), false);
    assert.equal(await replace(subject(), { ...second, name: 'Too early', version: 4 }), false);
    assert.equal(await replace(subject(), { ...second, kind: 'guardrail', version: 3 }), false);
    const found = await subject().read(({ records }) =>
      records.find('config', { organisationId: id }, first.id),
    );
    assert.deepEqual(found, second);
  });

  test('a removed record is gone, and its slug is free', async () => {
    const id = await newOrganisation(subject());
    const record = aRecord(id);
    await insert(subject(), [record]);
    const remove = (kind: StoredRecord['kind']) =>
      subject().write(id, ({ records }) => records.remove(kind, id, record.id));
    assert.equal(await remove('prompt'), false, 'of another kind');
    assert.equal(await remove('config'), true);
    assert.equal(await remove('config'), false);
    await insert(subject(), [aRecord(id, { slug: record.slug })]);
  });

  test('lists are filtered, oldest first, with the total', async () => {
    const id = await newOrganisation(subject());
    const records = (
      [
        { createdAt: 30, workspaceId: 'one', name: 'Tests', parentId: 'p' },
        { createdAt: 10, workspaceId: 'one', name: '100%', status: 'archived' },
        { createdAt: 20, workspaceId: undefined, slug: 'pc-test-shared', parentId: 'p' },
        { createdAt: 20, workspaceId: 'two', name: 'Other' },
      ] as const
    ).map((given, index) => aRecord(id, { id: `${id}-${index}`, name: 'Name', parentId: '', ...given }));
    await insert(subject(), records);
    await insert(subject(), [{ ...aRecord(id), kind: 'guardrail', data: { checks: [], actions: {} } }]);
    const cases: readonly [RecordFilter, readonly number[]][] = [
      [{}, [1, 2, 3, 0]],
      [{ workspaceId: 'one' }, [1, 0]],
      [{ workspaceId: 'nowhere' }, []],
      [{ ofOrganisation: true }, [2]],
      [{ ofOrganisation: true, workspaceId: 'one' }, []],
      [{ status: 'active' }, [2, 3, 0]],
      [{ status: 'archived', workspaceId: 'one' }, [1]],
      [{ status: 'archived', ofOrganisation: true }, []],
      [{ parentId: 'p' }, [2, 0]],
      [{ parentId: 'p', workspaceId: 'one' }, [0]],
      [{ parentId: '' }, [1, 3]],
      [{ search: 'TEST' }, [2, 0]],
      [{ search: 'test', status: 'active', workspaceId: 'one' }, [0]],
      [{ search: '0%' }, [1]],
      [{ search: '_' }, []],
      [{ exactName: 'Other' }, [3]],
      [{ exactName: 'other' }, []],
    ];
    await subject().read(async (reader) => {
      for (const [filter, found] of cases) {
        const all = await reader.records.list('config', id, filter, { offset: 0, limit: 100 });
        const expected = { total: found.length, data: found.map((index) => records[index]) };
        assert.deepEqual(all, expected, JSON.stringify(filter));
      }
    });
  });

  test('data of 1 MiB is stored, and what is longer refused with both sizes', async () => {
    const id = await newOrganisation(subject());
    const dataOf = (bytes: number) => {
      const empty = JSON.stringify({ config: { text: 'é' }, isDefault: false });
      return { config: { text: `${'x'.repeat(bytes - Buffer.byteLength(empty))}é` }, isDefault: false };
    };
    const largest = aRecord(id, { data: dataOf(mostBytes) });
    await insert(subject(), [largest]);
    const found = await subject().read(({ records }) =>
      records.find('config', { organisationId: id }, largest.id),
    );
    assert.deepEqual(found, largest);
    const data = dataOf(mostBytes + 1);
    const refusal = { code: 'body_too_large', message: /has 1048577 bytes of JSON; 1048576/ };
    await assert.rejects(insert(subject(), [aRecord(id, { data })]), refusal);
    await assert.rejects(replace(subject(), { ...largest, data, version: 2 }), refusal);
    const version = { id: `v-${id}`, recordId: largest.id, name: '', data, description: '' };
    await assert.rejects(
      subject().write(id, ({ records }) =>
        records.addVersion('config', id, { ...version, labelId: '', createdBy: '', createdAt: 1 }),
      ),
      refusal,
    );
  });

  test('a text in the data that cannot be text is the fault of the request', async () => {
    const id = await newOrganisation(subject());
    for (const text of ['a\0b', '\ud800'])
      await assert.rejects(
        insert(subject(), [aRecord(id, { data: { config: { text }, isDefault: false } })]),
        { code: 'invalid_request' },
      );
  });
}

/** Stores records, in one change of each organisation. */
async function insert(resources: Resources, stored: readonly StoredRecord[]): Promise<void> {
  for (const id of new Set(stored.map(({ organisationId }) => organisationId)))
    await resources.write(id, async ({ records }) => {
      for (const record of stored) if (record.organisationId === id) await records.insert(record);
    });
}

function replace(resources: Resources, record: StoredRecord): Promise<boolean> {
  return resources.write(record.organisationId, ({ records }) => records.replace(record));
}
