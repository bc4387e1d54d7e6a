import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { TokenCache, type IssuedToken } from './credential-context.ts';

const minute = 60_000;

/** A cache whose fetches are answered by hand, in order. */
function manualCache(clock = new ManualClock()) {
  const waiting: { resolve: (token: IssuedToken<string>) => void; reject: (error: Error) => void }[] = [];
  let fetches = 0;
  const cache = new TokenCache<string>({
    clock,
    fetch() {
      fetches += 1;
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
  });
  const settle = async (result: IssuedToken<string> | Error): Promise<void> => {
    const next = waiting.shift();
    assert.ok(next, 'nothing is being fetched');
    if (result instanceof Error) next.reject(result);
    else next.resolve(result);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { cache, clock, settle, fetches: () => fetches };
}

const hour = (value: string): IssuedToken<string> => ({ value, lifetimeMs: 60 * minute });

test('whoever asks during a fetch waits for the same one; afterwards the token is there at once', async () => {
  const { cache, settle, fetches } = manualCache();
  const asked = [cache.get(), cache.get(), cache.get()];
  await settle(hour('a'));
  assert.deepEqual(await Promise.all(asked.map(async (one) => one)), ['a', 'a', 'a']);
  assert.deepEqual([cache.get(), fetches()], ['a', 1]);
});

test('is renewed from five minutes before its end, while it still serves', async () => {
  const { cache, clock, settle, fetches } = manualCache();
  const first = cache.get();
  await settle(hour('a'));
  assert.equal(await first, 'a');
  clock.advance(55 * minute - 1);
  assert.deepEqual([cache.get(), fetches()], ['a', 1]);
  clock.advance(1);
  assert.deepEqual([cache.get(), cache.get(), fetches()], ['a', 'a', 2]);
  await settle(hour('b'));
  assert.deepEqual([cache.get(), fetches()], ['b', 2]);
});

test('in its last minute the new one is awaited; the old one serves if there is none, until its end', async () => {
  const { cache, clock, settle, fetches } = manualCache();
  const first = cache.get();
  await settle(hour('a'));
  await first;
  clock.advance(59 * minute);
  const second = cache.get();
  await settle(new Error('down'));
  assert.deepEqual([await second, await cache.get(), fetches()], ['a', 'a', 2]);
  clock.advance(minute);
  const third = cache.get();
  await Promise.all([assert.rejects(async () => third, /still down/), settle(new Error('still down'))]);
});

test('a failure is kept for a second and no longer', async () => {
  const { cache, clock, settle, fetches } = manualCache();
  const first = cache.get();
  await Promise.all([assert.rejects(async () => first, /down/), settle(new Error('down'))]);
  clock.advance(999);
  await assert.rejects(async () => cache.get(), /down/);
  assert.equal(fetches(), 1);
  clock.advance(1);
  const second = cache.get();
  await settle(hour('a'));
  assert.deepEqual([await second, fetches()], ['a', 2]);
});

test('a short-lived token is not fetched for every request, and one that has ended is', async () => {
  const { cache, clock, settle, fetches } = manualCache();
  const first = cache.get();
  await settle({ value: 'a', lifetimeMs: minute });
  await first;
  clock.advance(minute / 2 - 1);
  assert.deepEqual([cache.get(), fetches()], ['a', 1]);
  clock.advance(minute);
  const second = cache.get();
  await settle({ value: 'b', lifetimeMs: 0 });
  assert.equal(await second, 'b');
  assert.ok(cache.get() instanceof Promise);
  assert.equal(fetches(), 3);
});

test('neither a clock that is set back nor one that slept keeps a token alive', async () => {
  for (const ahead of ['wall', 'monotonic'] as const) {
    const now = { wall: 1e12, monotonic: 0 };
    const clock = new ManualClock();
    clock.now = () => now.wall;
    clock.monotonic = () => now.monotonic;
    const { cache, settle } = manualCache(clock);
    const first = cache.get();
    await settle(hour('a'));
    await first;
    now.wall -= 1_000 * minute;
    now.monotonic = 0;
    now[ahead] = (ahead === 'wall' ? 1e12 : 0) + 60 * minute;
    assert.ok(cache.get() instanceof Promise, ahead);
  }
});
