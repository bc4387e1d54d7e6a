import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cacheConformance } from '../../tests/conformance/cache.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { createMemoryCache } from './cache.ts';

const minute = 60_000;

function open(maxBytes = 1_000_000, maxValueBytes = 10_000) {
  const clock = new ManualClock();
  return { clock, maxValueBytes, cache: createMemoryCache({ clock, maxBytes, maxValueBytes }) };
}

cacheConformance('memory cache', () => {
  const { clock, cache, maxValueBytes } = open();
  return {
    cache,
    maxValueBytes,
    now: () => clock.now(),
    close: () => undefined,
    advance: (ms) => clock.advance(ms),
  };
});

test('answers at once, without a promise', () => {
  const { cache } = open();
  cache.set('a', Buffer.from('1'), minute);
  assert.equal(Buffer.from(cache.get('a')?.bytes ?? []).toString(), '1');
});

test('a value holds to the last millisecond and not longer', () => {
  const { cache, clock } = open();
  cache.set('a', Buffer.from('1'), 1000);
  clock.advance(999);
  assert.ok(cache.get('a'));
  clock.advance(1);
  assert.equal(cache.get('a'), undefined);
  assert.equal(cache.bytes, 0, 'and its memory is given back');
});

test('the one used longest ago leaves first; being read is being used', () => {
  const value = Buffer.alloc(1000);
  const { cache } = open(4 * (1000 + 256 + 2));
  for (const key of ['a', 'b', 'c', 'd']) cache.set(key, value, minute);
  cache.get('a');
  cache.set('e', value, minute);
  assert.deepEqual(
    ['a', 'b', 'c', 'd', 'e'].filter((key) => cache.get(key) !== undefined),
    ['a', 'c', 'd', 'e'],
  );
});

test('a value that would fill the whole cache is not taken, and drives nothing out', () => {
  const { cache } = open(2000, 10_000);
  cache.set('a', Buffer.alloc(100), minute);
  cache.set('b', Buffer.alloc(1900), minute);
  assert.ok(cache.get('a'));
  assert.equal(cache.get('b'), undefined);
});

test('what has been read stays as it was, however often the cache is filled anew', () => {
  const { cache } = open(100_000);
  const read: { bytes: Uint8Array; value: number }[] = [];
  for (let i = 0; i < 5000; i++) {
    const value = i % 251;
    cache.set(String(i), Buffer.alloc(50, value), minute);
    if (i % 7 > 0) continue;
    const found = cache.get(String(i));
    assert.ok(found);
    read.push({ bytes: found.bytes, value });
  }
  for (const { bytes, value } of read) assert.ok(bytes.every((byte) => byte === value));
  assert.equal(cache.get('0'), undefined, 'the first ones have left');
});

test('the memory that is taken is bounded, too, when many values have been read and few among them have not', () => {
  const maxBytes = 1_000_000;
  const { cache } = open(maxBytes);
  let most = 0;
  for (let i = 0; i < 5000; i++) {
    cache.set(String(i), Buffer.alloc(1900), minute);
    if (i % 8 > 0) cache.get(String(i));
    most = Math.max(most, cache.taken);
    assert.ok(cache.taken <= 1.5 * maxBytes, `${cache.taken} bytes are taken`);
  }
  assert.ok(most > 1.4 * maxBytes, `never more than ${most}: nothing was bounded`);
  assert.ok(cache.bytes > maxBytes / 2, `${cache.bytes} bytes are held`);
});

test('what a buffer around the value held is not kept', () => {
  const { cache } = open();
  cache.set('a', Buffer.alloc(100_000).subarray(0, 10), minute);
  assert.equal(cache.get('a')?.bytes.buffer.byteLength, 10);
});

test('never holds more than its bound, and counts what it holds', () => {
  const key = fc.integer({ min: 0, max: 20 }).map(String);
  const step = fc.oneof(
    fc.record({
      do: fc.constant('set' as const),
      key,
      size: fc.nat(900),
      ttl: fc.integer({ min: 1, max: 50 }),
    }),
    fc.record({ do: fc.constantFrom('get' as const, 'delete' as const), key }),
    fc.record({ do: fc.constant('wait' as const), key }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const { cache, clock } = open(3000, 800);
      for (const one of steps) {
        if (one.do === 'set') cache.set(one.key, Buffer.alloc(one.size), one.ttl);
        else if (one.do === 'get') cache.get(one.key);
        else if (one.do === 'delete') cache.delete(one.key);
        else clock.advance(10);
        assert.ok(cache.bytes >= 0 && cache.bytes <= 3000, `${cache.bytes} bytes`);
      }
      for (let i = 0; i <= 20; i++) cache.delete(String(i));
      assert.equal(cache.bytes, 0);
    }),
    { numRuns: 100 },
  );
});
