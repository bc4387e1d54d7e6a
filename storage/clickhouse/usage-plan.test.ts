import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import fc from 'fast-check';
import { type UsageNeed, usageQuery, type UsageReach } from './usage-sql.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const always: UsageReach = { completeFrom: 0, keptFrom: -Infinity };
const grains = { usage_days: day, usage_hours: hour, usage_minutes: minute, requests: 1 };

const moment = fc
  .integer({ min: 0, max: 40 * 24 * 60 })
  .chain((at) =>
    fc.constantFrom(at * minute, at * minute + 17, Math.floor(at / 60) * hour, Math.floor(at / 1440) * day),
  );

test('plan: each moment of a window is read from one table exactly', () => {
  fc.assert(
    fc.property(
      fc.record({
        from: moment,
        to: moment,
        starts: fc.array(moment, { maxLength: 8 }),
        rolledUp: fc.boolean(),
        byTheMinute: fc.boolean(),
        complete: fc.option(moment),
        kept: fc.option(moment),
        places: fc.array(fc.nat(), { minLength: 20, maxLength: 20 }),
      }),
      ({ from, to, starts, rolledUp, byTheMinute, complete, kept, places }) => {
        const sorted = [...new Set([from, ...starts.filter((at) => at > from && at < to)])].sort(
          (a, b) => a - b,
        );
        const need: UsageNeed = { window: { from, to }, starts: sorted, rolledUp, byTheMinute };
        const reach = { completeFrom: complete ?? 0, keptFrom: kept ?? -Infinity };
        const { spans, torn, finer } = usageQuery.plan(need, reach);
        for (const table of usageQuery.tables)
          for (const span of spans[table]) {
            assert.ok(
              span.from < span.to && span.from % grains[table] === 0 && span.to % grains[table] === 0,
            );
            assert.ok(rolledUp || table === 'requests');
            assert.ok(byTheMinute || table !== 'usage_minutes');
          }
        // The widened part lies outside the window, and is no concern of this property.
        for (const place of places) {
          const at = from + (place % Math.max(to - from, 1));
          const within = usageQuery.tables.filter((table) =>
            spans[table].some((span) => span.from <= at && at < span.to),
          );
          const isTorn = torn.includes(Math.floor(at / hour) * hour);
          if (from >= to) assert.deepEqual(within, []);
          else if (isTorn) assert.deepEqual(within, ['usage_hours'], `torn ${at}, then from ${finer}`);
          else assert.equal(within.length, 1, `${at} in ${within.join()}`);
        }
      },
    ),
    { numRuns: 300 },
  );
});

const cases: [
  what: string,
  need: Partial<UsageNeed>,
  reach: Partial<UsageReach>,
  spans: object,
  torn?: number[],
][] = [
  [
    'whole days inside, hours and rows at the edges',
    { window: { from: day - 2 * hour - 5, to: 3 * day + hour + 7 } },
    {},
    {
      usage_days: [[day, 3 * day]],
      usage_hours: [
        [day - 2 * hour, day],
        [3 * day, 3 * day + hour],
      ],
      requests: [
        [day - 2 * hour - 5, day - 2 * hour],
        [3 * day + hour, 3 * day + hour + 7],
      ],
    },
  ],
  [
    'rows before roll-ups were complete',
    { window: { from: 0, to: 2 * day } },
    { completeFrom: day - 1 },
    { requests: [[0, day]], usage_days: [[day, 2 * day]] },
  ],
  [
    'rows when they never were',
    { window: { from: 0, to: day } },
    { completeFrom: Infinity },
    { requests: [[0, day]] },
  ],
  [
    'whole hours where rows may be gone',
    { window: { from: hour + 5, to: 3 * hour + 5 } },
    { keptFrom: 3 * hour - 5 },
    { usage_hours: [[hour, 3 * hour]], requests: [[3 * hour, 3 * hour + 5]] },
  ],
  [
    'also at the end',
    { window: { from: hour + 5, to: 3 * hour + 5 } },
    { keptFrom: day },
    { usage_hours: [[hour, 4 * hour]] },
  ],
  [
    'minutes at the edges where they know enough',
    { window: { from: hour - minute - 1, to: 2 * hour }, byTheMinute: true },
    {},
    {
      requests: [[hour - minute - 1, hour - minute]],
      usage_minutes: [[hour - minute, hour]],
      usage_hours: [[hour, 2 * hour]],
    },
  ],
  [
    'hours that two buckets share are torn',
    { window: { from: 0, to: day }, starts: [0, 5.5 * hour] },
    {},
    { usage_hours: [[0, day]] },
    [5 * hour],
  ],
];
for (const [what, need, reach, expected, torn = []] of cases) {
  test(`plan: ${what}`, () => {
    const plan = usageQuery.plan(
      { window: { from: 0, to: 0 }, rolledUp: true, byTheMinute: false, ...need },
      { ...always, ...reach },
    );
    const spans = Object.fromEntries(
      usageQuery.tables
        .filter((table) => plan.spans[table].length > 0)
        .map((table) => [table, plan.spans[table].map(({ from, to }) => [from, to])]),
    );
    assert.deepEqual(spans, expected);
    assert.deepEqual(plan.torn, torn);
  });
}

test('rows are computed as the views of the schema compute them', async () => {
  const sql = await readFile(new URL('./migrations/0006-roll-ups.sql', import.meta.url), 'utf8');
  for (const [column, computed] of Object.entries(usageQuery.columns)) {
    const times = sql.split(`    ${computed} AS ${column}`).length - 1;
    assert.equal(times, 2, `${column} of both views that read rows`);
  }
});
