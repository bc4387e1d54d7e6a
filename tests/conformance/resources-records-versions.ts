import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RecordVersion } from '../../core/ports/records.ts';
import type { Subject } from './resources.ts';
import { aRecord, aVersion, newOrganisation } from './resources-records.ts';

const page = { offset: 0, limit: 100 };

/** What every implementation promises of versions of records and of their labels. */
export function versionsAreKept(subject: Subject): void {
  /** A record with so many versions; its organisation and theirs. */
  async function versioned(count: number) {
    const id = await newOrganisation(subject());
    const record = aRecord(id);
    const versions = await subject().write(id, async ({ records }) => {
      await records.insert(record);
      const added: RecordVersion<'config'>[] = [];
      for (let index = 0; index < count; index++)
        added.push(await records.addVersion('config', id, aVersion(record)));
      return added;
    });
    return { id, record, versions };
  }

  test('are numbered from 1 for each record, and listed newest first', async () => {
    const { id, record, versions } = await versioned(5);
    const other = aRecord(id);
    await subject().write(id, async ({ records }) => {
      await records.insert(other);
      assert.equal((await records.addVersion('config', id, aVersion(other))).number, 1);
    });
    assert.deepEqual(
      versions.map(({ number }) => number),
      [1, 2, 3, 4, 5],
    );
    await subject().read(async ({ records }) => {
      const data = versions.toReversed();
      assert.deepEqual(await records.versions('config', id, record.id, page), { total: 5, data });
      for (let offset = 0; offset < 6; offset += 2) {
        const part = await records.versions('config', id, record.id, { offset, limit: 2 });
        assert.deepEqual(part, { total: 5, data: data.slice(offset, offset + 2) });
      }
      assert.deepEqual(await records.versions('config', id, 'nothing', page), { total: 0, data: [] });
      await assert.rejects(records.versions('config', id, record.id, { offset: 0, limit: 101 }), {
        code: 'invalid_request',
      });
    });
  });

  test('are found by number, by id and by the id of their label', async () => {
    const { id, record, versions } = await versioned(3);
    const [first, second] = versions as [RecordVersion<'config'>, RecordVersion<'config'>];
    await subject().write(id, ({ records }) => records.label('config', id, second.id, 'production'));
    const labelled = { ...second, labelId: 'production' };
    const cases = [
      [{ number: 1 }, first],
      [{ number: 2 }, labelled],
      [{ number: 4 }, undefined],
      [{ id: first.id }, first],
      [{ id: 'nothing' }, undefined],
      [{ labelId: 'production' }, labelled],
      [{ labelId: 'staging' }, undefined],
      [{ labelId: '' }, undefined],
    ] as const;
    await subject().read(async ({ records }) => {
      for (const [wanted, expected] of cases)
        assert.deepEqual(
          await records.version('config', id, record.id, wanted),
          expected,
          JSON.stringify(wanted),
        );
      assert.equal(await records.version('prompt', id, record.id, { number: 1 }), undefined);
      assert.equal(await records.version('config', id, 'nothing', { id: first.id }), undefined);
    });
  });

  test('a label is on one version of a record, wherever it is put last', async () => {
    const { id, record, versions } = await versioned(2);
    const [first, second] = versions as [RecordVersion<'config'>, RecordVersion<'config'>];
    const other = aRecord(id);
    const labels = () =>
      subject().read(async ({ records }) =>
        (await records.versions('config', id, record.id, page)).data.map(({ labelId }) => labelId),
      );
    const label = (versionId: string, labelId: string) =>
      subject().write(id, ({ records }) => records.label('config', id, versionId, labelId));
    assert.equal(await label(first.id, 'a'), true);
    assert.equal(await label(second.id, 'b'), true);
    assert.deepEqual(await labels(), ['b', 'a']);
    assert.equal(await label(second.id, 'a'), true);
    assert.deepEqual(await labels(), ['a', '']);
    assert.equal(await label(second.id, 'a'), true);
    assert.deepEqual(await labels(), ['a', '']);
    await subject().write(id, async ({ records }) => {
      await records.addVersion('config', id, aVersion(record, { labelId: 'a' }));
      await records.insert(other);
      // Of another record, which has labels of its own.
      await records.addVersion('config', id, aVersion(other, { labelId: 'a' }));
    });
    assert.deepEqual(await labels(), ['a', '', '']);
    assert.equal(await label(first.id, 'b'), true);
    assert.equal(await label(first.id, ''), true);
    assert.deepEqual(await labels(), ['a', '', '']);
    assert.equal(await label('nothing', 'a'), false);
  });

  test('go with their record, and need one', async () => {
    const { id, record, versions } = await versioned(2);
    await subject().write(id, async ({ records }) => {
      assert.equal(await records.label('guardrail', id, versions[0]?.id ?? '', 'a'), false);
      assert.equal(await records.remove('config', id, record.id), true);
      assert.equal((await records.versions('config', id, record.id, page)).total, 0);
      await records.insert(record);
      assert.equal((await records.addVersion('config', id, aVersion(record))).number, 1);
    });
    for (const [kind, version] of [
      ['config', aVersion(aRecord(id))],
      ['prompt', aVersion(record)],
    ] as const)
      await assert.rejects(
        subject().write(id, ({ records }) => records.addVersion(kind, id, version as never)),
        { code: 'resource_not_found' },
      );
  });
}
