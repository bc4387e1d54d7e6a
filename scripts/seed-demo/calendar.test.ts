import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { calendar } from './calendar.ts';

const end = Date.UTC(2026, 10, 22);
const hourMs = 3_600_000;

test('every row has one block, blocks follow one another, and the last one ends when the period does', () => {
  const options = fc.record({
    rows: fc.integer({ min: 1, max: 3_000_000 }),
    days: fc.integer({ min: 1, max: 400 }),
    seed: fc.nat(),
    blockRows: fc.integer({ min: 1000, max: 50_000 }),
  });
  fc.assert(
    fc.property(options, ({ rows, days, seed, blockRows }) => {
      let next = 0;
      let time = end - days * 24 * hourMs;
      for (const block of calendar({ rows, days, end, seed, blockRows })) {
        assert.equal(block.first, next);
        assert.ok(block.rows > 0 && block.from >= time && block.to <= end);
        assert.ok(block.to - block.from <= 7 * 24 * hourMs, 'a block touches many partitions');
        assert.equal(block.starts.length, block.before.length);
        assert.deepEqual([block.starts[0], block.before[0]], [block.from, 0]);
        next += block.rows;
        time = block.to;
      }
      assert.equal(next, rows);
    }),
    { numRuns: 50 },
  );
});

test('the same options make the same blocks, and another seed makes others', () => {
  const options = { rows: 100_000, days: 30, end, seed: 7, blockRows: 5000 };
  assert.deepEqual(calendar(options), calendar(options));
  assert.notDeepEqual(calendar(options), calendar({ ...options, seed: 8 }));
});

test('days are busy, nights and weekends are quiet, and no block is much too large', () => {
  const blocks = calendar({ rows: 10_000_000, days: 28, end, seed: 1, blockRows: 20_000 });
  const rowsAt = (matches: (at: Date) => boolean): number =>
    blocks.reduce((sum, { starts, before, rows }) => {
      const sizes = before.map((from, place) => (before[place + 1] ?? rows) - from);
      return (
        sum + sizes.reduce((all, size, place) => all + (matches(new Date(starts[place] ?? 0)) ? size : 0), 0)
      );
    }, 0);
  const isWeekend = (at: Date): boolean => at.getUTCDay() % 6 === 0;
  const noon = rowsAt((at) => !isWeekend(at) && at.getUTCHours() === 14) / 20;
  const night = rowsAt((at) => !isWeekend(at) && at.getUTCHours() === 3) / 20;
  const saturday = rowsAt((at) => at.getUTCDay() === 6 && at.getUTCHours() === 14) / 4;
  assert.ok(noon > 15 * night && noon > 3 * saturday, `${noon} ${night} ${saturday}`);
  assert.ok(Math.max(...blocks.map(({ rows }) => rows)) < 45_000);
});
