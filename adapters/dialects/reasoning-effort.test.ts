import assert from 'node:assert/strict';
import { test } from 'node:test';
import { budgetOfEffort, effortOfBudget } from './request-settings.ts';

test('an effort, made a budget, comes back as the same effort', () => {
  for (const effort of ['low', 'medium', 'high']) {
    assert.equal(effortOfBudget(budgetOfEffort(effort) ?? -1), effort);
  }
  assert.equal(effortOfBudget(0), 'none');
  assert.equal(effortOfBudget(100_000), 'high');
});

test('words that are not known have no budget', () => {
  assert.equal(budgetOfEffort('none'), undefined);
  assert.equal(budgetOfEffort('enormous'), undefined);
  assert.equal(budgetOfEffort('HIGH'), 24_576);
});
