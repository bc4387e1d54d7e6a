import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { Resources, ResourcesWriter } from '../../core/ports/resources.ts';
import type { Subject } from './resources.ts';
import { aRecord, aVersion, changeOf, newOrganisation } from './resources-records.ts';

const page = { offset: 0, limit: 100 };

/** What an organisation of this suite holds: named alike in each of them. */
interface Holdings {
  readonly id: string;
  readonly own: StoredRecord<'config'>;
  readonly shared: StoredRecord<'config'>;
  readonly versionId: string;
}

/** What every implementation promises of records of organisations and workspaces that share a store. */
export function recordsAreApart(subject: Subject): void {
  async function organisation(): Promise<Holdings> {
    const id = await newOrganisation(subject());
    const own = aRecord(id, { workspaceId: 'the-workspace', slug: 'pc-own', name: 'Same' });
    const shared = aRecord(id, { workspaceId: undefined, slug: 'pc-shared', name: 'Same' });
    const version = aVersion(own, { labelId: 'production' });
    await subject().write(id, async ({ records }) => {
      for (const record of [own, shared]) await records.insert(record);
      await records.addVersion('config', id, version);
    });
    return { id, own, shared, versionId: version.id };
  }

  test('what is asked of one organisation is answered with its own alone', async () => {
    const [{ id, own, shared }, foreign] = [await organisation(), await organisation()];
    const place = { organisationId: id, workspaceId: 'the-workspace' };
    await subject().read(async ({ records }) => {
      assert.deepEqual(await records.find('config', place, 'pc-own'), own);
      assert.deepEqual(await records.find('config', place, 'pc-shared'), shared);
      assert.deepEqual(sorted((await records.list('config', id, {}, page)).data), sorted([own, shared]));
      const same = await records.list('config', id, { exactName: 'Same' }, page);
      assert.deepEqual([same.total, sorted(same.data)], [2, sorted([own, shared])]);
      assert.deepEqual(sorted(await records.changedSince(id, 0, ['config'], '')), sorted([own, shared]));
      for (const [index, answer] of [
        ...[await records.find('config', place, foreign.own.id)],
        ...[await records.find('config', { organisationId: id }, foreign.own.id)],
        ...[await records.find('config', { organisationId: id }, foreign.shared.id)],
        ...[await records.version('config', id, foreign.own.id, { number: 1 })],
        ...[await records.version('config', id, foreign.own.id, { id: foreign.versionId })],
        ...[await records.version('config', id, foreign.own.id, { labelId: 'production' })],
        ...[await records.version('config', id, own.id, { id: foreign.versionId })],
      ].entries())
        assert.equal(answer, undefined, `question ${index}`);
      assert.equal((await records.versions('config', id, foreign.own.id, page)).total, 0);
      assert.equal((await records.list('config', id, { parentId: foreign.own.id }, page)).total, 0);
    });
  });

  test('what is asked of one workspace is answered with its own and the organisation’s', async () => {
    const { id, own, shared } = await organisation();
    const elsewhere = { organisationId: id, workspaceId: 'another' };
    await subject().read(async ({ records }) => {
      assert.equal(await records.find('config', elsewhere, own.id), undefined);
      assert.equal(await records.find('config', elsewhere, own.slug), undefined);
      assert.deepEqual(await records.find('config', elsewhere, shared.slug), shared);
      assert.equal((await records.list('config', id, { workspaceId: 'another' }, page)).total, 0);
      assert.deepEqual((await records.list('config', id, { ofOrganisation: true }, page)).data, [shared]);
    });
  });

  test('nothing of another organisation is changed or removed', async () => {
    const [{ id }, foreign] = [await organisation(), await organisation()];
    const before = await everythingOf(subject(), foreign);
    const change = await changeOf(subject(), id);
    await subject().write(id, async (writer) => {
      for (const [index, answer] of (await tried(writer, id, foreign)).entries())
        assert.equal(answer, false, `attempt ${index}`);
    });
    assert.equal(await changeOf(subject(), id), change);
    for (const version of [aVersion(foreign.own), aVersion(foreign.shared)])
      await assert.rejects(
        subject().write(id, ({ records }) => records.addVersion('config', id, version)),
        { code: 'resource_not_found' },
      );
    assert.deepEqual(await everythingOf(subject(), foreign), before);
  });
}

/** Answers to what the writer of organisation `id` does with the ids of another one. */
async function tried(
  { records }: ResourcesWriter,
  id: string,
  { own, shared, versionId }: Holdings,
): Promise<readonly unknown[]> {
  const mine = { organisationId: id, version: 2, name: 'New' };
  return [
    await records.replace({ ...own, ...mine }),
    await records.replace({ ...shared, ...mine }),
    await records.remove('config', id, own.id),
    await records.remove('config', id, shared.id),
    await records.label('config', id, versionId, 'production'),
    await records.label('config', id, versionId, ''),
  ];
}

function everythingOf(resources: Resources, { id, own }: Holdings): Promise<unknown> {
  return resources.read(async ({ records, marks }) => [
    await records.list('config', id, {}, page),
    await records.versions('config', id, own.id, page),
    await records.removedSince(id, 0),
    await marks(id),
  ]);
}

function sorted(records: readonly StoredRecord[]): readonly string[] {
  return records.map(({ id }) => id).sort();
}
