import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ValueNursery, type Slot } from './value-nursery.ts';

/** 64 segments of 100 bytes; the longest value has 12. */
const maxBytes = 6400;

test('values come back as they were put in, whatever else comes and goes', () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('put' as const), length: fc.integer({ min: 0, max: 12 }) }),
    fc.record({ do: fc.constantFrom('take' as const, 'drop' as const), which: fc.nat() }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const nursery = new ValueNursery(maxBytes);
      const held: { slot: Slot; value: Buffer }[] = [];
      const taken: { bytes: Uint8Array; value: Buffer }[] = [];
      steps.forEach((one, index) => {
        if (one.do === 'put') {
          const value = Buffer.alloc(one.length, index % 251);
          const slot = nursery.put(value);
          assert.ok(slot);
          held.push({ slot, value });
          return;
        }
        const [out] = held.splice(one.which % (held.length || 1), 1);
        if (out === undefined) return;
        if (one.do === 'take') taken.push({ bytes: nursery.take(out.slot), value: out.value });
        else nursery.drop(out.slot);
      });
      for (const { slot, value } of held) taken.push({ bytes: nursery.take(slot), value });
      for (const { bytes, value } of taken) assert.deepEqual(Buffer.from(bytes), value);
    }),
    { numRuns: 200 },
  );
});

test('it takes no more memory than it may, and has room again when values have left', () => {
  const nursery = new ValueNursery(maxBytes);
  const slots: Slot[] = [];
  for (let slot = nursery.put(Buffer.alloc(10)); slot !== undefined; slot = nursery.put(Buffer.alloc(10)))
    slots.push(slot);
  assert.equal(slots.length, 640);
  for (let round = 0; round < 3; round++) {
    for (const slot of slots.splice(0, 10)) nursery.drop(slot);
    for (let i = 0; i < 10; i++) {
      const slot = nursery.put(Buffer.alloc(10, round));
      assert.ok(slot);
      slots.push(slot);
    }
    assert.equal(nursery.put(Buffer.alloc(10)), undefined);
  }
});

test('a value that is too long for it is not taken, nor any where there is no memory at all', () => {
  assert.ok(new ValueNursery(maxBytes).put(Buffer.alloc(12)));
  assert.equal(new ValueNursery(maxBytes).put(Buffer.alloc(13)), undefined);
  assert.equal(new ValueNursery(10).put(Buffer.alloc(1)), undefined);
});
