import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { canaryCounts, CanaryGate } from '../http/canary-gate.ts';
import { worseOf } from './config-canaries.ts';

const rules = {
  ...{ share: 10, duration_s: 300, min_requests: 20 },
  ...{ max_error_rise: 1, max_refusal_rise: 1, max_latency_rise: 50 },
};

function counts({ requests = 0, errors = 0, refusals = 0, ms = 100 } = {}) {
  const latencies: number[] = [];
  latencies[Math.floor(Math.log(ms) / Math.log(1.1))] = requests - errors - refusals;
  return { requests, errors, refusals, latencies };
}

/** So many of all take twice as long. */
function slowest(slow: number, all: number): ReturnType<typeof counts> {
  const sum = counts({ requests: all - slow, ms: 90 });
  canaryCounts.add(sum, counts({ requests: slow, ms: 200 }));
  return sum;
}

describe('a canary is judged', () => {
  const before = counts({ requests: 1000, errors: 10 });
  const cases: readonly [what: string, after: ReturnType<typeof counts>, expected: RegExp | undefined][] = [
    ['as good', counts({ requests: 100, errors: 1 }), undefined],
    ['as good with few failures, which may be chance', counts({ requests: 30, errors: 2 }), undefined],
    [
      'as worse when more answers fail',
      counts({ requests: 100, errors: 9 }),
      /More answers fail: 9.0 % of 100 instead of 1.0 %/,
    ],
    ['as worse when more is refused', counts({ requests: 100, refusals: 5 }), /More requests are refused/],
    ['as worse when it is slower', counts({ requests: 100, ms: 200 }), /Answers take \d+ % longer/],
    ['as good when it is faster', counts({ requests: 100, ms: 20 }), undefined],
    ['not by the time of a few', counts({ requests: 10, ms: 900 }), undefined],
    ['not by a median that chance may have moved', slowest(11, 21), undefined],
    ['as worse when most answers are slower', slowest(19, 21), /Answers take \d+ % longer/],
  ];
  for (const [what, after, expected] of cases)
    test(what, () => {
      const found = worseOf({ before, after }, rules);
      if (expected === undefined) assert.equal(found, undefined);
      else assert.match(found ?? '', expected);
    });
});

test('a rise of the median by less than five milliseconds is none', () => {
  const [before, after] = [counts({ requests: 1000, ms: 2 }), counts({ requests: 100, ms: 5 })];
  assert.equal(worseOf({ before, after }, rules), undefined);
});

describe('a gate', () => {
  const next = { hash: 'new' };
  const ended = (status: number) => ({ kind: 'completed', status, latencyMs: 100 }) as const;

  test('gives every so many requests to the canary, as its share says', () => {
    const gate = new CanaryGate<{ hash: string }>();
    gate.begin(next, 'old', 10);
    let given = 0;
    for (let turn = 0; turn < 1000; turn++) {
      const chosen = gate.running?.choose();
      if (chosen !== undefined) given += 1;
      gate.running?.count(chosen?.hash ?? 'old', ended(200));
    }
    assert.ok(given === 99 || given === 100, String(given));
    const { before, after } = gate.running?.report() ?? {
      before: canaryCounts.none(),
      after: canaryCounts.none(),
    };
    assert.equal(before.requests + after.requests, 1000);
    assert.ok(Math.abs((canaryCounts.medianOf(after) ?? 0) - 100) < 10);
  });

  test('stops it by itself after three failures in a row, and lets no more than three wait before one went well', () => {
    const gate = new CanaryGate<{ hash: string }>();
    gate.begin(next, 'old', 50);
    const chosen = Array.from({ length: 100 }, () => gate.running?.choose()).filter(
      (one) => one !== undefined,
    );
    assert.equal(chosen.length, 3);
    for (const { hash } of chosen) gate.running?.count(hash, ended(502));
    assert.equal(gate.running?.report().isStopped, true);
    assert.ok(Array.from({ length: 100 }, () => gate.running?.choose()).every((one) => one === undefined));
  });

  test('takes failures in a row for chance where the old configuration fails as often', () => {
    const gate = new CanaryGate<{ hash: string }>();
    gate.begin(next, 'old', 50);
    for (let turn = 0; turn < 100; turn++) gate.running?.count('old', ended(turn % 2 === 0 ? 500 : 200));
    for (let turn = 0; turn < 5; turn++) gate.running?.count('new', ended(500));
    assert.equal(gate.running?.report().isStopped, false);
  });

  test('adds what several processes have counted', () => {
    const sum = canaryCounts.none();
    canaryCounts.add(sum, counts({ requests: 2, ms: 100 }));
    canaryCounts.add(sum, counts({ requests: 3, errors: 1, ms: 200 }));
    assert.deepEqual([sum.requests, sum.errors], [5, 1]);
  });
});
