import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { nowhere, ValueNursery } from './cache.ts';

/** 64 segments of 100 bytes; the longest value has 12, its key included. */
const maxBytes = 6400;

test('values come back as they were put in, each with its key, whatever else comes and goes', () => {
  const step = fc.oneof(
    fc.record({
      do: fc.constant('put' as const),
      key: fc.string({ maxLength: 3, unit: 'binary' }).filter((key) => key.length <= 3),
      length: fc.integer({ min: 0, max: 6 }),
    }),
    fc.record({ do: fc.constant('drop' as const), which: fc.nat() }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const nursery = new ValueNursery(maxBytes);
      const held: { place: number; key: string; value: Buffer }[] = [];
      steps.forEach((one, index) => {
        if (one.do === 'put') {
          const value = Buffer.alloc(one.length, index % 251);
          const place = nursery.put(one.key, value);
          assert.notEqual(place, nowhere);
          held.push({ place, key: one.key, value });
          return;
        }
        const [out] = held.splice(one.which % (held.length || 1), 1);
        if (out !== undefined) nursery.drop(out.place);
      });
      for (const { place, key, value } of held) {
        assert.ok(nursery.isKey(place, key.length, key));
        assert.ok(!nursery.isKey(place, key.length, `${key}x`));
        if (key !== '') assert.ok(!nursery.isKey(place, key.length, `${key.slice(0, -1)}\u{fffe}`));
        assert.deepEqual(Buffer.from(nursery.copy(place, key.length, value.length)), value);
      }
    }),
    { numRuns: 200 },
  );
});

test('a copy is given out: what is written over the place later changes nothing about it', () => {
  const nursery = new ValueNursery(maxBytes);
  const place = nursery.put('a', Buffer.from('before'));
  const copy = nursery.copy(place, 1, 6);
  nursery.drop(place);
  assert.equal(nursery.put('a', Buffer.from('behind')), place);
  assert.equal(Buffer.from(copy).toString(), 'before');
});

test('it takes no more memory than it may, and has room again when values have left', () => {
  const nursery = new ValueNursery(maxBytes);
  const places: number[] = [];
  const put = (value: Buffer): number => nursery.put('k', value);
  for (let place = put(Buffer.alloc(8)); place !== nowhere; place = put(Buffer.alloc(8))) places.push(place);
  assert.equal(places.length, 640);
  assert.equal(nursery.bytes, maxBytes);
  for (let round = 0; round < 3; round++) {
    for (const place of places.splice(0, 10)) nursery.drop(place);
    for (let i = 0; i < 10; i++) {
      const place = put(Buffer.alloc(8, round));
      assert.notEqual(place, nowhere);
      places.push(place);
    }
    assert.equal(put(Buffer.alloc(8)), nowhere);
  }
  for (const place of places.splice(0)) nursery.drop(place);
  assert.ok(nursery.bytes <= 300, `${nursery.bytes} bytes are kept for nothing`);
  for (let i = 0; i < 640; i++) assert.notEqual(put(Buffer.alloc(8)), nowhere);
});

test('a value that is too long for it is not taken, nor any where there is no memory at all', () => {
  assert.notEqual(new ValueNursery(maxBytes).put('k', Buffer.alloc(10)), nowhere);
  assert.equal(new ValueNursery(maxBytes).put('k', Buffer.alloc(11)), nowhere);
  assert.equal(new ValueNursery(maxBytes).put('a key', Buffer.alloc(3)), nowhere);
  assert.equal(new ValueNursery(10).put('k', Buffer.alloc(1)), nowhere);
});

test('nothing under no key has its place, too, where a segment is full', () => {
  const nursery = new ValueNursery(maxBytes);
  for (let i = 0; i < 10; i++) nursery.put('k', Buffer.alloc(8));
  const place = nursery.put('', Buffer.alloc(0));
  assert.ok(nursery.isKey(place, 0, ''));
  assert.deepEqual(nursery.copy(place, 0, 0), new Uint8Array(0));
});
