import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reasoningEffort } from './request-settings.ts';

test('an effort, made a budget, comes back as the same effort', () => {
  for (const effort of ['low', 'medium', 'high']) {
    assert.equal(reasoningEffort.ofBudget(reasoningEffort.budget(effort) ?? -1), effort);
  }
  assert.equal(reasoningEffort.ofBudget(0), 'none');
  assert.equal(reasoningEffort.ofBudget(100_000), 'high');
});

test('words that are not known have no budget', () => {
  assert.equal(reasoningEffort.budget('none'), undefined);
  assert.equal(reasoningEffort.budget('enormous'), undefined);
  assert.equal(reasoningEffort.budget('HIGH'), 24_576);
});
