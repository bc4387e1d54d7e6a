import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RecordsReader, StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesWriter } from '../../core/ports/resources.ts';
import type { Subject } from './resources.ts';
import { aKey, aRecord, aVersion, changeOf, newOrganisation } from './resources-records.ts';

const kinds = ['config', 'guardrail'] as const;

/** What every implementation promises to directories, and to whoever changes the key of secrets. */
export function recordChangesAreTold(subject: Subject): void {
  test('what changed after a change is told, as it is now, of the kinds that are asked for', async () => {
    const id = await newOrganisation(subject());
    const [one, two, three] = [aRecord(id), aRecord(id), aRecord(id)] as const;
    const guardrail = { ...aRecord(id), kind: 'guardrail', data: { checks: [], actions: {} } } as const;
    const label = {
      ...aRecord(id),
      kind: 'label',
      data: { description: '', colourCode: '', isUniversal: true },
    } as const;
    const change = async (work: (writer: ResourcesWriter) => Promise<unknown>): Promise<number> => {
      await subject().write(id, work);
      return changeOf(subject(), id);
    };
    const start = await change(async ({ records }) => {
      for (const record of [one, two, three, guardrail, label]) await records.insert(record);
    });
    const archived: StoredRecord = { ...two, status: 'archived', version: 2 };
    const second = await change(({ records }) => records.replace(archived));
    const third = await change(({ records }) => records.remove('config', id, one.id));
    await change(({ records }) => records.remove('config', id, three.id));
    const fifth = await change(({ records }) => records.insert(three));
    await change(({ records }) => records.remove('label', id, label.id));
    const key = aKey(id);
    await change(({ apiKeys }) => apiKeys.insert(key));
    await change(({ apiKeys }) => apiKeys.remove(id, key.id));
    await subject().read(async ({ records }) => {
      const since = (after: number, asked: Parameters<RecordsReader['changedSince']>[2] = kinds) =>
        records.changedSince(id, after, asked, '');
      assert.deepEqual(await since(0), byId([archived, three, guardrail]));
      assert.deepEqual(await since(0, ['guardrail']), [guardrail]);
      assert.deepEqual(await since(0, []), []);
      assert.deepEqual(await since(start), byId([archived, three]));
      assert.deepEqual(await since(second), [three]);
      assert.deepEqual(await since(fifth), []);
      // The one that was stored again is there; removals are told whatever their kind.
      assert.deepEqual(await records.removedSince(id, start), [one.id, label.id].sort());
      assert.deepEqual(await records.removedSince(id, third), [label.id]);
    });
    assert.deepEqual(await subject().read(({ apiKeys }) => apiKeys.removedSince(id, 0)), [key.id]);
  });

  test('a new version and a moved label are changes of their record, and nothing else of it', async () => {
    const id = await newOrganisation(subject());
    const [record, other] = [aRecord(id), aRecord(id)];
    const version = aVersion(record);
    await subject().write(id, async ({ records }) => {
      for (const one of [record, other]) await records.insert(one);
    });
    const works: readonly ((writer: ResourcesWriter) => Promise<unknown>)[] = [
      ({ records }) => records.addVersion('config', id, version),
      ({ records }) => records.label('config', id, version.id, 'a'),
    ];
    for (const work of works) {
      const before = await changeOf(subject(), id);
      await subject().write(id, work);
      const told = await subject().read(({ records }) => records.changedSince(id, before, kinds, ''));
      assert.deepEqual(told, [record]);
    }
  });

  test('pages are by id, none twice and none left out, until one is empty', async () => {
    const id = await newOrganisation(subject());
    const ids = Array.from({ length: 1003 }, (_, index) => `${id}-${String(index).padStart(5, '0')}`);
    await subject().write(id, async ({ records }) => {
      for (const one of ids.toReversed()) await records.insert(aRecord(id, { id: one }));
    });
    const [changed, sizes] = await everything((after) =>
      subject().read(({ records }) => records.changedSince(id, 0, kinds, after)),
    );
    assert.deepEqual(sizes, [1000, 3, 0]);
    assert.deepEqual(
      changed.map((record) => record.id),
      ids,
    );
  });

  test('a page has about 16 MiB at the most', async () => {
    const id = await newOrganisation(subject());
    const text = 'x'.repeat(1_000_000);
    const large = Array.from({ length: 20 }, () =>
      aRecord(id, { data: { config: { text }, isDefault: false }, secrets: {} }),
    );
    for (const record of large) await subject().write(id, ({ records }) => records.insert(record));
    const [changed, sizes] = await everything((after) =>
      subject().read(({ records }) => records.changedSince(id, 0, kinds, after)),
    );
    assert.deepEqual(sizes, [17, 3, 0]);
    assert.deepEqual(
      changed.map((record) => record.id),
      byId(large).map((record) => record.id),
    );
  });

  test('records with secrets are read of every organisation and kind, archived ones too', async () => {
    const [id, elsewhere] = [await newOrganisation(subject()), await newOrganisation(subject())];
    const sealed = [
      aRecord(id, { secrets: { key: 'sealed "text"', 'configurations.region': '' } }),
      aRecord(id, { status: 'archived', workspaceId: undefined }),
      aRecord(elsewhere),
    ];
    for (const record of [...sealed, aRecord(id, { secrets: {} })])
      await subject().write(record.organisationId, ({ records }) => records.insert(record));
    const [found] = await everything((after) => subject().read(({ records }) => records.withSecrets(after)));
    assert.ok(found.every(({ secrets }) => Object.keys(secrets).length > 0));
    const mine = found.filter(({ organisationId }) => organisationId === id || organisationId === elsewhere);
    assert.deepEqual(mine, byId(sealed));
  });
}

function byId<T extends { readonly id: string }>(records: readonly T[]): readonly T[] {
  return records.toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

async function everything(
  page: (afterId: string) => Promise<readonly StoredRecord[]>,
): Promise<[readonly StoredRecord[], readonly number[]]> {
  const found: StoredRecord[] = [];
  const sizes: number[] = [];
  for (;;) {
    const records = await page(found.at(-1)?.id ?? '');
    sizes.push(records.length);
    if (records.length === 0) return [found, sizes];
    found.push(...records);
  }
}
