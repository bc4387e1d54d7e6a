import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { EntryTable } from './entry-table.ts';

/** A table whose keys are kept beside it. */
function open(): { table: EntryTable; add: (key: string, length?: number) => number; keys: string[] } {
  const keys: string[] = [];
  const table = new EntryTable({ isKey: (entry, key) => keys[entry] === key });
  const add = (key: string, length = 0): number => {
    const entry = table.add(key, length, length + 1, length + 2, length + 3);
    keys[entry] = key;
    return entry;
  };
  return { table, add, keys };
}

test('finds what is there and nothing else, oldest first, whatever comes, goes and is used again', () => {
  const key = fc.integer({ min: 0, max: 40 }).map((number) => `key-${number}`);
  const step = fc.record({ do: fc.constantFrom('add', 'remove', 'touch'), key });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
      const { table, add } = open();
      // A Map keeps the order of insertion, which is that of the last use here.
      const model = new Map<string, number>();
      steps.forEach(({ do: what, key }, index) => {
        const found = table.find(key);
        assert.equal(found !== 0, model.has(key), key);
        if (what === 'add' && found === 0) {
          add(key, index);
          model.set(key, index);
        } else if (what === 'remove' && found !== 0) {
          table.remove(found);
          model.delete(key);
        } else if (what === 'touch' && found !== 0) {
          table.touch(found);
          const length = model.get(key) ?? 0;
          model.delete(key);
          model.set(key, length);
        }
        assert.equal(table.count, model.size);
      });
      for (const [name, length] of model) {
        const entry = table.oldest;
        assert.equal(table.find(name), entry);
        assert.deepEqual(
          [table.keyLength(entry), table.length(entry), table.place(entry)],
          [name.length, length, length + 1],
        );
        assert.deepEqual([table.storedAt(entry), table.expiresAt(entry)], [length + 2, length + 3]);
        table.remove(entry);
      }
      assert.equal(table.oldest, 0);
      assert.equal(table.count, 0);
    }),
    { numRuns: 200 },
  );
});

test('of very many keys each is found, such with the same hash too, and none when they have gone', () => {
  const { table, add } = open();
  // Among so many random keys about ten pairs have the same 32 bits.
  const all = Array.from({ length: 300_000 }, () => randomBytes(8).toString('hex'));
  const entries = all.map((key) => add(key));
  assert.ok(all.every((key, index) => table.find(key) === entries[index]));
  assert.equal(table.find('another'), 0);
  const { bytes } = table;
  entries.forEach((entry, index) => index % 2 === 0 && table.remove(entry));
  assert.ok(all.every((key, index) => table.find(key) === (index % 2 === 0 ? 0 : entries[index])));
  for (let index = 0; index < all.length; index += 2) add(all[index] as string);
  assert.equal(table.bytes, bytes, 'records are used again');
  assert.ok(all.every((key) => table.find(key) !== 0));
});

test('a place can be changed; the rest of the entry stays', () => {
  const { table, add } = open();
  const entry = add('a', 7);
  table.setPlace(entry, 2 ** 40);
  assert.equal(table.place(entry), 2 ** 40);
  assert.equal(table.length(entry), 7);
});

test('takes memory by what it holds', () => {
  const { table, add } = open();
  for (let index = 0; index < 10_000; index++) add(String(index));
  assert.ok(table.bytes >= 10_000 * 80, `${table.bytes} bytes`);
  assert.ok(table.bytes <= 10_000 * 256, `${table.bytes} bytes: more than is counted for entries`);
});
