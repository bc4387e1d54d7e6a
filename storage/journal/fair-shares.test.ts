import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FairShares } from './bounds.ts';

/** A room of so many bytes that owners take from. */
function roomOf(size: number) {
  const shares = new FairShares();
  const taken = new Map<string, number>();
  let left = size;
  const take = (owner: string, bytes: number): boolean => {
    if (bytes > left || !shares.take(owner, bytes, left - bytes)) return false;
    left -= bytes;
    taken.set(owner, (taken.get(owner) ?? 0) + bytes);
    return true;
  };
  const fill = (owner: string, bytes = 10): void => {
    while (take(owner, bytes));
  };
  return { shares, take, fill, of: (owner: string) => taken.get(owner) ?? 0, left: () => left };
}

test('one owner alone gets four fifths, and leaves the rest to others', () => {
  const room = roomOf(10_000);
  room.fill('loud');
  assert.equal(room.of('loud'), 8000);
  assert.equal(room.take('loud', 10), false);
  assert.equal(room.take('quiet', 10), true);
});

test('owners that take as fast as each other get the same', () => {
  const room = roomOf(90_000);
  let went = true;
  while (went) went = [room.take('a', 10), room.take('b', 10)].some(Boolean);
  assert.ok(Math.abs(room.of('a') - room.of('b')) <= 10);
  assert.equal(Math.round(room.of('a') / 1000), 40);
});

test('whoever comes late still gets something, however many there are', () => {
  const room = roomOf(1_000_000);
  const loud = Array.from({ length: 50 }, (_, n) => `loud-${n}`);
  for (let went = true; went;) went = loud.map((owner) => room.take(owner, 10)).some(Boolean);
  assert.equal(room.take('quiet', 100), true);
});

test('what has left makes room for those that were refused', () => {
  const room = roomOf(10_000);
  room.fill('loud');
  room.shares.shrink(0.5);
  assert.equal(room.take('loud', 10), true);
  room.fill('loud');
  room.shares.clear();
  assert.equal(room.take('loud', 10), true);
});

test('owners beyond the bound share one account, and nobody gets more for being unknown', () => {
  const shares = new FairShares();
  for (let n = 0; n < 5000; n += 1) assert.equal(shares.take(`owner-${n}`, 1, 100_000), true);
  // 904 of them share one account already.
  assert.equal(shares.take('another', 100, 250), false);
  assert.equal(shares.take('another', 96, 250), true);
  assert.equal(shares.take('owner-0', 999, 250), true, 'a known owner has its own');
});

test('whatever is taken in whatever order, an owner that takes little is served before one that takes much', () => {
  const step = fc.record({ owner: fc.constantFrom('a', 'b', 'c'), bytes: fc.integer({ min: 1, max: 300 }) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), fc.integer({ min: 1, max: 300 }), (steps, bytes) => {
      const room = roomOf(10_000);
      for (const { owner, bytes: size } of steps) room.take(owner, size);
      const order = ['a', 'b', 'c'].sort((one, other) => room.of(one) - room.of(other));
      const left = room.left();
      const served = order.map((owner) => bytes <= left && room.of(owner) + bytes <= 4 * (left - bytes));
      const [least] = order;
      assert.equal(room.take(least ?? '', bytes), served[0]);
      assert.ok(
        !served[2] || served[0],
        'the one with the most would be served and the one with the least not',
      );
    }),
  );
});
