import assert from 'node:assert/strict';
import { test } from 'node:test';
import { timeBuckets } from './bucket-starts.ts';

const hour = 3_600_000;

test('slices cover the window once, from the end that is asked for', () => {
  const window = { from: 5, to: 5 + 100 * hour };
  const newest = [...timeBuckets.slices(window, 'newest')];
  assert.deepEqual(newest, [
    { from: window.to - hour, to: window.to },
    { from: window.to - 9 * hour, to: window.to - hour },
    { from: window.to - 73 * hour, to: window.to - 9 * hour },
    { from: 5, to: window.to - 73 * hour },
  ]);
  const oldest = [...timeBuckets.slices(window, 'oldest')];
  assert.deepEqual(oldest[0], { from: 5, to: 5 + hour });
  assert.deepEqual(
    oldest.map(({ from }) => from),
    [5, ...oldest.slice(0, -1).map(({ to }) => to)],
  );
  assert.equal(oldest.at(-1)?.to, window.to);
  for (const [order, slices] of [
    ['newest', [window.to - hour, window.to, window.from, window.to - hour]],
    ['oldest', [window.from, window.from + hour, window.from + hour, window.to]],
  ] as const)
    assert.deepEqual(
      [...timeBuckets.slices(window, order, Infinity)].flatMap(({ from, to }) => [from, to]),
      slices,
    );
});

test('the longest window has few of them, and an empty one none', () => {
  assert.ok([...timeBuckets.slices({ from: 0, to: 10_413_791_999_999 }, 'newest')].length < 10);
  assert.deepEqual([...timeBuckets.slices({ from: 7, to: 7 }, 'oldest')], []);
  assert.deepEqual([...timeBuckets.slices({ from: 8, to: 7 }, 'newest')], []);
});
