import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import v8 from 'node:v8';
import fc from 'fast-check';
import { collectGarbage } from './collect-garbage.ts';
import { PassingMap } from './recent-map.ts';

describe('a map of what is under way', () => {
  test('does what a Map does', () => {
    const key = fc.nat(40);
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom('set', 'delete'), key), { maxLength: 3000 }), (steps) => {
        const passing = new PassingMap<number, object>();
        const plain = new Map<number, object>();
        for (const [what, at] of steps) {
          const value = {};
          if (what === 'set') [passing, plain].forEach((map) => map.set(at, value));
          else assert.equal(passing.delete(at), plain.delete(at));
          assert.equal(passing.size, plain.size);
          assert.equal(passing.get(at), plain.get(at));
          assert.equal(passing.has(at), plain.has(at));
        }
        assert.deepEqual(passing.keys(), [...plain.keys()]);
        assert.deepEqual(passing.values(), [...plain.values()]);
      }),
      { numRuns: 50 },
    );
  });

  test('holds many at once', () => {
    const map = new PassingMap<number, number>();
    for (let at = 0; at < 5000; at++) map.set(at, at);
    assert.equal(map.size, 5000);
    assert.equal(map.get(4999), 4999);
  });

  test('what has left it is gone with the next scavenge', () => {
    // With a Map it is nearly all of the 20 MB.
    const kept = oldBytesAfter(new PassingMap(), 20_000);
    assert.ok(kept < 1_000_000, `${kept} bytes`);
  });
});

/** Lets so many entries of a kilobyte pass through, forty at a time; by how much the old generation has grown then. */
function oldBytesAfter(map: PassingMap<number, object>, entries: number): number {
  collectGarbage();
  const before = oldBytes();
  for (let at = 0; at < entries; at++) {
    map.set(at, new Array<number>(125).fill(at));
    map.delete(at - 40);
    if (at % 1000 === 999) collectGarbage({ type: 'minor' });
  }
  return oldBytes() - before;
}

function oldBytes(): number {
  const space = v8.getHeapSpaceStatistics().find(({ space_name: name }) => name === 'old_space');
  return space?.space_used_size ?? NaN;
}
