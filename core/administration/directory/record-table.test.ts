import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { RecordKind, StoredRecord } from '../../ports/records.ts';
import { RecordTable } from './organisation-table.ts';
import { storedRecord } from './stored-records.test-support.ts';

const kinds = ['config', 'label'] as const;
const places = ['ws-1', 'ws-2', undefined] as const;
const slugs = ['a', 'b', 'r-1'] as const;
const ids = ['r-1', 'r-2', 'r-3', 'r-4'] as const;
const idsOf = (records: readonly StoredRecord[]): readonly string[] => records.map(({ id }) => id);

describe('records of the directory', () => {
  test('are found in their workspace first, then in the organisation; an id before a slug', () => {
    const table = new RecordTable();
    const [own, other, shared] = [
      storedRecord({ id: 'r-1', slug: 'same' }),
      storedRecord({ id: 'r-2', slug: 'same', workspaceId: 'ws-2' }),
      storedRecord({ id: 'r-3', slug: 'same', workspaceId: undefined }),
    ];
    const alike = storedRecord({ id: 'r-4', slug: 'r-3' });
    for (const record of [own, other, shared, alike]) table.put(record);
    const cases = [
      ['ws-1', 'same', own],
      ['ws-2', 'same', other],
      ['ws-3', 'same', shared],
      [undefined, 'same', shared],
      ['ws-1', 'r-3', shared],
      ['ws-2', 'r-1', undefined],
      [undefined, 'r-1', own],
      [undefined, 'r-4', alike],
      ['ws-1', 'nothing', undefined],
    ] as const;
    for (const [workspaceId, named, expected] of cases)
      assert.equal(table.find('config', workspaceId, named), expected, `${named} in ${workspaceId}`);
    assert.equal(table.find('label', 'ws-1', 'r-1'), undefined);
  });

  test('archived and removed, they are nowhere', () => {
    const table = new RecordTable();
    table.put(storedRecord());
    table.put(storedRecord({ id: 'r-2', slug: 'two' }));
    table.put(storedRecord({ status: 'archived', version: 2 }));
    table.remove('r-2');
    table.remove('nothing');
    assert.deepEqual(
      [table.find('config', 'ws-1', 'r-1'), table.find('config', 'ws-1', 'two')],
      [undefined, undefined],
    );
    assert.deepEqual(table.list('config', 'ws-1'), []);
  });

  test('lists are oldest first, those of the organisation behind, and none of another workspace', () => {
    const table = new RecordTable();
    for (const [id, workspaceId, createdAt] of [
      ['young', 'ws-1', 9],
      ['shared', undefined, 1],
      ['old-b', 'ws-1', 5],
      ['old-a', 'ws-1', 5],
      ['foreign', 'ws-2', 3],
    ] as const)
      table.put(storedRecord({ id, workspaceId, createdAt, slug: id }));
    assert.deepEqual(idsOf(table.list('config', 'ws-1')), ['old-a', 'old-b', 'young', 'shared']);
    assert.deepEqual(idsOf(table.list('config', 'ws-3')), ['shared']);
    assert.deepEqual(idsOf(table.list('config', undefined)), ['shared']);
    assert.deepEqual(table.list('label', 'ws-1'), []);
  });

  test('a list is the same array until one of its records changes', () => {
    const table = new RecordTable();
    table.put(storedRecord());
    table.put(storedRecord({ id: 'shared', workspaceId: undefined }));
    table.put(storedRecord({ id: 'elsewhere', workspaceId: 'ws-2' }));
    const list = () => table.list('config', 'ws-1');
    const changes: readonly [string, boolean, () => void][] = [
      ['nothing', true, () => undefined],
      ['another workspace', true, () => table.put(storedRecord({ id: 'elsewhere', workspaceId: 'ws-2' }))],
      ['another kind', true, () => table.put(storedRecord({ id: 'x', kind: 'label' }))],
      ['a record that is not there', true, () => table.remove('nothing')],
      ['its own', false, () => table.put(storedRecord({ version: 2 }))],
      ['the organisation’s', false, () => table.put(storedRecord({ id: 'shared', workspaceId: undefined }))],
      ['one more', false, () => table.put(storedRecord({ id: 'r-9' }))],
      ['one less', false, () => table.remove('r-9')],
    ];
    for (const [name, isSame, change] of changes) {
      const before = list();
      change();
      assert.equal(list() === before, isSame, name);
    }
  });

  test('after any changes it answers like a search through what is there', () => {
    const record = fc
      .record({
        id: fc.constantFrom(...ids),
        slug: fc.constantFrom(...slugs),
        workspaceId: fc.constantFrom(...places),
        kind: fc.constantFrom(...kinds),
        createdAt: fc.nat(2),
        status: fc.constantFrom('active', 'archived'),
      })
      .map((given) => storedRecord(given as Partial<StoredRecord>));
    const step = fc.oneof({ weight: 3, arbitrary: record }, fc.constantFrom(...ids));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const table = new RecordTable();
        const model = new Map<string, StoredRecord>();
        for (const one of steps) {
          if (typeof one === 'string') {
            table.remove(one);
            model.delete(one);
            continue;
          }
          // Slugs are unique in the store: whoever takes one over comes behind the removal of the other.
          for (const other of [...model.values()])
            if (other.id !== one.id && isTwin(one, other)) {
              table.remove(other.id);
              model.delete(other.id);
            }
          table.put(one);
          model.set(one.id, one);
        }
        for (const kind of kinds)
          for (const place of places) {
            const expected = searched(model, kind, place);
            assert.deepEqual(table.list(kind, place), expected.list);
            for (const named of [...ids, ...slugs])
              assert.equal(table.find(kind, place, named), expected.find(named), `${kind} ${place} ${named}`);
          }
      }),
    );
  });

  test('two that change their slugs with each other are found, in whichever order they are read', () => {
    const [one, two] = [storedRecord({ id: 'r-1', slug: 'b' }), storedRecord({ id: 'r-2', slug: 'a' })];
    for (const order of [
      [one, two],
      [two, one],
    ]) {
      const table = new RecordTable();
      table.put(storedRecord({ id: 'r-1', slug: 'a' }));
      table.put(storedRecord({ id: 'r-2', slug: 'b' }));
      for (const record of order) table.put(record);
      assert.equal(table.find('config', 'ws-1', 'a'), two);
      assert.equal(table.find('config', 'ws-1', 'b'), one);
    }
  });
});

function isTwin(one: StoredRecord, other: StoredRecord): boolean {
  return one.kind === other.kind && one.workspaceId === other.workspaceId && one.slug === other.slug;
}

/** What the table should say, the slow way. */
function searched(model: ReadonlyMap<string, StoredRecord>, kind: RecordKind, place: string | undefined) {
  const active = [...model.values()].filter((one) => one.kind === kind && one.status === 'active');
  const sorted = active.sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
  const own = sorted.filter(({ workspaceId }) => workspaceId !== undefined && workspaceId === place);
  const shared = sorted.filter(({ workspaceId }) => workspaceId === undefined);
  const list = [...own, ...shared];
  const find = (named: string): StoredRecord | undefined =>
    (place === undefined ? active : list).find(({ id }) => id === named) ??
    list.find(({ slug }) => slug === named);
  return { list, find };
}
