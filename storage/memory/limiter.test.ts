import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import { expects, limiterConformance, testBudget, testCharges } from '../../tests/conformance/limiter.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { createBudgets } from './budgets.ts';
import { createMemoryCounters } from './counters.ts';
import { createMemoryLimiter } from './limiter.ts';

function open(enforces = true) {
  const clock = new ManualClock();
  const log = recordingLog([]);
  const counters = createMemoryCounters({ clock, log });
  const budgets = createBudgets({ clock, log, enforces });
  return { clock, counters, budgets, limiter: createMemoryLimiter({ counters, budgets }) };
}

limiterConformance('memory limiter', () => {
  const { clock, counters, budgets, limiter } = open();
  return {
    gateways: [{ limiter, budgets }],
    advance: (ms) => clock.advance(ms),
    close: () => counters.close(),
  };
});

test('a request that one window refuses leaves the others as they were, also after many of them', (t) => {
  const { clock, counters, limiter } = open();
  t.after(() => counters.close());
  const requests = [{ key: 'r', limit: 2, windowMs: 60_000 }];
  const tokens = [{ key: 't', limit: 10, windowMs: 60_000 }];
  const both = testCharges(requests, tokens);
  limiter.admit(both, expects(8));
  for (let second = 0; second < 59; second += 1) {
    clock.advance(1000);
    assert.equal(limiter.admit(both, expects(8))?.isAdmitted, false);
  }
  clock.advance(2000);
  assert.equal(counters.take(requests, 0).windows[0]?.remaining, 2, 'what was taken first has gone first');
});

test('budgets that are switched off neither refuse nor count', (t) => {
  const { counters, budgets, limiter } = open(false);
  t.after(() => counters.close());
  const budget = testBudget('b', 'requests', 0);
  const admission = limiter.admit(testCharges([], [], [budget]), expects(0));
  assert.ok(admission?.isAdmitted === true);
  void admission.settle({ cost: 1, tokens: 1, requests: 1 });
  assert.equal(budgets.usage(budget).used, 0);
});
