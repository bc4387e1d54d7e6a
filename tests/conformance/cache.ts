import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import type { Cache } from '../../core/ports/cache.ts';

/** A cache with a hand on its clock. */
interface CacheUnderTest {
  readonly cache: Cache;
  /** The time that the cache sees, milliseconds since the epoch. */
  now(): number;
  /** Lets time pass for the cache: at least so much. */
  advance(ms: number): void | Promise<void>;
  close(): void | Promise<void>;
  /** The longest value that this cache takes. */
  readonly maxValueBytes: number;
}

/** Opens a cache for one test. Keys are unique per test, so that a shared store may be reused. */
type OpenCache = () => CacheUnderTest | Promise<CacheUnderTest>;

const minute = 60_000;
let opened = 0;

const bytes = (text: string): Uint8Array => Buffer.from(text, 'utf8');
const text = (value: { readonly bytes: Uint8Array } | undefined): string | undefined =>
  value === undefined ? undefined : Buffer.from(value.bytes).toString('utf8');

/** What every implementation of `Cache` promises. `runs` is the number of random sequences, 50 by default. */
export function cacheConformance(name: string, open: OpenCache, runs = 50): void {
  async function begin(t: TestContext): Promise<CacheUnderTest & { key: string }> {
    const subject = await open();
    t.after(() => subject.close());
    opened += 1;
    return Object.assign(subject, { key: `conformance-${process.pid}-${Date.now()}-${opened}` });
  }
  describe(`${name}: keeping`, () => keeps(begin, runs));
  describe(`${name}: forgetting`, () => forgets(begin));
}

type Begin = (t: TestContext) => Promise<CacheUnderTest & { key: string }>;

function keeps(begin: Begin, runs: number): void {
  test('a value is found under its key, with the time for which it holds', async (t) => {
    const { cache, key, now } = await begin(t);
    const before = now();
    await cache.set(key, bytes('one'), minute);
    const after = now();
    const found = await cache.get(key);
    assert.equal(text(found), 'one');
    assert.ok(found !== undefined);
    assert.ok(found.storedAt >= before && found.storedAt <= after, `stored at ${found.storedAt}`);
    assert.equal(found.expiresAt, found.storedAt + minute);
    assert.equal(await cache.get(`${key}-other`), undefined);
  });

  test('any bytes come back as they were, under any key', async (t) => {
    const { cache, key } = await begin(t);
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: 'binary' }),
        fc.uint8Array({ maxLength: 2000 }),
        async (end, value) => {
          await cache.set(key + end, value, minute);
          assert.deepEqual(new Uint8Array((await cache.get(key + end))?.bytes ?? []), value);
        },
      ),
      { numRuns: runs },
    );
  });

  test('a copy is kept: what happens to the bytes later changes nothing', async (t) => {
    const { cache, key } = await begin(t);
    const value = bytes('before');
    await cache.set(key, value, minute);
    value.set(bytes('behind'));
    assert.equal(text(await cache.get(key)), 'before');
  });

  test('the copy is made before the call returns: the bytes may be used again at once', async (t) => {
    const { cache, key } = await begin(t);
    const value = bytes('before');
    const setting = cache.set(key, value, minute);
    value.set(bytes('behind'));
    await setting;
    assert.equal(text(await cache.get(key)), 'before');
  });

  test('a view of a larger buffer is kept as the view', async (t) => {
    const { cache, key } = await begin(t);
    await cache.set(key, bytes('0123456789').subarray(3, 6), minute);
    assert.equal(text(await cache.get(key)), '345');
  });

  test('a new value takes the place of the old one, and its time', async (t) => {
    const { cache, key, advance } = await begin(t);
    await cache.set(key, bytes('old'), 200);
    await cache.set(key, bytes('new'), minute);
    await advance(250);
    assert.equal(text(await cache.get(key)), 'new');
  });

  test('a value of the greatest length is kept', async (t) => {
    const { cache, key, maxValueBytes } = await begin(t);
    await cache.set(key, new Uint8Array(maxValueBytes).fill(7), minute);
    const found = await cache.get(key);
    assert.equal(found?.bytes.length, maxValueBytes);
    assert.equal(found.bytes[maxValueBytes - 1], 7);
  });
}

function forgets(begin: Begin): void {
  test('a value is gone when its time is over', async (t) => {
    const { cache, key, advance } = await begin(t);
    await cache.set(key, bytes('short'), 200);
    await cache.set(`${key}-long`, bytes('long'), minute);
    await advance(250);
    assert.equal(await cache.get(key), undefined);
    assert.equal(text(await cache.get(`${key}-long`)), 'long');
  });

  for (const ttlMs of [0, -1, Number.NaN]) {
    test(`a value for ${ttlMs} ms is not kept, and the one before it is gone`, async (t) => {
      const { cache, key } = await begin(t);
      await cache.set(key, bytes('before'), minute);
      await cache.set(key, bytes('never'), ttlMs);
      assert.equal(await cache.get(key), undefined);
    });
  }

  test('a value that is too long is dropped, and the one before it is gone', async (t) => {
    const { cache, key, maxValueBytes } = await begin(t);
    await cache.set(key, bytes('before'), minute);
    await cache.set(key, new Uint8Array(maxValueBytes + 1), minute);
    assert.equal(await cache.get(key), undefined);
  });

  test('a deleted value is gone; deleting one that is not there is fine', async (t) => {
    const { cache, key } = await begin(t);
    await cache.set(key, bytes('one'), minute);
    await cache.delete(key);
    await cache.delete(key);
    assert.equal(await cache.get(key), undefined);
  });
}
